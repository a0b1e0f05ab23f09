/* kld_stats: many tokens' figures to the lines of a report. See kld.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kld.h"

const double tn_kld_fractions[TN_KLD_QUANTILES] = {.999, .99, .95, .9, .5, .1, .05, .01, .001};
const double tn_dp_fractions[TN_DP_QUANTILES] = {.999, .99, .95, .9, .75, .5, .25, .1, .05, .01, .001};

enum { FEW = 10 }; /* so many tokens or fewer tell no error */

/* Mean of n values from their sum and the sum of their squares, and its standard error. */
static tn_measured mean(double sum, double sum2, int64_t n)
{
  double m = sum / (double)n, var = sum2 / (double)n - m * m;
  return (tn_measured){m, n > FEW && var > 0 ? sqrt(var / (double)(n - 1)) : 0};
}

static tn_measured scaled(double value, double error) { return (tn_measured){value, error > 0 ? error : 0}; }

typedef struct sums {
  double q, q2, b, b2, qb, kld, kld2, dp, dp2, dp4, unseen;
  int64_t same;
} sums;

static double dp_of(const tn_kld_token *t) { return exp(-t->nll) - exp(-t->nll_base); }

static sums sum_up(const tn_kld_token *tokens, int64_t n)
{
  sums s = {0};
  for (int64_t i = 0; i < n; i++) {
    const tn_kld_token *t = &tokens[i];
    double dp = dp_of(t);
    s.q += t->nll, s.q2 += t->nll * t->nll;
    s.b += t->nll_base, s.b2 += t->nll_base * t->nll_base, s.qb += t->nll * t->nll_base;
    s.kld += t->kld, s.kld2 += t->kld * t->kld;
    s.dp += dp, s.dp2 += dp * dp, s.dp4 += dp * dp * dp * dp;
    s.unseen += t->unseen;
    s.same += t->same_top;
  }
  return s;
}

/* Two means of the same tokens vary together: cov is their covariance. */
static void compare_ppl(const sums *s, tn_kld_stats *out)
{
  double n = (double)out->n;
  tn_measured lq = mean(s->q, s->q2, out->n), lb = mean(s->b, s->b2, out->n);
  double cov = out->n >= FEW ? (s->qb / n - lq.value * lb.value) / (n - 1) : 0;
  double ln_ratio = lq.value - lb.value, e = sqrt(fmax(0, lq.error * lq.error + lb.error * lb.error - 2 * cov));
  double pq = exp(lq.value), pb = exp(lb.value), eq = pq * lq.error, eb = pb * lb.error;
  out->ppl_base = scaled(pb, eb);
  out->cor = cov / (lq.error * lb.error);
  out->ln_ratio = scaled(ln_ratio, e);
  out->ratio = scaled(exp(ln_ratio), exp(ln_ratio) * e);
  out->diff = scaled(pq - pb, sqrt(fmax(0, eq * eq + eb * eb - 2 * pq * pb * cov)));
}

static int ascending(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* Sorts v[n]; quantiles by linear interpolation between neighbours. */
static void quantiles(double *v, int64_t n, const double *fractions, size_t n_fractions, double *at)
{
  qsort(v, (size_t)n, sizeof *v, ascending);
  for (size_t i = 0; i < n_fractions; i++) {
    double place = fractions[i] * (double)(n - 1);
    int64_t low = (int64_t)place, high = low + 1 < n ? low + 1 : low;
    double part = place - (double)low;
    at[i] = (1 - part) * v[low] + part * v[high];
  }
}

tn_status tn_kld_stats_of(const tn_kld_token *tokens, int64_t n, bool based, tn_kld_stats *out, tn_err *err)
{
  *out = (tn_kld_stats){.n = n, .based = based};
  if (n < 1) return tn_fail(err, TN_E_ARG, "there are no scored tokens to report on");
  sums s = sum_up(tokens, n);
  tn_measured lq = mean(s.q, s.q2, n);
  out->ppl = scaled(exp(lq.value), exp(lq.value) * lq.error);
  if (!based) return TN_OK;
  double *v = tn_zalloc((size_t)n, sizeof *v);
  if (!v) return tn_fail(err, TN_E_NOMEM, "no memory to sort the figures of %lld tokens", (long long)n);
  compare_ppl(&s, out);
  out->kld = mean(s.kld, s.kld2, n);
  out->unseen = s.unseen / (double)n;
  for (int64_t i = 0; i < n; i++) v[i] = tokens[i].kld;
  quantiles(v, n, tn_kld_fractions, TN_KLD_QUANTILES, out->kld_at);
  out->kld_min = v[0], out->kld_max = v[n - 1];
  for (int64_t i = 0; i < n; i++) v[i] = dp_of(&tokens[i]);
  quantiles(v, n, tn_dp_fractions, TN_DP_QUANTILES, out->dp_at);
  out->dp_min = v[0], out->dp_max = v[n - 1];
  free(v);
  out->dp = mean(s.dp, s.dp2, n);
  tn_measured square = mean(s.dp2, s.dp4, n);
  double rms = sqrt(square.value), same = (double)s.same / (double)n;
  out->dp_rms = scaled(rms, rms > 0 ? 0.5 / rms * square.error : 0);
  out->same_top = scaled(same, n > 1 ? sqrt(same * (1 - same) / (double)(n - 1)) : 0);
  return TN_OK;
}

tn_status tn_kld_stats_between(const tn_kld_token *tokens, int64_t n, bool based, int64_t from, int64_t to,
                               tn_kld_stats *out, tn_err *err)
{
  *out = (tn_kld_stats){.based = based};
  tn_kld_token *some = tn_zalloc((size_t)n, sizeof *some);
  if (!some) return tn_fail(err, TN_E_NOMEM, "no memory for the figures of %lld tokens", (long long)n);
  int64_t k = 0;
  for (int64_t i = 0; i < n; i++)
    if (tokens[i].pos >= from && tokens[i].pos < to) some[k++] = tokens[i];
  tn_status st = k > 0 ? tn_kld_stats_of(some, k, based, out, err) : TN_OK;
  free(some);
  return st;
}
