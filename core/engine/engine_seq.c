/* engine_seq: a sequence's life inside the engine: submit, admit, preempt, cancel, finish, fork, save, restore. */
#include <stdlib.h>
#include <string.h>

#include "engine_int.h"
#include "loader/slot.h"

static const tn_ext_sequence *sequence_ext(const tn_instance *in)
{
  return in->desc && in->desc->ext ? in->desc->ext(in->inst, "tenon.sequence/1") : NULL;
}

/* The first n instances forget the sequence. */
static void end_in(tn_engine *e, uint64_t seq, uint32_t n)
{
  const char *key;
  const tn_instance *in;
  for (uint32_t i = 0; i < n && tn_engine_instance(e, i, &key, &in); i++) {
    const tn_ext_sequence *x = sequence_ext(in);
    if (x && x->end) x->end(in->inst, seq);
  }
}

static void end_in_plugins(tn_engine *e, tn_seq *s)
{
  if (s->begun) end_in(e, s->id, UINT32_MAX);
  s->begun = 0;
}

/* Plugins' per-sequence state. */
static tn_status begin(tn_engine *e, tn_seq *s, tn_err *err)
{
  const char *key;
  const tn_instance *in;
  for (uint32_t i = 0; tn_engine_instance(e, i, &key, &in); i++) {
    const tn_ext_sequence *x = sequence_ext(in);
    tn_status st = x && x->begin ? x->begin(in->inst, s->id, in->values) : TN_OK;
    if (st == TN_OK) continue;
    end_in(e, s->id, i);
    return tn_fail(err, st, "%s/%s: begin: %s", tn_slot_name(in->desc->slot), in->desc->name, tn_status_name(st));
  }
  s->begun = 1;
  tn_status st = tn_evict_begin(e, s, err);
  if (st != TN_OK) end_in_plugins(e, s);
  return st;
}

static tn_prefix_root root_of(const tn_engine *e, const tn_seq *s)
{
  return (tn_prefix_root){s->regime, e->options, {s->req.cache_salt[0], s->req.cache_salt[1]}};
}

static void give_up_kv(tn_engine *e, tn_seq *s)
{
  if (!s->kv) return;
  tn_kv_seq_free(e->kv, s->kv);
  s->kv = NULL;
  e->n_resident--;
}

/* A swapped sequence's KV; and what its policy could not do before it left. Alone it would find no more pages later. */
static tn_status bring_back(tn_engine *e, tn_seq *s, tn_err *err)
{
  tn_status st = tn_kv_load(e->kv, s->kv, s->swapped, s->n_swapped, s->n_done, NULL);
  if (st == TN_OK && s->n_done >= s->next_evict) st = tn_evict_act(e, s, err);
  if (st == TN_E_FULL && e->n_resident == 1) st = TN_E_NEVER;
  if (st != TN_OK) return st;
  free(s->swapped);
  s->swapped = NULL;
  return TN_OK;
}

static tn_status admit(tn_engine *e, tn_seq *s, tn_err *err)
{
  int64_t start = s->swapped ? s->n_done + 1 : s->n_tok;
  tn_status st = tn_kv_seq_new(e->kv, s->id, start, s->max_len, &s->kv);
  if (st != TN_OK) return st;
  e->n_resident++;
  s->kv->prefix.on = e->prefix_cache && !s->req.no_prefix && !s->foreign;
  s->kv->prefix.root = root_of(e, s);
  if (s->swapped) st = bring_back(e, s, err);
  if (st == TN_OK && !s->begun) st = begin(e, s, err);
  if (st == TN_OK) return TN_OK;
  give_up_kv(e, s);
  return st;
}

tn_status tn_engine_admit_empty(tn_engine *e, tn_seq *s, tn_err *err)
{
  return e->n_resident >= e->cfg.max_seqs ? TN_E_FULL : admit(e, s, err);
}

/* Of its text, what need not be run: not the last token, whose logits are wanted, nor rows that are scored. */
static int64_t may_be_found(const tn_engine *e, const tn_seq *s)
{
  if (!e->prefix_cache || s->req.no_prefix || s->swapped) return 0;
  int64_t n = s->n_tok - 1;
  return s->req.score && s->req.score_from < n ? s->req.score_from : n;
}

int64_t tn_engine_found(const tn_engine *e, const tn_seq *s)
{
  tn_prefix_root root = root_of(e, s);
  return tn_kv_prefix_look(e->kv, &root, s->tokens, may_be_found(e, s));
}

tn_status tn_engine_admit(tn_engine *e, tn_seq *s, tn_err *err)
{
  if (e->n_resident >= e->cfg.max_seqs) return TN_E_FULL;
  tn_prefix_root root = root_of(e, s);
  int64_t found = tn_kv_prefix_pin(e->kv, &root, s->tokens, may_be_found(e, s));
  tn_status st = admit(e, s, err);
  tn_kv_prefix_settle(e->kv, st == TN_OK && !s->swapped ? s->kv : NULL);
  if (st == TN_E_FULL && found > 0 && e->n_resident == 0) return admit(e, s, err); /* what it found stood in its way */
  if (st == TN_OK && found > 0) s->n_done = s->n_cached = found;
  return st;
}

void tn_engine_preempt(tn_engine *e, tn_seq *s, uint32_t how)
{
  e->n_preempted++;
  s->n_preempted++;
  s->run = s->n_nodes = 0;
  /* A policy that decides by history would decide otherwise on a second run: its sequences are swapped. */
  if (how == TN_PREEMPT_SWAP || e->ev.scores) {
    if (tn_kv_save(e->kv, s->kv, &s->swapped, &s->n_swapped) == TN_OK) {
      e->n_swapped_out++;
      give_up_kv(e, s);
      return;
    }
  }
  give_up_kv(e, s);
  end_in_plugins(e, s);
  if (s->signals) tn_signals_clear(s->signals, e->n_groups, e->cap_entries);
  if (s->req.score_from < s->n_done) s->req.score_from = s->n_done; /* rows before were told */
  s->n_done = s->n_cached = 0;
  s->foreign = false;
  s->next_evict = TN_POS_INF;
}

static void unlink_seq(tn_engine *e, const tn_seq *s)
{
  for (tn_seq **at = &e->first; *at; at = &(*at)->next) {
    if (*at != s) continue;
    *at = s->next;
    e->n_seqs--;
    break;
  }
  for (uint32_t i = 0; i < e->view.n; i++)
    if (e->by_index[i] == s) e->by_index[i] = NULL;
  for (uint32_t i = 0; i < e->n_running; i++) {
    if (e->running[i] != s) continue;
    memmove(e->running + i, e->running + i + 1, (e->n_running - i - 1) * sizeof *e->running);
    e->n_running--;
    break;
  }
}

void tn_engine_discard(tn_engine *e, tn_seq *s)
{
  unlink_seq(e, s);
  end_in_plugins(e, s);
  give_up_kv(e, s);
  tn_signals_free(s->signals, e->n_groups);
  tn_seq_free(s);
}

void tn_engine_finish(tn_engine *e, tn_seq *s, uint32_t why, const char *msg)
{
  s->finish = why;
  e->n_finished++;
  if (e->cfg.events.finish) e->cfg.events.finish(e->cfg.events.ctx, s, why, msg);
  tn_engine_discard(e, s);
}

/* max_new -1 as a number: what the context has left behind the prompt. */
static void resolve_until_full(const tn_engine *e, tn_request *r, int64_t before)
{
  int64_t room = e->cfg.ctx - before - r->n_prompt;
  if (r->max_new == TN_UNTIL_FULL) r->max_new = room > 0 ? room : 0;
}

static tn_status check_request(const tn_engine *e, const tn_request *r, int64_t before, tn_err *err)
{
  if (r->n_prompt < 1) return tn_fail(err, TN_E_ARG, "the prompt is empty");
  if (r->max_new < 0)
    return tn_fail(err, TN_E_ARG, "max_new = %lld: must be >= 0, or -1 (until the context is full)",
                   (long long)r->max_new);
  if (r->n_forced < 0 || (r->n_forced > 0 && r->max_new > r->n_forced))
    return tn_fail(err, TN_E_ARG, "max_new = %lld: there are %lld forced tokens", (long long)r->max_new,
                   (long long)r->n_forced);
  for (int64_t i = 0; i < r->n_forced; i++)
    if (r->forced[i] < 0 || (uint32_t)r->forced[i] >= e->n_vocab)
      return tn_fail(err, TN_E_ARG, "forced token %lld is %d: the vocabulary has %u", (long long)i, r->forced[i],
                     e->n_vocab);
  if (r->n_logprobs > TN_MAX_LOGPROBS)
    return tn_fail(err, TN_E_ARG, "logprobs = %u: at most %u", r->n_logprobs, TN_MAX_LOGPROBS);
  for (int64_t i = 0; i < r->n_prompt; i++)
    if (r->prompt[i] < 0 || (uint32_t)r->prompt[i] >= e->n_vocab)
      return tn_fail(err, TN_E_ARG, "prompt token %lld is %d: the vocabulary has %u", (long long)i, r->prompt[i],
                     e->n_vocab);
  int64_t have = before + r->n_prompt;
  uint64_t most = (uint64_t)have + (uint64_t)r->max_new; /* the sum of any two passes int64_t, not this */
  if (most > (uint64_t)e->cfg.ctx)
    return tn_fail(err, TN_E_NEVER,
                   "the request needs %llu tokens (%lld of prompt, %lld to generate), the context has %lld",
                   (unsigned long long)most, (long long)have, (long long)r->max_new, (long long)e->cfg.ctx);
  if (e->draft.desc && e->cfg.verify == TN_VERIFY_GREEDY && r->sampling.temperature > 0)
    return tn_fail(
        err, TN_E_ARG,
        "temperature = %g with verify = greedy: drafted tokens can only be checked greedily; use verify = lossless",
        r->sampling.temperature);
  tn_status st = tn_kv_could_hold(e->kv, (int64_t)most, err);
  return st == TN_OK ? tn_sampling_check(&r->sampling, e->n_vocab, err) : st;
}

static tn_status grow_view(tn_engine *e, tn_err *err)
{
  if (e->n_seqs < e->cap_seqs) return TN_OK;
  uint32_t cap = e->cap_seqs ? e->cap_seqs * 2 : 16;
  size_t n = cap;
  /* seq todo held most arrival deadline: 8 bytes each; state run tokens preempt how priority: 4 bytes each */
  char *store = tn_zalloc(n, 6 * 8 + 6 * 4);
  tn_seq **by_index = tn_zalloc(n, sizeof *by_index);
  if (!store || !by_index) {
    free(store);
    free(by_index);
    return tn_fail(err, TN_E_NOMEM, "no memory for %u queued sequences", cap);
  }
  free(e->view_store);
  free(e->by_index);
  e->view_store = store;
  e->by_index = by_index;
  e->cap_seqs = cap;
  uint64_t *w = (uint64_t *)(void *)store;
  uint32_t *h = (uint32_t *)(void *)(store + 6 * 8 * n);
  tn_sched_view *v = &e->view;
  v->seq = w, v->todo = (int64_t *)(w + n), v->held = (int64_t *)(w + 2 * n), v->most = (int64_t *)(w + 3 * n);
  v->arrival_ns = w + 4 * n, v->deadline_ns = w + 5 * n;
  v->state = h, v->priority = (int32_t *)(h + n);
  e->plan = (tn_sched_plan){
      .struct_size = sizeof e->plan, .run = h + 2 * n, .tokens = h + 3 * n, .preempt = h + 4 * n, .how = h + 5 * n};
  v->n = 0;
  return TN_OK;
}

/* A new sequence at the end of the queue, its rope regime fixed. */
static tn_status enqueue(tn_engine *e, const tn_request *req, tn_seq **out, tn_err *err)
{
  tn_status st = grow_view(e, err);
  if (st == TN_OK) st = tn_seq_new(e->next_id, req, req->n_prompt + req->max_new, out, err);
  if (st != TN_OK) return st;
  tn_seq *s = *out;
  s->regime = tn_rope_regime(e->rope, s->n_prompt, s->max_len);
  st = tn_rope_table_for(e->rope, s->regime, &s->rope, err);
  if (st == TN_OK && e->ev.scores) {
    uint32_t sig = e->ev.spec.signals;
    s->signals =
        tn_signals_new(e->n_groups, e->cap_entries, sig & TN_SIG_ATTN, sig & TN_SIG_ATTN_WINDOW, sig & TN_SIG_KNORM);
    if (!s->signals) st = tn_fail(err, TN_E_NOMEM, "no memory for the eviction signals of a sequence");
  }
  if (st != TN_OK) {
    tn_seq_free(s);
    return st;
  }
  s->arrival_ns = tn_engine_now(e);
  e->next_id++;
  e->n_submitted++;
  tn_seq **at = &e->first;
  while (*at) at = &(*at)->next;
  *at = s;
  e->n_seqs++;
  return TN_OK;
}

tn_status tn_engine_submit(tn_engine *e, const tn_request *req, uint64_t *seq, tn_err *err)
{
  tn_seq *s;
  tn_request r = *req;
  uint32_t waiting = e->n_seqs - e->n_resident;
  if (e->cfg.max_queued > 0 && waiting >= e->cfg.max_queued)
    return tn_fail(err, TN_E_FULL, "%u requests wait, at most %u may", waiting, e->cfg.max_queued);
  resolve_until_full(e, &r, 0);
  tn_status st = check_request(e, &r, 0, err);
  if (st == TN_OK) st = enqueue(e, &r, &s, err);
  if (st == TN_OK) *seq = s->id;
  return st;
}

const tn_seq *tn_engine_seq(const tn_engine *e, uint64_t id)
{
  const tn_seq *s = e->first;
  while (s && s->id != id) s = s->next;
  return s;
}

void tn_engine_cancel(tn_engine *e, uint64_t id)
{
  tn_seq *s = e->first;
  while (s && s->id != id) s = s->next;
  if (s) s->finish = TN_FINISH_CANCELLED;
}

tn_status tn_engine_continue(tn_engine *e, const int32_t *text, int64_t n_text, const tn_request *req, tn_seq **out,
                             tn_err *err)
{
  tn_request r = *req;
  resolve_until_full(e, &r, n_text);
  tn_status st = check_request(e, &r, n_text, err);
  if (st != TN_OK) return st;
  int32_t *all = malloc((size_t)(n_text + req->n_prompt) * sizeof *all);
  if (!all)
    return tn_fail(err, TN_E_NOMEM, "no memory for a prompt of %lld tokens",
                   (long long)n_text + (long long)req->n_prompt);
  memcpy(all, text, (size_t)n_text * sizeof *all);
  memcpy(all + n_text, req->prompt, (size_t)req->n_prompt * sizeof *all);
  r.prompt = all;
  r.n_prompt = n_text + req->n_prompt;
  st = enqueue(e, &r, out, err);
  free(all);
  return st;
}

static void copy_signals(const tn_engine *e, const tn_seq *from, tn_seq *to)
{
  if (!from->signals) return;
  size_t bytes = e->cap_entries * sizeof(int64_t);
  for (uint32_t g = 0; g < e->n_groups; g++) {
    if (from->signals->attn[g]) memcpy(to->signals->attn[g], from->signals->attn[g], bytes);
    if (from->signals->win[g]) memcpy(to->signals->win[g], from->signals->win[g], bytes);
    if (from->signals->knorm[g]) memcpy(to->signals->knorm[g], from->signals->knorm[g], bytes);
  }
}

static tn_status fork_in_plugins(tn_engine *e, uint64_t parent, uint64_t child, tn_err *err)
{
  const char *key;
  const tn_instance *in;
  for (uint32_t i = 0; tn_engine_instance(e, i, &key, &in); i++) {
    const tn_ext_sequence *x = sequence_ext(in);
    tn_status st = x && x->fork ? x->fork(in->inst, parent, child) : TN_OK;
    if (st != TN_OK)
      return tn_fail(err, st, "%s/%s: fork: %s", tn_slot_name(in->desc->slot), in->desc->name, tn_status_name(st));
  }
  return TN_OK;
}

tn_status tn_engine_fork(tn_engine *e, uint64_t parent, const tn_request *req, uint64_t *seq, tn_err *err)
{
  const tn_seq *p = tn_engine_seq(e, parent);
  if (!p || !p->kv) return tn_fail(err, TN_E_STATE, "sequence %llu holds no KV to share", (unsigned long long)parent);
  tn_seq *s;
  tn_status st = tn_engine_continue(e, p->tokens, p->n_done, req, &s, err);
  if (st != TN_OK) return st;
  tn_err why = tn_err_init();
  s->foreign = p->foreign;
  st = tn_engine_admit_empty(e, s, &why);
  if (st == TN_OK && s->regime != p->regime)
    st = tn_fail(&why, TN_E_UNSUPPORTED, "position/%s turns so long a text otherwise", e->position.desc->name);
  if (st == TN_OK) st = tn_kv_fork(e->kv, p->kv, s->kv);
  if (st == TN_OK) st = fork_in_plugins(e, parent, s->id, &why);
  if (st != TN_OK) {
    tn_engine_discard(e, s);
    return tn_fail(err, st, "sequence %llu cannot be forked now: %s", (unsigned long long)parent,
                   why.msg[0] ? why.msg : tn_status_name(st));
  }
  copy_signals(e, p, s);
  s->n_done = s->n_cached = p->n_done;
  tn_evict_continue(e, s, p->window_end, p->next_evict);
  *seq = s->id;
  return TN_OK;
}
