/* merge: attention parts joined by their lse. */
#include "merge.h"

#include <math.h>

void tnk_ref_merge(const float *o, int64_t o_stride, const float *lse, int64_t lse_stride, uint32_t parts, int64_t d,
                   float *out, float *out_lse)
{
  double max = -INFINITY, sum = 0;
  for (uint32_t p = 0; p < parts; p++) max = fmax(max, lse[p * lse_stride]);
  for (uint32_t p = 0; p < parts; p++) {
    if (lse[p * lse_stride] > -INFINITY) sum += exp(lse[p * lse_stride] - max);
  }
  for (int64_t i = 0; i < d; i++) {
    double x = 0;
    for (uint32_t p = 0; p < parts; p++) {
      if (lse[p * lse_stride] > -INFINITY) x += exp(lse[p * lse_stride] - max) * (double)o[p * o_stride + i];
    }
    out[i] = sum > 0 ? (float)(x / sum) : 0.0f;
  }
  if (out_lse) *out_lse = sum > 0 ? (float)(max + log(sum)) : -INFINITY;
}
