/* order_rig: see order_rig.h. */
#include "order_rig.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "quant/dtype.h"

void order_equal(const float *a, const float *b, int64_t n, const char *what)
{
  for (int64_t i = 0; i < n; i++) {
    cr_assert(memcmp(&a[i], &b[i], sizeof *a) == 0, "%s: number %lld is %a on ref, %a on cpu", what, (long long)i,
              (double)a[i], (double)b[i]);
  }
}

static int32_t load(backend *b, prog *p, const tn_weight_src *src, tn_tensor *t)
{
  tn_err err = {.struct_size = sizeof err};
  if (!src) return -1;
  cr_assert(eq(i32, b->v->weight_load(b->inst, src, t, &err), TN_OK), "%s", err.msg);
  return prog_weight(p, *t);
}

static void run(const char *name, const order_case *c, void (*fill)(tn_op *, const void *), const void *arg,
                float *out[2])
{
  static const tn_value f32 = {.type = TN_T_ENUM, .v = {.i = 2}};
  static const int32_t none[2] = {-1, -1};
  tn_err err = {.struct_size = sizeof err};
  static prog p;
  static step s;
  tn_tensor w[2] = {{0}};
  tn_prepared *prep = NULL;
  backend *b = backend_open(name, 2, strcmp(name, "ref") == 0 ? &f32 : NULL, &err);
  cr_assert(b != NULL, "%s", err.msg);
  int32_t in[2], o[2];
  prog_init(&p);
  memcpy(in, none, sizeof in);
  memcpy(o, none, sizeof o);
  for (int i = 0; i < 2; i++) {
    if (c->in_cols[i]) in[i] = prog_act(&p, TN_ROWS_ALL, c->in_cols[i]);
    if (c->out_cols[i]) o[i] = prog_act(&p, TN_ROWS_ALL, c->out_cols[i]);
  }
  if (c->rope_dims) prog_table(&p, c->rope_dims);
  const int32_t iw = load(b, &p, c->w, &w[0]), iw2 = load(b, &p, c->w2, &w[1]);
  tn_op *op = prog_op(&p, c->kind, in[0], in[1], o[0], iw, iw2);
  op->out[1] = o[1];
  op->flags = c->flags;
  if (fill) fill(op, arg);
  const tn_prepare how = {.struct_size = sizeof how, .max_rows = 64, .max_out = 1, .flags = c->prep_flags};
  cr_assert(eq(i32, b->v->prepare(b->inst, &p.pr, &how, NULL, &prep, &err), TN_OK), "%s", err.msg);
  step_init(&s);
  for (int32_t r = 0; r < (int32_t)c->rows; r++) step_row(&s, 0, c->token ? c->token[r] : r, r, r);
  s.b.n_tables = c->rope_dims ? 1 : 0;
  s.b.cos = &c->cos;
  s.b.sin = &c->sin;
  for (int i = 0; i < 2; i++) {
    if (in[i] >= 0) rig_put(b, prep, in[i], c->in[i], c->rows);
  }
  cr_assert(eq(i32, b->v->run(b->inst, prep, 0, 1, &s.b), TN_OK));
  for (int i = 0; i < 2; i++) {
    if (o[i] >= 0) rig_get(b, prep, o[i], out[i], c->rows);
  }
  b->v->prepared_free(b->inst, prep);
  for (int i = 0; i < 2; i++) b->v->weight_free(b->inst, &w[i]);
  cr_assert(eq(u64, backend_close(b), 0));
}

void order_same(const order_case *c, void (*fill)(tn_op *, const void *), const void *arg, float *keep)
{
  float *ref[2] = {0}, *cpu[2] = {0};
  for (int i = 0; i < 2; i++) {
    const size_t n = c->rows * (size_t)c->out_cols[i];
    ref[i] = malloc((n + 1) * sizeof(float));
    cpu[i] = malloc((n + 1) * sizeof(float));
    cr_assert(ref[i] && cpu[i]);
  }
  run("ref", c, fill, arg, ref);
  run("cpu", c, fill, arg, cpu);
  order_equal(ref[0], cpu[0], c->rows * c->out_cols[0], "output");
  order_equal(ref[1], cpu[1], c->rows * c->out_cols[1], "second output");
  if (keep) memcpy(keep, cpu[0], c->rows * (size_t)c->out_cols[0] * sizeof *keep);
  for (int i = 0; i < 2; i++) free(ref[i]), free(cpu[i]);
}

/* Bytes of a block where its f16 scales are; how many. */
static int scales_of(uint32_t dtype, size_t *at)
{
  *at = dtype == TNK_Q2_K ? 80 : dtype == TNK_Q3_K ? 108 : dtype == TNK_Q6_K ? 208 : 0;
  switch (dtype) {
    case TNK_Q4_1:
    case TNK_Q5_1:
    case TNK_Q2_K:
    case TNK_Q4_K:
    case TNK_Q5_K: return 2;
    default: return 1;
  }
}

tn_weight_src order_file(uint32_t dtype, int64_t n, int64_t k, uint64_t seed, uint8_t **data)
{
  const tnk_dtype_info info = tnk_dtype(dtype);
  const uint64_t bytes = (uint64_t)(n * k) / info.block * info.block_bytes;
  size_t at;
  const int scales = scales_of(dtype, &at);
  uint8_t *t = *data = malloc(bytes);
  cr_assert(t != NULL);
  for (uint64_t i = 0; i < bytes; i++) t[i] = (uint8_t)((rig_random(&seed) + 1) * 128);
  for (uint64_t b = 0; b < bytes; b += info.block_bytes) {
    const float x = rig_random(&seed);
    for (int i = 0; i < scales; i++) {
      const float d = info.block == 1 ? x : 0.01f * (0.5f + 2 * rig_random(&seed)); /* some are negative */
      const uint16_t half = dtype == TNK_BF16 ? tnk_f32_to_bf16(d) : tnk_f32_to_f16(d);
      if (dtype == TNK_F32)
        memcpy(t + b, &d, sizeof d);
      else
        memcpy(t + b + at + 2 * (size_t)i, &half, sizeof half);
    }
  }
  return (tn_weight_src){.struct_size = sizeof(tn_weight_src),
                         .kind = TN_W_FILE,
                         .name = "w",
                         .dtype = dtype,
                         .n = n,
                         .k = k,
                         .data = t,
                         .bytes = bytes};
}
