/* linear: four outputs at a time, so that a row of x is read once for all four. */
#include "linear.h"

#include <string.h>

/* Two accumulators side by side: the four of linear.h are {a0, a1} and {a2, a3}. */
typedef double pair __attribute__((vector_size(16)));

static inline pair load(const double *p)
{
  pair v;
  memcpy(&v, p, sizeof v);
  return v;
}

/* One part of all four outputs: columns [0, n), output o at w + o * k. */
static void part4(const double *w, int64_t k, const float *x, int64_t n, float *out)
{
  pair lo[TNK_REF_OUTPUTS] = {{0}}, hi[TNK_REF_OUTPUTS] = {{0}};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const pair x01 = {(double)x[i], (double)x[i + 1]}, x23 = {(double)x[i + 2], (double)x[i + 3]};
#pragma GCC unroll 4
    for (int o = 0; o < TNK_REF_OUTPUTS; o++) {
      lo[o] += load(w + o * k + i) * x01;
      hi[o] += load(w + o * k + i + 2) * x23;
    }
  }
  for (int o = 0; o < TNK_REF_OUTPUTS; o++) {
    double a[4] = {lo[o][0], lo[o][1], hi[o][0], hi[o][1]};
    for (int64_t j = 0; i + j < n; j++) a[j] += w[o * k + i + j] * (double)x[i + j];
    out[o] = (float)((a[0] + a[1]) + (a[2] + a[3]));
  }
}

void tnk_ref_linear(const double *w, const float *x, int64_t k, uint32_t segments, float *part)
{
  const int64_t n = k / (int64_t)segments;
  for (uint32_t s = 0; s < segments; s++) part4(w + s * n, k, x + s * n, n, part + s * TNK_REF_OUTPUTS);
}

float tnk_ref_segsum(const float *part, uint32_t segments, int64_t stride)
{
  float sum = part[0];
  for (uint32_t s = 1; s < segments; s++) sum += part[s * stride];
  return sum;
}
