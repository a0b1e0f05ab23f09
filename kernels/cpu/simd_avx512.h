/* simd_avx512: the 16 lanes as one zmm register. Needs AVX-512 F, BW, VL and DQ. */
#ifndef TN_KERNELS_CPU_SIMD_AVX512_H
#define TN_KERNELS_CPU_SIMD_AVX512_H

#include <immintrin.h>

typedef struct vf {
  __m512 v;
} vf;

TNK_AI vf vf_set1(float x) { return (vf){_mm512_set1_ps(x)}; }
TNK_AI vf vf_load(const float *p) { return (vf){_mm512_loadu_ps(p)}; }
TNK_AI void vf_store(float *p, vf x) { _mm512_storeu_ps(p, x.v); }
TNK_AI vf vf_add(vf x, vf y) { return (vf){_mm512_add_ps(x.v, y.v)}; }
TNK_AI vf vf_sub(vf x, vf y) { return (vf){_mm512_sub_ps(x.v, y.v)}; }
TNK_AI vf vf_mul(vf x, vf y) { return (vf){_mm512_mul_ps(x.v, y.v)}; }
TNK_AI vf vf_div(vf x, vf y) { return (vf){_mm512_div_ps(x.v, y.v)}; }
TNK_AI vf vf_fma(vf x, vf y, vf z) { return (vf){_mm512_fmadd_ps(x.v, y.v, z.v)}; }
TNK_AI vf vf_max(vf x, vf y) { return (vf){_mm512_max_ps(x.v, y.v)}; }
TNK_AI vf vf_min(vf x, vf y) { return (vf){_mm512_min_ps(x.v, y.v)}; }
TNK_AI vf vf_abs(vf x) { return (vf){_mm512_abs_ps(x.v)}; }
TNK_AI float vf_sum(vf x)
{
  const __m256 s = _mm256_add_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
  __m128 t = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
  t = _mm_add_ps(t, _mm_movehl_ps(t, t));
  return _mm_cvtss_f32(_mm_add_ss(t, _mm_movehdup_ps(t)));
}
TNK_AI float vf_top(vf x)
{
  const __m256 s = _mm256_max_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
  __m128 t = _mm_max_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
  t = _mm_max_ps(t, _mm_movehl_ps(t, t));
  return _mm_cvtss_f32(_mm_max_ss(t, _mm_movehdup_ps(t)));
}
TNK_AI vf vf_two(float x, float y) { return (vf){_mm512_mask_mov_ps(_mm512_set1_ps(y), 1, _mm512_set1_ps(x))}; }
TNK_AI float vf_first(vf x) { return _mm512_cvtss_f32(x.v); }
TNK_AI float vf_second(vf x) { return _mm_cvtss_f32(_mm_movehdup_ps(_mm512_castps512_ps128(x.v))); }
TNK_AI vf vf_pick(uint32_t mask, vf x, vf y) { return (vf){_mm512_mask_blend_ps((__mmask16)mask, y.v, x.v)}; }
TNK_AI uint32_t vf_less(vf x, vf y) { return (uint32_t)_mm512_cmp_ps_mask(x.v, y.v, _CMP_LT_OQ); }
TNK_AI vf vf_zero_below(vf x, vf y, vf lo)
{
  return (vf){_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(y.v, lo.v, _CMP_NLT_UQ), x.v)};
}
TNK_AI vf vf_pow2(vf n)
{
  const __m512i e = _mm512_add_epi32(_mm512_cvtps_epi32(n.v), _mm512_set1_epi32(127));
  return (vf){_mm512_castsi512_ps(_mm512_slli_epi32(e, 23))};
}

TNK_AI void vf_split(vf x, vf *n, vf *y)
{
  const __m512i bits = _mm512_castps_si512(x.v), f = _mm512_and_si512(bits, _mm512_set1_epi32(0x7FFFFF));
  n->v = _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_srli_epi32(bits, 23), _mm512_set1_epi32(126)));
  y->v = _mm512_castsi512_ps(_mm512_or_si512(f, _mm512_set1_epi32(0x3F000000)));
}
TNK_AI void vf_load_pairs(const float *p, vf *even, vf *odd)
{
  const __m512 x = _mm512_loadu_ps(p), y = _mm512_loadu_ps(p + 16);
  const __m512i e = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  even->v = _mm512_permutex2var_ps(x, e, y);
  odd->v = _mm512_permutex2var_ps(x, _mm512_add_epi32(e, _mm512_set1_epi32(1)), y);
}
TNK_AI void vf_store_pairs(float *p, vf even, vf odd)
{
  const __m512i lo = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  _mm512_storeu_ps(p, _mm512_permutex2var_ps(even.v, lo, odd.v));
  _mm512_storeu_ps(p + 16, _mm512_permutex2var_ps(even.v, _mm512_add_epi32(lo, _mm512_set1_epi32(8)), odd.v));
}

TNK_AI vf vf_load_f16(const uint16_t *p) { return (vf){_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p))}; }
TNK_AI vf vf_set1_f16(const uint16_t *p) { return (vf){_mm512_cvtph_ps(_mm256_set1_epi16((short)*p))}; }
TNK_AI void vf_store_f16(uint16_t *p, vf x)
{
  _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT));
}
TNK_AI vf vf_load_bf16(const uint16_t *p)
{
  const __m512i x = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
  return (vf){_mm512_castsi512_ps(_mm512_slli_epi32(x, 16))};
}
TNK_AI vf vf_load_u8(const uint8_t *p)
{
  return (vf){_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)))};
}
TNK_AI vf vf_load_i8(const int8_t *p)
{
  return (vf){_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)))};
}
TNK_AI void vf_store_i8(int8_t *p, vf x)
{
  _mm_storeu_si128((__m128i *)p, _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(x.v)));
}

#endif
