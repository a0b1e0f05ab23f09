/* norm: root mean square normalisation of one span. */
#include "norm.h"

#include <math.h>

void tnk_ref_norm(const float *x, const float *w, int64_t n, double eps, float *y)
{
  double lane[16] = {0};
  for (int64_t i = 0; i < n; i++) lane[i % 16] += (double)x[i] * (double)x[i];
  for (int half = 8; half; half /= 2) {
    for (int j = 0; j < half; j++) lane[j] += lane[j + half];
  }
  const double rms = sqrt(lane[0] / (double)n + eps);
  for (int64_t i = 0; i < n; i++) y[i] = (float)((double)x[i] / rms * (w ? (double)w[i] : 1.0));
}
