/* LINEAR and SEGSUM of the ref backend against a plain double sum; independence of rows and threads; int8 activations;
 * every weight layout. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

enum { N = 37, K = 96, ROWS = 19 };

/* Runs x [rows][K] through one LINEAR (and its twin records) and returns out [rows][cols]. */
typedef struct linear_case {
  uint32_t threads, segments, flags, prep_flags;
  tn_tensor w; /* buf NULL: f32 numbers of seed 2 */
  bool bias;
} linear_case;

static void run_linear(const linear_case *c, const float *x, int64_t rows, float *out, int64_t cols)
{
  static float w[N * K], bias[N];
  static const tn_value accumulate = {.type = TN_T_ENUM, .v = {.i = 1}}; /* double */
  tn_err err;
  prog p;
  step s;
  tn_prepared *prep;
  backend *b = backend_open("ref", c->threads, &accumulate, &err);
  cr_assert(b != NULL, "%s", err.msg);
  rig_fill(w, N * K, 2);
  rig_fill(bias, N, 3);
  prog_init(&p);
  const int32_t in = prog_act(&p, TN_ROWS_ALL, K), y = prog_act(&p, TN_ROWS_ALL, cols);
  tn_tensor tw = rig_weight(b, w, N, K), tb = rig_weight(b, bias, 1, N);
  const int32_t iw = prog_weight(&p, tw), ib = prog_weight(&p, tb);
  tn_op *op = prog_op(&p, TN_OP_LINEAR, in, -1, y, iw, c->bias ? ib : -1);
  op->flags = c->flags;
  op->p.linear = (tn_op_linear){.n = N, .k = K, .segments = c->segments};
  const tn_prepare how = {.struct_size = sizeof how, .max_rows = ROWS, .max_out = 1, .flags = c->prep_flags};
  cr_assert(eq(i32, b->v->prepare(b->inst, &p.pr, &how, NULL, &prep, &err), TN_OK), "%s", err.msg);
  step_init(&s);
  for (int32_t r = 0; r < rows; r++) step_row(&s, 0, 0, r, r);
  rig_put(b, prep, in, x, rows);
  cr_assert(eq(i32, b->v->run(b->inst, prep, 0, 1, &s.b), TN_OK));
  rig_get(b, prep, y, out, rows);
  b->v->prepared_free(b->inst, prep);
  b->v->weight_free(b->inst, &tw);
  b->v->weight_free(b->inst, &tb);
  cr_assert(eq(u64, backend_close(b), 0));
}

/* One part of one output by the obvious loop, rounded to f32. */
static float part(const float *x, const float *w, int64_t first, int64_t last)
{
  double sum = 0;
  for (int64_t i = first; i < last; i++) sum += (double)x[i] * (double)w[i];
  return (float)sum;
}

static void check_against_sums(const linear_case *c)
{
  static float x[ROWS * K], w[N * K], bias[N], out[ROWS * N];
  rig_fill(x, ROWS * K, 1);
  rig_fill(w, N * K, 2);
  rig_fill(bias, N, 3);
  run_linear(c, x, ROWS, out, N);
  for (int64_t r = 0; r < ROWS; r++) {
    for (int64_t o = 0; o < N; o++) {
      const int64_t span = K / c->segments;
      float want = part(x + r * K, w + o * K, 0, span);
      for (uint32_t s = 1; s < c->segments; s++) want += part(x + r * K, w + o * K, s * span, (s + 1) * span);
      if (c->bias) want += bias[o];
      cr_assert(epsilon_eq(flt, out[r * N + o], want, 2e-6f), "row %d output %d", (int)r, (int)o);
    }
  }
}

Test(ref_linear, sums_segments_bias)
{
  check_against_sums(&(linear_case){.threads = 1, .segments = 1});
  check_against_sums(&(linear_case){.threads = 2, .segments = 3, .bias = true});
  check_against_sums(&(linear_case){.threads = 2, .segments = 32}); /* parts of 3: a ragged end of the lanes */
}

Test(ref_linear, parts_stay_apart_and_add_up)
{
  static float x[ROWS * K], parts[ROWS * 3 * N], whole[ROWS * N];
  rig_fill(x, ROWS * K, 1);
  run_linear(&(linear_case){.threads = 2, .segments = 3, .flags = TN_OPF_PARTS}, x, ROWS, parts, 3 * N);
  run_linear(&(linear_case){.threads = 2, .segments = 3}, x, ROWS, whole, N);
  for (int64_t r = 0; r < ROWS; r++) {
    for (int64_t o = 0; o < N; o++) {
      const float *p = parts + r * 3 * N + o;
      const float sum = (p[0] + p[N]) + p[2 * N];
      cr_assert(eq(flt, sum, whole[r * N + o]));
    }
  }
}

/* The same bits alone as among others, on one thread as on three. */
Test(ref_linear, rows_and_threads_change_no_bit)
{
  static float x[ROWS * K], all[ROWS * N], one[N];
  rig_fill(x, ROWS * K, 1);
  run_linear(&(linear_case){.threads = 3, .segments = 3}, x, ROWS, all, N);
  for (int64_t r = 0; r < ROWS; r++) {
    run_linear(&(linear_case){.threads = 1, .segments = 3}, x + r * K, 1, one, N);
    cr_assert(eq(i32, memcmp(one, all + r * N, sizeof one), 0), "row %d", (int)r);
  }
}

Test(ref_linear, int8_activations)
{
  static float x[ROWS * K], w[N * K], out[ROWS * N];
  rig_fill(x, ROWS * K, 1);
  memset(x, 0, 32 * sizeof *x); /* a block of zeros */
  rig_fill(w, N * K, 2);
  run_linear(&(linear_case){.threads = 2, .segments = 1, .prep_flags = TN_PREP_ACT_INT8}, x, ROWS, out, N);
  double moved = 0;
  for (int64_t r = 0; r < ROWS; r++) {
    for (int64_t o = 0; o < N; o++) {
      double sum = 0;
      for (int64_t i = 0; i < K; i += 32) {
        float a = 0;
        for (int64_t j = i; j < i + 32; j++) a = fmaxf(a, fabsf(x[r * K + j]));
        for (int64_t j = i; a > 0 && j < i + 32; j++) {
          sum += (double)(a / 127.0f) * rint((double)(x[r * K + j] * (127.0f / a))) * (double)w[o * K + j];
        }
      }
      cr_assert(epsilon_eq(dbl, (double)out[r * N + o], sum, 2e-6));
      moved += fabs(sum - (double)part(x + r * K, w + o * K, 0, K));
    }
  }
  cr_assert(gt(dbl, moved / (ROWS * N), 1e-4)); /* rounding is really there */
}

/* SEGSUM through op(), and LINEAR through op() on tensors of the caller. */
Test(ref_linear, single_ops)
{
  static float x[ROWS * K], w[N * K], parts[ROWS * 2 * N], want[ROWS * N], got[ROWS * N];
  tn_err err;
  backend *b = backend_open("ref", 2, NULL, &err);
  cr_assert(b != NULL, "%s", err.msg);
  rig_fill(x, ROWS * K, 1);
  rig_fill(w, N * K, 2);
  tn_tensor tw = rig_weight(b, w, N, K);
  tn_tensor t[3] = {{.struct_size = sizeof(tn_tensor), .ne = {K, ROWS, 1, 1}, .nb = {4, K * 4}},
                    {.struct_size = sizeof(tn_tensor), .ne = {2 * N, ROWS, 1, 1}, .nb = {4, 2 * N * 4}},
                    {.struct_size = sizeof(tn_tensor), .ne = {N, ROWS, 1, 1}, .nb = {4, N * 4}}};
  for (int i = 0; i < 3; i++) {
    cr_assert(eq(i32, b->v->buffer_new(b->inst, (uint64_t)(t[i].nb[1] * ROWS), &t[i].buf, &err), TN_OK));
  }
  cr_assert(eq(i32, b->v->upload(b->inst, t[0].buf, 0, x, sizeof x), TN_OK));
  tn_op op = {.struct_size = sizeof op, .kind = TN_OP_LINEAR, .name = "l", .flags = TN_OPF_PARTS};
  op.in[1] = op.in[2] = op.in[3] = op.out[1] = op.w[1] = -1;
  op.p.linear = (tn_op_linear){.n = N, .k = K, .segments = 2};
  const tn_tensor *ins[1] = {&t[0]}, *outs[1] = {&t[1]}, *ws[1] = {&tw};
  cr_assert(eq(i32, b->v->op(b->inst, &op, ins, outs, ws, ROWS), TN_OK));
  cr_assert(eq(i32, b->v->download(b->inst, t[1].buf, 0, parts, sizeof parts), TN_OK));
  op.kind = TN_OP_SEGSUM;
  op.flags = 0;
  op.w[0] = -1;
  ins[0] = &t[1];
  outs[0] = &t[2];
  cr_assert(eq(i32, b->v->op(b->inst, &op, ins, outs, ws, ROWS), TN_OK));
  cr_assert(eq(i32, b->v->download(b->inst, t[2].buf, 0, got, sizeof got), TN_OK));
  run_linear(&(linear_case){.threads = 1, .segments = 2}, x, ROWS, want, N);
  cr_assert(eq(i32, memcmp(got, want, sizeof got), 0));
  op.kind = TN_OP_ATTEND;
  cr_assert(eq(i32, b->v->op(b->inst, &op, ins, outs, ws, ROWS), TN_E_UNSUPPORTED));
  for (int i = 0; i < 3; i++) b->v->buffer_free(b->inst, t[i].buf);
  b->v->weight_free(b->inst, &tw);
  cr_assert(eq(u64, backend_close(b), 0));
}
