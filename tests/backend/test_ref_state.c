/* STATE_MIX of the ref backend: recurrent equals the parallel form, and decoding, chunks and folding give the same bits. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <string.h>

#include "attn_rig.h"

enum { T = 200, H = 4, G = 2, D = 8, QW = H * D, KW = G * D, F = 24 };

static float q[T * QW], k[T * KW], v[T * KW], out[T * QW], other[T * QW], features[F * D];

static const tn_state_spec elu = {.struct_size = sizeof elu, .phi = TN_PHI_ELU1, .fold = 64, .eps = 1e-6};
static const tn_state_spec favor = {
    .struct_size = sizeof favor, .phi = TN_PHI_FAVOR, .n_features = F, .fold = 64, .eps = 1e-6, .features = features};

static void data(void)
{
  rig_fill(q, T * QW, 1);
  rig_fill(k, T * KW, 2);
  rig_fill(v, T * KW, 3);
  rig_fill(features, F * D, 4);
}

/* Feeds T tokens in chunks; folds whenever `eager` or at the end only. */
static void feed(const tn_state_spec *spec, int64_t chunk, bool eager, uint32_t threads, float *o)
{
  attn a;
  rig_seq s;
  attn_cfg c = {.state = spec, .threads = threads};
  attn_open(&a, &c);
  rig_seq_init(&s, 1, 1, 0, 16);
  s.view[0].state = 3;
  cr_assert(eq(i32, a.be->v->state_reset(a.be->inst, a.kv, 0, 3), TN_OK));
  for (int64_t t = 0; t < T; t += chunk) {
    static step st;
    const int64_t m = T - t < chunk ? T - t : chunk;
    step_init(&st);
    const int32_t id = step_seq(&st, &s);
    for (int64_t i = 0; i < m; i++) step_row(&st, id, 0, t + i, (int32_t)i);
    attn_step(&a, &st, q + t * QW, NULL, k + t * KW, v + t * KW, o + t * QW, NULL);
    rig_seq_commit(&s, m);
    while (eager && s.view[0].n - s.view[0].folded >= 64) {
      cr_assert(eq(i32, a.be->v->state_fold(a.be->inst, a.kv, 0, &s.view[0]), TN_OK));
      for (int64_t p = s.view[0].folded / 16; p < s.view[0].folded / 16 + 4; p++) s.page[0][p] = -1; /* absorbed */
      s.view[0].folded += 64;
    }
  }
  if (!eager) cr_assert(eq(i32, a.be->v->state_fold(a.be->inst, a.kv, 0, &s.view[0]), TN_OK));
  s.view[0].folded = 192;
  cr_assert(eq(i32, a.be->v->state_fold(a.be->inst, a.kv, 0, &s.view[0]), TN_E_ARG)); /* too few rows behind it */
  attn_close(&a);
}

/* The feature map, written out. */
static void phi(const tn_state_spec *spec, const float *x, double *f)
{
  double norm = 0;
  for (int i = 0; i < D; i++) norm += (double)x[i] * (double)x[i] / sqrt(D);
  for (int i = 0; i < (spec->features ? F : D); i++) {
    double dot = 0;
    for (int j = 0; j < D; j++) dot += (double)features[i * D + j] * (double)x[j] / pow(D, 0.25);
    if (spec->features)
      f[i] = exp(dot - norm / 2) / sqrt(F);
    else
      f[i] = x[i] > 0 ? (double)x[i] + 1 : exp((double)x[i]);
  }
}

/* o_i = sum_{j <= i} phi(q_i) phi(k_j) v_j / (sum phi(q_i) phi(k_j) + eps) */
static void check_parallel(const tn_state_spec *spec, const float *o)
{
  for (int i = 0; i < T; i++) {
    for (int h = 0; h < H; h++) {
      double fq[F], fk[F], num[D] = {0}, den = spec->eps;
      const int n = spec->features ? F : D;
      phi(spec, q + i * QW + h * D, fq);
      for (int j = 0; j <= i; j++) {
        double w = 0;
        phi(spec, k + j * KW + h / 2 * D, fk);
        for (int f = 0; f < n; f++) w += fq[f] * fk[f];
        for (int d = 0; d < D; d++) num[d] += w * (double)v[j * KW + h / 2 * D + d];
        den += w;
      }
      for (int d = 0; d < D; d++) {
        cr_assert(epsilon_eq(dbl, (double)o[i * QW + h * D + d], num[d] / den, 1e-6), "row %d", i);
      }
    }
  }
}

static void check(const tn_state_spec *spec)
{
  static const int64_t chunks[5] = {1, 7, 64, 65, T};
  data();
  feed(spec, 50, true, 2, out);
  check_parallel(spec, out);
  for (int i = 0; i < 5; i++) {
    for (int eager = 0; eager < 2; eager++) {
      feed(spec, chunks[i], eager, 1 + (uint32_t)i % 3, other);
      cr_assert(eq(i32, memcmp(out, other, sizeof out), 0), "chunk %d eager %d", (int)chunks[i], eager);
    }
  }
}

Test(ref_state, elu) { check(&elu); }
Test(ref_state, favor) { check(&favor); }

/* The rows of a chunk may come in any order. */
Test(ref_state, rows_in_reverse)
{
  attn a;
  rig_seq s;
  static step st;
  static float rq[T * QW], rk[T * KW], rv[T * KW];
  data();
  feed(&elu, T, true, 2, out);
  attn_open(&a, &(attn_cfg){.state = &elu});
  rig_seq_init(&s, 1, 1, 0, 16);
  cr_assert(eq(i32, a.be->v->state_reset(a.be->inst, a.kv, 0, 0), TN_OK));
  step_init(&st);
  const int32_t id = step_seq(&st, &s);
  for (int32_t r = 0; r < T; r++) {
    const int32_t t = T - 1 - r;
    step_row(&st, id, 0, t, t);
    memcpy(rq + r * QW, q + t * QW, sizeof(float) * QW);
    memcpy(rk + r * KW, k + t * KW, sizeof(float) * KW);
    memcpy(rv + r * KW, v + t * KW, sizeof(float) * KW);
  }
  attn_step(&a, &st, rq, NULL, rk, rv, other, NULL);
  for (int r = 0; r < T; r++) cr_assert(eq(i32, memcmp(other + r * QW, out + (T - 1 - r) * QW, sizeof(float) * QW), 0));
  attn_close(&a);
}

/* Behind 61 tokens: a chain of four rows over the boundary, and a branch that leaves it at the third. The branch's last row
 * comes after rows that folded the chain. */
Test(ref_state, a_branch_beside_a_folded_chain)
{
  static const int32_t path_b0[2] = {0, 1}, path_b1[3] = {0, 1, 4};
  static const int32_t token_of[6] = {64 + 1, 61, 62, 63, 64, 64 + 2}; /* b0, chain, b1: where their numbers are */
  attn a;
  rig_seq s;
  static step st;
  static float rq[6 * QW], rk[6 * KW], rv[6 * KW], o[6 * QW], alone[4 * QW];
  data();
  attn_open(&a, &(attn_cfg){.state = &elu});
  rig_seq_init(&s, 1, 1, 0, 16);
  cr_assert(eq(i32, a.be->v->state_reset(a.be->inst, a.kv, 0, 0), TN_OK));
  attn_feed(&a, &s, 61, 61, q, NULL, k, v, out, NULL);
  for (int r = 0; r < 6; r++) {
    memcpy(rq + r * QW, q + token_of[r] * QW, sizeof(float) * QW);
    memcpy(rk + r * KW, k + token_of[r] * KW, sizeof(float) * KW);
    memcpy(rv + r * KW, v + token_of[r] * KW, sizeof(float) * KW);
  }
  step_init(&st);
  int32_t id = step_seq(&st, &s);
  step_node(&st, id, 0, 63, 2, 4, path_b0);
  for (int32_t r = 0; r < 4; r++) step_row(&st, id, 0, 61 + r, r);
  step_node(&st, id, 0, 64, 3, 5, path_b1);
  attn_step(&a, &st, rq, NULL, rk, rv, o, NULL);
  step_init(&st); /* the branch as a plain sequence: chain rows 0 and 1, b0, b1 */
  id = step_seq(&st, &s);
  for (int r = 0; r < 4; r++) {
    static const int row_of[4] = {1, 2, 0, 5};
    step_row(&st, id, 0, 61 + r, r);
    memcpy(rq + r * QW, q + token_of[row_of[r]] * QW, sizeof(float) * QW);
    memcpy(rk + r * KW, k + token_of[row_of[r]] * KW, sizeof(float) * KW);
    memcpy(rv + r * KW, v + token_of[row_of[r]] * KW, sizeof(float) * KW);
  }
  attn_step(&a, &st, rq, NULL, rk, rv, alone, NULL);
  cr_assert(eq(i32, memcmp(alone + 2 * QW, o, sizeof(float) * QW), 0));
  cr_assert(eq(i32, memcmp(alone + 3 * QW, o + 5 * QW, sizeof(float) * QW), 0));
  attn_close(&a);
}

/* Outputs are convex combinations of the values. */
Test(ref_state, inside_the_hull_of_the_values)
{
  data();
  feed(&elu, 33, true, 2, out);
  for (int i = 0; i < T; i++) {
    for (int c = 0; c < QW; c++) {
      float lo = 1e9f, hi = -1e9f;
      for (int j = 0; j <= i; j++) {
        const float x = v[j * KW + c / (2 * D) * D + c % D];
        lo = fminf(lo, x);
        hi = fmaxf(hi, x);
      }
      cr_assert(ge(flt, out[i * QW + c], lo * (lo > 0 ? 0.9999f : 1) - 1e-6f));
      cr_assert(le(flt, out[i * QW + c], hi + 1e-6f));
    }
  }
}

/* A state copied by pages goes on like the first one. */
Test(ref_state, pages_carry_a_state)
{
  attn a;
  rig_seq s;
  static step st;
  static uint8_t page[65536];
  attn_cfg c = {.state = &elu};
  data();
  feed(&elu, T, true, 2, out);
  attn_open(&a, &c);
  rig_seq_init(&s, 1, 1, 0, 16);
  cr_assert(eq(i32, a.be->v->state_reset(a.be->inst, a.kv, 0, 0), TN_OK));
  attn_feed(&a, &s, 128, 128, q, NULL, k, v, other, NULL);
  for (s.view[0].folded = 0; s.view[0].folded < 128; s.view[0].folded += 64) {
    cr_assert(eq(i32, a.be->v->state_fold(a.be->inst, a.kv, 0, &s.view[0]), TN_OK));
  }
  cr_assert(le(u64, a.be->v->kv_page_bytes(a.be->inst, a.kv, 1), sizeof page));
  cr_assert(eq(i32, a.be->v->kv_page_read(a.be->inst, a.kv, 1, 0, page), TN_OK));
  cr_assert(eq(i32, a.be->v->kv_page_write(a.be->inst, a.kv, 1, 9, page), TN_OK));
  cr_assert(eq(i32, a.be->v->state_reset(a.be->inst, a.kv, 0, 0), TN_OK));
  s.view[0].state = 9;
  step_init(&st);
  step_row(&st, step_seq(&st, &s), 0, 128, 0);
  attn_step(&a, &st, q + 128 * QW, NULL, k + 128 * KW, v + 128 * KW, other, NULL);
  cr_assert(eq(i32, memcmp(other, out + 128 * QW, sizeof(float) * QW), 0));
  attn_close(&a);
}
