/* order_linear: one output at a time. */
#include "order_linear.h"

#include <math.h>

static void quant_block(const float *x, int64_t n, tnk_order_cell *out)
{
  float a = 0.0f;
  for (int64_t i = 0; i < n; i++) a = fabsf(x[i]) > a ? fabsf(x[i]) : a;
  const float inverse = a > 0.0f ? 127.0f / a : 0.0f;
  *out = (tnk_order_cell){.s = a / 127.0f};
  for (int64_t i = 0; i < n; i++) {
    float v = x[i] * inverse;
    v = v > -127.0f ? v : -127.0f;
    v = v < 127.0f ? v : 127.0f;
    out->q[i] = (int16_t)rintf(v);
    out->half[i / 16] += out->q[i];
  }
}

void tnk_order_quant(const float *x, int64_t k, tnk_order_cell *out)
{
  for (int64_t i = 0; i < k; i += 32) quant_block(x + i, k - i < 32 ? k - i : 32, out++);
}

void tnk_order_dequant(const tnk_order_cell *c, int64_t k, float *x)
{
  for (int64_t i = 0; i < k; i++) x[i] = c[i / 32].s * (float)c[i / 32].q[i % 32];
}

/* Sum over 16 columns. */
static int32_t sixteen(const int16_t *w, const int16_t *a)
{
  int32_t t = 0;
  for (int i = 0; i < 16; i++) t += w[i] * a[i];
  return t;
}

float tnk_order_dot8(tnk_order_kind kind, const tnk_order_block *w, const tnk_order_cell *a, int64_t n)
{
  float y = 0.0f;
  for (; n > 0; n--, w++, a++) {
    int32_t t[2] = {sixteen(w->q, a->q), sixteen(w->q + 16, a->q + 16)}, sum[2] = {a->half[0], a->half[1]};
    if (kind.sums == 1) {
      t[0] += t[1];
      sum[0] += sum[1];
    }
    for (int i = 0; i < kind.sums; i++) {
      y = fmaf((float)t[i], w->s[i] * a->s, y);
      if (kind.min) y = fmaf(w->m[i], a->s * (float)sum[i], y);
    }
  }
  return y;
}

float tnk_order_dot(const float *w, const float *x, int64_t n)
{
  float y = 0.0f;
  for (int64_t i = 0; i < n; i++) y = fmaf(x[i], w[i], y);
  return y;
}
