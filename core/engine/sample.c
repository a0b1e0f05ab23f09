/* sample: see sample.h. */
#include "sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SORT 1024u /* candidates sorted before all of them are */

typedef struct cand {
  double logit;
  int32_t id;
  uint32_t reserved0;
} cand;

struct tn_sampler {
  uint32_t n_vocab;
  double *logit;  /* [V] after bias and penalties */
  cand *c;        /* [V] */
  int32_t *id;    /* [V] of the law */
  double *p;      /* [V] */
  uint32_t *seen; /* [V] occurrences in the penalised history; all zero between calls */
};

tn_sampling tn_sampling_default(void)
{
  return (tn_sampling){.temperature = 0, .top_p = 1, .repetition = 1, .penalty_last = 64};
}

tn_status tn_sampling_check(const tn_sampling *s, uint32_t n_vocab, tn_err *err)
{
  if (!(s->temperature >= 0 && s->temperature <= 1e6))
    return tn_fail(err, TN_E_ARG, "temperature = %g: must be in [0, 1e6]", s->temperature);
  if (!(s->top_p >= 0 && s->top_p <= 1)) return tn_fail(err, TN_E_ARG, "top_p = %g: must be in [0, 1]", s->top_p);
  if (!(s->min_p >= 0 && s->min_p < 1)) return tn_fail(err, TN_E_ARG, "min_p = %g: must be in [0, 1)", s->min_p);
  if (!(s->repetition > 0 && s->repetition <= 100))
    return tn_fail(err, TN_E_ARG, "repetition penalty = %g: must be in (0, 100]", s->repetition);
  if (!(fabs(s->presence) <= 2))
    return tn_fail(err, TN_E_ARG, "presence penalty = %g: must be in [-2, 2]", s->presence);
  if (!(fabs(s->frequency) <= 2))
    return tn_fail(err, TN_E_ARG, "frequency penalty = %g: must be in [-2, 2]", s->frequency);
  if (s->top_k < 0) return tn_fail(err, TN_E_ARG, "top_k = %d: must be >= 0", s->top_k);
  if (s->penalty_last < -1) return tn_fail(err, TN_E_ARG, "penalty window = %d: must be >= -1", s->penalty_last);
  for (uint32_t i = 0; i < s->n_bias; i++)
    if (s->bias_token[i] < 0 || (uint32_t)s->bias_token[i] >= n_vocab)
      return tn_fail(err, TN_E_ARG, "logit bias for token %d: the vocabulary has %u", s->bias_token[i], n_vocab);
  return TN_OK;
}

tn_status tn_sampler_new(uint32_t n_vocab, tn_sampler **out, tn_err *err)
{
  *out = NULL;
  tn_sampler *s = tn_zalloc(1, sizeof *s);
  if (s) {
    s->n_vocab = n_vocab;
    s->logit = tn_zalloc(n_vocab, sizeof *s->logit);
    s->c = tn_zalloc(n_vocab, sizeof *s->c);
    s->id = tn_zalloc(n_vocab, sizeof *s->id);
    s->p = tn_zalloc(n_vocab, sizeof *s->p);
    s->seen = tn_zalloc(n_vocab, sizeof *s->seen);
  }
  if (!s || !s->logit || !s->c || !s->id || !s->p || !s->seen) {
    tn_sampler_free(s);
    return tn_fail(err, TN_E_NOMEM, "no memory for a sampler over %u tokens", n_vocab);
  }
  *out = s;
  return TN_OK;
}

void tn_sampler_free(tn_sampler *s)
{
  if (!s) return;
  free(s->logit);
  free(s->c);
  free(s->id);
  free(s->p);
  free(s->seen);
  free(s);
}

/* Token i of the penalised window, oldest first; the window is the last `take` of n + n_path tokens. */
static int32_t window_token(const tn_history *h, int64_t take, int64_t i)
{
  int64_t at = h->n + h->n_path - take + i;
  return at < h->n ? h->tokens[at] : h->path[at - h->n];
}

static bool no_penalty(const tn_sampling *how)
{
  return how->repetition == 1 && how->presence == 0 && how->frequency == 0;
}

static void penalise(tn_sampler *s, const tn_sampling *how, const tn_history *h)
{
  int64_t all = h ? h->n + h->n_path : 0,
          take = how->penalty_last < 0 || how->penalty_last > all ? all : how->penalty_last;
  if (no_penalty(how) || take == 0) return;
  for (int64_t i = 0; i < take; i++) {
    int32_t t = window_token(h, take, i);
    if (t >= 0 && (uint32_t)t < s->n_vocab) s->seen[t]++;
  }
  for (int64_t i = 0; i < take; i++) {
    int32_t t = window_token(h, take, i);
    if (t < 0 || (uint32_t)t >= s->n_vocab || s->seen[t] == 0) continue;
    double *x = &s->logit[t];
    *x = *x <= 0 ? *x * how->repetition : *x / how->repetition;
    *x -= how->presence + how->frequency * s->seen[t];
    s->seen[t] = 0;
  }
}

static int by_logit(const void *a, const void *b)
{
  const cand *x = a, *y = b;
  if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
  return x->id < y->id ? -1 : x->id > y->id;
}

/* Moves the k best candidates of n to the front, in no order (quickselect by logit, then id). */
static void select_best(cand *c, uint32_t n, uint32_t k)
{
  uint32_t lo = 0, hi = n;
  while (hi - lo > 1 && k > lo && k < hi) {
    cand pivot = c[lo + (hi - lo - 1) / 2];
    uint32_t i = lo, j = hi - 1;
    for (;;) {
      while (by_logit(&c[i], &pivot) < 0) i++;
      while (by_logit(&c[j], &pivot) > 0) j--;
      if (i >= j) break;
      cand t = c[i];
      c[i++] = c[j];
      c[j--] = t;
    }
    uint32_t cut = j + 1;
    if (k <= cut)
      hi = cut;
    else
      lo = cut;
  }
}

static void sort_best(cand *c, uint32_t n, uint32_t k)
{
  if (k < n) select_best(c, n, k);
  qsort(c, k < n ? k : n, sizeof *c, by_logit);
}

/* How many of the sorted candidates top-p keeps: the fewest whose mass reaches it, at least one. total: mass of all. */
static uint32_t nucleus(const cand *c, uint32_t n, double best, double total, double top_p)
{
  double mass = 0;
  for (uint32_t i = 0; i < n; i++) {
    mass += exp(c[i].logit - best);
    if (mass >= top_p * total) return i + 1;
  }
  return UINT32_MAX;
}

static uint32_t cut_top_p(tn_sampler *s, uint32_t n, double best, double top_p)
{
  double total = 0;
  for (uint32_t i = 0; i < n; i++) total += exp(s->c[i].logit - best);
  uint32_t first = n < FIRST_SORT ? n : FIRST_SORT;
  sort_best(s->c, n, first);
  uint32_t keep = nucleus(s->c, first, best, total, top_p);
  if (keep != UINT32_MAX) return keep;
  qsort(s->c, n, sizeof *s->c, by_logit);
  keep = nucleus(s->c, n, best, total, top_p);
  return keep == UINT32_MAX ? n : keep;
}

static tn_law one_token(tn_sampler *s, int32_t id)
{
  s->id[0] = id;
  s->p[0] = 1;
  return (tn_law){s->id, s->p, 1, 0};
}

static int32_t best_logit(const tn_sampler *s)
{
  int32_t best = 0;
  for (uint32_t i = 1; i < s->n_vocab; i++)
    if (s->logit[i] > s->logit[best] || isnan(s->logit[best])) best = (int32_t)i;
  return best;
}

tn_law tn_sampler_law(tn_sampler *s, const tn_sampling *how, const float *logits, const tn_history *h)
{
  bool greedy = how->temperature == 0 || how->top_p == 0;
  if (greedy && how->n_bias == 0 && no_penalty(how)) return one_token(s, tn_argmax(logits, s->n_vocab));
  for (uint32_t i = 0; i < s->n_vocab; i++) s->logit[i] = (double)logits[i];
  for (uint32_t i = 0; i < how->n_bias; i++) s->logit[how->bias_token[i]] += (double)how->bias[i];
  penalise(s, how, h);
  int32_t top = best_logit(s);
  double best = s->logit[top];
  if (greedy || !isfinite(best)) return one_token(s, top);
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->n_vocab; i++)
    if (s->logit[i] > -INFINITY) s->c[n++] = (cand){s->logit[i], (int32_t)i, 0};
  if (how->top_k > 0 && (uint32_t)how->top_k < n) {
    sort_best(s->c, n, (uint32_t)how->top_k);
    n = (uint32_t)how->top_k;
  }
  if (how->top_p < 1) n = cut_top_p(s, n, best, how->top_p);
  double floor = how->min_p > 0 ? best + log(how->min_p) : -INFINITY, sum = 0;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (s->c[i].logit < floor) continue;
    s->id[kept] = s->c[i].id;
    s->p[kept] = exp((s->c[i].logit - best) / how->temperature);
    sum += s->p[kept++];
  }
  for (uint32_t i = 0; i < kept; i++) s->p[i] /= sum;
  return (tn_law){s->id, s->p, kept, 0};
}

int32_t tn_law_draw(const tn_law *law, double u)
{
  double at = 0;
  for (uint32_t i = 0; i + 1 < law->n; i++) {
    at += law->p[i];
    if (u < at) return law->id[i];
  }
  return law->id[law->n - 1];
}

double tn_law_p(const tn_law *law, int32_t token)
{
  for (uint32_t i = 0; i < law->n; i++)
    if (law->id[i] == token) return law->p[i];
  return 0;
}

/* The largest of n numbers, NaN aside; -inf when there is none. Four sums of four lanes, none waits for another. */
static float largest(const float *x, uint32_t n)
{
  typedef float v4 __attribute__((vector_size(16)));
  typedef int32_t m4 __attribute__((vector_size(16)));
  const float none = -INFINITY;
  v4 top[4];
  float best = none;
  uint32_t i = 0;
  for (int k = 0; k < 4; k++) top[k] = (v4){none, none, none, none};
  for (; i + 16 <= n; i += 16) {
    for (int k = 0; k < 4; k++) {
      v4 y;
      memcpy(&y, x + i + 4 * k, sizeof y);
      m4 more = y > top[k];
      top[k] = (v4)(((m4)y & more) | ((m4)top[k] & ~more));
    }
  }
  for (; i < n; i++) best = x[i] > best ? x[i] : best;
  for (int k = 0; k < 16; k++) best = top[k / 4][k % 4] > best ? top[k / 4][k % 4] : best;
  return best;
}

int32_t tn_argmax(const float *logits, uint32_t n)
{
  enum { CHUNK = 1024 };
  float top = -INFINITY;
  uint32_t from = 0; /* of the first chunk that holds the largest */
  for (uint32_t i = 0; i < n; i += CHUNK) {
    float here = largest(logits + i, n - i < CHUNK ? n - i : CHUNK);
    if (here > top) {
      top = here;
      from = i;
    }
  }
  for (uint32_t i = from; i < n; i++)
    if (logits[i] == top) return (int32_t)i;
  return 0;
}

double tn_log_sum_exp(const float *logits, uint32_t n)
{
  double best = (double)logits[tn_argmax(logits, n)], sum = 0;
  if (!isfinite(best)) return best;
  for (uint32_t i = 0; i < n; i++) sum += (double)expf(logits[i] - (float)best);
  return best + log(sum);
}

/* Does candidate a stand before b? Larger first, then the lower id; NaN last. */
static bool stands_before(const float *logits, int32_t a, int32_t b)
{
  float x = logits[a], y = logits[b];
  if (isnan(x) || isnan(y)) return isnan(y) && (!isnan(x) || a < b);
  return x > y || (x == y && a < b);
}

void tn_top_n(const float *logits, uint32_t n_vocab, uint32_t n, int32_t *id)
{
  uint32_t have = 0;
  for (int32_t i = 0; i < (int32_t)n_vocab && n > 0; i++) {
    if (have == n && !stands_before(logits, i, id[n - 1])) continue;
    uint32_t at = have < n ? have++ : n - 1;
    for (; at > 0 && stands_before(logits, i, id[at - 1]); at--) id[at] = id[at - 1];
    id[at] = i;
  }
}
