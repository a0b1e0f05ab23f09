/* verify: which drafted tokens stand, and what token follows them. Losslessness is decided here, for every drafter.
 *
 * Rules by how the children of a node were made (T2, T3; Leviathan et al. 2023; Miao et al., SpecInfer, 2024):
 *   greedy    follow the child that is the arg max of its parent's row
 *   delta     deterministic children: draw t from p; follow the child that is t, else emit t. The draw is the one that
 *             plain decoding makes at that position, so the text is the same, not only its law
 *   iid       children drawn independently from q: accept with min(1, p/q), else p = norm(max(p - q, 0)), next child
 *   wor       drawn without replacement: as iid, then q(x) = 0 and q renormalised
 *   typical   accept x when p(x) > min(eps, delta exp(-H(p))) (Medusa, Cai et al. 2024): not lossless */
#ifndef TN_CORE_ENGINE_VERIFY_H
#define TN_CORE_ENGINE_VERIFY_H

#include "sample.h"

enum { TN_VERIFY_GREEDY = 0, TN_VERIFY_LOSSLESS = 1, TN_VERIFY_TYPICAL = 2 };

#define TN_MAX_NODES 256u
#define TN_NODE_DEAD (-2) /* parent of a node that has a row and can not be accepted */

typedef struct tn_tree {         /* drafted nodes of one sequence */
  uint32_t n, q_kind;            /* TN_Q_* */
  const int32_t *token, *parent; /* [n]; parent -1: the pending token; or TN_NODE_DEAD */
  const float *const *q;         /* [n] law that the node was drawn from, or NULL entries */
} tn_tree;

typedef struct tn_verify_in {
  uint32_t mode, n_vocab;
  const tn_sampling *sampling;
  const tn_history *history; /* committed and pending tokens, no path */
  uint64_t request;
  int64_t pos;         /* text position of the token that follows the pending one */
  const float *logits; /* [1 + n][n_vocab]: row 0 of the pending token, row 1 + i of node i */
  const tn_tree *tree;
  double eps, delta; /* typical */
} tn_verify_in;

typedef struct tn_verify_out {
  uint32_t n_path, reserved0;
  int32_t path[TN_MAX_NODES]; /* accepted nodes, root to leaf */
  int32_t next;               /* token that follows them */
} tn_verify_out;

typedef struct tn_verifier tn_verifier;
tn_status tn_verifier_new(uint32_t n_vocab, tn_verifier **out, tn_err *err);
void tn_verifier_free(tn_verifier *v);

/* tree->n 0 is plain sampling. */
void tn_verify(tn_verifier *v, const tn_verify_in *in, tn_verify_out *out);

/* One node's decision over dense laws, exposed so that a test can enumerate it: p[V] is changed in place (it becomes the
 * residual); returns the index of the accepted child or -1. u[i] decides child i. child tokens x[n], laws q[i], which are
 * normalised; q_work: [V]. */
int32_t tn_accept_child(double *p, uint32_t n_vocab, uint32_t q_kind, uint32_t n, const int32_t *x,
                        const float *const *q, double *q_work, const double *u);

#endif
