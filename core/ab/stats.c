/* stats: see stats.h. */
#include "ab/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STREAM_RESAMPLE = 1, STREAM_FLIP = 2 };

int tn_stat_by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double tn_stat_quantile(const double *x, uint32_t n, double q)
{
  double at = q * (n - 1);
  uint32_t i = (uint32_t)at;
  return i + 1 < n ? x[i] + (at - i) * (x[i + 1] - x[i]) : x[n - 1];
}

static uint32_t trimmed_off(uint32_t n, double trim)
{
  uint32_t g = (uint32_t)(trim * n);
  return 2 * g + 2 > n ? (n - 2) / 2 : g;
}

/* The same of x already sorted. */
static void trimmed_sorted(const double *x, uint32_t n, double trim, double *est, double *se)
{
  uint32_t g = trimmed_off(n, trim), kept = n - 2 * g;
  double sum = 0, low = x[g], high = x[n - 1 - g], mean, squares = 0;
  for (uint32_t i = g; i < n - g; i++) sum += x[i];
  *est = sum / kept;
  mean = (sum + g * (low + high)) / n;
  for (uint32_t i = g; i < n - g; i++) squares += (x[i] - mean) * (x[i] - mean);
  squares += g * ((low - mean) * (low - mean) + (high - mean) * (high - mean));
  *se = sqrt(squares / (n - 1) / n) * n / kept;
}

void tn_stat_trimmed(double *x, uint32_t n, double trim, double *est, double *se)
{
  qsort(x, n, sizeof *x, tn_stat_by_value);
  trimmed_sorted(x, n, trim, est, se);
}

/* A resample of sorted x comes out sorted: it is how often each place was drawn. */
static void resample(const double *x, uint32_t n, tn_stat_rng *r, uint32_t *count, double *out)
{
  uint32_t k = 0;
  memset(count, 0, n * sizeof *count);
  for (uint32_t i = 0; i < n; i++) count[tn_stat_below(r, n)]++;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t c = 0; c < count[i]; c++) out[k++] = x[i];
}

/* Quantile `level` of |est* - est| / se*. A resample without spread counts as endless unless it hits est. */
static double bootstrap_t(const double *x, uint32_t n, const tn_stat_how *how, double est, double *work,
                          uint32_t *count)
{
  double *t = work, *draw = work + TN_STAT_RESAMPLES;
  tn_stat_rng r = tn_stat_rng_of(how->seed, STREAM_RESAMPLE);
  for (uint32_t b = 0; b < TN_STAT_RESAMPLES; b++) {
    double e, s;
    resample(x, n, &r, count, draw);
    trimmed_sorted(draw, n, how->trim, &e, &s);
    double off = fabs(e - est);
    t[b] = s > 0 ? off / s : off > 0 ? INFINITY : 0;
  }
  qsort(t, TN_STAT_RESAMPLES, sizeof *t, tn_stat_by_value);
  return t[(uint32_t)ceil(how->level * TN_STAT_RESAMPLES) - 1];
}

/* Share of all sign assignments whose |sum| reaches that of the observed one; by Gray code, one sign a turn. The last
 * sign stays: the mirrored half gives the same sums. */
static double flip_all(const double *w, uint32_t n, double reach)
{
  double sum = 0;
  int8_t sign[TN_STAT_EXACT];
  uint64_t all = (uint64_t)1 << (n - 1), hits = 0;
  for (uint32_t i = 0; i < n; i++) sign[i] = 1, sum += w[i];
  for (uint64_t k = 1;; k++) {
    hits += fabs(sum) >= reach;
    if (k == all) break;
    uint32_t i = (uint32_t)__builtin_ctzll(k);
    sign[i] = (int8_t)-sign[i];
    sum += 2 * sign[i] * w[i];
  }
  return (double)hits / (double)all;
}

static double flip_some(const double *w, uint32_t n, double reach, uint64_t seed)
{
  tn_stat_rng r = tn_stat_rng_of(seed, STREAM_FLIP);
  uint32_t hits = 0;
  for (uint32_t k = 0; k < TN_STAT_FLIPS; k++) {
    double sum = 0;
    uint32_t bits = 0;
    for (uint32_t i = 0; i < n; i++, bits >>= 1) {
      if (i % 32 == 0) bits = tn_stat_next(&r);
      sum += bits & 1 ? w[i] : -w[i];
    }
    hits += fabs(sum) >= reach;
  }
  return (hits + 1.0) / (TN_STAT_FLIPS + 1.0);
}

/* w: room for n. */
static double sign_flip(const double *d, uint32_t n, const tn_stat_how *how, double *w)
{
  double sum = 0, all = 0;
  for (uint32_t i = 0; i < n; i++) w[i] = fabs(d[i]);
  qsort(w, n, sizeof *w, tn_stat_by_value);
  double cut = n > 1 ? w[n - 1 - 2 * trimmed_off(n, how->trim)] : w[0];
  for (uint32_t i = 0; i < n; i++) {
    w[i] = fabs(d[i]) < cut ? fabs(d[i]) : cut;
    sum += d[i] < 0 ? -w[i] : w[i];
    all += w[i];
  }
  double reach = fabs(sum) - 1e-10 * all; /* sums in another order differ by rounding */
  return n <= TN_STAT_EXACT ? flip_all(w, n, reach) : flip_some(w, n, reach, how->seed);
}

tn_status tn_stat_paired(const double *d, uint32_t n, const tn_stat_how *how, tn_stat *out, tn_err *err)
{
  *out = (tn_stat){.n = n, .exact = n <= TN_STAT_EXACT, .est = NAN, .se = NAN, .lo = NAN, .hi = NAN, .p = NAN};
  if (n > TN_STAT_MAX) return tn_fail(err, TN_E_ARG, "%u pairs: at most %d can be compared", n, TN_STAT_MAX);
  if (n == 0) return TN_OK;
  double *work = tn_zalloc((size_t)TN_STAT_RESAMPLES + 2 * (size_t)n, sizeof *work);
  uint32_t *count = tn_zalloc(n, sizeof *count);
  if (!work || !count) {
    free(work);
    free(count);
    return tn_fail(err, TN_E_NOMEM, "no memory to compare %u pairs", n);
  }
  double *x = work + TN_STAT_RESAMPLES + n;
  memcpy(x, d, n * sizeof *x);
  out->p = sign_flip(d, n, how, work);
  if (n == 1) {
    *out = (tn_stat){.n = 1, .exact = true, .est = d[0], .se = INFINITY, .lo = -INFINITY, .hi = INFINITY, .p = 1};
  } else {
    tn_stat_trimmed(x, n, how->trim, &out->est, &out->se);
    double q = how->no_bound ? NAN : out->se > 0 ? bootstrap_t(x, n, how, out->est, work, count) : 0;
    double half = out->se > 0 ? q * out->se : 0;
    out->lo = out->est - half;
    out->hi = out->est + half;
  }
  free(work);
  free(count);
  return TN_OK;
}

/* Normal quantile by bisection of erfc. */
static double normal(double p)
{
  double lo = -40, hi = 40;
  for (int i = 0; i < 100; i++) {
    double mid = (lo + hi) / 2;
    if (0.5 * erfc(-mid / sqrt(2)) < p)
      lo = mid;
    else
      hi = mid;
  }
  return (lo + hi) / 2;
}

/* Cornish-Fisher expansion of Student's t, four terms (Abramowitz and Stegun 26.7.5); df 1 and 2 in closed form. */
double tn_stat_t(double p, double df)
{
  if (df < 1.5) return tan(M_PI * (p - 0.5));
  if (df < 2.5) return (2 * p - 1) / sqrt(2 * p * (1 - p));
  double z = normal(p), z2 = z * z;
  double g1 = z * (z2 + 1) / 4, g2 = z * ((5 * z2 + 16) * z2 + 3) / 96;
  double g3 = z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384;
  double g4 = z * ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) / 92160;
  return z + g1 / df + g2 / (df * df) + g3 / (df * df * df) + g4 / (df * df * df * df);
}

double tn_stat_seen(const tn_stat *s, double trim, double alpha)
{
  if (s->n < 2 || 2 / pow(2, s->n < 60 ? s->n : 60) > alpha) return INFINITY;
  double df = s->n - 2 * trimmed_off(s->n, trim) - 1;
  return (tn_stat_t(1 - alpha / 2, df) + tn_stat_t(0.8, df)) * s->se;
}

uint32_t tn_stat_pairs(double alpha, uint32_t family)
{
  uint32_t n = 1;
  for (double p = 1; p > alpha / (family ? family : 1) && n < 60; n++) p /= 2;
  return n;
}

tn_status tn_stat_holm(double *p, uint32_t n)
{
  double *sorted = tn_zalloc(n ? n : 1, sizeof *sorted);
  if (!sorted) return TN_E_NOMEM;
  uint32_t m = 0;
  for (uint32_t i = 0; i < n; i++)
    if (!isnan(p[i])) sorted[m++] = p[i];
  qsort(sorted, m, sizeof *sorted, tn_stat_by_value);
  for (uint32_t i = 0; i < n; i++) {
    double most = 0;
    for (uint32_t k = 0; k < m && !isnan(p[i]) && sorted[k] <= p[i]; k++) {
      double q = sorted[k] * (m - k);
      if (q > most) most = q;
    }
    if (!isnan(p[i])) p[i] = most < 1 ? most : 1;
  }
  free(sorted);
  return TN_OK;
}
