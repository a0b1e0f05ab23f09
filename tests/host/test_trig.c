/* Sine and cosine against the C library in long double. */
#include "host/trig.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>

#define LIMIT 4194304.0 /* 2^22: as far as trig.h promises */

/* |got - want| in units of the last place of want as f32. */
static double ulps(double got, long double want)
{
  float f = fabsf((float)want);
  double ulp = (double)(nextafterf(f, 2) - f);
  return fabs((double)((long double)got - want)) / ulp;
}

static double worst_at(double x)
{
  double s, c;
  tn_sincos(x, &s, &c);
  double a = ulps(s, sinl((long double)x)), b = ulps(c, cosl((long double)x));
  return a > b ? a : b;
}

static double uniform(uint64_t *state)
{
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (double)(*state >> 11) * 0x1p-53;
}

Test(host_trig, random_arguments)
{
  uint64_t state = 1;
  for (int i = 0; i < 200000; i++) {
    double x = (uniform(&state) * 2 - 1) * LIMIT;
    if (i % 2) x = exp((uniform(&state) * 2 - 1) * log(LIMIT));
    cr_assert(worst_at(x) < 1, "x = %.17g: %g ulp", x, worst_at(x));
  }
}

/* Next to multiples of pi/2 one of the two is nearly 0, and nothing is left of a careless reduction. */
Test(host_trig, next_to_multiples_of_half_pi)
{
  const long double half_pi = 1.57079632679489661923132169163975144L;
  uint64_t state = 2;
  for (int i = 0; i < 200000; i++) {
    double k = i < 1000 ? i : floor(uniform(&state) * LIMIT / 1.5708);
    double x = (double)((long double)k * half_pi);
    for (int side = -1; side <= 1; side++) {
      double at = side ? nextafter(x, side * INFINITY) : x;
      if (fabs(at) > LIMIT) continue;
      cr_assert(worst_at(at) < 1, "x = %.17g, near %.0f pi/2: %g ulp", at, k, worst_at(at));
    }
  }
}

/* Every rotation that a model asks for: whole positions times frequencies. */
Test(host_trig, rotation_angles)
{
  for (int64_t pos = 0; pos < 4194304; pos += 1 + pos / 50)
    for (int i = 0; i < 32; i++) {
      double x = (double)pos * pow(10000, -2.0 * i / 64);
      cr_assert(worst_at(x) < 1, "position %ld, pair %d: %g ulp", (long)pos, i, worst_at(x));
    }
}

Test(host_trig, exact_at_zero_and_on_the_circle)
{
  double s, c;
  tn_sincos(0, &s, &c);
  cr_expect(s == 0 && c == 1);
  uint64_t state = 3;
  for (int i = 0; i < 10000; i++) {
    double x = uniform(&state) * 1000, s2, c2;
    tn_sincos(x, &s, &c);
    tn_sincos(-x, &s2, &c2);
    cr_assert(s2 == -s && c2 == c, "x = %g: not odd and even", x);
    cr_assert(fabs(s * s + c * c - 1) < 1e-15, "x = %g", x);
  }
}
