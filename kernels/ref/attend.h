/* attend: softmax attention of one query over the keys it sees, in double: the plain two passes.
 *
 *   s_j = q . k_j * scale, then cap tanh(s_j / cap) when cap > 0
 *   m = max s_j;   l = sum exp(s_j - m);   out = sum exp(s_j - m) v_j / l;   lse = m + log l
 * The caller walks the visible keys in rank order, once with _max and once with _add, and a third time with _share when
 * it wants the probabilities. Sums therefore depend on the visible keys and their order only: not on where they are
 * stored, on what else is in the batch or on how the walk is cut. No key: out = 0, lse = -inf.
 * Tests: tests/backend/test_ref_attend.c */
#ifndef TN_KERNELS_REF_ATTEND_H
#define TN_KERNELS_REF_ATTEND_H

#include <stdint.h>

typedef struct tnk_softmax {
  double max, sum;
  double *o; /* [dv], the caller's */
} tnk_softmax;

/* Score of query q [d] with key k [d]: the products of columns j, j + 4, ... in four sums, joined (0 + 1) + (2 + 3). */
double tnk_ref_score(const float *q, const float *k, int64_t d, double scale, double cap);

void tnk_ref_softmax_begin(tnk_softmax *st, double *o, int64_t dv);
void tnk_ref_softmax_max(tnk_softmax *st, double s);
void tnk_ref_softmax_add(tnk_softmax *st, double s, const float *v, int64_t dv);
double tnk_ref_softmax_share(const tnk_softmax *st, double s);
/* out [dv]; lse or NULL. */
void tnk_ref_softmax_end(const tnk_softmax *st, int64_t dv, float *out, float *lse);

#endif
