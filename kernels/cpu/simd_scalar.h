/* simd_scalar: the 16 lanes as an array, for processors without AVX2 and as the plain twin of the others. */
#ifndef TN_KERNELS_CPU_SIMD_SCALAR_H
#define TN_KERNELS_CPU_SIMD_SCALAR_H

#include "../quant/dtype.h"

typedef struct vf {
  float v[TNK_LANES];
} vf;

#define TNK_LANEWISE(expr)                             \
  vf r;                                                \
  for (int i = 0; i < TNK_LANES; i++) r.v[i] = (expr); \
  return r

TNK_AI vf vf_set1(float x) { TNK_LANEWISE(x); }
TNK_AI vf vf_load(const float *p) { TNK_LANEWISE(p[i]); }
TNK_AI void vf_store(float *p, vf a) { memcpy(p, a.v, sizeof a.v); }
TNK_AI vf vf_add(vf a, vf b) { TNK_LANEWISE(a.v[i] + b.v[i]); }
TNK_AI vf vf_sub(vf a, vf b) { TNK_LANEWISE(a.v[i] - b.v[i]); }
TNK_AI vf vf_mul(vf a, vf b) { TNK_LANEWISE(a.v[i] * b.v[i]); }
TNK_AI vf vf_div(vf a, vf b) { TNK_LANEWISE(a.v[i] / b.v[i]); }
TNK_AI vf vf_fma(vf a, vf b, vf c) { TNK_LANEWISE(fmaf(a.v[i], b.v[i], c.v[i])); }
TNK_AI vf vf_max(vf a, vf b) { TNK_LANEWISE(a.v[i] > b.v[i] ? a.v[i] : b.v[i]); }
TNK_AI vf vf_min(vf a, vf b) { TNK_LANEWISE(a.v[i] < b.v[i] ? a.v[i] : b.v[i]); }
TNK_AI vf vf_abs(vf a) { TNK_LANEWISE(fabsf(a.v[i])); }

/* Sum and maximum over the lanes: 8 apart, then 4, 2, 1. */
TNK_AI float vf_sum(vf a)
{
  for (int w = 8; w >= 1; w /= 2) {
    for (int i = 0; i < w; i++) a.v[i] = a.v[i] + a.v[i + w];
  }
  return a.v[0];
}
TNK_AI float vf_top(vf a)
{
  for (int w = 8; w >= 1; w /= 2) {
    for (int i = 0; i < w; i++) a.v[i] = a.v[i] > a.v[i + w] ? a.v[i] : a.v[i + w];
  }
  return a.v[0];
}
/* x in lane 0, y in the others; and lane 0, lane 1. */
TNK_AI vf vf_two(float x, float y) { TNK_LANEWISE(i == 0 ? x : y); }
TNK_AI float vf_first(vf a) { return a.v[0]; }
TNK_AI float vf_second(vf a) { return a.v[1]; }

/* Lanes of mask from a, the others from b. */
TNK_AI vf vf_pick(uint32_t mask, vf a, vf b) { TNK_LANEWISE(mask >> i & 1 ? a.v[i] : b.v[i]); }

/* Lanes where a < b. */
TNK_AI uint32_t vf_less(vf a, vf b)
{
  uint32_t m = 0;
  for (int i = 0; i < TNK_LANES; i++) m |= (uint32_t)(a.v[i] < b.v[i]) << i;
  return m;
}

/* a, but zero where x < lo. */
TNK_AI vf vf_zero_below(vf a, vf x, vf lo) { TNK_LANEWISE(x.v[i] < lo.v[i] ? 0.0f : a.v[i]); }

/* 2^n for whole n in [-126, 127]; anything for a NaN. */
TNK_AI vf vf_pow2(vf n)
{
  vf r;
  for (int i = 0; i < TNK_LANES; i++) {
    uint32_t bits = (uint32_t)(n.v[i] == n.v[i] ? (int32_t)n.v[i] + 127 : 0) << 23;
    memcpy(&r.v[i], &bits, sizeof bits);
  }
  return r;
}

/* x = 2^n y with y in [0.5, 1), of normal positive x. */
TNK_AI void vf_split(vf x, vf *n, vf *y)
{
  for (int i = 0; i < TNK_LANES; i++) {
    uint32_t bits;
    memcpy(&bits, &x.v[i], sizeof bits);
    n->v[i] = (float)((int32_t)(bits >> 23) - 126);
    bits = (bits & 0x7FFFFFu) | 0x3F000000u;
    memcpy(&y->v[i], &bits, sizeof bits);
  }
}

/* Numbers 0, 2, 4, ... and 1, 3, 5, ... of 32 in memory; and back. */
TNK_AI void vf_load_pairs(const float *p, vf *even, vf *odd)
{
  for (int i = 0; i < TNK_LANES; i++) {
    even->v[i] = p[2 * i];
    odd->v[i] = p[2 * i + 1];
  }
}
TNK_AI void vf_store_pairs(float *p, vf even, vf odd)
{
  for (int i = 0; i < TNK_LANES; i++) {
    p[2 * i] = even.v[i];
    p[2 * i + 1] = odd.v[i];
  }
}

/* Sixteen halves, exactly. */
TNK_AI vf vf_load_f16(const uint16_t *p) { TNK_LANEWISE(tnk_f16_to_f32(p[i])); }
TNK_AI vf vf_set1_f16(const uint16_t *p) { return vf_set1(tnk_f16_to_f32(*p)); }
TNK_AI void vf_store_f16(uint16_t *p, vf a)
{
  for (int i = 0; i < TNK_LANES; i++) p[i] = tnk_f32_to_f16(a.v[i]);
}
TNK_AI vf vf_load_bf16(const uint16_t *p) { TNK_LANEWISE(tnk_bf16_to_f32(p[i])); }
TNK_AI vf vf_load_u8(const uint8_t *p) { TNK_LANEWISE((float)p[i]); }
TNK_AI vf vf_load_i8(const int8_t *p) { TNK_LANEWISE((float)p[i]); }

/* Whole numbers in [-128, 127] to bytes. */
TNK_AI void vf_store_i8(int8_t *p, vf a)
{
  for (int i = 0; i < TNK_LANES; i++) p[i] = (int8_t)a.v[i];
}

#endif
