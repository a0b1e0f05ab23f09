/* linear: y = x w^T with double accumulation, the oracle of every matmul.
 *
 * Order: k is cut into `segments` equal parts. In each part four accumulators take the columns j, j + 4, j + 8, ... and
 * are joined as (a0 + a1) + (a2 + a3); the part is rounded to f32. Nothing depends on how many rows or outputs a call
 * has. Tests: tests/backend/test_ref_linear.c */
#ifndef TN_KERNELS_REF_LINEAR_H
#define TN_KERNELS_REF_LINEAR_H

#include <stdint.h>

enum { TNK_REF_OUTPUTS = 4 }; /* weight rows that one call multiplies with */

/* part[s * TNK_REF_OUTPUTS + o] = sum over part s of x[i] w[o][i]; w is [TNK_REF_OUTPUTS][k], x is [k]. */
void tnk_ref_linear(const double *w, const float *x, int64_t k, uint32_t segments, float *part);

/* The parts [segments] of one output, stride apart, added left to right in f32. */
float tnk_ref_segsum(const float *part, uint32_t segments, int64_t stride);

#endif
