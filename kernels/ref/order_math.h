/* order_math: the functions of one number, in f32 and step by step as NUMERICS.md writes them: the same bits as any backend
 * that follows it.
 *
 *   exp   c = x clamped to [-87, 88], n = rne(c log2 e), r = c - n ln 2 in two steps, e^x = 2^n (1 + (r + r^2 p(r)));
 *         0 below -87
 *   tanh  x + x z p(z), z = x^2, below 0.625; 1 - 2 / (e^(2|x|) + 1) with the sign of x above
 *   log   x = 2^n y, y in [sqrt(1/2), sqrt(2)), u = y - 1, n ln 2 + u - u^2 / 2 + u^3 p(u); of normal positive numbers
 *   silu  x / (1 + e^-x)        gelu  x / (1 + e^v), v = -2 sqrt(2 / pi) (x + 0.044715 x^3)
 *   cap   cap tanh(x / cap)
 * Polynomials by Horner's rule, each step one fmaf. A NaN gives a NaN. Tests: tests/backend/test_ref_order.c */
#ifndef TN_KERNELS_REF_ORDER_MATH_H
#define TN_KERNELS_REF_ORDER_MATH_H

float tnk_order_exp(float x);
float tnk_order_tanh(float x);
float tnk_order_log(float x);
float tnk_order_silu(float x);
float tnk_order_gelu(float x);
float tnk_order_softcap(float x, float cap);

/* Lanes [16] added up by the fixed tree: 8 apart, then 4, 2, 1. Overwrites them. */
float tnk_order_lanes(float *lane);

#endif
