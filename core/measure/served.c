/* served: see served.h. */
#include "measure/served.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tn_status tn_serving_new(tn_serving *s, size_t n, tn_err *err)
{
  *s = (tn_serving){.n = n, .r = tn_zalloc(n, sizeof *s->r), .failed = tn_err_init()};
  return s->r ? TN_OK : tn_fail(err, TN_E_NOMEM, "no memory for the times of %zu requests", n);
}

void tn_serving_release(tn_serving *s)
{
  free(s->r);
  free(s->gap_ms);
  free(s->per_second);
  *s = (tn_serving){0};
}

static bool add_gap(tn_serving *s, double ms)
{
  if (s->n_gaps == s->cap_gaps) {
    size_t cap = s->cap_gaps ? 2 * s->cap_gaps : 4096, bytes;
    float *gaps = tn_mul_size(cap, sizeof *gaps, &bytes) ? realloc(s->gap_ms, bytes) : NULL;
    if (!gaps) return false;
    s->gap_ms = gaps;
    s->cap_gaps = cap;
  }
  s->gap_ms[s->n_gaps++] = (float)ms;
  return true;
}

static bool add_to_second(tn_serving *s, uint32_t n_tokens, uint64_t now_ns)
{
  size_t at = (size_t)((now_ns > s->start_ns ? now_ns - s->start_ns : 0) / 1000000000u);
  if (at >= s->n_seconds) {
    size_t n = 2 * at + 64, bytes;
    uint32_t *grown = tn_mul_size(n, sizeof *grown, &bytes) ? realloc(s->per_second, bytes) : NULL;
    if (!grown) return false;
    memset(grown + s->n_seconds, 0, (n - s->n_seconds) * sizeof *grown);
    s->per_second = grown;
    s->n_seconds = n;
  }
  s->per_second[at] += n_tokens;
  return true;
}

tn_status tn_serving_piece(tn_serving *s, size_t i, uint32_t n_tokens, uint64_t now_ns)
{
  tn_served *r = &s->r[i];
  bool ok = add_to_second(s, n_tokens, now_ns);
  if (r->first_ns == 0)
    r->first_ns = now_ns;
  else
    ok = ok && add_gap(s, (double)(now_ns - r->last_ns) * 1e-6);
  r->last_ns = now_ns;
  r->n_new += n_tokens;
  return ok ? TN_OK : TN_E_NOMEM;
}

void tn_serving_done(tn_serving *s, size_t i) { s->r[i].state = TN_SERVED_DONE; }

void tn_serving_fail(tn_serving *s, size_t i, const char *why)
{
  s->r[i].state = TN_SERVED_FAILED;
  if (!s->failed.msg[0]) tn_fail(&s->failed, TN_E_STATE, "%s", why && *why ? why : "a request failed");
}

/* ---------------------------------------------------------------- figures */

static int ascending(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Between the two neighbours of position q (n - 1) in the sorted x. */
static double quantile(const double *x, size_t n, double q)
{
  double at = q * (double)(n - 1);
  size_t low = (size_t)at, high = low + 1 < n ? low + 1 : low;
  return x[low] + (x[high] - x[low]) * (at - (double)low);
}

/* Sorts x. */
static tn_spread spread_of(double *x, size_t n)
{
  double sum = 0, squares = 0;
  if (n == 0) return (tn_spread){0};
  qsort(x, n, sizeof *x, ascending);
  for (size_t i = 0; i < n; i++) sum += x[i];
  double mean = sum / (double)n;
  for (size_t i = 0; i < n; i++) squares += (x[i] - mean) * (x[i] - mean);
  return (tn_spread){mean, quantile(x, n, 0.5), sqrt(squares / (double)n), quantile(x, n, 0.99)};
}

static double ttft_of(const tn_served *r) { return (double)(r->first_ns - r->arrival_ns) * 1e-6; }
static double e2el_of(const tn_served *r) { return (double)(r->last_ns - r->arrival_ns) * 1e-6; }
static double tpot_of(const tn_served *r)
{
  return r->n_new > 1 ? (double)(r->last_ns - r->first_ns) * 1e-6 / (double)(r->n_new - 1) : 0;
}

static bool has_times(const tn_served *r) { return r->state == TN_SERVED_DONE && r->first_ns > 0; }

/* The most requests between arrival and end at once. at[2 * n] */
static uint64_t most_at_once(const tn_serving *s, double *at)
{
  size_t n = 0;
  uint64_t most = 0;
  double *from = at, *to = at + s->n;
  for (size_t i = 0; i < s->n; i++) {
    if (!has_times(&s->r[i])) continue;
    from[n] = (double)(s->r[i].arrival_ns - s->start_ns);
    to[n++] = (double)(s->r[i].last_ns - s->start_ns);
  }
  qsort(from, n, sizeof *from, ascending);
  qsort(to, n, sizeof *to, ascending);
  for (size_t i = 0, ended = 0; i < n; i++) {
    while (to[ended] <= from[i] && ended < i) ended++; /* who ends as another arrives is gone */
    if (i + 1 - ended > most) most = i + 1 - ended;
  }
  return most;
}

static void count(const tn_serving *s, double target_ttft, double target_itl, tn_serving_figures *f)
{
  uint64_t good = 0;
  for (size_t i = 0; i < s->n; i++) {
    const tn_served *r = &s->r[i];
    f->failed += r->state == TN_SERVED_FAILED;
    f->left += r->state == TN_SERVED_WAITS;
    if (r->state != TN_SERVED_DONE) continue;
    f->completed++;
    f->n_prompt += (uint64_t)r->n_prompt;
    f->n_new += (uint64_t)r->n_new;
    f->n_cached += r->n_cached;
    good += has_times(r) && (target_ttft <= 0 || ttft_of(r) <= target_ttft) &&
            (target_itl <= 0 || tpot_of(r) <= target_itl);
  }
  f->seconds = (double)(s->end_ns - s->start_ns) * 1e-9;
  double per = f->seconds > 0 ? 1 / f->seconds : 0;
  f->request_rate = (double)f->completed * per;
  f->output_rate = (double)f->n_new * per;
  f->total_rate = (double)(f->n_prompt + f->n_new) * per;
  f->goodput = (double)good * per;
  for (size_t i = 0; i < s->n_seconds; i++)
    if (s->per_second[i] > f->peak_output_rate) f->peak_output_rate = s->per_second[i];
}

tn_status tn_serving_sum(const tn_serving *s, double target_ttft_ms, double target_itl_ms, tn_serving_figures *out,
                         tn_err *err)
{
  *out = (tn_serving_figures){0};
  size_t most = s->n_gaps > 2 * s->n ? s->n_gaps : 2 * s->n, n = 0;
  double *x = tn_zalloc(most, sizeof *x);
  if (!x) return tn_fail(err, TN_E_NOMEM, "no memory for the figures of %zu requests", s->n);
  count(s, target_ttft_ms, target_itl_ms, out);
  out->peak_concurrent = most_at_once(s, x);
  for (size_t i = 0; i < s->n; i++)
    if (has_times(&s->r[i])) x[n++] = ttft_of(&s->r[i]);
  out->ttft = spread_of(x, n);
  n = 0;
  for (size_t i = 0; i < s->n; i++)
    if (has_times(&s->r[i])) x[n++] = e2el_of(&s->r[i]);
  out->e2el = spread_of(x, n);
  n = 0;
  for (size_t i = 0; i < s->n; i++)
    if (has_times(&s->r[i]) && s->r[i].n_new > 1) x[n++] = tpot_of(&s->r[i]);
  out->tpot = spread_of(x, n);
  for (size_t i = 0; i < s->n_gaps; i++) x[i] = (double)s->gap_ms[i];
  out->itl = spread_of(x, s->n_gaps);
  free(x);
  return TN_OK;
}
