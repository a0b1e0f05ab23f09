/* f16_exhaustive: all 2^32 floats to half, against a walk in double.  label: full
 *
 * Floats are taken in rising order; the expected half moves up when the float, as a double, passes the middle to the
 * next half. Instrumented builds take every 61st float. */
#include "quant/dtype.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double value_of(uint32_t h)
{
  return h >> 10 ? ldexp(1024 + (int)(h & 1023), (int)(h >> 10) - 25) : ldexp((int)h, -24);
}

Test(f16_exhaustive, all_floats)
{
  const char *instrumented = getenv("TN_INSTRUMENTED");
  uint32_t step = instrumented && strcmp(instrumented, "1") == 0 ? 61 : 1, h = 0, wrong = 0;
  double middle = (value_of(0) + value_of(1)) / 2;
  for (uint32_t u = 0; u <= 0x7F800000u; u += step) {
    float f;
    memcpy(&f, &u, sizeof f);
    while (h < 0x7C00 && ((double)f > middle || ((double)f == middle && (h & 1)))) {
      h++;
      middle = (value_of(h) + value_of(h + 1)) / 2;
    }
    wrong += tnk_f32_to_f16(f) != h;
    wrong += tnk_f32_to_f16(-f) != (h | 0x8000u);
  }
  cr_expect(zero(u32, wrong));
  cr_expect(eq(u32, h, 0x7C00));
  for (uint32_t u = 0x7F800001u; u <= 0x7FFFFFFFu; u++) {
    float f;
    memcpy(&f, &u, sizeof f);
    wrong += (tnk_f32_to_f16(f) & 0x7E00u) != 0x7E00u;
  }
  cr_expect(zero(u32, wrong));
}
