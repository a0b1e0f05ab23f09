/* vmath: exp, log and tanh over the virtual vector of simd.h: polynomials of our own, the same bits everywhere.
 *
 * exp   n = round(x / ln 2), r = x - n ln 2 in two steps, e^x = 2^n (1 + r + r^2 p(r)), p of degree 5, error under 2 ulp
 *       exp(0) = 1 exactly; below -87 (and at -inf) it is 0, above 88 it stays at exp(88)
 * tanh  an odd polynomial below 0.625, 1 - 2 / (e^2x + 1) above
 * log   of normal positive numbers: x = 2^n y, y in [sqrt(1/2), sqrt(2)), n ln 2 + a polynomial in y - 1
 * A NaN gives a NaN. */
#ifndef TN_KERNELS_CPU_VMATH_H
#define TN_KERNELS_CPU_VMATH_H

#include "simd.h"

TNK_AI vf vf_exp(vf x)
{
  const vf lo = vf_set1(-87.0f), hi = vf_set1(88.0f), magic = vf_set1(12582912.0f);
  const vf c = vf_max(lo, vf_min(hi, x));
  const vf n = vf_sub(vf_fma(c, vf_set1(1.44269504f), magic), magic);
  vf r = vf_fma(n, vf_set1(-0.693359375f), c);
  r = vf_fma(n, vf_set1(2.12194440e-4f), r);
  vf p = vf_set1(1.9875691500e-4f);
  p = vf_fma(p, r, vf_set1(1.3981999507e-3f));
  p = vf_fma(p, r, vf_set1(8.3334519073e-3f));
  p = vf_fma(p, r, vf_set1(4.1665795894e-2f));
  p = vf_fma(p, r, vf_set1(1.6666665459e-1f));
  p = vf_fma(p, r, vf_set1(5.0000001201e-1f));
  p = vf_add(vf_fma(p, vf_mul(r, r), r), vf_set1(1.0f));
  return vf_zero_below(vf_mul(p, vf_pow2(n)), x, lo);
}

TNK_AI vf vf_tanh(vf x)
{
  const vf one = vf_set1(1.0f), zero = vf_set1(0.0f), a = vf_abs(x), z = vf_mul(x, x);
  vf p = vf_set1(-5.70498872745e-3f);
  p = vf_fma(p, z, vf_set1(2.06390887954e-2f));
  p = vf_fma(p, z, vf_set1(-5.37397155531e-2f));
  p = vf_fma(p, z, vf_set1(1.33314422036e-1f));
  p = vf_fma(p, z, vf_set1(-3.33332819422e-1f));
  p = vf_fma(vf_mul(p, z), x, x);
  const vf e = vf_exp(vf_add(a, a));
  const vf t = vf_sub(one, vf_div(vf_set1(2.0f), vf_add(e, one)));
  const vf big = vf_pick(vf_less(x, zero), vf_sub(zero, t), t);
  return vf_pick(vf_less(a, vf_set1(0.625f)), p, big);
}

TNK_AI vf vf_log(vf x)
{
  const vf one = vf_set1(1.0f), half = vf_set1(0.70710678f);
  vf n, y;
  vf_split(x, &n, &y); /* y in [0.5, 1) */
  const uint32_t low = vf_less(y, half);
  n = vf_pick(low, vf_sub(n, one), n);
  y = vf_sub(vf_pick(low, vf_add(y, y), y), one);
  vf p = vf_set1(7.0376836292e-2f);
  p = vf_fma(p, y, vf_set1(-1.1514610310e-1f));
  p = vf_fma(p, y, vf_set1(1.1676998740e-1f));
  p = vf_fma(p, y, vf_set1(-1.2420140846e-1f));
  p = vf_fma(p, y, vf_set1(1.4249322787e-1f));
  p = vf_fma(p, y, vf_set1(-1.6668057665e-1f));
  p = vf_fma(p, y, vf_set1(2.0000714765e-1f));
  p = vf_fma(p, y, vf_set1(-2.4999993993e-1f));
  p = vf_fma(p, y, vf_set1(3.3333331174e-1f));
  const vf z = vf_mul(y, y);
  p = vf_mul(vf_mul(p, y), z);
  p = vf_fma(n, vf_set1(-2.12194440e-4f), p);
  p = vf_fma(z, vf_set1(-0.5f), p);
  return vf_fma(n, vf_set1(0.693359375f), vf_add(y, p));
}

/* x / (1 + e^-x) */
TNK_AI vf vf_silu(vf x) { return vf_div(x, vf_add(vf_set1(1.0f), vf_exp(vf_sub(vf_set1(0.0f), x)))); }

/* x / 2 (1 + tanh u) = x / (1 + e^-2u), u = sqrt(2/pi) (x + 0.044715 x^3) */
TNK_AI vf vf_gelu(vf x)
{
  const vf cube = vf_mul(vf_mul(x, x), x);
  const vf u = vf_mul(vf_set1(-1.5957691216f), vf_fma(cube, vf_set1(0.044715f), x));
  return vf_div(x, vf_add(vf_set1(1.0f), vf_exp(u)));
}

#endif
