/* rope: rotary position embedding of one head. */
#include "rope.h"

void tnk_ref_rope(const float *x, int64_t d, int64_t dims, bool interleaved, const float *cos, const float *sin,
                  float *y)
{
  const int64_t first = interleaved ? 2 : 1, apart = interleaved ? 1 : dims / 2;
  for (int64_t i = 0; i < dims / 2; i++) {
    const double a = x[first * i], b = x[first * i + apart], c = cos[i], s = sin[i];
    y[first * i] = (float)(a * c - b * s);
    y[first * i + apart] = (float)(b * c + a * s);
  }
  for (int64_t i = dims; i < d; i++) y[i] = x[i];
}
