/* bench: see bench.h. */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_int.h"

#define WARM_TOKENS 4

struct tn_bench {
  uint64_t logits_at, sampling_ns; /* when a row's logits were there; time from there to its token, this step */
  uint32_t n_logits;               /* rows with logits in this step */
  const tn_engine *e;
  uint64_t kv_peak; /* bytes of the cache in use, the most at any row's logits */
  char failed[256];
};

/* A test about to run, and what one repetition needs. */
typedef struct course {
  tn_bench *b;
  tn_engine *e;
  tn_bench_test t;
  int32_t *tokens; /* [n_tokens] arbitrary */
  int64_t n_tokens;
  uint8_t *depth; /* a session of n_depth tokens, or NULL */
  size_t n_depth;
  uint64_t ns, steps;
  tn_cost cost;
} course;

static const uint8_t no_fingerprint[32];

tn_bench *tn_bench_new(void) { return tn_zalloc(1, sizeof(tn_bench)); }

void tn_bench_free(tn_bench *b) { free(b); }

static void on_logits(void *ctx, uint64_t seq, void *user, int64_t pos, const float *row)
{
  (void)seq, (void)user, (void)pos, (void)row;
  tn_bench *b = ctx;
  b->n_logits++;
  b->logits_at = tn_now_ns();
  uint64_t used = tn_kv_bytes_used(b->e->kv); /* before the sequence can end; counts as sampling */
  if (used > b->kv_peak) b->kv_peak = used;
}

static void on_token(void *ctx, const tn_token_event *e)
{
  (void)e;
  tn_bench *b = ctx;
  b->sampling_ns += tn_now_ns() - b->logits_at;
}

static void on_finish(void *ctx, const tn_seq *seq, uint32_t why, const char *msg)
{
  (void)seq;
  tn_bench *b = ctx;
  if (why == TN_FINISH_ERROR) snprintf(b->failed, sizeof b->failed, "%s", msg ? msg : "a sequence failed");
}

tn_events tn_bench_events(tn_bench *b)
{
  return (tn_events){.ctx = b, .token = on_token, .logits = on_logits, .finish = on_finish};
}

/* A prompt of its own gives the first token without a step of its own. */
static int64_t new_tokens(const tn_bench_test *t) { return t->n_gen && t->n_prompt ? t->n_gen + 1 : t->n_gen; }

int64_t tn_bench_ctx(const tn_bench_test *t)
{
  return t->n_depth + (t->n_prompt ? t->n_prompt : 1) + new_tokens(t) + 2;
}

bool tn_bench_on_host(const tn_engine *e)
{
  const tn_rank *r = &e->exec->ranks[0];
  tn_backend_info i = {.struct_size = sizeof i};
  return r->b->info(r->backend.inst, &i) == TN_OK && i.host_memory;
}

/* Scored from far away: the last row of the text has logits, and the event says when. */
static tn_request request_of(const course *c, uint32_t seq, int64_t n_prompt, int64_t max_new)
{
  return (tn_request){.prompt = c->tokens + (int64_t)seq * 7919 % (c->n_tokens - n_prompt + 1),
                      .n_prompt = n_prompt,
                      .max_new = max_new,
                      .sampling = tn_sampling_default(),
                      .score = 1,
                      .score_from = TN_POS_INF,
                      .ignore_eog = 1,
                      .no_prefix = 1};
}

static double cached_bytes(const tn_engine *e)
{
  double sum = 0;
  for (const tn_seq *s = e->first; s; s = s->next) sum += tn_cost_kv(e, s, -1);
  return sum;
}

/* One step, timed without its sampling, its cost added up. *rows: how many it ran. */
static tn_status step(course *c, uint32_t *rows, tn_err *err)
{
  tn_bench *b = c->b;
  double kv = cached_bytes(c->e);
  uint64_t before = c->e->rows;
  b->sampling_ns = 0, b->n_logits = 0;
  uint64_t start = tn_now_ns();
  tn_status st = tn_engine_step(c->e, err);
  uint64_t ns = tn_now_ns() - start;
  if (st == TN_OK && b->failed[0]) st = tn_fail(err, TN_E_STATE, "%s", b->failed);
  if (st != TN_OK) return st;
  *rows = (uint32_t)(c->e->rows - before);
  tn_cost cost = tn_cost_of(c->e, 0, UINT32_MAX, *rows, b->n_logits);
  c->ns += ns - (b->sampling_ns < ns ? b->sampling_ns : ns);
  c->steps++;
  c->cost.bytes += cost.bytes + kv + *rows * tn_cost_kv_token(c->e, -1);
  c->cost.int_ops += cost.int_ops;
  c->cost.byte_ops += cost.byte_ops;
  return TN_OK;
}

/* Ends every sequence that is left, so that the next repetition finds an empty engine. */
static void clear(tn_engine *e)
{
  for (tn_seq *s = e->first, *next; s; s = next) {
    next = s->next;
    tn_engine_finish(e, s, TN_FINISH_CANCELLED, NULL);
  }
}

static tn_status save_depth(course *c, tn_err *err)
{
  uint32_t rows;
  uint64_t id;
  tn_request q = request_of(c, 0, c->t.n_depth, 2);
  tn_status st = tn_engine_submit(c->e, &q, &id, err);
  const tn_seq *s = NULL;
  while (st == TN_OK && (s = tn_engine_seq(c->e, id)) && s->n_done < c->t.n_depth) st = step(c, &rows, err);
  if (st == TN_OK && !s)
    st = tn_fail(err, TN_E_STATE, "the prefill of %lld tokens ended early", (long long)c->t.n_depth);
  if (st == TN_OK) st = tn_engine_save(c->e, id, no_fingerprint, &c->depth, &c->n_depth, err);
  clear(c->e);
  return st;
}

static tn_status too_many(const course *c, tn_err *err)
{
  return tn_fail(
      err, TN_E_STATE,
      "%u sequences of %lld tokens do not run together: [engine] kv_budget or max_rows is too small for them",
      c->t.n_seqs, (long long)tn_bench_ctx(&c->t));
}

static tn_status submit_all(course *c, tn_err *err)
{
  tn_status st = TN_OK;
  uint64_t id;
  for (uint32_t i = 0; st == TN_OK && i < c->t.n_seqs; i++) {
    tn_request q = request_of(c, i, c->t.n_prompt ? c->t.n_prompt : 1, new_tokens(&c->t));
    st = c->depth ? tn_engine_restore(c->e, c->depth, c->n_depth, no_fingerprint, &q, &id, err)
                  : tn_engine_submit(c->e, &q, &id, err);
  }
  return st == TN_E_FULL ? too_many(c, err) : st;
}

/* One repetition: its time, steps and cost into c. */
static tn_status once(course *c, tn_err *err)
{
  c->ns = c->steps = 0;
  c->cost = (tn_cost){0};
  tn_status st = submit_all(c, err);
  uint32_t rows;
  while (st == TN_OK && !tn_engine_idle(c->e)) {
    st = step(c, &rows, err);
    if (st == TN_OK && c->t.n_prompt == 0 && rows != c->t.n_seqs) st = too_many(c, err);
  }
  clear(c->e);
  return st;
}

static tn_status warm_up(course *c, tn_err *err)
{
  tn_bench_test t = c->t;
  if (c->t.n_gen > WARM_TOKENS) c->t.n_gen = WARM_TOKENS;
  tn_status st = once(c, err);
  c->t = t;
  return st;
}

static void mean(const double *x, uint32_t n, double *avg, double *sd)
{
  double sum = 0, squares = 0;
  for (uint32_t i = 0; i < n; i++) sum += x[i];
  *avg = sum / n;
  for (uint32_t i = 0; i < n; i++) squares += (x[i] - *avg) * (x[i] - *avg);
  *sd = n > 1 ? sqrt(squares / (n - 1)) : 0;
}

static tn_status summarize(const course *c, tn_bench_result *out, tn_err *err)
{
  double *x = tn_zalloc(out->n, sizeof *x);
  if (!x) return tn_fail(err, TN_E_NOMEM, "no memory for %u samples", out->n);
  double tokens = (double)(c->t.n_prompt + c->t.n_gen) * c->t.n_seqs;
  for (uint32_t i = 0; i < out->n; i++) x[i] = (double)out->ns[i];
  mean(x, out->n, &out->avg_ns, &out->sd_ns);
  for (uint32_t i = 0; i < out->n; i++) x[i] = tokens * 1e9 / (double)out->ns[i];
  mean(x, out->n, &out->avg_ts, &out->sd_ts);
  free(x);
  out->steps = c->steps;
  out->cost = c->cost;
  out->kv_peak = c->b->kv_peak;
  return TN_OK;
}

static tn_status check(const tn_engine *e, const tn_bench_test *t, tn_err *err)
{
  if (e->cfg.draft.desc)
    return tn_fail(err, TN_E_UNSUPPORTED,
                   "draft = %s: how many drafted tokens are right depends on the text, and a benchmark's tokens are "
                   "arbitrary; leave draft out (--set compose.draft=-)",
                   e->cfg.draft.desc->name);
  if (t->n_prompt < 0 || t->n_gen < 0 || t->n_depth < 0 || t->n_prompt + t->n_gen < 1 || t->n_seqs < 1 || t->reps < 1)
    return tn_fail(err, TN_E_ARG,
                   "a test of prompt %lld, generate %lld, depth %lld, %u sequences, %u repetitions: nothing to time",
                   (long long)t->n_prompt, (long long)t->n_gen, (long long)t->n_depth, t->n_seqs, t->reps);
  if (t->n_seqs > e->cfg.max_rows || t->n_seqs > e->cfg.max_seqs)
    return tn_fail(err, TN_E_ARG, "%u sequences together: [engine] max_seqs = %u, max_rows = %u are too few", t->n_seqs,
                   e->cfg.max_seqs, e->cfg.max_rows);
  return TN_OK;
}

static tn_status make_tokens(course *c, tn_err *err)
{
  int64_t n = c->t.n_depth > c->t.n_prompt ? c->t.n_depth : c->t.n_prompt;
  uint32_t x = 1;
  c->n_tokens = n + 4096;
  c->tokens = tn_zalloc((size_t)c->n_tokens, sizeof *c->tokens);
  if (!c->tokens) return tn_fail(err, TN_E_NOMEM, "no memory for %lld tokens", (long long)c->n_tokens);
  for (int64_t i = 0; i < c->n_tokens; i++) {
    x = x * 1664525u + 1013904223u;
    c->tokens[i] = (int32_t)((uint64_t)x * c->e->n_vocab >> 32);
  }
  return TN_OK;
}

tn_status tn_bench_run(tn_bench *b, tn_engine *e, const tn_bench_test *t, tn_bench_result *out, tn_err *err)
{
  course c = {.b = b, .e = e, .t = *t};
  *out = (tn_bench_result){0};
  b->failed[0] = '\0';
  b->e = e;
  b->kv_peak = 0;
  tn_status st = check(e, t, err);
  if (st == TN_OK) st = make_tokens(&c, err);
  if (st == TN_OK && t->n_depth > 0) st = save_depth(&c, err);
  if (st == TN_OK && t->warm_up) st = warm_up(&c, err);
  if (st == TN_OK && !(out->ns = tn_zalloc(t->reps, sizeof *out->ns)))
    st = tn_fail(err, TN_E_NOMEM, "no memory for %u samples", t->reps);
  for (; st == TN_OK && out->n < t->reps; out->n++) {
    st = once(&c, err);
    if (st == TN_OK) out->ns[out->n] = c.ns ? c.ns : 1;
  }
  if (st == TN_OK) st = summarize(&c, out, err);
  if (st != TN_OK) {
    free(out->ns);
    *out = (tn_bench_result){0};
  }
  free(c.tokens);
  free(c.depth);
  return st;
}
