/* order_math: polynomials in f32. */
#include "order_math.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* c[0] + x c[1] + x^2 c[2] + ..., n coefficients. */
static float horner(const float *c, int n, float x)
{
  float p = c[n - 1];
  for (int i = n - 2; i >= 0; i--) p = fmaf(p, x, c[i]);
  return p;
}

/* 2^n for whole n in [-126, 127]. */
static float power_of_two(float n)
{
  const uint32_t bits = (uint32_t)((int32_t)n + 127) << 23;
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

float tnk_order_exp(float x)
{
  static const float c[6] = {5.0000001201e-1f, 1.6666665459e-1f, 4.1665795894e-2f,
                             8.3334519073e-3f, 1.3981999507e-3f, 1.9875691500e-4f};
  if (isnan(x)) return x;
  if (x < -87.0f) return 0.0f;
  if (x > 88.0f) x = 88.0f;
  const float whole = 12582912.0f; /* 1.5 2^23: there is no room for a fraction above it */
  const float n = fmaf(x, 1.44269504f, whole) - whole;
  const float r = fmaf(n, 2.12194440e-4f, fmaf(n, -0.693359375f, x));
  return (fmaf(horner(c, 6, r), r * r, r) + 1.0f) * power_of_two(n);
}

float tnk_order_tanh(float x)
{
  static const float c[5] = {-3.33332819422e-1f, 1.33314422036e-1f, -5.37397155531e-2f, 2.06390887954e-2f,
                             -5.70498872745e-3f};
  const float a = fabsf(x), z = x * x;
  if (a < 0.625f) return fmaf(horner(c, 5, z) * z, x, x);
  const float t = 1.0f - 2.0f / (tnk_order_exp(a + a) + 1.0f);
  return x < 0.0f ? 0.0f - t : t;
}

float tnk_order_log(float x)
{
  static const float c[9] = {3.3333331174e-1f,  -2.4999993993e-1f, 2.0000714765e-1f,
                             -1.6668057665e-1f, 1.4249322787e-1f,  -1.2420140846e-1f,
                             1.1676998740e-1f,  -1.1514610310e-1f, 7.0376836292e-2f};
  int exponent;
  float y = frexpf(x, &exponent); /* in [0.5, 1) */
  if (y < 0.70710678f) {
    exponent--;
    y = y + y;
  }
  const float n = (float)exponent, u = y - 1.0f, square = u * u;
  float p = horner(c, 9, u) * u * square;
  p = fmaf(n, -2.12194440e-4f, p);
  p = fmaf(square, -0.5f, p);
  return fmaf(n, 0.693359375f, u + p);
}

float tnk_order_silu(float x) { return x / (1.0f + tnk_order_exp(0.0f - x)); }

float tnk_order_gelu(float x)
{
  const float cube = x * x * x, v = -1.5957691216f * fmaf(cube, 0.044715f, x);
  return x / (1.0f + tnk_order_exp(v));
}

float tnk_order_softcap(float x, float cap) { return cap * tnk_order_tanh(x / cap); }

float tnk_order_lanes(float *lane)
{
  for (int apart = 8; apart; apart /= 2) {
    for (int i = 0; i < apart; i++) lane[i] += lane[i + apart];
  }
  return lane[0];
}
