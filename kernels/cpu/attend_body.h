/* attend_body: the kernels of attend.h, written once over simd.h. Each attend_<isa>.c includes it with TNK_NAME(x) set. */
#include "attend.h"
#include "simd.h"
#include "vmath.h"

/* Queries of one inner kernel. For one or two of them it takes two vectors of keys (or value columns) at a time, else
 * BLOCKS: as many sums as hide the latency of multiply-add and fit the registers. */
#ifdef __AVX512F__
enum { ROWS = 4, BLOCKS = 2 };
#else
enum { ROWS = 4, BLOCKS = 1 };
#endif

/* rows queries times nb blocks of 16 keys, from block b on. */
TNK_AI void dots(const int half, const int rows, const int nb, int64_t b, const float *const *q, int64_t d,
                 const tnk_tile *t, float *s)
{
  vf y[ROWS][4];
  TNK_UNROLL
  for (int r = 0; r < rows; r++) {
    TNK_UNROLL
    for (int i = 0; i < nb; i++) y[r][i] = vf_set1(0.0f);
  }
  for (int64_t c = 0; c < d; c++) {
    TNK_UNROLL
    for (int i = 0; i < nb; i++) {
      const vf k = half ? vf_load_f16(t->k16[b + i] + c * 16) : vf_load(t->k32 + ((b + i) * d + c) * 16);
      TNK_UNROLL
      for (int r = 0; r < rows; r++) y[r][i] = vf_fma(vf_set1(q[r][c]), k, y[r][i]);
    }
  }
  TNK_UNROLL
  for (int r = 0; r < rows; r++) {
    TNK_UNROLL
    for (int i = 0; i < nb; i++) vf_store(s + r * TNK_KEYS + (b + i) * 16, y[r][i]);
  }
}

TNK_AI void scores_of(const int half, int64_t rows, const float *const *q, int64_t d, const tnk_tile *t, float *s)
{
  for (; rows > 0; rows -= ROWS, q += ROWS, s += ROWS * TNK_KEYS) {
    for (int64_t b = 0; rows < 3 && b < 4; b += 2) {
      if (rows == 1)
        dots(half, 1, 2, b, q, d, t, s);
      else
        dots(half, 2, 2, b, q, d, t, s);
    }
    for (int64_t b = 0; rows >= 3 && b < 4; b += BLOCKS) {
      if (rows == 3)
        dots(half, 3, BLOCKS, b, q, d, t, s);
      else
        dots(half, 4, BLOCKS, b, q, d, t, s);
    }
  }
}

static void scores(int64_t rows, const float *const *q, int64_t d, const tnk_tile *t, float *s)
{
  if (t->k32)
    scores_of(0, rows, q, d, t, s);
  else
    scores_of(1, rows, q, d, t, s);
}

/* Products to scores. */
TNK_AI vf scored(vf s, float scale, float cap)
{
  s = vf_mul(s, vf_set1(scale));
  if (cap > 0.0f) s = vf_mul(vf_set1(cap), vf_tanh(vf_div(s, vf_set1(cap))));
  return s;
}

TNK_AI void soften_of(const bool all, float *s, uint64_t visible, float scale, float cap, float *m, float *l)
{
  const vf none = vf_set1(-INFINITY);
  vf x[4], top = none, sum = vf_set1(0.0f);
  TNK_UNROLL
  for (int i = 0; i < 4; i++) {
    x[i] = scored(vf_load(s + 16 * i), scale, cap);
    if (!all) x[i] = vf_pick((uint32_t)(visible >> (16 * i)) & 0xFFFF, x[i], none);
    top = vf_max(top, x[i]);
  }
  *m = vf_top(top);
  top = vf_set1(*m);
  TNK_UNROLL
  for (int i = 0; i < 4; i++) {
    const vf p = vf_exp(vf_sub(x[i], top));
    vf_store(s + 16 * i, p);
    sum = vf_add(sum, p);
  }
  *l = vf_sum(sum);
}

static void soften(float *s, uint64_t visible, float scale, float cap, float *m, float *l)
{
  if (~visible)
    soften_of(false, s, visible, scale, cap, m, l);
  else
    soften_of(true, s, visible, scale, cap, m, l);
}

static void shares(float *s, uint64_t visible, float scale, float cap, float m, float l)
{
  for (int i = 0; i < 4; i++) {
    const vf p = vf_div(vf_exp(vf_sub(scored(vf_load(s + 16 * i), scale, cap), vf_set1(m))), vf_set1(l));
    vf_store(s + 16 * i, vf_pick((uint32_t)(visible >> (16 * i)) & 0xFFFF, p, vf_set1(0.0f)));
  }
}

TNK_AI vf value(const int half, const tnk_tile *t, int64_t j, int64_t dv, int64_t c)
{
  return half ? vf_load_f16(t->v16[j / 16] + (j % 16) * dv + c) : vf_load(t->v32 + j * dv + c);
}

/* nc vectors of columns from c on, for rows rows. */
TNK_AI void mixed(const int half, const int rows, const int nc, int64_t c, const float *p, uint64_t visible,
                  const tnk_tile *t, int64_t dv, float *const *o)
{
  vf y[ROWS][4];
  TNK_UNROLL
  for (int r = 0; r < rows; r++) {
    TNK_UNROLL
    for (int i = 0; i < nc; i++) y[r][i] = vf_set1(0.0f);
  }
  for (; visible; visible &= visible - 1) {
    const int64_t j = __builtin_ctzll(visible);
    vf w[ROWS];
    TNK_UNROLL
    for (int r = 0; r < rows; r++) w[r] = vf_set1(p[r * TNK_KEYS + j]);
    TNK_UNROLL
    for (int i = 0; i < nc; i++) {
      const vf v = value(half, t, j, dv, c + 16 * i);
      TNK_UNROLL
      for (int r = 0; r < rows; r++) y[r][i] = vf_fma(w[r], v, y[r][i]);
    }
  }
  TNK_UNROLL
  for (int r = 0; r < rows; r++) {
    TNK_UNROLL
    for (int i = 0; i < nc; i++) vf_store(o[r] + c + 16 * i, y[r][i]);
  }
}

TNK_AI void mix_rows(const int half, const int rows, const float *p, uint64_t visible, const tnk_tile *t, int64_t dv,
                     float *const *o)
{
  const int wide = rows < 3 ? 2 : BLOCKS;
  int64_t c = 0;
  for (; c + 16 * wide <= dv; c += 16 * wide) mixed(half, rows, wide, c, p, visible, t, dv, o);
  for (; c < dv; c += 16) mixed(half, rows, 1, c, p, visible, t, dv, o);
}

TNK_AI void mix_of(const int half, int64_t rows, const float *p, uint64_t visible, const tnk_tile *t, int64_t dv,
                   float *const *o)
{
  for (; rows > 0; rows -= ROWS, p += ROWS * TNK_KEYS, o += ROWS) {
    switch (rows) {
      case 1: mix_rows(half, 1, p, visible, t, dv, o); break;
      case 2: mix_rows(half, 2, p, visible, t, dv, o); break;
      case 3: mix_rows(half, 3, p, visible, t, dv, o); break;
      default: mix_rows(half, 4, p, visible, t, dv, o); break;
    }
  }
}

static void mix(int64_t rows, const float *p, uint64_t visible, const tnk_tile *t, int64_t dv, float *const *o)
{
  if (t->k32)
    mix_of(0, rows, p, visible, t, dv, o);
  else
    mix_of(1, rows, p, visible, t, dv, o);
}

/* exp of one number, the same as a lane of vf_exp. */
TNK_AI float exp1(float x) { return vf_first(vf_exp(vf_set1(x))); }

static void join(float *m, float *l, float *o, float m2, float l2, const float *o2, int64_t dv)
{
  const float top = *m > m2 ? *m : m2;
  const vf e = vf_exp(vf_two(*m - top, m2 - top));
  const float e1 = vf_first(e), e2 = vf_second(e);
  *m = top;
  *l = fmaf(l2, e2, *l * e1);
  for (int64_t c = 0; c < dv; c += 16) {
    vf_store(o + c, vf_fma(vf_load(o2 + c), vf_set1(e2), vf_mul(vf_load(o + c), vf_set1(e1))));
  }
}

static float finish(float m, float l, const float *o, int64_t n, float *out)
{
  const vf inv = vf_set1(1.0f / l);
  for (int64_t c = 0; c < n; c += 16) vf_store_n(out + c, vf_mul(vf_load_n(o + c, n - c), inv), n - c);
  return m + vf_first(vf_log(vf_set1(l)));
}

static void widen(const tnk_tile *t, int64_t d, int64_t dv, float *k32, float *v32)
{
  for (int64_t b = 0; b < 4; b++) {
    for (int64_t c = 0; c < d; c++) vf_store(k32 + (b * d + c) * 16, vf_load_f16(t->k16[b] + c * 16));
    for (int64_t i = 0; i < 16 * dv; i += 16) vf_store(v32 + b * 16 * dv + i, vf_load_f16(t->v16[b] + i));
  }
}

TNK_AI vf clamped(vf x) { return vf_max(vf_min(x, vf_set1(65504.0f)), vf_set1(-65504.0f)); }

static void put(const float *k, int64_t d, uint16_t *k16, int64_t lane, const float *v, int64_t n, uint16_t *v16,
                int64_t dv)
{
  uint16_t t[TNK_LANES];
  for (int64_t c = 0; c < d; c += 16) {
    vf_store_f16(t, clamped(vf_load_n(k + c, d - c)));
    for (int64_t i = 0; i < 16 && c + i < d; i++) k16[(c + i) * 16 + lane] = t[i];
  }
  for (int64_t c = 0; c < dv; c += 16) {
    vf_store_f16(v16 + c, c < n ? clamped(vf_load_n(v + c, n - c)) : vf_set1(0.0f));
  }
}

static float merge(int64_t parts, const float *o, int64_t stride, const float *lse, int64_t lse_stride, int64_t d,
                   float *out)
{
  float top = -INFINITY, sum = 0.0f;
  for (int64_t p = 0; p < parts; p++) top = lse[p * lse_stride] > top ? lse[p * lse_stride] : top;
  for (int64_t c = 0; c < d; c += 16) vf_store_n(out + c, vf_set1(0.0f), d - c);
  if (!(top > -INFINITY)) return top;
  for (int64_t p = 0; p < parts; p++) sum += exp1(lse[p * lse_stride] - top);
  for (int64_t p = 0; p < parts; p++, o += stride) {
    if (!(lse[p * lse_stride] > -INFINITY)) continue;
    const vf w = vf_set1(exp1(lse[p * lse_stride] - top) / sum);
    for (int64_t c = 0; c < d; c += 16) {
      vf_store_n(out + c, vf_fma(w, vf_load_n(o + c, d - c), vf_load_n(out + c, d - c)), d - c);
    }
  }
  return top + vf_first(vf_log(vf_set1(sum)));
}

const tnk_attend TNK_NAME(tnk_attend) = {
    .scores = scores,
    .soften = soften,
    .shares = shares,
    .mix = mix,
    .join = join,
    .finish = finish,
    .widen = widen,
    .put = put,
    .merge = merge,
};
