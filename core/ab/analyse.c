/* analyse: from samples to verdicts. See experiment.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ab/experiment.h"

/* A block's figure, or NaN. */
static double value(const tn_ab_exp *e, uint32_t block, uint32_t v, tn_ab_metric m)
{
  const tn_ab_sample *s = tn_ab_sample_at(e, block, v);
  return s->done ? s->x[m] : NAN;
}

static double difference(const tn_ab_metric_info *i, double a, double b)
{
  if (isnan(a) || isnan(b)) return NAN;
  if (!i->ratio) return b - a;
  return a > 0 && b > 0 ? log(b / a) : NAN;
}

/* What is left of x [n] after NaNs went. */
static uint32_t keep_finite(double *x, uint32_t n)
{
  uint32_t k = 0;
  for (uint32_t i = 0; i < n; i++)
    if (isfinite(x[i])) x[k++] = x[i];
  return k;
}

/* Typical value of a variant over all blocks: trimmed mean, of logarithms where the metric is a ratio. */
static double typical(const tn_ab_exp *e, uint32_t v, tn_ab_metric m, double *work)
{
  const tn_ab_metric_info *i = tn_ab_metric_of(m);
  double est, se;
  for (uint32_t b = 0; b < e->n_blocks; b++) {
    double x = value(e, b, v, m);
    work[b] = i->ratio ? (x > 0 ? log(x) : NAN) : x;
  }
  uint32_t n = keep_finite(work, e->n_blocks);
  if (n == 0) return NAN;
  if (n == 1)
    est = work[0];
  else
    tn_stat_trimmed(work, n, i->trim, &est, &se);
  return i->ratio ? exp(est) : est;
}

static tn_stat_how how_of(const tn_ab_exp *e, tn_ab_metric m)
{
  return (tn_stat_how){.trim = tn_ab_metric_of(m)->trim, .level = e->level, .seed = e->seed + m};
}

static tn_status by_block(const tn_ab_exp *e, uint32_t v, tn_ab_metric m, double *work, tn_ab_result *r, tn_err *err)
{
  const tn_ab_metric_info *i = tn_ab_metric_of(m);
  tn_stat_how how = how_of(e, m);
  r->a = typical(e, 0, m, work);
  r->b = typical(e, v, m, work);
  for (uint32_t b = 0; b < e->n_blocks; b++) work[b] = difference(i, value(e, b, 0, m), value(e, b, v, m));
  uint32_t n = keep_finite(work, e->n_blocks);
  if (v == 0 || n == 0) return TN_OK;
  how.no_bound = i->kind == TN_AB_COUNTED;
  tn_status st = tn_stat_paired(work, n, &how, &r->s, err);
  if (st != TN_OK || i->kind != TN_AB_COUNTED) return st;
  r->s.lo = r->s.hi = r->s.est;
  r->s.p = NAN;
  return TN_OK;
}

/* Perplexity is the exponential of a mean over chunks, its ratio that of their mean difference. */
static tn_status by_chunk(const tn_ab_exp *e, uint32_t v, tn_ab_metric m, double *work, tn_ab_result *r, tn_err *err)
{
  const double *x = m == TN_AB_PPL ? e->nll : e->kld;
  double sums[2] = {0, 0};
  if (!x || e->n_chunks == 0) return TN_OK;
  for (uint32_t c = 0; c < e->n_chunks; c++) {
    double a = x[c], b = x[(size_t)v * e->n_chunks + c];
    sums[0] += a / e->n_chunks;
    sums[1] += b / e->n_chunks;
    work[c] = b - a;
  }
  r->a = m == TN_AB_PPL ? exp(sums[0]) : sums[0];
  r->b = m == TN_AB_PPL ? exp(sums[1]) : sums[1];
  uint32_t n = keep_finite(work, e->n_chunks);
  tn_stat_how how = how_of(e, m);
  return v > 0 && n > 0 ? tn_stat_paired(work, n, &how, &r->s, err) : TN_OK;
}

static void once(const tn_ab_exp *e, uint32_t v, tn_ab_metric m, tn_ab_result *r)
{
  r->a = e->variant[0].rss_bytes;
  r->b = e->variant[v].rss_bytes;
  double d = difference(tn_ab_metric_of(m), r->a, r->b);
  if (v > 0 && isfinite(d)) r->s = (tn_stat){.n = 1, .est = d, .se = NAN, .lo = NAN, .hi = NAN, .p = NAN};
}

/* Spread of the reference's repeated runs of one prompt: root of the mean variance within prompts. */
static double noise_of(const tn_ab_exp *e, tn_ab_metric m)
{
  double squares = 0;
  uint32_t df = 0;
  for (uint32_t p = 0; p < e->n_prompts; p++) {
    double sum = 0, sq = 0;
    uint32_t n = 0;
    for (uint32_t b = 0; b < e->n_blocks; b++) {
      double x = e->block_prompt[b] == p ? value(e, b, 0, m) : NAN;
      if (!(x > 0)) continue;
      n++, sum += log(x), sq += log(x) * log(x);
    }
    if (n < 2) continue;
    squares += sq - sum * sum / n;
    df += n - 1;
  }
  return df > 0 ? sqrt(squares > 0 ? squares / df : 0) : NAN;
}

static uint32_t verdict_of(const tn_ab_exp *e, tn_ab_metric m, const tn_ab_result *r)
{
  const tn_ab_metric_info *i = tn_ab_metric_of(m);
  const uint32_t side = r->s.est * i->better > 0 ? (uint32_t)TN_AB_BETTER : (uint32_t)TN_AB_WORSE;
  if (r->s.n == 0) return TN_AB_NOT_MEASURED;
  if (i->kind == TN_AB_ONCE) return TN_AB_READING;
  const bool same = fabs(r->s.est) + r->s.se < 1e-12;
  if (i->kind == TN_AB_COUNTED) return same ? (uint32_t)TN_AB_EQUAL : side;
  if (i->kind == TN_AB_QUALITY && r->s.n > 1 && r->s.est == 0 && r->s.se == 0) return TN_AB_EQUAL;
  if (r->p_holm <= e->alpha) return side;
  return isinf(r->seen) ? (uint32_t)TN_AB_TOO_FEW : (uint32_t)TN_AB_UNSEEN;
}

/* One prompt at a time, the time to the first token is the prompt speed read the other way round, where that is known: one
 * test, not two. */
static bool tested(const tn_ab_results *r, uint32_t v, uint32_t m)
{
  return m != TN_AB_TTFT || r->at[v][TN_AB_PROMPT_TPS].s.n == 0;
}

uint32_t tn_ab_tests(bool quality)
{
  uint32_t n = 0;
  for (uint32_t m = 0; m < TN_AB_N_METRICS; m++) {
    uint32_t kind = tn_ab_metric_of((tn_ab_metric)m)->kind;
    n += (kind == TN_AB_TIMED && m != TN_AB_TTFT) || (quality && kind == TN_AB_QUALITY);
  }
  return n;
}

/* Holm over every metric of every variant that has a p. */
static tn_status correct(const tn_ab_exp *e, tn_ab_results *r)
{
  double p[TN_AB_MAX_VARIANTS * TN_AB_N_METRICS];
  uint32_t n = 0, k = 0;
  for (uint32_t v = 1; v < e->n_variants; v++)
    for (uint32_t m = 0; m < TN_AB_N_METRICS; m++) {
      p[n] = r->at[v][m].s.n > 0 && tested(r, v, m) ? r->at[v][m].s.p : NAN;
      if (!isnan(p[n++])) r->family++;
    }
  if (tn_stat_holm(p, n) != TN_OK) return TN_E_NOMEM;
  for (uint32_t v = 1; v < e->n_variants; v++)
    for (uint32_t m = 0; m < TN_AB_N_METRICS; m++) {
      tn_ab_result *x = &r->at[v][m];
      x->p_holm = tested(r, v, m) || x->s.n == 0 ? p[k] : r->at[v][TN_AB_PROMPT_TPS].p_holm;
      k++;
      if (!isnan(x->p_holm)) {
        x->seen = tn_stat_seen(&x->s, tn_ab_metric_of((tn_ab_metric)m)->trim, e->alpha / r->family);
        x->needed = tn_stat_pairs(e->alpha, r->family);
      }
      x->verdict = verdict_of(e, (tn_ab_metric)m, x);
    }
  return TN_OK;
}

tn_status tn_ab_analyse(const tn_ab_exp *e, tn_ab_results *r, tn_err *err)
{
  uint32_t most = e->n_blocks > e->n_chunks ? e->n_blocks : e->n_chunks;
  double *work = tn_zalloc(most + 1, sizeof *work);
  tn_status st = work ? TN_OK : TN_E_NOMEM;
  memset(r, 0, sizeof *r);
  for (uint32_t m = 0; m < TN_AB_N_METRICS; m++) r->noise[m] = noise_of(e, (tn_ab_metric)m);
  for (uint32_t v = 0; v < e->n_variants; v++)
    for (uint32_t m = 0; st == TN_OK && m < TN_AB_N_METRICS; m++) {
      tn_ab_result *x = &r->at[v][m];
      uint32_t kind = tn_ab_metric_of((tn_ab_metric)m)->kind;
      *x = (tn_ab_result){.a = NAN, .b = NAN, .p_holm = NAN, .seen = NAN};
      if (kind == TN_AB_QUALITY)
        st = by_chunk(e, v, (tn_ab_metric)m, work, x, err);
      else if (kind == TN_AB_ONCE)
        once(e, v, (tn_ab_metric)m, x);
      else
        st = by_block(e, v, (tn_ab_metric)m, work, x, err);
    }
  if (st == TN_OK) st = correct(e, r);
  free(work);
  return st == TN_E_NOMEM ? tn_fail(err, st, "no memory for the comparison") : st;
}

tn_ab_metric tn_ab_start_metric(const tn_ab_results *r)
{
  return isnan(r->at[0][TN_AB_PROMPT_TPS].a) ? TN_AB_TTFT : TN_AB_PROMPT_TPS;
}

double tn_ab_shown(tn_ab_metric m, double diff)
{
  const tn_ab_metric_info *i = tn_ab_metric_of(m);
  return i->ratio ? 100 * expm1(diff) : diff * i->scale;
}

const char *tn_ab_verdict(tn_ab_metric m, const tn_ab_result *r, char out[160])
{
  static const char *const words[] = {[TN_AB_NOT_MEASURED] = "not measured",
                                      [TN_AB_BETTER] = "better",
                                      [TN_AB_WORSE] = "worse",
                                      [TN_AB_UNSEEN] = "no difference that this run could see",
                                      [TN_AB_EQUAL] = "equal",
                                      [TN_AB_READING] = "one reading, not tested"};
  const char *pairs = tn_ab_metric_of(m)->kind == TN_AB_QUALITY ? "chunks" : "pairs";
  if (r->verdict == TN_AB_TOO_FEW)
    snprintf(out, 160, "too few %s: %u, at least %u are needed to see anything at this level", pairs, r->s.n,
             r->needed);
  else
    snprintf(out, 160, "%s", words[r->verdict]);
  return out;
}

const char *tn_ab_words(tn_ab_metric m, const tn_ab_result *r, char out[160])
{
  const char *unit = tn_ab_metric_of(m)->ratio ? "%" : tn_ab_metric_of(m)->unit;
  char verdict[160];
  tn_ab_verdict(m, r, verdict);
  if (r->verdict == TN_AB_UNSEEN)
    snprintf(out, 160, "%.100s (smallest it could have seen: %.2g %s)", verdict, fabs(tn_ab_shown(m, r->seen)), unit);
  else
    snprintf(out, 160, "%s", verdict);
  return out;
}

double tn_ab_width(const tn_ab_results *r, uint32_t n_variants, tn_ab_metric m)
{
  double most = 0;
  for (uint32_t v = 1; v < n_variants; v++) {
    const tn_ab_result *x = &r->at[v][m];
    double half = x->s.n < 2 ? INFINITY : x->s.hi - x->s.est;
    if (!(half <= most)) most = isnan(half) ? INFINITY : half;
  }
  return most;
}
