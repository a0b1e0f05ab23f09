/* collect: step 5 of a turn. Logits become tokens; rows are committed or rolled back; events go out. See step.c. */
#include <math.h>
#include <string.h>

#include "engine_int.h"

static const float *row_of(const tn_engine *e, const tn_seq *s, uint32_t i)
{
  return e->logits + ((size_t)s->out0 + i) * e->n_vocab;
}

static void emit_token(tn_engine *e, tn_seq *s, int32_t token, const float *row)
{
  int32_t top[TN_MAX_LOGPROBS];
  double lp[TN_MAX_LOGPROBS];
  tn_token_event ev = {
      .seq = s->id, .user = s->req.user, .token = token, .pos = s->n_tok - 1, .top = top, .top_logprob = lp};
  if (s->req.n_logprobs > 0) {
    double lse = tn_log_sum_exp(row, e->n_vocab);
    ev.n_top = s->req.n_logprobs < e->n_vocab ? s->req.n_logprobs : e->n_vocab;
    ev.logprob = (double)row[token] - lse;
    tn_top_n(row, e->n_vocab, ev.n_top, top);
    for (uint32_t i = 0; i < ev.n_top; i++) lp[i] = (double)row[top[i]] - lse;
  }
  if (e->cfg.events.token) e->cfg.events.token(e->cfg.events.ctx, &ev);
}

static bool is_stop(const tn_engine *e, const tn_seq *s, int32_t token)
{
  if (s->req.n_forced > 0) return false;
  for (uint32_t i = 0; i < e->cfg.n_eog; i++)
    if (e->eog[i] == token) return !s->req.ignore_eog;
  for (uint32_t i = 0; i < s->req.n_stop; i++)
    if (s->req.stop[i] == token) return true;
  return false;
}

/* Appends one token and says whether the request is over: TN_FINISH_*. */
static uint32_t append(tn_engine *e, tn_seq *s, int32_t token, const float *row)
{
  s->last_token_ns = tn_engine_now(e);
  if (s->first_token_ns == 0) s->first_token_ns = s->last_token_ns;
  if (tn_seq_push(s, token) != TN_OK) return TN_FINISH_LENGTH;
  e->n_new_tokens++;
  emit_token(e, s, token, row);
  if (s->finish == TN_FINISH_CANCELLED) return TN_FINISH_CANCELLED;
  if (is_stop(e, s, token)) return TN_FINISH_STOP;
  return s->n_tok - s->n_prompt >= s->req.max_new ? TN_FINISH_LENGTH : TN_FINISH_NONE;
}

/* The path that the forced tokens take through the drafted nodes, and the one behind it. A tree ends before the request's
 * last token, so there is always one. */
static void follow(const tn_seq *s, tn_verify_out *out)
{
  int64_t at = s->n_tok - s->n_prompt;
  int32_t parent = -1;
  for (uint32_t i = 0; i < s->n_nodes; i++) { /* parents come before their children */
    if (s->node_parent[i] != parent || s->node_token[i] != s->req.forced[at]) continue;
    out->path[out->n_path++] = parent = (int32_t)i;
    at++;
  }
  out->next = s->req.forced[at];
}

/* Decides about the drafted nodes and what follows; logits row `first` is the pending token's. */
static void decide(tn_engine *e, const tn_seq *s, uint32_t first, tn_verify_out *out)
{
  if (s->req.n_forced > 0) {
    follow(s, out);
    return;
  }
  tn_tree tree = {s->n_nodes, e->dr.v ? e->dr.spec.q_kind : TN_Q_DELTA, s->node_token, s->node_parent, s->node_q};
  tn_history history = {.tokens = s->tokens, .n = s->n_tok};
  tn_verify_in in = {.mode = e->cfg.verify,
                     .n_vocab = e->n_vocab,
                     .sampling = &s->req.sampling,
                     .history = &history,
                     .request = s->req.key,
                     .pos = s->n_tok,
                     .logits = row_of(e, s, first),
                     .tree = &tree,
                     .eps = e->cfg.typical_eps,
                     .delta = e->cfg.typical_delta};
  tn_verify(e->verifier, &in, out);
}

static tn_status commit(tn_engine *e, tn_seq *s, uint32_t running_index, const tn_verify_out *v)
{
  int32_t slots[TN_MAX_NODES + 1];
  bool straight = true;
  for (uint32_t i = 0; i < v->n_path; i++) straight = straight && v->path[i] == (int32_t)i;
  tn_evict_accept(e, running_index, s, v->n_path, v->path);
  s->kv->prefix.text = s->tokens;
  s->kv->prefix.n_text = s->n_tok;
  tn_status st;
  if (straight) {
    st = tn_kv_commit(e->kv, s->kv, s->run + v->n_path, NULL, s->n_done);
  } else {
    slots[0] = 0; /* drafted nodes follow exactly one text row */
    for (uint32_t i = 0; i < v->n_path; i++) slots[1 + i] = 1 + v->path[i];
    st = tn_kv_commit(e->kv, s->kv, 1 + v->n_path, slots, s->n_done);
  }
  if (st == TN_OK) s->n_done += s->run + v->n_path;
  return st;
}

/* Says what was decided: the path, and the token behind it. Where the request is over inside the path, the path is cut
 * there, so that the last token is pending as it would be without a draft. Returns TN_FINISH_*. */
static uint32_t say(tn_engine *e, tn_seq *s, uint32_t first, tn_verify_out *v)
{
  uint32_t why = TN_FINISH_NONE;
  for (uint32_t i = 0; i <= v->n_path; i++) {
    int32_t token = i < v->n_path ? s->node_token[v->path[i]] : v->next;
    why = append(e, s, token, row_of(e, s, i == 0 ? first : first + 1 + (uint32_t)v->path[i - 1]));
    if (why == TN_FINISH_NONE) continue;
    v->next = token;
    v->n_path = i;
  }
  return why;
}

/* One sequence of the step. *why tells whether it is over. */
static tn_status collect_seq(tn_engine *e, uint32_t index, uint32_t *why, tn_err *err)
{
  tn_seq *s = e->running[index];
  tn_verify_out *v = &e->dr.verdicts[index];
  v->n_path = 0;
  v->next = -1;
  *why = TN_FINISH_NONE;
  bool whole = s->n_done + s->run == s->n_tok;
  int64_t pos0 = s->n_done;
  uint32_t scored = s->req.score ? tn_score_first(s) : 0;
  if (s->req.score && e->cfg.events.logits)
    for (uint32_t i = scored; i < s->run; i++)
      e->cfg.events.logits(e->cfg.events.ctx, s->id, s->req.user, pos0 + i, row_of(e, s, i - scored));
  uint32_t first = s->req.score ? s->run - 1 - scored : 0;
  bool sample = whole && s->req.max_new > 0;
  if (sample) decide(e, s, first, v);
  if (sample) *why = say(e, s, first, v);
  for (uint32_t i = 0; s->req.score && e->cfg.events.logits && i < v->n_path; i++)
    e->cfg.events.logits(e->cfg.events.ctx, s->id, s->req.user, pos0 + s->run + i,
                         row_of(e, s, first + 1 + (uint32_t)v->path[i]));
  tn_status st = commit(e, s, index, v);
  if (st != TN_OK) return tn_fail(err, st, "KV commit: %s", tn_status_name(st));
  if (sample && s->n_nodes > 0) s->n_drafted += s->n_nodes, s->n_accepted += v->n_path, s->n_verify++;
  if (sample && s->n_nodes > 0) e->n_drafted += s->n_nodes, e->n_accepted += v->n_path;
  if (whole && !sample) *why = TN_FINISH_LENGTH;
  if (s->n_done >= s->n_prompt && s->prompt_ns == 0) {
    s->prompt_ns = tn_engine_now(e) - s->arrival_ns;
    e->n_prompt_tokens += (uint64_t)s->n_prompt;
  }
  if (*why != TN_FINISH_NONE) return TN_OK;
  st = tn_evict_act(e, s, err);
  bool later = st == TN_E_FULL || st == TN_E_NEVER;
  if (later) s->preempt = TN_PREEMPT_SWAP;
  return later ? TN_OK : st;
}

/* A policy could not act for want of pages: the sequence leaves, and acts when it is back. Alone it will find no more. */
static void make_way(tn_engine *e, tn_seq *s)
{
  tn_err err = tn_err_init();
  if (e->n_resident > 1) {
    tn_engine_preempt(e, s, s->preempt);
    return;
  }
  tn_status st = tn_evict_act(e, s, &err);
  if (st == TN_OK) return;
  if (err.msg[0] == 0) tn_fail(&err, st, "the KV cache has no room to evict in (%s)", tn_status_name(st));
  tn_engine_finish(e, s, TN_FINISH_ERROR, err.msg);
}

tn_status tn_engine_collect(tn_engine *e, tn_err *err)
{
  uint32_t why[TN_MAX_SEQS];
  for (uint32_t i = 0; i < e->n_running; i++) {
    tn_status st = collect_seq(e, i, &why[i], err);
    if (st != TN_OK) return st;
  }
  tn_status st = tn_draft_report(e, err);
  if (st != TN_OK) return st;
  tn_seq *done[TN_MAX_SEQS], *leaving[TN_MAX_SEQS];
  uint32_t n = e->n_running, n_done = 0, n_leaving = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (why[i] != TN_FINISH_NONE)
      why[n_done] = why[i], done[n_done++] = e->running[i];
    else if (e->running[i]->preempt)
      leaving[n_leaving++] = e->running[i];
  }
  for (uint32_t i = 0; i < n_done; i++) tn_engine_finish(e, done[i], why[i], NULL);
  for (uint32_t i = 0; i < n_leaving; i++) make_way(e, leaving[i]);
  e->n_running = 0;
  return TN_OK;
}
