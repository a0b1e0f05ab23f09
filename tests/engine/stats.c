/* stats: see stats.h. */
#include "stats.h"

#include <math.h>

double chi_square(const uint64_t *n, const double *p, uint32_t k)
{
  double total = 0, sum = 0, rest_n = 0, rest_p = 0;
  uint32_t classes = 0;
  for (uint32_t i = 0; i < k; i++) total += (double)n[i];
  for (uint32_t i = 0; i < k; i++) {
    double want = p[i] * total;
    if (p[i] <= 0 && n[i] > 0) return INFINITY;
    if (want < 5) {
      rest_n += (double)n[i];
      rest_p += want;
      continue;
    }
    sum += ((double)n[i] - want) * ((double)n[i] - want) / want;
    classes++;
  }
  if (rest_p >= 1) {
    sum += (rest_n - rest_p) * (rest_n - rest_p) / rest_p;
    classes++;
  }
  if (classes < 2) return 0;
  double f = classes - 1, c = 2 / (9 * f);
  return (cbrt(sum / f) - (1 - c)) / sqrt(c);
}

double plain_uniform(uint64_t *state)
{
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (double)(*state >> 11) * 0x1p-53;
}

void random_law(uint64_t *state, uint32_t k, double *p)
{
  double sum = 0;
  for (uint32_t i = 0; i < k; i++) sum += p[i] = 0.02 - log(1 - plain_uniform(state));
  for (uint32_t i = 0; i < k; i++) p[i] /= sum;
}

void dyadic_law(uint64_t *state, uint32_t k, float *p)
{
  double law[64];
  uint32_t left = 1024;
  random_law(state, k, law);
  for (uint32_t i = 0; i + 1 < k; i++) {
    uint32_t n = 1 + (uint32_t)(law[i] * (1024 - k));
    p[i] = (float)n / 1024;
    left -= n;
  }
  p[k - 1] = (float)left / 1024;
}
