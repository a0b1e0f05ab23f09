/* order_rows: records that treat each row on its own, in f32 and in the order of NUMERICS.md.
 *
 *   norm   16 lanes of fmaf(x, x, lane), lane i % 16 takes column i; joined by the tree 8, 4, 2, 1;
 *          inv = 1 / sqrt(sum / n + eps); y = x inv, then times w
 *   glu    y = act(a) b                       rope  (a, b) becomes (a c - b s, b c + a s), each product rounded
 * Tests: tests/backend/test_ref_order.c */
#ifndef TN_KERNELS_REF_ORDER_ROWS_H
#define TN_KERNELS_REF_ORDER_ROWS_H

#include <stdbool.h>
#include <stdint.h>

/* x, y [n]; w [n] or NULL: ones. x may be y. */
void tnk_order_norm(const float *x, const float *w, int64_t n, float eps, float *y);

/* y[i] = act(a[i]) * b[i], all [n]; act NULL: the identity. */
void tnk_order_glu(float (*act)(float), const float *a, const float *b, int64_t n, float *y);

/* x, y [d], may be the same; cos, sin [dims / 2]; pairs as in rope.h. */
void tnk_order_rope(const float *x, int64_t d, int64_t dims, bool interleaved, const float *cos, const float *sin,
                    float *y);

#endif
