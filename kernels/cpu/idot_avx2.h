/* idot_avx2: products of a line (16 rows x 4 unsigned bytes) with 4 signed bytes, in two ymm.
 *
 * vpmaddubsw adds pairs of products in int16 with saturation, so only as many lines are added before widening as can
 * never saturate: 8 for codes up to 15 (30,480), 4 up to 31, 2 up to 63. Codes of 8 bits are multiplied as |w - 128| by
 * the activation with the sign of w - 128 (pairs up to 32,512) and widened at once. With AVX-VNNI, vpdpbusd sums in
 * int32. All are exact, so all agree. */
#ifndef TN_KERNELS_CPU_IDOT_AVX2_H
#define TN_KERNELS_CPU_IDOT_AVX2_H

typedef struct vw {
  __m256i a, b;
} vw;
typedef struct vi {
  __m256i a, b;
} vi;
typedef vi vp;
typedef __m256i va;

TNK_AI vw vw_load(const uint8_t *p)
{
  return (vw){_mm256_loadu_si256((const __m256i *)p), _mm256_loadu_si256((const __m256i *)(p + 32))};
}
TNK_AI void vw_store(uint8_t *p, vw w)
{
  _mm256_storeu_si256((__m256i *)p, w.a);
  _mm256_storeu_si256((__m256i *)(p + 32), w.b);
}
TNK_AI vw vw_bits(vw w, int up, int down, uint8_t mask)
{
  const __m256i m = _mm256_set1_epi8((char)mask);
  if (up) w = (vw){_mm256_slli_epi16(w.a, up), _mm256_slli_epi16(w.b, up)};
  if (down) w = (vw){_mm256_srli_epi16(w.a, down), _mm256_srli_epi16(w.b, down)};
  return (vw){_mm256_and_si256(w.a, m), _mm256_and_si256(w.b, m)};
}
TNK_AI vw vw_or(vw x, vw y) { return (vw){_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)}; }
TNK_AI vw vw_add(vw w, int x)
{
  const __m256i t = _mm256_set1_epi8((char)x);
  return (vw){_mm256_add_epi8(w.a, t), _mm256_add_epi8(w.b, t)};
}
TNK_AI vw vw_table(vw code, const uint8_t table[16])
{
  const __m256i t = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table));
  return (vw){_mm256_shuffle_epi8(t, code.a), _mm256_shuffle_epi8(t, code.b)};
}
TNK_AI va va_load(const int8_t *p)
{
  int32_t x;
  memcpy(&x, p, sizeof x);
  return _mm256_set1_epi32(x);
}
TNK_AI vi vi_add(vi x, vi y)
{
  x = (vi){_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)};
  __asm__("" : "+x"(x.a), "+x"(x.b)); /* see vp_mla */
  return x;
}

#ifdef TNK_VNNI
enum { TNK_SIGNED8 = 0 };
#define TNK_CHAIN(bits) 8
TNK_AI vp vp_mla(vp c, vw w, va x)
{
  return (vp){_mm256_dpbusd_avx_epi32(c.a, w.a, x), _mm256_dpbusd_avx_epi32(c.b, w.b, x)};
}
TNK_AI vp vp_mul(vw w, va x) { return vp_mla((vp){_mm256_setzero_si256(), _mm256_setzero_si256()}, w, x); }
TNK_AI vi vi_of(vp c) { return c; }
TNK_AI vi vi_mul8(vw w, va x) { return vp_mul(w, x); }
#else
enum { TNK_SIGNED8 = 1 };
#define TNK_CHAIN(bits) ((bits) <= 4 ? 8 : (bits) == 5 ? 4 : 2)
TNK_AI vp vp_mul(vw w, va x) { return (vp){_mm256_maddubs_epi16(w.a, x), _mm256_maddubs_epi16(w.b, x)}; }
TNK_AI vp vp_mla(vp c, vw w, va x)
{
  const vp p = vp_mul(w, x);
  c = (vp){_mm256_add_epi16(c.a, p.a), _mm256_add_epi16(c.b, p.b)};
  /* Add now: a compiler that reorders these sums keeps all products of a block, in memory. */
  __asm__("" : "+x"(c.a), "+x"(c.b));
  return c;
}
TNK_AI vi vi_of(vp c)
{
  const __m256i one = _mm256_set1_epi16(1);
  return (vi){_mm256_madd_epi16(c.a, one), _mm256_madd_epi16(c.b, one)};
}
TNK_AI __m256i vi_mul8_8(__m256i w, __m256i x)
{
  const __m256i s = _mm256_xor_si256(w, _mm256_set1_epi8(-128));
  const __m256i p = _mm256_maddubs_epi16(_mm256_abs_epi8(s), _mm256_sign_epi8(x, s));
  return _mm256_madd_epi16(p, _mm256_set1_epi16(1));
}
TNK_AI vi vi_mul8(vw w, va x) { return (vi){vi_mul8_8(w.a, x), vi_mul8_8(w.b, x)}; }
#endif

TNK_AI vi vi_add1(vi x, int32_t y)
{
  const __m256i t = _mm256_set1_epi32(y);
  return (vi){_mm256_add_epi32(x.a, t), _mm256_add_epi32(x.b, t)};
}
TNK_AI vf vf_of(vi x) { return (vf){_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }

TNK_AI vf vf_byte(const uint8_t *line, int b)
{
  const __m256i m = _mm256_set1_epi32(255);
  const vw w = vw_load(line);
  return (vf){_mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32(w.a, 8 * b), m)),
              _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32(w.b, 8 * b), m))};
}

#endif
