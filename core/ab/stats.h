/* stats: what n paired differences say. Pure functions, any thread.
 *
 *   location   trimmed mean: a share `trim` of the sorted differences is left out at either end; 0: the mean
 *   interval   symmetric studentized bootstrap: est +- q se, q a quantile of |est* - est| / se* over resamples, se from the
 *              winsorized variance (Wilcox, Introduction to Robust Estimation and Hypothesis Testing, 4.4.3)
 *   p          sign-flip permutation test, two-sided: were the labels of every pair exchangeable, each difference could as
 *              well have had the other sign. Statistic: |sum of the signed magnitudes|, magnitudes cut at the
 *              (1 - 2 trim) quantile of all. Every assignment is counted up to TN_STAT_EXACT pairs; above that
 *              TN_STAT_FLIPS random ones, and p = (hits + 1) / (flips + 1)
 *   seen       the smallest true difference that a run of this noise finds with probability 0.8 (Student's t)
 * Random numbers depend on the seed alone. */
#ifndef TN_CORE_AB_STATS_H
#define TN_CORE_AB_STATS_H

#include "base.h"

enum { TN_STAT_EXACT = 20, TN_STAT_FLIPS = 20000, TN_STAT_RESAMPLES = 2000, TN_STAT_MAX = 4096 };

typedef struct tn_stat_how {
  double trim;       /* [0, 0.5) */
  double level;      /* of the interval, 0.95 */
  uint64_t seed;     /* of resamples and random flips */
  uint32_t no_bound; /* 1: without the interval */
} tn_stat_how;

typedef struct tn_stat {
  uint32_t n;
  bool exact; /* p counts every assignment */
  double est, se, lo, hi, p;
} tn_stat;

/* d [n] finite. n = 0 gives NaN, n = 1 the value alone with p = 1 and an endless interval. TN_E_ARG above TN_STAT_MAX,
 * TN_E_NOMEM. */
tn_status tn_stat_paired(const double *d, uint32_t n, const tn_stat_how *how, tn_stat *out, tn_err *err);

/* Trimmed mean and its standard error; x [n] is sorted in place, n >= 2. */
void tn_stat_trimmed(double *x, uint32_t n, double trim, double *est, double *se);

/* The smallest difference that n pairs with this error could have seen at significance alpha; INFINITY when so few pairs
 * can reach no p below alpha. */
double tn_stat_seen(const tn_stat *s, double trim, double alpha);

/* Holm's step-down correction of p [n] in place; NaN entries are no part of the family. TN_E_NOMEM. */
tn_status tn_stat_holm(double *p, uint32_t n);

/* Fewest pairs whose smallest p, 2 / 2^n, passes alpha divided by the size of a family. */
uint32_t tn_stat_pairs(double alpha, uint32_t family);

/* Student's t quantile, p in (0, 1), df >= 1. */
double tn_stat_t(double p, double df);

/* Value at quantile q of x [n], sorted, n >= 1: linear between order statistics. */
double tn_stat_quantile(const double *x, uint32_t n, double q);

int tn_stat_by_value(const void *a, const void *b);

/* A stream of 32-bit numbers from Philox. */
typedef struct tn_stat_rng {
  uint64_t seed, at;
  uint32_t block[4], left, stream;
} tn_stat_rng;

tn_stat_rng tn_stat_rng_of(uint64_t seed, uint32_t stream);
uint32_t tn_stat_next(tn_stat_rng *r);

/* Uniform in [0, n), n >= 1. */
uint32_t tn_stat_below(tn_stat_rng *r, uint32_t n);

#endif
