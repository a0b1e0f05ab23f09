/* trace: see trace.h. */
#include "measure/trace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "host/rng.h"

#define ARRIVAL 7u /* what the random draws of a trace are for */

void tn_trace_free(tn_trace *t)
{
  for (size_t i = 0; i < t->n; i++) {
    free(t->r[i].text);
    free(t->r[i].tokens);
  }
  free(t->r);
  *t = (tn_trace){0};
}

tn_trace_request *tn_trace_add(tn_trace *t)
{
  if (t->n == t->cap) {
    size_t cap = t->cap ? 2 * t->cap : 256, bytes;
    tn_trace_request *r = tn_mul_size(cap, sizeof *r, &bytes) ? realloc(t->r, bytes) : NULL;
    if (!r) return NULL;
    t->r = r;
    t->cap = cap;
  }
  t->r[t->n] = (tn_trace_request){0};
  return &t->r[t->n++];
}

/* By arrival; of those that arrive together the shorter first, so that the order is always the same. */
static int by_arrival(const void *a, const void *b)
{
  const tn_trace_request *x = a, *y = b;
  if (x->at_ns != y->at_ns) return x->at_ns < y->at_ns ? -1 : 1;
  if (x->n_prompt != y->n_prompt) return x->n_prompt < y->n_prompt ? -1 : 1;
  return (x->n_new > y->n_new) - (x->n_new < y->n_new);
}

static bool in_order(const tn_trace *t)
{
  for (size_t i = 1; i < t->n; i++)
    if (t->r[i].at_ns < t->r[i - 1].at_ns) return false;
  return true;
}

/* Orders requests, lets the first arrive at 0, and finds the longest. */
static void settle(tn_trace *t)
{
  if (t->timed && !in_order(t)) qsort(t->r, t->n, sizeof *t->r, by_arrival);
  int64_t first = t->n ? t->r[0].at_ns : 0;
  for (size_t i = 0; i < t->n; i++) {
    tn_trace_request *r = &t->r[i];
    r->at_ns -= first;
    if (r->n_prompt > t->longest_prompt) t->longest_prompt = r->n_prompt;
    if (r->n_new > t->longest_new) t->longest_new = r->n_new;
  }
}

typedef struct reader {
  const char *name, *p, *end;
  int line;
} reader;

/* The next line that is not empty, without its end. */
static bool next_line(reader *r, tn_str *out)
{
  while (r->p < r->end) {
    const char *nl = memchr(r->p, '\n', (size_t)(r->end - r->p));
    *out = (tn_str){r->p, nl ? (size_t)(nl - r->p) : (size_t)(r->end - r->p)};
    r->p = nl ? nl + 1 : r->end;
    r->line++;
    while (out->n > 0 && strchr("\r \t", out->p[out->n - 1])) out->n--;
    if (out->n > 0) return true;
  }
  return false;
}

static tn_status no_format(const char *name, tn_str line, tn_err *err)
{
  return tn_fail(err, TN_E_ARG,
                 "%s: no trace: want a header TIMESTAMP,ContextTokens,GeneratedTokens, or lines such as "
                 "{\"prompt\": \"...\"} or {\"turns\": [\"...\"]}; it begins with '%.*s'",
                 name, (int)(line.n < 40 ? line.n : 40), line.p);
}

static tn_status read_rows(reader *r, tn_str line, size_t most, tn_trace *out, tn_err *err)
{
  tn_status (*row)(tn_trace *, const char *, size_t, const char *, tn_err *) = tn_trace_json_row;
  bool more = true;
  if (line.p[0] != '{') {
    if (!tn_trace_csv_header(line.p, line.n)) return no_format(r->name, line, err);
    row = tn_trace_csv_row;
    out->timed = true;
    more = next_line(r, &line);
  }
  tn_status st = TN_OK;
  for (; st == TN_OK && more && (most == 0 || out->n < most); more = next_line(r, &line)) {
    char where[512];
    snprintf(where, sizeof where, "%.490s:%d", r->name, r->line);
    st = row(out, line.p, line.n, where, err);
  }
  return st;
}

tn_status tn_trace_parse(const char *name, const char *bytes, size_t n, size_t most, tn_trace *out, tn_err *err)
{
  reader r = {name, bytes, bytes + n, 0};
  tn_str line = {bytes, 0};
  *out = (tn_trace){0};
  if (n >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0) r.p += 3;
  tn_status st = next_line(&r, &line) ? read_rows(&r, line, most, out, err)
                                      : tn_fail(err, TN_E_ARG, "%s: is empty, and no trace", name);
  if (st == TN_OK && out->n == 0) st = tn_fail(err, TN_E_ARG, "%s: holds no request", name);
  if (st == TN_OK)
    settle(out);
  else
    tn_trace_free(out);
  return st;
}

tn_status tn_trace_read(const char *path, size_t most, tn_trace *out, tn_err *err)
{
  char *bytes;
  size_t n;
  *out = (tn_trace){0};
  tn_status st = tn_file_read(path, TN_TRACE_MAX_BYTES, &bytes, &n, err);
  if (st != TN_OK) return st;
  st = tn_trace_parse(path, bytes, n, most, out, err);
  free(bytes);
  return st;
}

tn_status tn_trace_arrive(tn_trace *t, double rate, uint64_t seed, tn_err *err)
{
  if (!(rate > 0 && rate <= 1e9)) return tn_fail(err, TN_E_ARG, "%g requests a second: want > 0, at most 1e9", rate);
  double at = 0;
  for (size_t i = 0; i < t->n; i++) {
    if (i > 0) at += -log1p(-tn_rng_uniform(seed, i, TN_RNG_PLUGIN, ARRIVAL)) / rate;
    t->r[i].at_ns = at < 9e9 ? (int64_t)(at * 1e9) : INT64_MAX;
  }
  t->timed = true;
  return TN_OK;
}

tn_status tn_trace_poisson(double rate, size_t n, int64_t n_prompt, int64_t n_new, uint64_t seed, tn_trace *out,
                           tn_err *err)
{
  *out = (tn_trace){0};
  if (n_prompt < 1 || n_prompt > TN_TRACE_MAX_TOKENS || n_new < 1 || n_new > TN_TRACE_MAX_TOKENS)
    return tn_fail(err, TN_E_ARG, "requests of %lld prompt tokens and %lld to generate: each from 1 to %lld",
                   (long long)n_prompt, (long long)n_new, (long long)TN_TRACE_MAX_TOKENS);
  tn_status st = n > 0 ? TN_OK : tn_fail(err, TN_E_ARG, "a trace of no requests");
  for (size_t i = 0; st == TN_OK && i < n; i++) {
    tn_trace_request *r = tn_trace_add(out);
    if (!r)
      st = tn_fail(err, TN_E_NOMEM, "no memory for %zu requests", n);
    else
      *r = (tn_trace_request){.n_prompt = n_prompt, .n_new = n_new};
  }
  if (st == TN_OK) st = tn_trace_arrive(out, rate, seed, err);
  if (st == TN_OK)
    settle(out);
  else
    tn_trace_free(out);
  return st;
}
