/* int8: symmetric rounding of activations, back to f32 at once. */
#include "int8.h"

#include <math.h>

static void block(const float *x, int64_t n, float *y)
{
  float a = 0;
  for (int64_t i = 0; i < n; i++) a = fmaxf(a, fabsf(x[i]));
  const float s = a / 127.0f, inverse = a > 0 ? 127.0f / a : 0.0f;
  for (int64_t i = 0; i < n; i++) y[i] = s * fminf(fmaxf(rintf(x[i] * inverse), -127.0f), 127.0f);
}

void tnk_ref_int8(const float *x, int64_t n, float *y)
{
  for (int64_t i = 0; i < n; i += 32) block(x + i, n - i < 32 ? n - i : 32, y + i);
}
