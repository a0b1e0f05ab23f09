/* trig: see trig.h. */
#include "trig.h"

#include <math.h>
#include <stdint.h>

/* Both kernels take |r| <= pi/4. */
static double sin_kernel(double r)
{
  double z = r * r;
  double p = 1.58969099521155010221e-10;
  p = p * z - 2.50507602534068634195e-08;
  p = p * z + 2.75573137070700676789e-06;
  p = p * z - 1.98412698298579493134e-04;
  p = p * z + 8.33333333332248946124e-03;
  p = p * z - 1.66666666666666324348e-01;
  return r + r * z * p;
}

static double cos_kernel(double r)
{
  double z = r * r;
  double p = -1.13596475577881948265e-11;
  p = p * z + 2.08757232129817482790e-09;
  p = p * z - 2.75573143513906633035e-07;
  p = p * z + 2.48015872894767294178e-05;
  p = p * z - 1.38888888888741095749e-03;
  p = p * z + 4.16666666666666019037e-02;
  return 1.0 - 0.5 * z + z * z * p;
}

void tn_sincos(double x, double *s, double *c)
{
  /* pi/2 in parts of 31 and 32 bits and a rest: k p1 is exact for k < 2^22, and so is what x leaves of it. */
  const double p1 = 1.57079632673412561417e+00, p2 = 6.07710050630396597660e-11, p3 = 2.02226624879595063154e-21;
  double k = nearbyint(x * 6.36619772367581382433e-01);
  double r = ((x - k * p1) - k * p2) - k * p3;
  double sr = sin_kernel(r), cr = cos_kernel(r);
  switch ((int64_t)k & 3) {
    case 0: *s = sr, *c = cr; break;
    case 1: *s = cr, *c = -sr; break;
    case 2: *s = -sr, *c = -cr; break;
    default: *s = -cr, *c = sr; break;
  }
}
