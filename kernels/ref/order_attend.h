/* order_attend: softmax attention of one query in f32 and in the order of NUMERICS.md: tiles of 64 ranks, joined in pairs.
 *
 *   score   s = (fmaf chain over the columns of q and k, in order) scale, then cap tanh(s / cap) when cap > 0
 *   tile    m = max s_j, p_j = e^(s_j - m); rank j is lane j % 16: a lane adds its p in rank order, lanes are joined by the
 *           tree 8, 4, 2, 1 to l; o = fmaf chain over the visible ranks in order of p_j v_j
 *   join    m = max(m1, m2), e_i = e^(m_i - m), l = fmaf(l2, e2, l1 e1), o = fmaf(o2, e2, o1 e1)
 *   finish  out = o (1 / l), lse = m + log l            share  e^(s - m) / l with the m and l of all tiles
 *   merge   of parts: top = max lse, sum = sum of e^(lse_p - top) in order, out = fmaf chain of (e^(lse_p - top) / sum) o_p
 *           in order, lse = top + log sum; parts that saw nothing are skipped
 * No key: out = 0, lse = -inf. Tests: tests/backend/test_ref_order.c */
#ifndef TN_KERNELS_REF_ORDER_ATTEND_H
#define TN_KERNELS_REF_ORDER_ATTEND_H

#include <stdbool.h>
#include <stdint.h>

typedef struct tnk_order_part { /* a tile, or a subtree of them */
  bool any;                     /* a key is visible; else m, l and o say nothing */
  float m, l;
  float *o; /* [dv], the caller's */
} tnk_order_part;

float tnk_order_score(const float *q, const float *k, int64_t d, float scale, float cap);

/* The partial of n visible keys of a tile in rank order: rank[i] in [0, 64), score[i], which becomes p, and v[i] [dv]. */
void tnk_order_tile(int n, const int *rank, float *score, const float *const *v, int64_t dv, tnk_order_part *out);

/* a becomes the join of a and b, whose ranks are higher. */
void tnk_order_join(tnk_order_part *a, const tnk_order_part *b, int64_t dv);

/* out [dv]; lse or NULL. */
void tnk_order_finish(const tnk_order_part *p, int64_t dv, float *out, float *lse);

float tnk_order_share(const tnk_order_part *p, float score);

/* As tnk_ref_merge. */
void tnk_order_merge(const float *o, int64_t o_stride, const float *lse, int64_t lse_stride, uint32_t parts, int64_t d,
                     float *out, float *out_lse);

#endif
