/* simd_avx2: the 16 lanes as two ymm registers. Needs AVX2, FMA and F16C. */
#ifndef TN_KERNELS_CPU_SIMD_AVX2_H
#define TN_KERNELS_CPU_SIMD_AVX2_H

#include <immintrin.h>

typedef struct vf {
  __m256 a, b;
} vf;

TNK_AI vf vf_set1(float x) { return (vf){_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
TNK_AI vf vf_load(const float *p) { return (vf){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
TNK_AI void vf_store(float *p, vf x)
{
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
}
TNK_AI vf vf_add(vf x, vf y) { return (vf){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
TNK_AI vf vf_sub(vf x, vf y) { return (vf){_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
TNK_AI vf vf_mul(vf x, vf y) { return (vf){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
TNK_AI vf vf_div(vf x, vf y) { return (vf){_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
TNK_AI vf vf_fma(vf x, vf y, vf z) { return (vf){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
TNK_AI vf vf_max(vf x, vf y) { return (vf){_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
TNK_AI vf vf_min(vf x, vf y) { return (vf){_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
TNK_AI vf vf_abs(vf x)
{
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return (vf){_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}

TNK_AI float vf_sum4(__m128 x)
{
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}
TNK_AI float vf_sum(vf x)
{
  const __m256 s = _mm256_add_ps(x.a, x.b);
  return vf_sum4(_mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1)));
}
TNK_AI float vf_top4(__m128 x)
{
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}
TNK_AI float vf_top(vf x)
{
  const __m256 s = _mm256_max_ps(x.a, x.b);
  return vf_top4(_mm_max_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1)));
}
TNK_AI vf vf_two(float x, float y)
{
  const __m256 t = _mm256_set1_ps(y);
  return (vf){_mm256_blend_ps(t, _mm256_set1_ps(x), 1), t};
}
TNK_AI float vf_first(vf x) { return _mm256_cvtss_f32(x.a); }
TNK_AI float vf_second(vf x) { return _mm_cvtss_f32(_mm_movehdup_ps(_mm256_castps256_ps128(x.a))); }

/* All bits of lane i set where bit i of the low eight of mask is. */
TNK_AI __m256 vf_lanes8(uint32_t mask)
{
  const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)mask), bit), bit));
}

TNK_AI vf vf_pick(uint32_t mask, vf x, vf y)
{
  return (vf){_mm256_blendv_ps(y.a, x.a, vf_lanes8(mask)), _mm256_blendv_ps(y.b, x.b, vf_lanes8(mask >> 8))};
}

TNK_AI uint32_t vf_less(vf x, vf y)
{
  return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ)) |
         (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ)) << 8;
}

TNK_AI vf vf_zero_below(vf x, vf y, vf lo)
{
  return (vf){_mm256_and_ps(_mm256_cmp_ps(y.a, lo.a, _CMP_NLT_UQ), x.a),
              _mm256_and_ps(_mm256_cmp_ps(y.b, lo.b, _CMP_NLT_UQ), x.b)};
}

TNK_AI __m256 vf_pow2_8(__m256 n)
{
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
}
TNK_AI vf vf_pow2(vf n) { return (vf){vf_pow2_8(n.a), vf_pow2_8(n.b)}; }

TNK_AI __m256 vf_exponent8(__m256 x)
{
  return _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_srli_epi32(_mm256_castps_si256(x), 23), _mm256_set1_epi32(126)));
}
TNK_AI __m256 vf_fraction8(__m256 x)
{
  const __m256i f = _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7FFFFF));
  return _mm256_castsi256_ps(_mm256_or_si256(f, _mm256_set1_epi32(0x3F000000)));
}
TNK_AI void vf_split(vf x, vf *n, vf *y)
{
  *n = (vf){vf_exponent8(x.a), vf_exponent8(x.b)};
  *y = (vf){vf_fraction8(x.a), vf_fraction8(x.b)};
}

TNK_AI __m256 vf_every_other(__m256 x, __m256 y, int odd)
{
  const __m256 t = odd ? _mm256_shuffle_ps(x, y, 0xDD) : _mm256_shuffle_ps(x, y, 0x88);
  return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(t), 0xD8));
}
TNK_AI void vf_load_pairs(const float *p, vf *even, vf *odd)
{
  const __m256 x = _mm256_loadu_ps(p), y = _mm256_loadu_ps(p + 8);
  const __m256 z = _mm256_loadu_ps(p + 16), w = _mm256_loadu_ps(p + 24);
  *even = (vf){vf_every_other(x, y, 0), vf_every_other(z, w, 0)};
  *odd = (vf){vf_every_other(x, y, 1), vf_every_other(z, w, 1)};
}
TNK_AI void vf_store_zip8(float *p, __m256 even, __m256 odd)
{
  const __m256 lo = _mm256_unpacklo_ps(even, odd), hi = _mm256_unpackhi_ps(even, odd);
  _mm256_storeu_ps(p, _mm256_permute2f128_ps(lo, hi, 0x20));
  _mm256_storeu_ps(p + 8, _mm256_permute2f128_ps(lo, hi, 0x31));
}
TNK_AI void vf_store_pairs(float *p, vf even, vf odd)
{
  vf_store_zip8(p, even.a, odd.a);
  vf_store_zip8(p + 16, even.b, odd.b);
}

TNK_AI vf vf_load_f16(const uint16_t *p)
{
  return (vf){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
              _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 8)))};
}
TNK_AI vf vf_set1_f16(const uint16_t *p)
{
  const __m256 x = _mm256_cvtph_ps(_mm_set1_epi16((short)*p));
  return (vf){x, x};
}
TNK_AI void vf_store_f16(uint16_t *p, vf x)
{
  _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128((__m128i *)(p + 8), _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
}

TNK_AI __m256 vf_bf16_8(const uint16_t *p)
{
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}
TNK_AI vf vf_load_bf16(const uint16_t *p) { return (vf){vf_bf16_8(p), vf_bf16_8(p + 8)}; }

TNK_AI vf vf_load_u8(const uint8_t *p)
{
  const __m128i x = _mm_loadu_si128((const __m128i *)p);
  return (vf){_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(x)),
              _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(x, 8)))};
}
TNK_AI vf vf_load_i8(const int8_t *p)
{
  const __m128i x = _mm_loadu_si128((const __m128i *)p);
  return (vf){_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(x)),
              _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(x, 8)))};
}
TNK_AI void vf_store_i8(int8_t *p, vf x)
{
  const __m256i a = _mm256_cvtps_epi32(x.a), b = _mm256_cvtps_epi32(x.b);
  const __m128i lo = _mm_packs_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  const __m128i hi = _mm_packs_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1));
  _mm_storeu_si128((__m128i *)p, _mm_packs_epi16(lo, hi));
}

#endif
