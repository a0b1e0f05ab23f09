/* LINEAR, EMBED and SEGSUM of the cpu backend against the ref backend, for every kind of weight; parts, bias, single ops;
 * rows and threads change no bit. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quant/dtype.h"
#include "rig.h"

enum { N = 37, K = 768, ROWS = 9, MAX_SEGMENTS = 4 };

static float x[ROWS * K], out[ROWS * MAX_SEGMENTS * N], want[ROWS * MAX_SEGMENTS * N];

/* One LINEAR (or EMBED) on a backend. */
typedef struct linear_case {
  const char *backend;
  uint32_t threads, segments, flags, prep_flags;
  const tn_weight_src *src; /* [N][K] */
  bool bias, embed;
} linear_case;

static void run(const linear_case *c, int64_t row0, int64_t rows, float *y)
{
  static float bias[N];
  tn_err err = {.struct_size = sizeof err};
  prog p;
  step s;
  tn_prepared *prep = NULL;
  tn_tensor tw;
  backend *b = backend_open(c->backend, c->threads, NULL, &err);
  cr_assert(b != NULL, "%s", err.msg);
  rig_fill(bias, N, 3);
  prog_init(&p);
  const int64_t cols = c->embed ? K : c->flags & TN_OPF_PARTS ? N * (int64_t)c->segments : N;
  const int32_t in = prog_act(&p, TN_ROWS_ALL, K), o = prog_act(&p, TN_ROWS_ALL, cols);
  cr_assert(eq(i32, b->v->weight_load(b->inst, c->src, &tw, &err), TN_OK), "%s", err.msg);
  tn_tensor tb = rig_weight(b, bias, 1, N);
  const int32_t iw = prog_weight(&p, tw), ib = prog_weight(&p, tb);
  tn_op *op = prog_op(&p, c->embed ? TN_OP_EMBED : TN_OP_LINEAR, c->embed ? -1 : in, -1, o, iw, c->bias ? ib : -1);
  op->flags = c->flags;
  if (c->embed)
    op->p.embed.scale = 1;
  else
    op->p.linear = (tn_op_linear){.n = N, .k = K, .segments = c->segments};
  const tn_prepare how = {.struct_size = sizeof how, .max_rows = ROWS, .max_out = 1, .flags = c->prep_flags};
  cr_assert(eq(i32, b->v->prepare(b->inst, &p.pr, &how, NULL, &prep, &err), TN_OK), "%s", err.msg);
  step_init(&s);
  for (int32_t r = 0; r < rows; r++) step_row(&s, 0, (r * 7) % N, r, r);
  rig_put(b, prep, in, x + row0 * K, rows);
  cr_assert(eq(i32, b->v->run(b->inst, prep, 0, 1, &s.b), TN_OK));
  rig_get(b, prep, o, y, rows);
  b->v->prepared_free(b->inst, prep);
  b->v->weight_free(b->inst, &tw);
  b->v->weight_free(b->inst, &tb);
  cr_assert(eq(u64, backend_close(b), 0));
}

static void near(const float *a, const float *b, int64_t n, double eps)
{
  double size = 0;
  for (int64_t i = 0; i < n; i++) size = fmax(size, fabs((double)b[i]));
  for (int64_t i = 0; i < n; i++)
    cr_assert(le(dbl, fabs((double)a[i] - (double)b[i]), eps * size), "number %d", (int)i);
}

/* cpu against ref with f32 and with 8-bit activations, and each row alone. */
static void check(const tn_weight_src *src, uint32_t segments, uint32_t flags, bool bias)
{
  rig_fill(x, ROWS * K, 1);
  for (uint32_t int8 = 0; int8 < 2; int8++) {
    linear_case c = {.backend = "ref",
                     .threads = 2,
                     .segments = segments,
                     .flags = flags,
                     .prep_flags = int8 ? TN_PREP_ACT_INT8 : 0,
                     .src = src,
                     .bias = bias};
    const int64_t cols = flags & TN_OPF_PARTS ? N * (int64_t)segments : N;
    run(&c, 0, ROWS, want);
    c.backend = "cpu";
    run(&c, 0, ROWS, out);
    near(out, want, ROWS * cols, 2e-6);
    for (int64_t r = 0; r < ROWS; r++) {
      c.threads = 1 + (uint32_t)r % 3;
      run(&c, r, 1, want);
      cr_assert(eq(i32, memcmp(want, out + r * cols, (size_t)cols * sizeof *out), 0), "row %d", (int)r);
    }
  }
}

static tn_weight_src source(uint32_t dtype, const void *data, uint64_t bytes)
{
  return (tn_weight_src){.struct_size = sizeof(tn_weight_src),
                         .kind = TN_W_FILE,
                         .name = "w",
                         .dtype = dtype,
                         .n = N,
                         .k = K,
                         .data = data,
                         .bytes = bytes};
}

/* Random codes with scales like a model's. */
static uint8_t *random_tensor(uint32_t dtype, uint64_t *bytes)
{
  const tnk_dtype_info info = tnk_dtype(dtype);
  uint64_t seed = 5 + dtype;
  *bytes = (uint64_t)N * K / info.block * info.block_bytes;
  uint8_t *t = malloc(*bytes);
  cr_assert(t != NULL);
  for (uint64_t i = 0; i < *bytes; i++) t[i] = (uint8_t)((rig_random(&seed) + 1) * 128);
  for (uint64_t b = 0; b < *bytes; b += info.block_bytes) {
    const size_t d = dtype == TN_DT_Q2_K ? 80 : dtype == TN_DT_Q3_K ? 108 : dtype == TN_DT_Q6_K ? 208 : 0;
    const bool two =
        dtype == TN_DT_Q4_1 || dtype == TN_DT_Q5_1 || dtype == TN_DT_Q2_K || dtype == TN_DT_Q4_K || dtype == TN_DT_Q5_K;
    for (size_t i = 0; i < (info.block == 1 ? 0u : two ? 2u : 1u); i++) {
      const uint16_t h = tnk_f32_to_f16(0.01f * (1.5f + rig_random(&seed)));
      memcpy(t + b + d + 2 * i, &h, 2);
    }
    if (info.block == 1) {
      const float f = rig_random(&seed);
      const uint16_t h = dtype == TN_DT_F16 ? tnk_f32_to_f16(f) : tnk_f32_to_bf16(f);
      memcpy(t + b, dtype == TN_DT_F32 ? (const void *)&f : (const void *)&h, info.block_bytes);
    }
  }
  return t;
}

Test(cpu_linear, weights_of_every_file_dtype)
{
  static const uint32_t dtypes[] = {TN_DT_F32,  TN_DT_F16,  TN_DT_BF16, TN_DT_Q4_0,   TN_DT_Q4_1,
                                    TN_DT_Q5_0, TN_DT_Q5_1, TN_DT_Q8_0, TN_DT_Q2_K,   TN_DT_Q3_K,
                                    TN_DT_Q4_K, TN_DT_Q5_K, TN_DT_Q6_K, TN_DT_IQ4_NL, TN_DT_IQ4_XS};
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
    uint64_t bytes;
    uint8_t *t = random_tensor(dtypes[i], &bytes);
    const tn_weight_src src = source(dtypes[i], t, bytes);
    check(&src, 1, 0, false);
    check(&src, 3, 0, true);
    static float rows[ROWS * K], rows_ref[ROWS * K];
    linear_case c = {.backend = "ref", .threads = 1, .src = &src, .embed = true};
    run(&c, 0, ROWS, rows_ref);
    c.backend = "cpu";
    c.threads = 2;
    run(&c, 0, ROWS, rows);
    for (int j = 0; j < ROWS * K; j++) cr_assert(eq(flt, rows[j], rows_ref[j]), "embedding, dtype %u", dtypes[i]);
    free(t);
  }
}

Test(cpu_linear, segments_parts_bias)
{
  uint64_t bytes;
  uint8_t *t = random_tensor(TN_DT_Q4_1, &bytes);
  const tn_weight_src src = source(TN_DT_Q4_1, t, bytes);
  check(&src, 4, TN_OPF_PARTS, false);
  check(&src, 4, 0, true);
  check(&src, 3, 0, false);
  check(&src, 1, 0, true);
  free(t);
}

/* ---------------------------------------------------------------- codes of a quantizer */

typedef struct coded {
  tn_layout lay;
  tn_weight_src src;
  uint8_t *codes, *sub_scale, *sub_offset;
  float *scale, *offset, *d, *dmin;
} coded;

static float *numbers(int64_t n, float scale, float plus, uint64_t seed)
{
  float *p = malloc((size_t)n * sizeof *p);
  cr_assert(p != NULL);
  for (int64_t i = 0; i < n; i++) p[i] = tnk_f16_to_f32(tnk_f32_to_f16(scale * rig_random(&seed) + plus));
  return p;
}

static uint8_t *small(int64_t n, uint32_t limit, uint64_t seed)
{
  uint8_t *p = malloc((size_t)n);
  cr_assert(p != NULL);
  for (int64_t i = 0; i < n; i++) p[i] = (uint8_t)((rig_random(&seed) + 1) / 2 * (float)limit);
  return p;
}

static void make_codes(coded *c, const tn_layout *lay)
{
  const int64_t group = lay->group ? lay->group : K, groups = N * ((K + group - 1) / group);
  memset(c, 0, sizeof *c);
  c->lay = *lay;
  c->codes = small(N * K, 1u << lay->bits, 1);
  if (lay->super) {
    c->sub_scale = small(groups, 64, 2);
    c->sub_offset = small(groups, 64, 3);
    c->d = numbers(groups, 0.001f, 0.002f, 4);
    c->dmin = numbers(groups, 0.001f, 0.002f, 5);
  } else {
    c->scale = numbers(groups, 0.02f, 0.05f, 2);
    c->offset = lay->offset == TN_OFF_INT ? NULL : numbers(groups, 0.1f, 0, 3);
    if (!c->offset) {
      uint8_t *z = small(groups, 1u << lay->bits, 6);
      c->offset = numbers(groups, 0, 0, 1);
      for (int64_t i = 0; i < groups; i++) c->offset[i] = z[i];
      free(z);
    }
  }
  c->src = (tn_weight_src){.struct_size = sizeof c->src,
                           .kind = TN_W_CODES,
                           .name = "coded",
                           .n = N,
                           .k = K,
                           .layout = &c->lay,
                           .codes = c->codes,
                           .scale = c->scale,
                           .offset = lay->offset ? c->offset : NULL,
                           .sub_scale = c->sub_scale,
                           .sub_offset = lay->offset ? c->sub_offset : NULL,
                           .d = c->d,
                           .dmin = lay->offset ? c->dmin : NULL};
}

static void free_codes(coded *c)
{
  free(c->codes), free(c->sub_scale), free(c->sub_offset), free(c->scale), free(c->offset), free(c->d), free(c->dmin);
}

Test(cpu_linear, codes_of_quantizers)
{
  static const uint32_t bits[] = {1, 2, 3, 4, 5, 6, 8}, groups[] = {16, 32, 48, 64, 128, 256, 0};
  coded c;
  for (size_t i = 0; i < 7; i++) {
    for (uint32_t offset = TN_OFF_NONE; offset <= TN_OFF_MIN; offset++) {
      const tn_layout lay = {.struct_size = sizeof lay,
                             .kind = TN_LAY_AFFINE,
                             .bits = bits[i],
                             .group = groups[(i + offset) % 7],
                             .scale_type = offset == TN_OFF_INT ? TN_DT_BF16
                                           : i % 2              ? TN_DT_F16
                                                                : TN_DT_F32,
                             .offset = offset};
      make_codes(&c, &lay);
      check(&c.src, 1, 0, false);
      if (i == 3) check(&c.src, 3, 0, true);
      free_codes(&c);
    }
  }
}

Test(cpu_linear, codes_with_two_levels_tables_and_float8)
{
  static const float table[8] = {-1.0f, -0.5f, -0.25f, 0.0f, 0.1f, 0.3f, 0.6f, 1.0f};
  const tn_layout lays[] = {
      {.struct_size = sizeof(tn_layout),
       .kind = TN_LAY_AFFINE,
       .bits = 4,
       .group = 32,
       .super = 8,
       .sub_bits = 6,
       .offset = TN_OFF_MIN},
      {.struct_size = sizeof(tn_layout), .kind = TN_LAY_AFFINE, .bits = 6, .group = 16, .super = 16, .sub_bits = 6},
      {.struct_size = sizeof(tn_layout),
       .kind = TN_LAY_AFFINE,
       .bits = 3,
       .group = 64,
       .super = 4,
       .sub_bits = 6,
       .offset = TN_OFF_MIN},
      {.struct_size = sizeof(tn_layout),
       .kind = TN_LAY_TABLE,
       .bits = 3,
       .group = 64,
       .scale_type = TN_DT_F32,
       .table = table},
      {.struct_size = sizeof(tn_layout),
       .kind = TN_LAY_FLOAT8,
       .fp8 = TN_FP8_E5M2,
       .group = 128,
       .scale_type = TN_DT_F32}};
  for (size_t i = 0; i < sizeof lays / sizeof *lays; i++) {
    coded c;
    tn_layout lay = lays[i];
    if (lay.kind == TN_LAY_FLOAT8) lay.bits = 6; /* no infinities */
    make_codes(&c, &lay);
    c.lay.bits = lays[i].bits;
    check(&c.src, 1, 0, false);
    free_codes(&c);
  }
}

/* ---------------------------------------------------------------- single ops, rows read back, refusals */

Test(cpu_linear, single_ops_on_tensors_of_the_caller)
{
  static float w[N * K];
  tn_err err = {.struct_size = sizeof err};
  backend *b = backend_open("cpu", 2, NULL, &err);
  cr_assert(b != NULL, "%s", err.msg);
  rig_fill(x, ROWS * K, 1);
  rig_fill(w, N * K, 2);
  tn_tensor t[3] = {{.struct_size = sizeof(tn_tensor), .ne = {K, ROWS, 1, 1}, .nb = {4, K * 4}},
                    {.struct_size = sizeof(tn_tensor), .ne = {N, ROWS, 1, 1}, .nb = {4, N * 4}},
                    {.struct_size = sizeof(tn_tensor), .ne = {K, N, 1, 1}, .nb = {4, K * 4}}};
  for (int i = 0; i < 3; i++) {
    cr_assert(eq(i32, b->v->buffer_new(b->inst, (uint64_t)(t[i].nb[1] * t[i].ne[1]), &t[i].buf, &err), TN_OK));
  }
  cr_assert(eq(i32, b->v->upload(b->inst, t[0].buf, 0, x, sizeof x), TN_OK));
  cr_assert(eq(i32, b->v->upload(b->inst, t[2].buf, 0, w, sizeof w), TN_OK));
  tn_op op = {.struct_size = sizeof op, .kind = TN_OP_LINEAR, .name = "l"};
  op.in[1] = op.in[2] = op.in[3] = op.out[1] = op.w[1] = -1;
  op.p.linear = (tn_op_linear){.n = N, .k = K, .segments = 2};
  const tn_tensor *ins[1] = {&t[0]}, *outs[1] = {&t[1]}, *ws[1] = {&t[2]};
  cr_assert(eq(i32, b->v->op(b->inst, &op, ins, outs, ws, ROWS), TN_OK));
  cr_assert(eq(i32, b->v->download(b->inst, t[1].buf, 0, out, ROWS * N * 4), TN_OK));
  for (int64_t r = 0; r < ROWS; r++) {
    for (int64_t o = 0; o < N; o++) {
      double sum = 0;
      for (int64_t i = 0; i < K; i++) sum += (double)x[r * K + i] * (double)w[o * K + i];
      cr_assert(epsilon_eq(dbl, (double)out[r * N + o], sum, 2e-5));
    }
  }
  op.kind = TN_OP_ATTEND;
  cr_assert(eq(i32, b->v->op(b->inst, &op, ins, outs, ws, ROWS), TN_E_UNSUPPORTED));
  cr_assert(eq(i32, b->v->download(b->inst, t[1].buf, ROWS * N * 4, out, 1), TN_E_ARG));
  for (int i = 0; i < 3; i++) b->v->buffer_free(b->inst, t[i].buf);
  cr_assert(eq(u64, backend_close(b), 0));
}

Test(cpu_linear, rows_read_back)
{
  static float rows[N * K], w[K];
  uint64_t bytes;
  tn_err err = {.struct_size = sizeof err};
  tn_tensor t;
  uint8_t *data = random_tensor(TN_DT_Q5_K, &bytes);
  const tn_weight_src src = source(TN_DT_Q5_K, data, bytes);
  backend *b = backend_open("cpu", 2, NULL, &err);
  cr_assert(b != NULL, "%s", err.msg);
  cr_assert(eq(i32, b->v->weight_load(b->inst, &src, &t, &err), TN_OK));
  cr_assert(eq(i64, t.ne[0], K));
  cr_assert(eq(i64, t.ne[1], N));
  cr_assert(eq(i32, b->v->weight_read(b->inst, &t, 3, N - 3, rows), TN_OK));
  cr_assert(tnk_decode(TN_DT_Q5_K, data + 5 * (bytes / N), w, K));
  cr_assert(eq(i32, memcmp(rows + 2 * K, w, sizeof w), 0));
  cr_assert(eq(i32, b->v->weight_read(b->inst, &t, 3, N - 2, rows), TN_E_ARG));
  b->v->weight_free(b->inst, &t);
  b->v->weight_free(b->inst, &t);
  b->v->weight_free(b->inst, NULL);
  cr_assert(eq(u64, backend_close(b), 0));
  free(data);
}

static void refuse(const tn_weight_src *src, const char *word)
{
  tn_err err = {.struct_size = sizeof err};
  tn_tensor t;
  backend *b = backend_open("cpu", 1, NULL, &err);
  cr_assert(b != NULL, "%s", err.msg);
  cr_assert(lt(i32, b->v->weight_load(b->inst, src, &t, &err), 0), "%s", word);
  cr_assert(strstr(err.msg, word) != NULL, "'%s' lacks '%s'", err.msg, word);
  cr_assert(eq(u64, backend_close(b), 0));
}

Test(cpu_linear, load_refuses_what_does_not_fit)
{
  uint8_t some[64] = {0};
  tn_weight_src s = source(TN_DT_Q4_0, some, sizeof some);
  refuse(&s, "64 bytes given");
  s.k = 33;
  refuse(&s, "33 columns are no multiple of the 32 of a q4_0 block");
  s = source(TN_DT_I32, some, sizeof some);
  refuse(&s, "dtype 26 (i32) cannot be decoded");
  s.n = 0;
  refuse(&s, "shape 0 x 768");
  s.n = 1;
  s.kind = 9;
  refuse(&s, "source kind 9");
  coded c;
  const tn_layout lay = {
      .struct_size = sizeof lay, .kind = TN_LAY_AFFINE, .bits = 4, .group = 32, .scale_type = TN_DT_F16};
  make_codes(&c, &lay);
  c.codes[N * K - 1] = 16;
  refuse(&c.src, "codes in range");
  c.src.scale = NULL;
  c.codes[N * K - 1] = 15;
  refuse(&c.src, "scales");
  c.lay.bits = 9;
  refuse(&c.src, "9 bits");
  free_codes(&c);
}
