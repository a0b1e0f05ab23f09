/* norm: y = x / sqrt(mean(x^2) + eps) * w, with double accumulation.
 *
 * Order: 16 lanes, lane j takes the columns j, j + 16, ...; lanes are joined by the fixed tree 8, 4, 2, 1; the sum is
 * divided by n, eps added, square root, then every column is divided. Tests: tests/backend/test_ref_rows.c */
#ifndef TN_KERNELS_REF_NORM_H
#define TN_KERNELS_REF_NORM_H

#include <stdint.h>

/* x, y [n]; w [n] or NULL: ones. x may be y. */
void tnk_ref_norm(const float *x, const float *w, int64_t n, double eps, float *y);

#endif
