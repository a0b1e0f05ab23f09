/* verify: see verify.h. */
#include "verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../host/rng.h"

struct tn_verifier {
  uint32_t n_vocab;
  tn_sampler *sampler;
  double *p, *q; /* [V] */
};

tn_status tn_verifier_new(uint32_t n_vocab, tn_verifier **out, tn_err *err)
{
  *out = NULL;
  tn_verifier *v = tn_zalloc(1, sizeof *v);
  if (!v) return tn_fail(err, TN_E_NOMEM, "no memory for the verifier");
  v->n_vocab = n_vocab;
  tn_status st = tn_sampler_new(n_vocab, &v->sampler, err);
  v->p = tn_zalloc(n_vocab, sizeof *v->p);
  v->q = tn_zalloc(n_vocab, sizeof *v->q);
  if (st == TN_OK && (!v->p || !v->q)) st = tn_fail(err, TN_E_NOMEM, "no memory for the verifier");
  if (st != TN_OK) {
    tn_verifier_free(v);
    return st;
  }
  *out = v;
  return TN_OK;
}

void tn_verifier_free(tn_verifier *v)
{
  if (!v) return;
  tn_sampler_free(v->sampler);
  free(v->p);
  free(v->q);
  free(v);
}

/* p = norm(max(p - q, 0)); where nothing is left (p == q but for rounding) p stays. */
static void residual(double *p, const double *q, uint32_t n)
{
  double sum = 0;
  for (uint32_t i = 0; i < n; i++) {
    double d = p[i] - q[i];
    sum += d > 0 ? d : 0;
  }
  if (!(sum > 0)) return;
  for (uint32_t i = 0; i < n; i++) p[i] = p[i] > q[i] ? (p[i] - q[i]) / sum : 0;
}

/* q sums to 1 again; a law without mass stays. */
static void normalise(double *q, uint32_t n)
{
  double sum = 0;
  for (uint32_t i = 0; i < n; i++) sum += q[i];
  if (!(sum > 0)) return;
  for (uint32_t i = 0; i < n; i++) q[i] /= sum;
}

/* The law of child i into q. Drafters keep it in f32, where it rarely sums to 1: the normalised one is drawn from. */
static void load_law(double *q, uint32_t n, const float *law)
{
  for (uint32_t t = 0; t < n; t++) q[t] = (double)law[t];
  normalise(q, n);
}

int32_t tn_accept_child(double *p, uint32_t n_vocab, uint32_t q_kind, uint32_t n, const int32_t *x,
                        const float *const *q, double *q_work, const double *u)
{
  for (uint32_t i = 0; i < n; i++) {
    if (q_kind == TN_Q_IID || i == 0) load_law(q_work, n_vocab, q[i]);
    double qx = q_work[x[i]], px = p[x[i]];
    if (qx > 0 && u[i] * qx < px) return (int32_t)i;
    residual(p, q_work, n_vocab);
    if (q_kind != TN_Q_WOR) continue;
    q_work[x[i]] = 0;
    normalise(q_work, n_vocab);
  }
  return -1;
}

static uint32_t children(const tn_tree *t, int32_t node, int32_t *out)
{
  uint32_t n = 0;
  for (uint32_t i = 0; i < t->n; i++)
    if (t->parent[i] == node) out[n++] = (int32_t)i;
  return n;
}

static int32_t child_with(const tn_tree *t, const int32_t *kids, uint32_t n, int32_t token)
{
  for (uint32_t i = 0; i < n; i++)
    if (t->token[kids[i]] == token) return kids[i];
  return -1;
}

static double draw_u(const tn_verify_in *in, uint32_t depth, uint32_t purpose, uint32_t index)
{
  return tn_rng_uniform(in->request, (uint64_t)(in->pos + depth), purpose, index);
}

/* Ratio rules: tries the children in order; -1 and *next when none stands. */
static int32_t try_ratio(tn_verifier *v, const tn_verify_in *in, const tn_law *law, const int32_t *kids, uint32_t n,
                         uint32_t depth, int32_t *next)
{
  int32_t x[TN_MAX_NODES];
  const float *q[TN_MAX_NODES];
  double u[TN_MAX_NODES];
  memset(v->p, 0, v->n_vocab * sizeof *v->p);
  for (uint32_t i = 0; i < law->n; i++) v->p[law->id[i]] = law->p[i];
  for (uint32_t i = 0; i < n; i++) {
    x[i] = in->tree->token[kids[i]];
    q[i] = in->tree->q[kids[i]];
    u[i] = draw_u(in, depth, TN_RNG_ACCEPT, i);
  }
  int32_t got = tn_accept_child(v->p, v->n_vocab, in->tree->q_kind, n, x, q, v->q, u);
  if (got >= 0) return kids[got];
  double at = 0, r = draw_u(in, depth, TN_RNG_RESIDUAL, 0);
  int32_t last = 0;
  for (uint32_t t = 0; t < v->n_vocab; t++) {
    if (v->p[t] <= 0) continue;
    last = (int32_t)t;
    at += v->p[t];
    if (r < at) break;
  }
  *next = last;
  return -1;
}

/* Typical acceptance: the likeliest child over the threshold, else a draw. */
static int32_t try_typical(const tn_verify_in *in, const tn_law *law, const int32_t *kids, uint32_t n)
{
  double h = 0, best_p = 0;
  int32_t best = -1;
  for (uint32_t i = 0; i < law->n; i++) h -= law->p[i] * log(law->p[i] + 1e-5);
  double bar = in->delta * exp(-h);
  if (in->eps < bar) bar = in->eps;
  for (uint32_t i = 0; i < n; i++) {
    double p = tn_law_p(law, in->tree->token[kids[i]]);
    if (p > bar && p > best_p) best_p = p, best = kids[i];
  }
  return best;
}

void tn_verify(tn_verifier *v, const tn_verify_in *in, tn_verify_out *out)
{
  int32_t kids[TN_MAX_NODES], path_tokens[TN_MAX_NODES], node = -1;
  tn_history h = *in->history;
  h.path = path_tokens;
  out->n_path = 0;
  for (;;) {
    uint32_t depth = out->n_path;
    h.n_path = depth;
    const float *row = in->logits + (size_t)(node + 1) * in->n_vocab;
    tn_law law = tn_sampler_law(v->sampler, in->sampling, row, &h);
    uint32_t n = children(in->tree, node, kids);
    bool greedy = in->sampling->temperature == 0;
    int32_t child = -1;
    if (!greedy && n > 0 && in->mode == TN_VERIFY_TYPICAL)
      child = try_typical(in, &law, kids, n);
    else if (!greedy && n > 0 && in->tree->q_kind != TN_Q_DELTA) {
      child = try_ratio(v, in, &law, kids, n, depth, &out->next);
      if (child < 0) return;
    }
    if (child < 0) {
      out->next = greedy ? law.id[0] : tn_law_draw(&law, draw_u(in, depth, TN_RNG_SAMPLE, 0));
      if (in->mode != TN_VERIFY_TYPICAL || greedy) child = child_with(in->tree, kids, n, out->next);
    }
    if (child < 0) return;
    path_tokens[out->n_path] = in->tree->token[child];
    out->path[out->n_path++] = child;
    node = child;
  }
}
