/* The ref backend in f32 against the cpu backend, record by record: the same bits. What is compared is two programs
 * written apart from NUMERICS.md: a step that one of them takes in another order shows. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "order_rig.h"
#include "quant/dtype.h"

enum { ROWS = 9, WIDE = 1536 };

static float x[ROWS * WIDE], x2[ROWS * WIDE];

/* Numbers of many sizes. */
static void wide_range(float *p, int64_t n, uint64_t seed, float size)
{
  rig_fill(p, n, seed);
  for (int64_t i = 0; i < n; i++) p[i] = size * p[i] * (i % 7 ? 1.0f : 8.0f) * (i % 97 ? 1.0f : 0.0f);
}

/* ---------------------------------------------------------------- rows */

static void set_norm(tn_op *op, const void *span)
{
  op->p.norm = (tn_op_norm){.eps = 1e-5, .span = *(const uint32_t *)span};
}

static void norm(int64_t cols, uint32_t span, bool weighted)
{
  static float w[WIDE];
  wide_range(x, ROWS * cols, 1, 2);
  rig_fill(w, span, 2);
  const tn_weight_src src = {.struct_size = sizeof src,
                             .kind = TN_W_F32,
                             .name = "w",
                             .n = 1,
                             .k = span,
                             .data = w,
                             .bytes = span * sizeof *w};
  const order_case c = {
      .kind = TN_OP_NORM, .in_cols = {cols}, .out_cols = {cols}, .w = weighted ? &src : NULL, .rows = ROWS, .in = {x}};
  order_same(&c, set_norm, &span, NULL);
}

Test(ref_order, norm)
{
  norm(576, 576, true);
  norm(640, 640, false);
  norm(256, 64, true);
  norm(63, 21, true);
  norm(5, 5, true);
  norm(1, 1, false);
}

Test(ref_order, add)
{
  wide_range(x, ROWS * 131, 1, 1);
  wide_range(x2, ROWS * 131, 2, 1);
  order_same(&(order_case){.kind = TN_OP_ADD, .in_cols = {131, 131}, .out_cols = {131}, .rows = ROWS, .in = {x, x2}},
             NULL, NULL, NULL);
}

static void set_glu(tn_op *op, const void *act) { op->p.glu.act = *(const uint32_t *)act; }

/* SiLU and GELU over the range of e^x and beyond both ends. */
Test(ref_order, glu)
{
  static const float sizes[] = {0.01f, 1, 6, 40, 300};
  for (uint32_t act = TN_ACT_SILU; act <= TN_ACT_NONE; act++) {
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      wide_range(x, ROWS * WIDE, act, sizes[i]);
      wide_range(x2, ROWS * WIDE, 9, 1);
      order_same(
          &(order_case){.kind = TN_OP_GLU, .in_cols = {WIDE, WIDE}, .out_cols = {WIDE}, .rows = ROWS, .in = {x, x2}},
          set_glu, &act, NULL);
    }
  }
}

static void set_scale(tn_op *op, const void *s) { op->p.scale.x = *(const double *)s; }

Test(ref_order, scale_and_softcap)
{
  static const double by[] = {0.1, 30, 1.0 / 3};
  for (int i = 0; i < 3; i++) {
    for (uint32_t kind = 0; kind < 2; kind++) {
      wide_range(x, ROWS * WIDE, 4 + kind, i == 2 ? 0.1f : 50);
      order_same(&(order_case){.kind = kind ? TN_OP_SOFTCAP : TN_OP_SCALE,
                               .in_cols = {WIDE},
                               .out_cols = {WIDE},
                               .rows = ROWS,
                               .in = {x}},
                 set_scale, &by[i], NULL);
    }
  }
}

static void set_rope(tn_op *op, const void *rope) { op->p.rope = *(const tn_op_rope *)rope; }

Test(ref_order, rope)
{
  static float cos[ROWS * 64], sin[ROWS * 64];
  static const tn_op_rope ropes[] = {{.style = TN_ROPE_INTERLEAVED, .n_heads = 3, .dims = 64, .d_head = 64},
                                     {.style = TN_ROPE_HALF, .n_heads = 3, .dims = 64, .d_head = 64},
                                     {.style = TN_ROPE_INTERLEAVED, .n_heads = 2, .dims = 42, .d_head = 50},
                                     {.style = TN_ROPE_HALF, .n_heads = 2, .dims = 42, .d_head = 50}};
  for (size_t i = 0; i < sizeof ropes / sizeof *ropes; i++) {
    const int64_t cols = (int64_t)ropes[i].n_heads * ropes[i].d_head;
    wide_range(x, ROWS * cols, 1, 3);
    rig_fill(cos, ROWS * 64, 2);
    rig_fill(sin, ROWS * 64, 3);
    order_same(&(order_case){.kind = TN_OP_ROPE,
                             .in_cols = {cols},
                             .out_cols = {cols},
                             .rope_dims = ropes[i].dims,
                             .rows = ROWS,
                             .in = {x},
                             .cos = cos,
                             .sin = sin},
               set_rope, &ropes[i], NULL);
  }
}

static void set_merge(tn_op *op, const void *arg) { op->p.merge = *(const tn_op_merge *)arg; }

/* Parts of unlike weight, some of which saw nothing; a head of which no part did. */
Test(ref_order, merge)
{
  static const tn_op_merge shapes[] = {
      {.parts = 3, .n_heads = 4}, {.parts = 1, .n_heads = 2}, {.parts = 5, .n_heads = 1}};
  for (size_t i = 0; i < 3; i++) {
    const int64_t parts = shapes[i].parts, heads = shapes[i].n_heads, d = 20;
    wide_range(x, ROWS * parts * heads * d, 1, 1);
    wide_range(x2, ROWS * parts * heads, 2, 5);
    for (int64_t j = 0; j < ROWS * parts * heads; j++) {
      if (j % 5 == 2 || j < parts * heads) x2[j] = -INFINITY;
    }
    order_same(&(order_case){.kind = TN_OP_MERGE,
                             .in_cols = {parts * heads * d, parts * heads},
                             .out_cols = {heads * d, heads},
                             .rows = ROWS,
                             .in = {x, x2}},
               set_merge, &shapes[i], NULL);
  }
}

/* ---------------------------------------------------------------- weights */

static const uint32_t dtypes[] = {TNK_F32,  TNK_F16,  TNK_BF16, TNK_Q4_0, TNK_Q4_1, TNK_Q5_0,   TNK_Q5_1,  TNK_Q8_0,
                                  TNK_Q2_K, TNK_Q3_K, TNK_Q4_K, TNK_Q5_K, TNK_Q6_K, TNK_IQ4_NL, TNK_IQ4_XS};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

static void set_embed(tn_op *op, const void *scale) { op->p.embed.scale = *(const double *)scale; }

Test(ref_order, embed)
{
  static const int32_t tokens[ROWS] = {0, 36, 5, 5, 17, 1, 16, 15, 33};
  static const double scales[] = {1, 25.298221281347036};
  for (int i = 0; i < 2 * DTYPES; i++) {
    uint8_t *data;
    const tn_weight_src src = order_file(dtypes[i / 2], 37, 512, (uint64_t)i, &data);
    order_same(&(order_case){.kind = TN_OP_EMBED, .out_cols = {512}, .w = &src, .rows = ROWS, .token = tokens},
               set_embed, &scales[i % 2], NULL);
    free(data);
  }
}

static void set_linear(tn_op *op, const void *arg) { op->p.linear = *(const tn_op_linear *)arg; }

/* Both activations, one row to many, whole and in segments, with a bias and in parts. */
static void linear(const tn_weight_src *w, uint32_t segments)
{
  static float bias[WIDE];
  const tn_op_linear l = {.n = (uint32_t)w->n, .k = (uint32_t)w->k, .segments = segments};
  const tn_weight_src b = {.struct_size = sizeof b,
                           .kind = TN_W_F32,
                           .name = "b",
                           .n = 1,
                           .k = w->n,
                           .data = bias,
                           .bytes = (uint64_t)w->n * sizeof *bias};
  rig_fill(bias, w->n, 8);
  wide_range(x, ROWS * w->k, 5, 3);
  for (int64_t i = 0; i < 32 && i < w->k; i++) x[i] = 0;                                /* a block of nothing */
  for (int64_t i = 32; i < 64 && i < w->k; i++) x[i] = i > 32 ? (float)i - 47.5f : 127; /* halves between two steps */
  for (uint32_t n = 0; n < 6; n++) {
    const bool parts = n == 2 || n == 3, biased = n > 3;
    order_same(&(order_case){.kind = TN_OP_LINEAR,
                             .in_cols = {w->k},
                             .out_cols = {parts ? w->n * segments : w->n},
                             .w = w,
                             .w2 = biased ? &b : NULL,
                             .flags = parts ? TN_OPF_PARTS : 0,
                             .prep_flags = n % 2 ? TN_PREP_ACT_INT8 : 0,
                             .rows = n < 2 ? 1 : ROWS,
                             .in = {x}},
               set_linear, &l, NULL);
  }
}

Test(ref_order, linear_of_every_file_dtype)
{
  for (int i = 0; i < DTYPES; i++) {
    uint8_t *data;
    const tn_weight_src src = order_file(dtypes[i], 37, 768, (uint64_t)i, &data);
    linear(&src, 1);
    linear(&src, 3);  /* whole blocks */
    linear(&src, 16); /* of 48 columns: no whole blocks */
    free(data);
  }
}

/* Rows that end inside a block, one output, one column. */
Test(ref_order, linear_of_odd_shapes)
{
  static const int64_t shapes[][3] = {{5, 33, 1}, {17, 31, 1}, {3, 100, 4}, {1, 64, 2}, {7, 1, 1}, {64, 1500, 5}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    uint8_t *data;
    const tn_weight_src src = order_file(i % 2 ? TNK_F16 : TNK_F32, shapes[i][0], shapes[i][1], i, &data);
    linear(&src, (uint32_t)shapes[i][2]);
    free(data);
  }
}

Test(ref_order, linear_of_one_coded_row)
{
  uint8_t *data;
  const tn_weight_src src = order_file(TNK_Q4_K, 1, 256, 3, &data); /* a vector: numbers */
  linear(&src, 1);
  free(data);
}

/* Codes of a quantizer are numbers to both. */
Test(ref_order, linear_of_a_quantizer)
{
  enum { N = 19, K = 192 };
  static uint8_t codes[N * K];
  static float scale[N * K], offset[N * K];
  static const uint32_t groups[] = {16, 32, 48, 0};
  uint64_t seed = 4;
  for (uint32_t i = 0; i < 24; i++) {
    const uint32_t bits = i % 2 ? 4 : 8, kind = i / 2 % 3, group = groups[i / 6];
    const tn_layout lay = {.struct_size = sizeof lay,
                           .kind = TN_LAY_AFFINE,
                           .bits = bits,
                           .group = group,
                           .scale_type = i % 4 ? TN_DT_F16 : TN_DT_F32,
                           .offset = kind};
    for (int j = 0; j < N * K; j++) {
      codes[j] = (uint8_t)((rig_random(&seed) + 1) / 2 * (float)(1u << bits));
      scale[j] = 0.03f + 0.02f * rig_random(&seed);
      offset[j] = kind == TN_OFF_INT ? (float)(codes[j] / 2) : rig_random(&seed) / 3;
    }
    const tn_weight_src src = {.struct_size = sizeof src,
                               .kind = TN_W_CODES,
                               .name = "coded",
                               .n = N,
                               .k = K,
                               .layout = &lay,
                               .codes = codes,
                               .scale = scale,
                               .offset = kind ? offset : NULL};
    linear(&src, 1);
    linear(&src, 3);
  }
}

Test(ref_order, segsum)
{
  static const tn_op_linear l = {.segments = 3};
  wide_range(x, ROWS * 3 * 45, 5, 1);
  order_same(&(order_case){.kind = TN_OP_SEGSUM, .in_cols = {3 * 45}, .out_cols = {45}, .rows = ROWS, .in = {x}},
             set_linear, &l, NULL);
}

/* ---------------------------------------------------------------- which one */

/* What one 8-bit or float product gives on ref with a value of the option. */
static float product(int64_t accumulate, uint32_t prep_flags)
{
  enum { K = 256 };
  static float w[2 * K], y[2];
  tn_err err = {.struct_size = sizeof err};
  const tn_value value = {.type = TN_T_ENUM, .v = {.i = accumulate}};
  prog p;
  step s;
  tn_prepared *prep;
  backend *b = backend_open("ref", 1, &value, &err);
  cr_assert(b != NULL, "%s", err.msg);
  rig_fill(x, K, 1);
  rig_fill(w, 2 * K, 2);
  prog_init(&p);
  step_init(&s);
  step_row(&s, 0, 0, 0, 0);
  const int32_t in = prog_act(&p, TN_ROWS_ALL, K), out = prog_act(&p, TN_ROWS_ALL, 2);
  tn_tensor t = rig_weight(b, w, 2, K);
  prog_op(&p, TN_OP_LINEAR, in, -1, out, prog_weight(&p, t), -1)->p.linear =
      (tn_op_linear){.n = 2, .k = K, .segments = 1};
  const tn_prepare how = {.struct_size = sizeof how, .max_rows = 1, .max_out = 1, .flags = prep_flags};
  cr_assert(eq(i32, b->v->prepare(b->inst, &p.pr, &how, NULL, &prep, &err), TN_OK), "%s", err.msg);
  rig_put(b, prep, in, x, 1);
  cr_assert(eq(i32, b->v->run(b->inst, prep, 0, 1, &s.b), TN_OK));
  rig_get(b, prep, out, y, 1);
  b->v->prepared_free(b->inst, prep);
  b->v->weight_free(b->inst, &t);
  cr_assert(eq(u64, backend_close(b), 0));
  return y[0];
}

Test(ref_order, auto_goes_by_the_activations)
{
  enum { AUTO, DOUBLE, F32 };
  cr_assert(ne(flt, product(DOUBLE, 0), product(F32, 0)));
  cr_assert(eq(flt, product(AUTO, 0), product(DOUBLE, 0)));
  cr_assert(ne(flt, product(DOUBLE, TN_PREP_ACT_INT8), product(F32, TN_PREP_ACT_INT8)));
  cr_assert(eq(flt, product(AUTO, TN_PREP_ACT_INT8), product(F32, TN_PREP_ACT_INT8)));
}
