/* f16: every half, and every float at which the rounding to half or bfloat16 changes. The value of a half comes from
 * its definition in double; test_f16_exhaustive.c walks all floats. */
#include "quant/dtype.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <string.h>

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

/* The value of a finite half by the format's definition. */
static double value_of(uint16_t h)
{
  int e = h >> 10 & 31, m = h & 1023;
  double v = e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
  return h & 0x8000 ? -v : v;
}

static bool is_nan_half(uint16_t h) { return (h & 0x7FFF) > 0x7C00; }

Test(f16, every_half_has_its_value)
{
  for (uint32_t h = 0; h < 65536; h++) {
    float f = tnk_f16_to_f32((uint16_t)h);
    if (is_nan_half((uint16_t)h)) {
      cr_assert(isnan(f), "%04x", h);
    } else if ((h & 0x7FFF) == 0x7C00) {
      cr_assert(isinf(f) && (f < 0) == (h >> 15), "%04x", h);
    } else {
      cr_assert(value_of((uint16_t)h) == (double)f, "%04x", h);
      cr_assert(bits_of(f) >> 31 == h >> 15, "the sign of %04x", h);
    }
  }
}

Test(f16, every_half_round_trips)
{
  for (uint32_t h = 0; h < 65536; h++) {
    uint32_t quiet = is_nan_half((uint16_t)h) ? 0x200u : 0;
    uint16_t got = tnk_f32_to_f16(tnk_f16_to_f32((uint16_t)h));
    cr_assert(got == (h | quiet), "%04x came back as %04x", h, got);
  }
}

/* Between neighbours a < b the half-way float goes to the even one, the floats beside it to the nearer. */
Test(f16, rounds_to_nearest_even_at_every_boundary)
{
  for (uint32_t h = 0; h < 0x7C00; h++) {
    double top = h == 0x7BFF ? 65536.0 : value_of((uint16_t)(h + 1));
    float mid = (float)((value_of((uint16_t)h) + top) / 2); /* exact: one bit more than a half has */
    uint32_t m = bits_of(mid), even = h & 1 ? h + 1 : h;
    for (uint32_t sign = 0; sign <= 0x8000; sign += 0x8000) {
      cr_assert(tnk_f32_to_f16(float_of((m - 1) | sign << 16)) == (h | sign), "below the middle above %04x", h);
      cr_assert(tnk_f32_to_f16(float_of(m | sign << 16)) == (even | sign), "the middle above %04x", h);
      cr_assert(tnk_f32_to_f16(float_of((m + 1) | sign << 16)) == ((h + 1) | sign), "above the middle above %04x", h);
    }
  }
}

Test(f16, far_values)
{
  cr_expect(eq(u16, tnk_f32_to_f16(3e38f), 0x7C00));
  cr_expect(eq(u16, tnk_f32_to_f16(-INFINITY), 0xFC00));
  cr_expect(eq(u16, tnk_f32_to_f16(1e-40f), 0x0000));
  cr_expect(eq(u16, tnk_f32_to_f16(-1e-40f), 0x8000));
  cr_expect(eq(u16, tnk_f32_to_f16(float_of(0x7F800001u)), 0x7E00)); /* a signalling NaN */
  cr_expect(eq(u16, tnk_f32_to_f16(float_of(0xFFC02000u)), 0xFE01));
}

Test(f16, every_bfloat_round_trips)
{
  for (uint32_t b = 0; b < 65536; b++) {
    bool nan = (b & 0x7FFF) > 0x7F80;
    cr_assert(bits_of(tnk_bf16_to_f32((uint16_t)b)) == b << 16);
    cr_assert(tnk_f32_to_bf16(float_of(b << 16)) == (b | (nan ? 0x40u : 0)), "%04x", b);
  }
}

Test(f16, bfloat_rounds_to_nearest_even_at_every_boundary)
{
  for (uint32_t b = 0; b < 65536; b++) {
    if ((b & 0x7FFF) >= 0x7F80) continue;
    uint32_t mid = b << 16 | 0x8000u;
    cr_assert(tnk_f32_to_bf16(float_of(mid - 1)) == b, "%04x", b);
    cr_assert(tnk_f32_to_bf16(float_of(mid)) == b + (b & 1), "%04x", b);
    cr_assert(tnk_f32_to_bf16(float_of(mid + 1)) == b + 1, "%04x", b);
  }
}
