/* attend_body: the kernels of attend.h, written once over simd.h. Each attend_<isa>.c includes it with TNK_NAME(x) set. */
#include "attend.h"
#include "simd.h"
#include "vmath.h"

/* Queries of one inner kernel: FEW where numbers are read in place, ROWS of f32 numbers. WIDE(rows): vectors of keys, or of
 * value columns, that it takes at a time in place, so that the sums hide the latency of multiply-add and fit the registers;
 * STEP: the same of f32 numbers. */
#ifdef __AVX512F__
enum { FEW = 4, ROWS = 4, STEP = 2 };
#define WIDE(rows) ((rows) == 4 ? 2 : 4)
#else
enum { FEW = 4, ROWS = 4, STEP = 1 };
#define WIDE(rows) ((rows) < 3 ? 2 : 1)
#endif

/* How a tile's numbers are stored. */
enum { F32, HALF, CODE };

static int form_of(const tnk_tile *t) { return t->k32 ? F32 : t->k8[0] ? CODE : HALF; }

/* Key column c of a block's 16 keys; scale: theirs, of codes. */
TNK_AI vf key(const int form, const tnk_tile *t, int64_t b, int64_t d, int64_t c, vf scale)
{
  if (form == F32) return vf_load(t->k32 + (b * d + c) * 16);
  if (form == HALF) return vf_load_f16(t->k16[b] + c * 16);
  return vf_mul(vf_load_i8(t->k8[b] + c * 16), scale);
}

/* Asks for bytes of a block's values that are used after its keys: as many as a column of keys has. */
TNK_AI void ask_values(const int form, const tnk_tile *t, int64_t b, int64_t c)
{
  if (form == CODE)
    __builtin_prefetch(t->v8[b] + c * 16);
  else
    __builtin_prefetch(t->v16[b] + c * 16);
}

/* Columns [c, end) of rows queries times nb blocks of 16 keys, from block b on; of codes: group g of columns. */
TNK_AI void dots_of(const int form, const int rows, const int nb, int64_t b, const float *const *q, int64_t d,
                    int64_t c, int64_t end, int64_t g, const tnk_tile *t, vf y[ROWS][4])
{
  vf scale[4];
  TNK_UNROLL
  for (int i = 0; i < nb; i++) scale[i] = form == CODE ? vf_load_f16(t->ks[b + i] + g * 16) : vf_set1(1.0f);
  for (; c < end; c++) {
    TNK_UNROLL
    for (int i = 0; i < nb; i++) {
      if (form != F32) ask_values(form, t, b + i, c);
      const vf k = key(form, t, b + i, d, c, scale[i]);
      TNK_UNROLL
      for (int r = 0; r < rows; r++) y[r][i] = vf_fma(vf_set1(q[r][c]), k, y[r][i]);
    }
  }
}

/* rows queries times nb blocks of 16 keys, from block b on. */
TNK_AI void dots(const int form, const int rows, const int nb, int64_t b, const float *const *q, int64_t d,
                 const tnk_tile *t, float *s)
{
  const int64_t step = form == CODE ? t->k_group : d;
  vf y[ROWS][4];
  TNK_UNROLL
  for (int r = 0; r < rows; r++) {
    TNK_UNROLL
    for (int i = 0; i < nb; i++) y[r][i] = vf_set1(0.0f);
  }
  for (int64_t c = 0, g = 0; c < d; c += step, g++) dots_of(form, rows, nb, b, q, d, c, c + step, g, t, y);
  TNK_UNROLL
  for (int r = 0; r < rows; r++) {
    TNK_UNROLL
    for (int i = 0; i < nb; i++) vf_store(s + r * TNK_KEYS + (b + i) * 16, y[r][i]);
  }
}

TNK_AI void scores_in_place(const int form, int64_t rows, const float *const *q, int64_t d, const tnk_tile *t, float *s)
{
  for (; rows > 0; rows -= FEW, q += FEW, s += FEW * TNK_KEYS) {
    switch (rows) {
      case 1:
        for (int64_t b = 0; b < 4; b += WIDE(1)) dots(form, 1, WIDE(1), b, q, d, t, s);
        break;
      case 2:
        for (int64_t b = 0; b < 4; b += WIDE(2)) dots(form, 2, WIDE(2), b, q, d, t, s);
        break;
      case 3:
        for (int64_t b = 0; b < 4; b += WIDE(3)) dots(form, 3, WIDE(3), b, q, d, t, s);
        break;
      default:
        for (int64_t b = 0; b < 4; b += WIDE(4)) dots(form, 4, WIDE(4), b, q, d, t, s);
        break;
    }
  }
}

/* Blocks of keys outside, so that they stay near; queries pass. */
static void scores_f32(int64_t rows, const float *const *q, int64_t d, const tnk_tile *t, float *s)
{
  for (int64_t b = 0; b < 4; b += STEP) {
    for (int64_t r = 0; r < rows; r += ROWS) {
      const float *const *to = q + r;
      float *out = s + r * TNK_KEYS;
      switch (rows - r) {
        case 1: dots(F32, 1, STEP, b, to, d, t, out); break;
        case 2: dots(F32, 2, STEP, b, to, d, t, out); break;
        case 3: dots(F32, 3, STEP, b, to, d, t, out); break;
        default: dots(F32, 4, STEP, b, to, d, t, out); break;
      }
    }
  }
}

static void scores(int64_t rows, const float *const *q, int64_t d, const tnk_tile *t, float *s)
{
  switch (form_of(t)) {
    case F32: scores_f32(rows, q, d, t, s); break;
    case HALF: scores_in_place(HALF, rows, q, d, t, s); break;
    default: scores_in_place(CODE, rows, q, d, t, s); break;
  }
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

/* Where the scales of a column of values lie: i of each key's n. */
typedef struct scale_at {
  int64_t i, n;
} scale_at;

TNK_AI scale_at scale_of(const int form, const tnk_tile *t, int64_t dv, int64_t c)
{
  return form == CODE ? (scale_at){c / t->v_group, dv / t->v_group} : (scale_at){0, 0};
}

/* Columns [c, c + 16) of the value of key j. */
TNK_AI vf value(const int form, const tnk_tile *t, int64_t j, int64_t dv, int64_t c, scale_at of)
{
  if (form == F32) return vf_load(t->v32 + c * TNK_KEYS + j * 16);
  if (form == HALF) return vf_load_f16(t->v16[j / 16] + (j % 16) * dv + c);
  return vf_mul(vf_load_i8(t->v8[j / 16] + (j % 16) * dv + c), vf_set1_f16(t->vs[j / 16] + (j % 16) * of.n + of.i));
}

/* Asks for columns [c, c + 16 nc) of the keys that come next. */
TNK_AI void ask_next(const int form, const int nc, int64_t c, const tnk_tile *t)
{
  const int64_t column = form == CODE ? 16 : 32;
  for (int b = 0; b < 4; b++) {
    for (int64_t at = c * column; at < (c + 16 * nc) * column; at += 64) __builtin_prefetch(t->next[b] + at);
  }
}

/* nc vectors of columns from c on, for rows rows. */
TNK_AI void mixed(const int form, const int rows, const int nc, int64_t c, const float *p, uint64_t visible,
                  const tnk_tile *t, int64_t dv, float *const *o)
{
  vf y[ROWS][4];
  scale_at of[4];
  if (form != F32) ask_next(form, nc, c, t);
  TNK_UNROLL
  for (int i = 0; i < nc; i++) of[i] = scale_of(form, t, dv, c + 16 * i);
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
      const vf v = value(form, t, j, dv, c + 16 * i, of[i]);
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

TNK_AI void mix_rows(const int form, const int rows, const float *p, uint64_t visible, const tnk_tile *t, int64_t dv,
                     float *const *o)
{
  int64_t c = 0;
  for (; c + 16 * WIDE(rows) <= dv; c += 16 * WIDE(rows)) mixed(form, rows, WIDE(rows), c, p, visible, t, dv, o);
  for (; c < dv; c += 16) mixed(form, rows, 1, c, p, visible, t, dv, o);
}

TNK_AI void mix_in_place(const int form, int64_t rows, const float *p, uint64_t visible, const tnk_tile *t, int64_t dv,
                         float *const *o)
{
  for (; rows > 0; rows -= FEW, p += FEW * TNK_KEYS, o += FEW) {
    switch (rows) {
      case 1: mix_rows(form, 1, p, visible, t, dv, o); break;
      case 2: mix_rows(form, 2, p, visible, t, dv, o); break;
      case 3: mix_rows(form, 3, p, visible, t, dv, o); break;
      default: mix_rows(form, 4, p, visible, t, dv, o); break;
    }
  }
}

/* Columns outside, so that they stay near; queries pass. */
TNK_AI void mix_columns(const int nc, int64_t c, int64_t rows, const float *p, uint64_t visible, const tnk_tile *t,
                        int64_t dv, float *const *o)
{
  for (; rows > 0; rows -= ROWS, p += ROWS * TNK_KEYS, o += ROWS) {
    switch (rows) {
      case 1: mixed(F32, 1, nc, c, p, visible, t, dv, o); break;
      case 2: mixed(F32, 2, nc, c, p, visible, t, dv, o); break;
      case 3: mixed(F32, 3, nc, c, p, visible, t, dv, o); break;
      default: mixed(F32, 4, nc, c, p, visible, t, dv, o); break;
    }
  }
}

static void mix_f32(int64_t rows, const float *p, uint64_t visible, const tnk_tile *t, int64_t dv, float *const *o)
{
  int64_t c = 0;
  for (; c + 16 * STEP <= dv; c += 16 * STEP) mix_columns(STEP, c, rows, p, visible, t, dv, o);
  for (; STEP > 1 && c < dv; c += 16) mix_columns(1, c, rows, p, visible, t, dv, o);
}

static void mix(int64_t rows, const float *p, uint64_t visible, const tnk_tile *t, int64_t dv, float *const *o)
{
  switch (form_of(t)) {
    case F32: mix_f32(rows, p, visible, t, dv, o); break;
    case HALF: mix_in_place(HALF, rows, p, visible, t, dv, o); break;
    default: mix_in_place(CODE, rows, p, visible, t, dv, o); break;
  }
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

TNK_AI void widen_of(const int form, const tnk_tile *t, int64_t d, int64_t dv, float *k32, float *v32)
{
  const int64_t step = form == CODE ? t->k_group : d;
  for (int64_t b = 0; b < 4; b++) {
    for (int64_t c0 = 0, g = 0; c0 < d; c0 += step, g++) {
      const vf scale = form == CODE ? vf_load_f16(t->ks[b] + g * 16) : vf_set1(1.0f);
      for (int64_t c = c0; c < c0 + step; c++) vf_store(k32 + (b * d + c) * 16, key(form, t, b, d, c, scale));
    }
  }
  for (int64_t c = 0; c < dv; c += 16) {
    const scale_at of = scale_of(form, t, dv, c);
    for (int64_t j = 0; j < TNK_KEYS; j++) vf_store(v32 + c * TNK_KEYS + j * 16, value(form, t, j, dv, c, of));
  }
}

static void widen(const tnk_tile *t, int64_t d, int64_t dv, float *k32, float *v32)
{
  if (form_of(t) == CODE)
    widen_of(CODE, t, d, dv, k32, v32);
  else
    widen_of(HALF, t, d, dv, k32, v32);
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
