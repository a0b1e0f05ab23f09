/* rope: rotates the first `dims` columns of one head by angles whose cosines and sines are given.
 *
 * Pair i is (2i, 2i + 1) when interleaved, (i, i + dims / 2) otherwise: (a, b) becomes (a c - b s, b c + a s), in double
 * and rounded once. Columns from dims on are copied. Tests: tests/backend/test_ref_rows.c */
#ifndef TN_KERNELS_REF_ROPE_H
#define TN_KERNELS_REF_ROPE_H

#include <stdbool.h>
#include <stdint.h>

/* x, y [d], may be the same; cos, sin [dims / 2]. */
void tnk_ref_rope(const float *x, int64_t d, int64_t dims, bool interleaved, const float *cos, const float *sin,
                  float *y);

#endif
