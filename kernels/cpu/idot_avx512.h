/* idot_avx512: products of a line (16 rows x 4 unsigned bytes) with 4 signed bytes, in one zmm. See idot_avx2.h for how
 * saturation is kept out where there is no VNNI. */
#ifndef TN_KERNELS_CPU_IDOT_AVX512_H
#define TN_KERNELS_CPU_IDOT_AVX512_H

typedef struct vw {
  __m512i v;
} vw;
typedef struct vi {
  __m512i v;
} vi;
typedef vi vp;
typedef __m512i va;

TNK_AI vw vw_load(const uint8_t *p) { return (vw){_mm512_loadu_si512(p)}; }
TNK_AI void vw_store(uint8_t *p, vw w) { _mm512_storeu_si512(p, w.v); }
TNK_AI vw vw_bits(vw w, int up, int down, uint8_t mask)
{
  if (up) w.v = _mm512_slli_epi16(w.v, (uint8_t)up);
  if (down) w.v = _mm512_srli_epi16(w.v, (uint8_t)down);
  return (vw){_mm512_and_si512(w.v, _mm512_set1_epi8((char)mask))};
}
TNK_AI vw vw_or(vw x, vw y) { return (vw){_mm512_or_si512(x.v, y.v)}; }
TNK_AI vw vw_add(vw w, int x) { return (vw){_mm512_add_epi8(w.v, _mm512_set1_epi8((char)x))}; }
TNK_AI vw vw_table(vw code, const uint8_t table[16])
{
  return (vw){_mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)table)), code.v)};
}
TNK_AI va va_load(const int8_t *p)
{
  int32_t x;
  memcpy(&x, p, sizeof x);
  return _mm512_set1_epi32(x);
}
TNK_AI vi vi_add(vi x, vi y)
{
  x.v = _mm512_add_epi32(x.v, y.v);
  __asm__("" : "+v"(x.v)); /* see idot_avx2.h */
  return x;
}

#ifdef TNK_VNNI
enum { TNK_SIGNED8 = 0 };
#define TNK_CHAIN(bits) 8
TNK_AI vp vp_mla(vp c, vw w, va x) { return (vp){_mm512_dpbusd_epi32(c.v, w.v, x)}; }
TNK_AI vp vp_mul(vw w, va x) { return vp_mla((vp){_mm512_setzero_si512()}, w, x); }
TNK_AI vi vi_of(vp c) { return c; }
TNK_AI vi vi_mul8(vw w, va x) { return vp_mul(w, x); }
#else
enum { TNK_SIGNED8 = 1 };
#define TNK_CHAIN(bits) ((bits) <= 4 ? 8 : (bits) == 5 ? 4 : 2)
TNK_AI vp vp_mul(vw w, va x) { return (vp){_mm512_maddubs_epi16(w.v, x)}; }
TNK_AI vp vp_mla(vp c, vw w, va x)
{
  c.v = _mm512_add_epi16(c.v, _mm512_maddubs_epi16(w.v, x));
  __asm__("" : "+v"(c.v)); /* see idot_avx2.h */
  return c;
}
TNK_AI vi vi_of(vp c) { return (vi){_mm512_madd_epi16(c.v, _mm512_set1_epi16(1))}; }
TNK_AI vi vi_mul8(vw w, va x)
{
  const __m512i s = _mm512_xor_si512(w.v, _mm512_set1_epi8(-128));
  const __m512i y = _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(s), _mm512_setzero_si512(), x);
  return (vi){_mm512_madd_epi16(_mm512_maddubs_epi16(_mm512_abs_epi8(s), y), _mm512_set1_epi16(1))};
}
#endif

TNK_AI vi vi_add1(vi x, int32_t y) { return (vi){_mm512_add_epi32(x.v, _mm512_set1_epi32(y))}; }
TNK_AI vf vf_of(vi x) { return (vf){_mm512_cvtepi32_ps(x.v)}; }

TNK_AI vf vf_byte(const uint8_t *line, int b)
{
  const __m512i x = _mm512_srli_epi32(_mm512_loadu_si512(line), (uint8_t)(8 * b));
  return (vf){_mm512_cvtepi32_ps(_mm512_and_si512(x, _mm512_set1_epi32(255)))};
}

#endif
