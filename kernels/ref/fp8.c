/* fp8: decoding by the formula, encoding by search among the codes in order. */
#include "fp8.h"

#include <math.h>

float tnk_ref_fp8_max(uint32_t format) { return format == TNK_E4M3 ? 448.0f : 57344.0f; }

float tnk_ref_fp8_decode(uint32_t format, uint8_t code)
{
  const int mantissa_bits = format == TNK_E4M3 ? 3 : 2, bias = format == TNK_E4M3 ? 7 : 15;
  const int magnitude = code & 0x7f, exponent = magnitude >> mantissa_bits;
  const int mantissa = magnitude & ((1 << mantissa_bits) - 1);
  const float sign = code & 0x80 ? -1.0f : 1.0f;
  if (format == TNK_E4M3 ? magnitude == 0x7f : magnitude > 0x7c) return NAN;
  if (format == TNK_E5M2 && magnitude == 0x7c) return sign * INFINITY;
  const int implicit = exponent ? 1 << mantissa_bits : 0;
  return sign * ldexpf((float)(mantissa + implicit), (exponent ? exponent : 1) - bias - mantissa_bits);
}

uint8_t tnk_ref_fp8_encode(uint32_t format, float x)
{
  const uint8_t sign = signbit(x) ? 0x80 : 0, top = format == TNK_E4M3 ? 0x7e : 0x7b;
  if (isnan(x)) return (uint8_t)(sign | 0x7f);
  const double a = fabs((double)x);
  uint8_t lo = 0, hi = top; /* codes grow with the magnitude */
  if (a >= (double)tnk_ref_fp8_max(format)) return sign | top;
  while (hi - lo > 1) {
    const uint8_t mid = (uint8_t)((lo + hi) / 2);
    if (a >= (double)tnk_ref_fp8_decode(format, mid))
      lo = mid;
    else
      hi = mid;
  }
  const double below = a - (double)tnk_ref_fp8_decode(format, lo), above = (double)tnk_ref_fp8_decode(format, hi) - a;
  const uint8_t nearest = below < above || (below == above && lo % 2 == 0) ? lo : hi;
  return sign | nearest;
}
