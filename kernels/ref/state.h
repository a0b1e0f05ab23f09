/* state: recurrent attention of one KV head, in double.
 *
 *   S += phi(k) v^T,  z += phi(k);   o = phi(q) S / (phi(q) z + eps)
 *   ELU1:  phi(x)_i = x_i + 1 for x_i > 0, else exp(x_i);                     F = d features
 *   FAVOR: x' = x / d^(1/4);  phi(x)_i = exp(w_i . x' - |x'|^2 / 2) / sqrt(F), w [F][d]
 * A state is [F][dv] values S followed by [F] values z. Rows enter it in blocks: a block is summed from zero in rank
 * order, then added to the state. Rows behind the last block take part in a read one by one, in rank order.
 * Tests: tests/backend/test_ref_state.c */
#ifndef TN_KERNELS_REF_STATE_H
#define TN_KERNELS_REF_STATE_H

#include <stdint.h>

/* Features of x [d] into phi [F]; w NULL: ELU1, and F = d. */
void tnk_ref_phi(const float *w, int64_t n_features, const float *x, int64_t d, double *phi);

/* state += phi v^T and phi. v [dv]. */
void tnk_ref_state_add(double *state, const double *phi, int64_t n_features, const float *v, int64_t dv);

/* Numerator num [dv] and denominator *den of a read: of the state, and one more row behind it. */
void tnk_ref_state_read(const double *state, const double *phi_q, int64_t n_features, int64_t dv, double *num,
                        double *den);
void tnk_ref_state_tail(const double *phi_q, const double *phi_k, int64_t n_features, const float *v, int64_t dv,
                        double *num, double *den);

#endif
