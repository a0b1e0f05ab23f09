/* glu: y = act(a) * b, and the functions of one number: SiLU, GELU (tanh form), soft cap. In double, rounded once.
 * Tests: tests/backend/test_ref_rows.c */
#ifndef TN_KERNELS_REF_GLU_H
#define TN_KERNELS_REF_GLU_H

#include <stdint.h>

double tnk_ref_silu(double x);                /* x / (1 + exp(-x)) */
double tnk_ref_gelu_tanh(double x);           /* x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) */
double tnk_ref_softcap(double x, double cap); /* cap tanh(x / cap) */

/* y[i] = act(a[i]) * b[i], all [n]; act NULL: the identity. */
void tnk_ref_glu(double (*act)(double), const float *a, const float *b, int64_t n, float *y);

#endif
