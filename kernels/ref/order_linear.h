/* order_linear: matrix products in f32 and in the order of NUMERICS.md, one output of one row at a time.
 *
 *   8 bits  per block of 32 columns a = max |x|, s = a / 127, q = rne(clamp(x (127 / a), -127, 127)); a = 0 gives zeros.
 *           For each block in order, and each of its sums:
 *             t = sum of weight codes times q             whole numbers, exact
 *             y = fmaf(t, ws s, y)                        ws s rounded
 *             y = fmaf(wm, s sum of q, y)                 where the weights have offsets; s sum rounded
 *   floats  y = fmaf(x, w, y) for each column in order. With 8-bit activations x is s q
 * Both begin at 0 in each segment; order_codes.h says what code, ws and wm are. Tests: tests/backend/test_ref_order.c */
#ifndef TN_KERNELS_REF_ORDER_LINEAR_H
#define TN_KERNELS_REF_ORDER_LINEAR_H

#include "order_codes.h"

typedef struct tnk_order_cell { /* activations of a block of 32 columns; those past the row's end are 0 */
  int16_t q[32];
  float s;
  int32_t half[2]; /* sums of q[0..15] and q[16..31] */
} tnk_order_cell;

/* x [k] to cells [ceil(k / 32)]; and back to f32 x^ [k]. */
void tnk_order_quant(const float *x, int64_t k, tnk_order_cell *out);
void tnk_order_dequant(const tnk_order_cell *c, int64_t k, float *x);

/* n blocks of a weight row times those of an activation row. */
float tnk_order_dot8(tnk_order_kind kind, const tnk_order_block *w, const tnk_order_cell *a, int64_t n);

/* n columns of both. */
float tnk_order_dot(const float *w, const float *x, int64_t n);

#endif
