/* order_rows: rows in f32. */
#include "order_rows.h"

#include <math.h>

#include "order_math.h"

void tnk_order_norm(const float *x, const float *w, int64_t n, float eps, float *y)
{
  float lane[16] = {0};
  for (int64_t i = 0; i < n; i++) lane[i % 16] = fmaf(x[i], x[i], lane[i % 16]);
  const float inverse = 1.0f / sqrtf(tnk_order_lanes(lane) / (float)n + eps);
  for (int64_t i = 0; i < n; i++) {
    y[i] = x[i] * inverse;
    if (w) y[i] = y[i] * w[i];
  }
}

void tnk_order_glu(float (*act)(float), const float *a, const float *b, int64_t n, float *y)
{
  for (int64_t i = 0; i < n; i++) y[i] = (act ? act(a[i]) : a[i]) * b[i];
}

void tnk_order_rope(const float *x, int64_t d, int64_t dims, bool interleaved, const float *cos, const float *sin,
                    float *y)
{
  const int64_t first = interleaved ? 2 : 1, apart = interleaved ? 1 : dims / 2;
  for (int64_t i = 0; i < dims / 2; i++) {
    const float a = x[first * i], b = x[first * i + apart];
    y[first * i] = a * cos[i] - b * sin[i];
    y[first * i + apart] = b * cos[i] + a * sin[i];
  }
  for (int64_t i = dims; i < d; i++) y[i] = x[i];
}
