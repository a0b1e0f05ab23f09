/* glu: gated activations. */
#include "glu.h"

#include <math.h>

double tnk_ref_silu(double x) { return x / (1.0 + exp(-x)); }

double tnk_ref_gelu_tanh(double x)
{
  const double sqrt_2_over_pi = 0.79788456080286535588;
  return 0.5 * x * (1.0 + tanh(sqrt_2_over_pi * (x + 0.044715 * x * x * x)));
}

double tnk_ref_softcap(double x, double cap) { return cap * tanh(x / cap); }

void tnk_ref_glu(double (*act)(double), const float *a, const float *b, int64_t n, float *y)
{
  for (int64_t i = 0; i < n; i++) y[i] = (float)((act ? act(a[i]) : (double)a[i]) * (double)b[i]);
}
