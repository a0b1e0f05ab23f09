/* merge: joins attention outputs over disjoint sets of keys by their log-sum-exp.
 *
 * o = sum_p exp(lse_p - lse) o_p with lse = log sum_p exp(lse_p); parts are added in order, in double. A part that saw
 * nothing has lse = -inf and is skipped; if none saw anything the output is 0. Tests: tests/backend/test_ref_rows.c */
#ifndef TN_KERNELS_REF_MERGE_H
#define TN_KERNELS_REF_MERGE_H

#include <stdint.h>

/* o: part p of this head at o + p * o_stride, [d]; lse: part p's at lse[p * lse_stride]. out [d]; out_lse or NULL. */
void tnk_ref_merge(const float *o, int64_t o_stride, const float *lse, int64_t lse_stride, uint32_t parts, int64_t d,
                   float *out, float *out_lse);

#endif
