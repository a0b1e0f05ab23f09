/* replay_url: a trace against a server. See replay.h. */
#include <stdlib.h>

#include "measure/replay.h"

#define POLL_MS 50            /* a wait for answers is cut into such */
#define SHOW_NS 100000000u    /* between two calls of progress */
#define MOST_UNDER_WAY 16384u /* connections */

typedef struct run {
  tn_client *c;
  const char *model;
  uint32_t n_vocab;
  const tn_replay_cfg *cfg;
  tn_serving *out;
  size_t next, ended;
  int32_t *tokens; /* [longest prompt] */
  uint64_t shown_ns;
} run;

static uint64_t next_arrival(const run *r, uint64_t now)
{
  const tn_replay_cfg *c = r->cfg;
  uint32_t n = tn_client_running(r->c);
  if (r->next == c->trace->n || n >= MOST_UNDER_WAY || (c->concurrency > 0 && n >= c->concurrency)) return UINT64_MAX;
  if (!c->trace->timed) return now;
  return r->out->start_ns + tn_replay_arrival(c, r->next);
}

static tn_status send(run *r, size_t i, uint64_t arrival_ns, tn_err *err)
{
  const tn_trace_request *t = &r->cfg->trace->r[i];
  tn_served *x = &r->out->r[i];
  x->arrival_ns = arrival_ns;
  x->n_prompt = t->n_prompt > 0 ? t->n_prompt : 1;
  if (!t->text) tn_replay_tokens(r->cfg->seed, i, r->n_vocab, r->tokens, x->n_prompt);
  int64_t goal = tn_replay_goal(r->cfg, i);
  tn_client_request q = {.model = r->model,
                         .prompt = t->text,
                         .tokens = r->tokens,
                         .n_tokens = x->n_prompt,
                         .chat = t->text != NULL,
                         .ignore_eos = goal < INT64_MAX,
                         .max_tokens = goal < INT64_MAX ? goal : tn_replay_asks(r->cfg, i),
                         .seed = -1,
                         .user = (void *)(uintptr_t)i};
  return tn_client_send(r->c, &q, err);
}

static tn_status send_due(run *r, tn_err *err)
{
  uint64_t now = tn_now_ns(), at;
  tn_status st = TN_OK;
  while (st == TN_OK && (at = next_arrival(r, now)) <= now) st = send(r, r->next++, at, err);
  return st;
}

/* Its tokens by the server's count, shared out evenly over its pieces. */
static tn_status take(run *r, const tn_client_answer *a, tn_err *err)
{
  size_t i = (size_t)(uintptr_t)a->user;
  int64_t n = a->n_new > 0 ? a->n_new : a->n_chunks;
  tn_status st = TN_OK;
  r->ended++;
  if (!a->ok || a->n_chunks == 0) {
    tn_serving_fail(r->out, i, a->ok ? "the server's answer was empty" : a->err.msg);
    return TN_OK;
  }
  if (a->n_prompt > 0) r->out->r[i].n_prompt = a->n_prompt;
  if (a->n_cached > 0) r->out->r[i].n_cached = (uint32_t)a->n_cached;
  for (int64_t k = 0; st == TN_OK && k < a->n_chunks; k++)
    st = tn_serving_piece(r->out, i, (uint32_t)(n * (k + 1) / a->n_chunks - n * k / a->n_chunks), a->chunk_ns[k]);
  tn_serving_done(r->out, i);
  return st == TN_OK ? st : tn_fail(err, st, "no memory for the times of tokens");
}

static bool show(run *r)
{
  uint64_t now = tn_now_ns();
  if (!r->cfg->progress || now - r->shown_ns < SHOW_NS) return true;
  r->shown_ns = now;
  tn_replay_state s = {.n = r->cfg->trace->n,
                       .ended = r->ended,
                       .under_way = tn_client_running(r->c),
                       .seconds = (double)(now - r->out->start_ns) * 1e-9};
  return r->cfg->progress(r->cfg->ctx, &s);
}

/* Milliseconds to wait for answers, until the next request is due. */
static int pause_of(const run *r)
{
  uint64_t now = tn_now_ns(), at = next_arrival(r, now);
  if (at <= now) return 0;
  uint64_t ms = (at - now) / 1000000u;
  return ms < POLL_MS ? (int)ms : POLL_MS;
}

static tn_status wait(run *r, tn_err *err)
{
  tn_client_answer *a;
  tn_status st = tn_client_wait(r->c, pause_of(r), &a, err);
  for (; st == TN_OK && a; st = st == TN_OK ? tn_client_wait(r->c, 0, &a, err) : st) {
    st = take(r, a, err);
    tn_client_answer_free(a);
  }
  return st;
}

tn_status tn_replay_url(tn_client *c, const char *model, uint32_t n_vocab, const tn_replay_cfg *cfg, tn_serving *out,
                        tn_err *err)
{
  run r = {.c = c, .model = model, .n_vocab = n_vocab, .cfg = cfg, .out = out};
  int64_t longest = cfg->trace->longest_prompt > 0 ? cfg->trace->longest_prompt : 1;
  tn_status st = tn_serving_new(out, cfg->trace->n, err);
  r.tokens = tn_zalloc((size_t)longest, sizeof *r.tokens);
  if (st == TN_OK && !r.tokens)
    st = tn_fail(err, TN_E_NOMEM, "no memory for prompts of %lld tokens", (long long)longest);
  out->start_ns = tn_now_ns();
  bool on = true;
  while (st == TN_OK && r.ended < cfg->trace->n && (on = show(&r))) {
    st = send_due(&r, err);
    if (st == TN_OK) st = wait(&r, err);
  }
  out->end_ns = tn_now_ns();
  if (st == TN_OK && on && out->failed.msg[0]) {
    bool any = false;
    for (size_t i = 0; i < out->n; i++) any = any || out->r[i].state == TN_SERVED_DONE;
    if (!any) st = tn_fail(err, TN_E_IO, "no request came to its end: %s", out->failed.msg);
  }
  free(r.tokens);
  return st;
}
