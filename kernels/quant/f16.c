/* f16: conversions between f32 and the two 16-bit formats, on the bits alone, equal to what x86 F16C computes.
 *
 * half: sign 1, exponent 5 (bias 15), fraction 10.   bfloat16: the upper half of a float. */
#include <string.h>

#include "dtype.h"

static uint32_t bits_of(float f)
{
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}

static float float_of(uint32_t u)
{
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

float tnk_f16_to_f32(uint16_t h)
{
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 0x1Fu, fraction = h & 0x3FFu;
  if (exponent == 0x1F) return float_of(sign | 0x7F800000u | (fraction ? 0x400000u | fraction << 13 : 0));
  if (exponent != 0) return float_of(sign | (exponent + 112) << 23 | fraction << 13);
  if (fraction == 0) return float_of(sign);
  /* Subnormal, fraction * 2^-24: shift the leading one out to where it is implied. */
  uint32_t shift = (uint32_t)__builtin_clz(fraction) - 21;
  return float_of(sign | (113 - shift) << 23 | (fraction << shift & 0x3FFu) << 13);
}

uint16_t tnk_f32_to_f16(float f)
{
  uint32_t u = bits_of(f), sign = u >> 16 & 0x8000u, a = u & 0x7FFFFFFFu;
  if (a > 0x7F800000u) return (uint16_t)(sign | 0x7E00u | (a >> 13 & 0x3FFu));
  if (a >= 0x47800000u) return (uint16_t)(sign | 0x7C00u); /* >= 65536 */
  if (a >= 0x38800000u) {                                  /* >= 2^-14: a normal half, or infinity by the carry */
    uint32_t r = a - (112u << 23);
    return (uint16_t)(sign | (r + 0xFFFu + (r >> 13 & 1u)) >> 13);
  }
  if (a <= 0x33000000u) return (uint16_t)sign; /* <= 2^-25, half of the least subnormal */
  uint32_t m = (a & 0x7FFFFFu) | 0x800000u, shift = 126 - (a >> 23);
  uint32_t q = m >> shift, rest = m & ((1u << shift) - 1), half = 1u << (shift - 1);
  return (uint16_t)(sign | (q + (rest > half || (rest == half && (q & 1u)))));
}

float tnk_bf16_to_f32(uint16_t b) { return float_of((uint32_t)b << 16); }

uint16_t tnk_f32_to_bf16(float f)
{
  uint32_t u = bits_of(f);
  if ((u & 0x7FFFFFFFu) > 0x7F800000u) return (uint16_t)(u >> 16 | 0x40u);
  return (uint16_t)((u + 0x7FFFu + (u >> 16 & 1u)) >> 16);
}
