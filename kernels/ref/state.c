/* state: feature maps, the recurrence and its reading. */
#include "state.h"

#include <math.h>

static void favor(const float *w, int64_t n_features, const float *x, int64_t d, double *phi)
{
  const double shrink = 1.0 / sqrt(sqrt((double)d));
  double half_norm = 0;
  for (int64_t j = 0; j < d; j++) half_norm += 0.5 * (x[j] * shrink) * (x[j] * shrink);
  for (int64_t f = 0; f < n_features; f++) {
    double dot = 0;
    for (int64_t j = 0; j < d; j++) dot += (double)w[f * d + j] * (x[j] * shrink);
    phi[f] = exp(dot - half_norm) / sqrt((double)n_features);
  }
}

void tnk_ref_phi(const float *w, int64_t n_features, const float *x, int64_t d, double *phi)
{
  if (w) {
    favor(w, n_features, x, d, phi);
    return;
  }
  for (int64_t i = 0; i < d; i++) phi[i] = x[i] > 0 ? (double)x[i] + 1.0 : exp(x[i]);
}

void tnk_ref_state_add(double *state, const double *phi, int64_t n_features, const float *v, int64_t dv)
{
  double *z = state + n_features * dv;
  for (int64_t f = 0; f < n_features; f++) {
    for (int64_t j = 0; j < dv; j++) state[f * dv + j] += phi[f] * (double)v[j];
    z[f] += phi[f];
  }
}

void tnk_ref_state_read(const double *state, const double *phi_q, int64_t n_features, int64_t dv, double *num,
                        double *den)
{
  const double *z = state + n_features * dv;
  *den = 0;
  for (int64_t j = 0; j < dv; j++) num[j] = 0;
  for (int64_t f = 0; f < n_features; f++) {
    for (int64_t j = 0; j < dv; j++) num[j] += phi_q[f] * state[f * dv + j];
    *den += phi_q[f] * z[f];
  }
}

void tnk_ref_state_tail(const double *phi_q, const double *phi_k, int64_t n_features, const float *v, int64_t dv,
                        double *num, double *den)
{
  double w = 0;
  for (int64_t f = 0; f < n_features; f++) w += phi_q[f] * phi_k[f];
  for (int64_t j = 0; j < dv; j++) num[j] += w * (double)v[j];
  *den += w;
}
