/* int8: what `activations = int8` makes of the input of a LINEAR.
 *
 * Per block of 32 columns: a = max |x|, s = a / 127 in f32, q = clamp(rne(x * (127 / a)), -127, 127), y = s q rounded to
 * f32; a = 0 gives zeros. A shorter last block counts as a block. Tests: tests/backend/test_ref_linear.c */
#ifndef TN_KERNELS_REF_INT8_H
#define TN_KERNELS_REF_INT8_H

#include <stdint.h>

/* x, y [n], may be the same. */
void tnk_ref_int8(const float *x, int64_t n, float *y);

#endif
