/* Row kernels against formulas in double; the same bits on every instruction set, also at ragged ends. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <string.h>

#include "cpu/isa.h"
#include "cpu/vec.h"
#include "kernel_data.h"

enum { N = 133, MAX = 256 };

static float a[MAX], b[MAX], w[MAX], out[MAX], first[MAX];

static void data(float scale)
{
  kd_fill(a, MAX, scale, 1);
  kd_fill(b, MAX, scale, 2);
  kd_fill(w, MAX, 1.0f, 3);
}

/* fn writes n numbers to out with the kernels it is given: all instruction sets must agree. */
static void same_everywhere(void (*fn)(const tnk_vec *, int64_t), int64_t n)
{
  int isas[TNK_ISA_COUNT], count = kd_isas(isas);
  for (int i = 0; i < count; i++) {
    memset(out, 0, sizeof out);
    fn(tnk_vec_of(isas[i]), n);
    if (i == 0) memcpy(first, out, sizeof out);
    cr_assert(eq(i32, memcmp(out, first, sizeof out), 0), "%s, %d numbers", tnk_isa_name(isas[i]), (int)n);
  }
  cr_assert(eq(flt, out[n], 0.0f), "written past the end");
}

static void each_length(void (*fn)(const tnk_vec *, int64_t))
{
  static const int64_t lengths[] = {1, 7, 15, 16, 17, 32, 48, 64, N};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) same_everywhere(fn, lengths[i]);
}

/* |got - want| <= eps * (1 + |want|) for the first n numbers. */
static void near_all(const double *want, int64_t n, double eps)
{
  for (int64_t i = 0; i < n; i++)
    cr_assert(le(dbl, fabs((double)out[i] - want[i]), eps * (1 + fabs(want[i]))), "%d", (int)i);
}

/* ---------------------------------------------------------------- activations in 8 bits */

static tnk_cell cells[8];

Test(vec, quant_rounds_as_numerics_say)
{
  int isas[TNK_ISA_COUNT], count = kd_isas(isas);
  data(5.0f);
  memset(a + 32, 0, 32 * sizeof *a); /* a block of zeros */
  a[0] = a[1] = 0;
  a[2] = 127 * 0.5f, a[3] = 0.25f, a[4] = 0.75f, a[5] = -0.25f; /* scale 1/2: halves go to even */
  for (int i = 6; i < 32; i++) a[i] = 0.5f * (float)(i - 20);
  for (int c = 0; c < count; c++) {
    memset(cells, 0xEE, sizeof cells);
    tnk_vec_of(isas[c])->quant(a, N, cells);
    for (int blk = 0; blk * 32 < N; blk++) {
      const tnk_cell *t = &cells[blk];
      float most = 0;
      int half[2] = {0, 0};
      for (int i = 0; i < 32 && blk * 32 + i < N; i++) most = fmaxf(most, fabsf(a[blk * 32 + i]));
      for (int i = 0; i < 32; i++) {
        const float v = blk * 32 + i < N ? a[blk * 32 + i] : 0.0f, r = most > 0 ? 127.0f / most : 0.0f;
        const float q = fminf(fmaxf(rintf(v * r), -127.0f), 127.0f);
        cr_assert(eq(int, t->q[i], (int)q), "%s block %d column %d", tnk_isa_name(isas[c]), blk, i);
        half[i / 16] += (int)q;
      }
      cr_assert(eq(flt, t->s, most / 127.0f));
      cr_assert(eq(int, t->half[0], half[0]));
      cr_assert(eq(int, t->half[1], half[1]));
      cr_assert(eq(int, t->sum, half[0] + half[1]));
      cr_assert(eq(flt, t->ssum, t->s * (float)t->sum));
      cr_assert(eq(flt, t->shalf[1], t->s * (float)half[1]));
    }
    memset(out, 0, sizeof out);
    tnk_vec_of(isas[c])->dequant(cells, N, out);
    for (int i = 0; i < N; i++) cr_assert(eq(flt, out[i], cells[i / 32].s * (float)cells[i / 32].q[i % 32]));
    cr_assert(eq(flt, out[N], 0.0f));
  }
  cr_assert(eq(int, cells[0].q[3], 0));
  cr_assert(eq(int, cells[0].q[4], 2));
}

/* ---------------------------------------------------------------- norms and element by element */

static void run_norm(const tnk_vec *v, int64_t n) { v->norm(a, w, n, n, 1e-5f, out); }
static void run_norm_bare(const tnk_vec *v, int64_t n) { v->norm(a, NULL, n, n, 1e-5f, out); }
static void run_add(const tnk_vec *v, int64_t n) { v->add(a, b, n, out); }
static void run_silu(const tnk_vec *v, int64_t n) { v->glu(TNK_SILU, a, b, n, out); }
static void run_gelu(const tnk_vec *v, int64_t n) { v->glu(TNK_GELU, a, b, n, out); }
static void run_plain(const tnk_vec *v, int64_t n) { v->glu(TNK_PLAIN, a, NULL, n, out); }
static void run_scale(const tnk_vec *v, int64_t n) { v->scale(a, 0.3f, n, out); }
static void run_cap(const tnk_vec *v, int64_t n) { v->softcap(a, 30.0f, n, out); }
static void run_exp(const tnk_vec *v, int64_t n) { v->exp(a, n, out); }

Test(vec, norm)
{
  double want[MAX], ss = 0;
  data(3.0f);
  each_length(run_norm_bare);
  each_length(run_norm);
  for (int i = 0; i < N; i++) ss += (double)a[i] * (double)a[i];
  for (int i = 0; i < N; i++) want[i] = (double)a[i] / sqrt(ss / N + 1e-5) * (double)w[i];
  near_all(want, N, 3e-7);
}

Test(vec, norm_by_spans)
{
  int isas[TNK_ISA_COUNT], count = kd_isas(isas);
  data(3.0f);
  for (int c = 0; c < count; c++) {
    tnk_vec_of(isas[c])->norm(a, w, 60, 20, 1e-3f, out);
    for (int i = 0; i < 60; i++) {
      double ss = 0;
      for (int j = i / 20 * 20; j < i / 20 * 20 + 20; j++) ss += (double)a[j] * (double)a[j];
      const double want = (double)a[i] / sqrt(ss / 20 + 1e-3) * (double)w[i % 20];
      cr_assert(epsilon_eq(dbl, (double)out[i], want, 1e-6));
    }
  }
}

Test(vec, element_by_element)
{
  double want[MAX];
  data(6.0f);
  each_length(run_add);
  for (int i = 0; i < N; i++) want[i] = (double)(a[i] + b[i]);
  near_all(want, N, 0);
  each_length(run_silu);
  for (int i = 0; i < N; i++) want[i] = (double)a[i] / (1 + exp(-(double)a[i])) * (double)b[i];
  near_all(want, N, 4e-7);
  each_length(run_gelu);
  for (int i = 0; i < N; i++) {
    const double t = (double)a[i], u = sqrt(2 / M_PI) * (t + 0.044715 * t * t * t);
    want[i] = 0.5 * t * (1 + tanh(u)) * (double)b[i];
  }
  near_all(want, N, 2e-6);
  each_length(run_plain);
  for (int i = 0; i < N; i++) want[i] = (double)a[i];
  near_all(want, N, 0);
  each_length(run_scale);
  for (int i = 0; i < N; i++) want[i] = (double)(a[i] * 0.3f);
  near_all(want, N, 0);
  data(60.0f);
  a[0] = 0.0f, a[1] = 1e-6f, a[2] = 18.74f, a[3] = -18.76f; /* about the polynomial's end, 0.625 * 30 */
  each_length(run_cap);
  for (int i = 0; i < N; i++) want[i] = 30 * tanh((double)a[i] / 30);
  near_all(want, N, 1e-6);
}

Test(vec, exp)
{
  data(80.0f);
  a[0] = 0.0f, a[1] = -0.0f, a[2] = -INFINITY, a[3] = -87.5f, a[4] = -86.9f, a[5] = 1000.0f, a[6] = 88.0f;
  each_length(run_exp);
  cr_assert(eq(flt, out[0], 1.0f));
  cr_assert(eq(flt, out[1], 1.0f));
  cr_assert(eq(flt, out[2], 0.0f));
  cr_assert(eq(flt, out[3], 0.0f));
  cr_assert(gt(flt, out[4], 0.0f));
  cr_assert(eq(flt, out[5], out[6]));
  for (int i = 6; i < N; i++) {
    const double want = exp((double)a[i]);
    cr_assert(le(dbl, fabs((double)out[i] - want), 2.5e-7 * want), "exp(%g)", (double)a[i]);
  }
  a[0] = NAN;
  each_length(run_exp);
  cr_assert(isnan(out[0]));
}

/* ---------------------------------------------------------------- rotation */

static float angle_cos[MAX], angle_sin[MAX];

static void run_pairs(const tnk_vec *v, int64_t n) { v->rope_pairs(a, angle_cos, angle_sin, n / 2 * 2, n, out); }
static void run_halves(const tnk_vec *v, int64_t n) { v->rope_halves(a, angle_cos, angle_sin, n / 2 * 2, n, out); }

Test(vec, rotation)
{
  data(2.0f);
  for (int i = 0; i < MAX; i++) {
    angle_cos[i] = (float)cos(0.37 * i);
    angle_sin[i] = (float)sin(0.37 * i);
  }
  for (int style = 0; style < 2; style++) {
    each_length(style ? run_halves : run_pairs);
    for (int i = 0; i < N / 2; i++) {
      const int p = style ? i : 2 * i, q = style ? i + N / 2 : 2 * i + 1;
      const double c = angle_cos[i], s = angle_sin[i];
      cr_assert(epsilon_eq(dbl, (double)out[p], (double)a[p] * c - (double)a[q] * s, 5e-7));
      cr_assert(epsilon_eq(dbl, (double)out[q], (double)a[q] * c + (double)a[p] * s, 5e-7));
    }
    cr_assert(eq(flt, out[N - 1], a[N - 1])); /* the column that is not rotated */
  }
}

Test(vec, outputs_may_be_inputs)
{
  int isas[TNK_ISA_COUNT], count = kd_isas(isas);
  for (int c = 0; c < count; c++) {
    const tnk_vec *v = tnk_vec_of(isas[c]);
    void (*const fns[])(const tnk_vec *, int64_t) = {run_pairs, run_halves, run_silu, run_norm};
    for (int f = 0; f < 4; f++) {
      data(2.0f);
      fns[f](v, N);
      memcpy(first, out, sizeof out);
      memcpy(out, a, sizeof out);
      if (f == 0) v->rope_pairs(out, angle_cos, angle_sin, N / 2 * 2, N, out);
      if (f == 1) v->rope_halves(out, angle_cos, angle_sin, N / 2 * 2, N, out);
      if (f == 2) v->glu(TNK_SILU, out, b, N, out);
      if (f == 3) v->norm(out, w, N, N, 1e-5f, out);
      cr_assert(eq(i32, memcmp(out, first, N * sizeof *out), 0), "kernel %d", f);
    }
  }
}
