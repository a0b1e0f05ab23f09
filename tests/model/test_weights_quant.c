/* weights through a quantizer: codes, threads, ranks, exotic layouts, and what is refused. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "builder_help.h"
#include "support/fake_backend.h"
#include "model/weights.h"
#include "quant/dtype.h"

static fixture f;
static fake_backend back;

/* Round to nearest in groups; offsets are the group's number, so that a cut can be told from another. */
typedef struct fake_quantizer {
  tn_layout layout;
  uint32_t role, calibrate; /* role: the only one taken; 0: all */
  tn_status take, encode;   /* what the calls answer */
  const char *only;         /* encode answers so for this tensor */
} fake_quantizer;

static fake_quantizer quant;

static fake_quantizer *self(tn_inst *in) { return (fake_quantizer *)(void *)in; }

static tn_status take(tn_inst *in, const tn_tensor_info *info, const tn_layout **out, tn_err *err)
{
  fake_quantizer *q = self(in);
  (void)err;
  if (q->role && info->role != q->role) return TN_E_UNSUPPORTED;
  *out = &q->layout;
  return q->take;
}

static tn_status encode(tn_inst *in, const tn_layout *l, const tn_qblock *b)
{
  fake_quantizer *q = self(in);
  int64_t k = b->info->k, group = l->group ? l->group : k, groups = k / group;
  if (q->encode && strcmp(q->only, b->info->name) == 0) return q->encode;
  for (int64_t i = 0; i < b->n_rows * groups; i++) {
    float max = 0;
    for (int64_t j = 0; j < group; j++) max = fmaxf(max, fabsf(b->w[i * group + j]));
    float scale = max > 0 ? max / 127 : 1;
    if (b->scale) b->scale[i] = scale;
    if (b->offset) b->offset[i] = (float)(i % groups);
    if (b->sub_scale) b->sub_scale[i] = (uint8_t)(i % groups);
    if (b->sub_offset) b->sub_offset[i] = (uint8_t)(i % groups + 100);
    for (int64_t j = 0; j < group; j++)
      b->codes[i * group + j] = (uint8_t)(128 + (int)lrintf(b->w[i * group + j] / scale));
  }
  for (int64_t i = 0; b->d && i < b->n_rows * groups / l->super; i++) b->d[i] = (float)(b->row0 * 1000 + i);
  for (int64_t i = 0; b->dmin && i < b->n_rows * groups / l->super; i++) b->dmin[i] = -(float)(b->row0 * 1000 + i);
  return TN_OK;
}

static uint32_t calibrate(tn_inst *in, const tn_tensor_info *info)
{
  return info->role == TN_ROLE_DOWN ? self(in)->calibrate : TN_CAL_NONE;
}

static tn_status dequantize(tn_inst *in, const tn_layout *l, const tn_qblock *b, float *w)
{
  int64_t k = b->info->k, group = l->group ? l->group : k;
  (void)in;
  for (int64_t i = 0; i < b->n_rows * k; i++) w[i] = ((float)b->codes[i] - 128) * b->scale[i / group];
  return TN_OK;
}

static const tn_quantizer_v1 fake_quantizer_v1 = {.struct_size = sizeof fake_quantizer_v1,
                                                  .take = take,
                                                  .encode = encode,
                                                  .calibrate = calibrate,
                                                  .dequantize = dequantize};

static tn_layout affine(uint32_t group)
{
  return (tn_layout){.struct_size = sizeof(tn_layout),
                     .kind = TN_LAY_AFFINE,
                     .bits = 8,
                     .group = group,
                     .scale_type = TN_DT_F32,
                     .offset = TN_OFF_NONE};
}

static void start(void)
{
  f = fixture_open(&(tiny_spec){.dh = 32, .heads = 4, .kv_heads = 2, .layers = 1});
  quant = (fake_quantizer){.layout = affine(32)};
}
static void finish(void)
{
  fake_reset(&back);
  fixture_close(&f);
}
TestSuite(weights_quant, .init = start, .fini = finish);

static tn_built *build_rank(uint32_t r, uint32_t world)
{
  tn_par_plan p = tn_par_whole(f.model);
  tn_build in = fixture_build(&f);
  p.world = world;
  p.rank = r;
  p.n_heads /= world, p.head0 = r * p.n_heads;
  p.n_kv_heads /= world, p.kv_head0 = r * p.n_kv_heads;
  p.n_ff /= world, p.ff0 = r * p.n_ff;
  in.par = &p;
  return must_build(&in);
}

static tn_status load(const tn_built *b, const tn_svc_pool *pool, tn_weights **w, tn_err *err)
{
  tn_weights_job job = {.model = f.model,
                        .built = b,
                        .backend = &fake_backend_v1,
                        .backend_inst = fake_inst(&back),
                        .quantizer = &fake_quantizer_v1,
                        .quantizer_inst = (tn_inst *)(void *)&quant,
                        .pool = pool};
  return tn_weights_load(&job, w, err);
}

static tn_weights *must_load(const tn_built *b, const tn_svc_pool *pool)
{
  tn_err err = tn_err_init();
  tn_weights *w = NULL;
  cr_assert(load(b, pool, &w, &err) == TN_OK, "%s", err.msg);
  return w;
}

Test(weights_quant, codes_reach_the_backend)
{
  tn_built *b = build_rank(0, 1);
  tn_weights *w = must_load(b, NULL);
  for (uint32_t i = 0; i < back.n; i++) {
    const tn_weight_src *s = &back.w[i].src;
    const tn_weight_need *need = &b->needs[i];
    if (need->role == TN_ROLE_NORM) {
      cr_expect(eq(u32, s->kind, TN_W_F32));
      continue;
    }
    const float *x = (const float *)(const void *)need->tensor->data;
    cr_assert(s->kind == TN_W_CODES && s->dtype == TN_DT_LAYOUT && s->layout == &quant.layout, "%s", s->name);
    cr_expect(s->offset == NULL && s->sub_scale == NULL && s->d == NULL);
    for (int64_t e = 0; e < s->n * s->k; e++) {
      float scale = s->scale[e / 32], back_again = ((float)s->codes[e] - 128) * scale;
      cr_assert(fabsf(back_again - x[e]) <= scale * 0.501f, "%s[%lld]", s->name, (long long)e);
    }
  }
  cr_expect(eq(u32, tn_weights_stat(w).n_quantized, 8));
  tn_weights_free(w);
  tn_built_free(b);
}

static void gang_of_three(tn_hctx *ctx, void (*fn)(void *, uint32_t, uint32_t), void *arg)
{
  (void)ctx;
  for (uint32_t i = 3; i-- > 0;) fn(arg, i, 3);
}

Test(weights_quant, threads_change_nothing)
{
  static const tn_svc_pool three = {.struct_size = sizeof three, .n_workers = 3, .gang = gang_of_three};
  tn_built *b = build_rank(0, 1);
  tn_weights *one = must_load(b, NULL);
  fake_backend first = back;
  back = (fake_backend){0};
  tn_weights *many = must_load(b, &three);
  for (uint32_t i = 0; i < back.n; i++) {
    const tn_weight_src *x = &first.w[i].src, *y = &back.w[i].src;
    if (x->kind != TN_W_CODES) continue;
    cr_expect(memcmp(x->codes, y->codes, (size_t)(x->n * x->k)) == 0, "%s", x->name);
    cr_expect(memcmp(x->scale, y->scale, (size_t)(x->n * x->k / 32) * sizeof(float)) == 0, "%s", x->name);
  }
  tn_weights_free(many);
  fake_reset(&back);
  back = first;
  tn_weights_free(one);
  tn_built_free(b);
}

/* size-byte elements, cols of them for each row: the part's are those of whole from column at on. */
static void expect_cut(const void *whole, const void *part, int64_t rows, int64_t cols, int64_t at, int64_t n,
                       size_t size, const char *what)
{
  const uint8_t *w = whole, *p = part;
  cr_assert(w ? p != NULL : p == NULL, "%s", what);
  for (int64_t r = 0; w && r < rows; r++)
    cr_expect(memcmp(w + (size_t)(r * cols + at) * size, p + (size_t)(r * n) * size, (size_t)n * size) == 0,
              "%s, row %lld", what, (long long)r);
}

/* ffn_down of each rank holds the codes that one rank has for its columns, ffn_up those of its rows. */
static void ranks_hold_what_one_would(void)
{
  tn_built *b = build_rank(0, 1);
  tn_weights *w = must_load(b, NULL);
  fake_backend whole = back;
  back = (fake_backend){0};
  const tn_weight_src *x = &fake_find(&whole, "blk.0.ffn_down.weight")->src;
  int64_t g = quant.layout.group ? quant.layout.group : 128, u = quant.layout.super ? g * quant.layout.super : g;
  for (uint32_t r = 0; r < 2; r++) {
    tn_built *rb = build_rank(r, 2);
    tn_weights *rw = must_load(rb, NULL);
    const tn_weight_src *y = &fake_find(&back, "blk.0.ffn_down.weight")->src;
    int64_t at = 64 * r, one = quant.layout.group ? 0 : 1;
    cr_assert(eq(i64, y->k, 64));
    expect_cut(x->codes, y->codes, 64, 128, at, 64, 1, "codes");
    expect_cut(x->data, y->data, 64, 128, at, 64, sizeof(float), "values");
    expect_cut(x->scale, y->scale, 64, 128 / g, one ? 0 : at / g, one ? 1 : 64 / g, sizeof(float), "scales");
    expect_cut(x->offset, y->offset, 64, 128 / g, one ? 0 : at / g, one ? 1 : 64 / g, sizeof(float), "offsets");
    expect_cut(x->sub_scale, y->sub_scale, 64, 128 / g, at / g, 64 / g, 1, "sub scales");
    expect_cut(x->sub_offset, y->sub_offset, 64, 128 / g, at / g, 64 / g, 1, "sub offsets");
    expect_cut(x->d, y->d, 64, 128 / u, at / u, 64 / u, sizeof(float), "d");
    expect_cut(x->dmin, y->dmin, 64, 128 / u, at / u, 64 / u, sizeof(float), "dmin");
    const tn_weight_src *up = &fake_find(&whole, "blk.0.ffn_up.weight")->src;
    const tn_weight_src *mine = &fake_find(&back, "blk.0.ffn_up.weight")->src;
    cr_assert(eq(i64, mine->n, 64));
    if (up->codes) expect_cut(up->codes, mine->codes, 1, 128 * 64, at * 64, 64 * 64, 1, "codes of rows");
    tn_weights_free(rw);
    tn_built_free(rb);
    fake_reset(&back);
  }
  back = whole;
  tn_weights_free(w);
  tn_built_free(b);
}

Test(weights_quant, shares_of_groups)
{
  quant.layout.offset = TN_OFF_INT;
  ranks_hold_what_one_would();
}

Test(weights_quant, shares_of_whole_rows)
{
  quant.layout.group = 0;
  quant.layout.offset = TN_OFF_MIN;
  ranks_hold_what_one_would();
}

Test(weights_quant, shares_of_two_levels)
{
  quant.layout.group = 16;
  quant.layout.super = 2;
  quant.layout.sub_bits = 6;
  quant.layout.offset = TN_OFF_MIN;
  ranks_hold_what_one_would();
}

Test(weights_quant, exotic_layouts_come_as_values)
{
  quant.layout.kind = TN_LAY_EXOTIC;
  quant.layout.exotic = "org.example.test/1";
  quant.role = TN_ROLE_DOWN;
  tn_built *b = build_rank(0, 1);
  tn_weights *w = must_load(b, NULL);
  const tn_weight_src *s = &fake_find(&back, "blk.0.ffn_down.weight")->src;
  const float *x = (const float *)(const void *)tn_model_tensor(f.model, TN_PART_FFN_DOWN, 0)->data;
  cr_expect(eq(u32, s->kind, TN_W_F32));
  cr_expect(eq(u32, tn_weights_stat(w).n_quantized, 1));
  for (int i = 0; i < 64 * 128; i++) cr_assert(epsilon_eq(flt, ((const float *)s->data)[i], x[i], 0.002f));
  cr_expect(eq(u32, fake_find(&back, "blk.0.ffn_up.weight")->src.kind, TN_W_FILE));
  tn_weights_free(w);
  tn_built_free(b);
  fake_reset(&back);
  ranks_hold_what_one_would();
}

static void expect_fails(uint32_t world, tn_status st, const char *says)
{
  tn_built *b = build_rank(0, world);
  tn_err err = tn_err_init();
  tn_weights *w = NULL;
  cr_expect(load(b, NULL, &w, &err) == st, "want %s, got %s", says, err.msg);
  cr_expect(strstr(err.msg, says) != NULL, "want '%s', got '%s'", says, err.msg);
  cr_expect(w == NULL);
  cr_expect(eq(u32, back.live, 0));
  tn_built_free(b);
  fake_reset(&back);
}

Test(weights_quant, refusals)
{
  quant.calibrate = TN_CAL_HESSIAN;
  expect_fails(1, TN_E_UNSUPPORTED, "tensor blk.0.ffn_down.weight: the quantizer needs calibration for it (kind 1)");
  quant = (fake_quantizer){.layout = affine(48)};
  expect_fails(1, TN_E_UNSUPPORTED, "token_embd.weight: the quantizer's groups of 48 do not divide its 64 columns");
  quant = (fake_quantizer){.layout = affine(128), .role = TN_ROLE_DOWN};
  expect_fails(2, TN_E_UNSUPPORTED, "ffn_down.weight: columns 0 to 63 of a rank cut the quantizer's groups of 128");
  quant = (fake_quantizer){.layout = affine(32)};
  quant.layout.kind = TN_LAY_DENSE;
  expect_fails(1, TN_E_UNSUPPORTED, "layout is of kind 1, which has no codes");
  quant = (fake_quantizer){.layout = affine(0)};
  quant.layout.super = 2;
  expect_fails(1, TN_E_UNSUPPORTED, "super groups need an affine layout with groups");
  quant = (fake_quantizer){.layout = affine(32), .take = TN_E_ARG};
  expect_fails(1, TN_E_ARG, "token_embd.weight: quantizer: TN_E_ARG");
  quant = (fake_quantizer){.layout = affine(32), .encode = TN_E_INTERNAL, .only = "blk.0.ffn_up.weight"};
  expect_fails(1, TN_E_INTERNAL, "blk.0.ffn_up.weight: the quantizer could not encode it: TN_E_INTERNAL");
}
