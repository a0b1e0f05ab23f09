/* schedule: steps 1 and 3 of a turn. What the scheduler is shown, what it may answer, and what happens when pages run
 * out. See step.c. */
#include <stdio.h>
#include <string.h>

#include "engine_int.h"

/* Ends what was cancelled since the last step. */
static void reap(tn_engine *e)
{
  for (tn_seq *s = e->first, *next; s; s = next) {
    next = s->next;
    if (s->finish == TN_FINISH_CANCELLED) tn_engine_finish(e, s, TN_FINISH_CANCELLED, NULL);
  }
}

/* What changes when a sequence is admitted or preempted, so that the scheduler's next answer in this step knows. */
static void show_state(tn_engine *e, uint32_t at)
{
  tn_seq *s = e->by_index[at];
  if (s->kv)
    s->state = s->n_done < s->n_prompt || tn_seq_todo(s) > 1 ? TN_SEQ_PREFILL : TN_SEQ_DECODE;
  else
    s->state = s->swapped ? TN_SEQ_SWAPPED : TN_SEQ_WAITING;
  ((uint32_t *)(uintptr_t)e->view.state)[at] = s->state;
  ((int64_t *)(uintptr_t)e->view.todo)[at] = tn_seq_todo(s) + tn_draft_limit(e, s);
  ((int64_t *)(uintptr_t)e->view.held)[at] = s->n_done;
}

/* What a request that may start now would find of its text need not be run. */
static void show_found(tn_engine *e)
{
  uint32_t seats = e->cfg.max_seqs - e->n_resident;
  for (uint32_t i = 0; e->prefix_cache && i < e->view.n && seats > 0; i++) {
    if (e->by_index[i]->state != TN_SEQ_WAITING) continue;
    ((int64_t *)(uintptr_t)e->view.todo)[i] -= tn_engine_found(e, e->by_index[i]);
    seats--;
  }
}

/* Its sibling's entries are not there yet, but will be. */
static bool awaits_sibling(const tn_engine *e, const tn_seq *s)
{
  if (s->req.sibling == 0 || !e->prefix_cache || s->kv || s->swapped || s->n_preempted > 0) return false;
  const tn_seq *first = tn_engine_seq(e, s->req.sibling);
  return first && first->id < s->id && first->n_done < first->n_prompt && first->n_preempted == 0;
}

static void show(tn_engine *e)
{
  uint32_t n = 0;
  tn_sched_view *v = &e->view;
  for (tn_seq *s = e->first; s; s = s->next) {
    s->run = s->n_nodes = s->preempt = 0;
    if (awaits_sibling(e, s)) continue;
    e->by_index[n] = s;
    show_state(e, n);
    ((uint64_t *)(uintptr_t)v->seq)[n] = s->id;
    ((int64_t *)(uintptr_t)v->most)[n] = s->max_len;
    ((uint64_t *)(uintptr_t)v->arrival_ns)[n] = s->arrival_ns;
    ((uint64_t *)(uintptr_t)v->deadline_ns)[n] = 0;
    ((int32_t *)(uintptr_t)v->priority)[n] = s->req.priority;
    n++;
  }
  v->n = n;
  v->step = e->step;
  show_found(e);
  v->free_tokens = tn_kv_free_tokens(e->kv);
}

static tn_status bad_plan(const tn_engine *e, tn_err *err, const char *what, uint32_t at)
{
  return tn_fail(err, TN_E_INTERNAL, "scheduler/%s: plan: entry %u %s", e->scheduler.desc->name, at, what);
}

static bool known_how(uint32_t how) { return how == TN_PREEMPT_RECOMPUTE || how == TN_PREEMPT_SWAP; }

/* The plan is inside the view, names nobody twice and fits into a step. */
static tn_status check_plan(tn_engine *e, tn_err *err)
{
  const tn_sched_plan *p = &e->plan;
  uint64_t rows = 0;
  if (p->n_run > e->view.n || p->n_preempt > e->view.n)
    return bad_plan(e, err, "is past the end of the view", p->n_run);
  for (uint32_t i = 0; i < p->n_preempt; i++) {
    if (p->preempt[i] >= e->view.n) return bad_plan(e, err, "preempts a sequence that is not there", i);
    tn_seq *s = e->by_index[p->preempt[i]];
    if (!s->kv) return bad_plan(e, err, "preempts a sequence that holds nothing", i);
    if (s->preempt) return bad_plan(e, err, "preempts a sequence twice", i);
    if (!known_how(p->how[i])) return bad_plan(e, err, "preempts in no known way", i);
    s->preempt = p->how[i];
  }
  for (uint32_t i = 0; i < p->n_run; i++) {
    if (p->run[i] >= e->view.n) return bad_plan(e, err, "runs a sequence that is not there", i);
    tn_seq *s = e->by_index[p->run[i]];
    if (s->run) return bad_plan(e, err, "runs a sequence twice", i);
    if (p->tokens[i] < 1 || p->tokens[i] > e->view.todo[p->run[i]])
      return bad_plan(e, err, "runs more tokens than there are, or none", i);
    s->run = p->tokens[i];
    rows += p->tokens[i];
  }
  if (rows > e->view.max_rows) return bad_plan(e, err, "passes the step's row limit", p->n_run);
  return TN_OK;
}

/* Room in the logits buffer: how many of the planned rows s can run; drafted rows are cut first. */
static void fit(tn_seq *s, uint32_t *out_left)
{
  int64_t todo = tn_seq_todo(s), until_evict = s->next_evict - s->n_done;
  uint32_t text = s->run > todo ? (uint32_t)todo : s->run, nodes = s->run - text;
  if (text > until_evict) text = (uint32_t)until_evict, nodes = 0;
  if (text < todo) nodes = 0;
  s->run = text;
  uint32_t out = s->req.score ? text - tn_score_first(s) : text == todo;
  if (s->req.score && out > *out_left) text -= out - *out_left, out = *out_left, nodes = 0;
  if (out > *out_left) text = out = nodes = 0;
  if (nodes > *out_left - out) nodes = *out_left - out;
  s->run = text;
  s->n_nodes = nodes; /* a limit here; draft.c puts the real number */
  *out_left -= out + nodes;
}

/* Gives a planned sequence its KV. False: it does not run now. After the first that must wait nobody new is admitted:
 * those who came later do not overtake. */
static bool admit(tn_engine *e, uint32_t at, bool *full)
{
  tn_seq *s = e->by_index[at];
  if (*full) return false;
  tn_err err = tn_err_init();
  tn_status st = tn_engine_admit(e, s, &err);
  *full = st == TN_E_FULL && e->n_resident > 0;
  if (st == TN_OK) {
    show_state(e, at);
    if (s->run > e->view.todo[at]) s->run = (uint32_t)e->view.todo[at]; /* it found a part of its text */
  }
  if (st == TN_OK || *full) return st == TN_OK;
  if (err.msg[0] == 0)
    tn_fail(&err, st, "%s",
            st == TN_E_FULL || st == TN_E_NEVER ? "the KV cache cannot hold it"
            : st == TN_E_NOMEM                  ? "no memory for it"
                                                : tn_status_name(st));
  tn_err_prefix(&err, "the sequence cannot start");
  tn_engine_finish(e, s, TN_FINISH_ERROR, err.msg);
  return false;
}

static void preempt(tn_engine *e, uint32_t at, uint32_t how)
{
  tn_engine_preempt(e, e->by_index[at], how);
  show_state(e, at);
}

tn_status tn_engine_schedule(tn_engine *e, tn_err *err)
{
  e->n_running = 0;
  reap(e);
  show(e);
  if (e->view.n == 0) return TN_OK;
  e->plan.n_run = e->plan.n_preempt = 0;
  const tn_scheduler_v1 *v = e->scheduler.desc->vtable;
  tn_status st = v->plan(e->scheduler.inst, &e->view, &e->plan);
  if (st != TN_OK) return tn_fail(err, st, "scheduler/%s: plan: %s", e->scheduler.desc->name, tn_status_name(st));
  st = check_plan(e, err);
  if (st != TN_OK) return st;
  for (uint32_t i = 0; i < e->plan.n_preempt; i++) preempt(e, e->plan.preempt[i], e->plan.how[i]);
  uint32_t out_left = e->max_out;
  bool full = false;
  for (uint32_t i = 0; i < e->plan.n_run && e->n_running < e->cfg.max_seqs; i++) {
    tn_seq *s = e->by_index[e->plan.run[i]];
    if (s->run == 0 || (!s->kv && !admit(e, e->plan.run[i], &full))) continue;
    fit(s, &out_left);
    if (s->run > 0) e->running[e->n_running++] = s;
  }
  return TN_OK;
}

static void stop_running(tn_engine *e, const tn_seq *s)
{
  for (uint32_t i = 0; i < e->n_running; i++) {
    if (e->running[i] != s) continue;
    memmove(e->running + i, e->running + i + 1, (e->n_running - i - 1) * sizeof *e->running);
    e->n_running--;
    return;
  }
}

static uint32_t index_of(const tn_engine *e, const tn_seq *s)
{
  uint32_t at = 0;
  while (at < e->view.n && e->by_index[at] != s) at++;
  return at;
}

/* Whom the scheduler wants to give way to the sequence at `blocked`; that one itself when the answer makes no sense. */
static uint32_t victim_for(tn_engine *e, uint32_t blocked, uint32_t *how)
{
  uint32_t index = blocked;
  const tn_scheduler_v1 *v = e->scheduler.desc->vtable;
  *how = TN_PREEMPT_RECOMPUTE;
  tn_status st = v->victim(e->scheduler.inst, &e->view, blocked, &index, how);
  if (!known_how(*how)) *how = TN_PREEMPT_RECOMPUTE;
  bool sane = st == TN_OK && index < e->view.n && e->by_index[index] && e->by_index[index]->kv;
  return sane ? index : blocked;
}

/* Somebody gives way to running[i]; returns where the reservation goes on. */
static uint32_t make_room(tn_engine *e, uint32_t i)
{
  uint32_t how, at = victim_for(e, index_of(e, e->running[i]), &how);
  const tn_seq *victim = e->by_index[at];
  bool before = false;
  for (uint32_t k = 0; k < i; k++) before = before || e->running[k] == victim;
  stop_running(e, victim);
  preempt(e, at, how);
  return i - before;
}

void tn_engine_reserve(tn_engine *e)
{
  for (uint32_t i = 0; i < e->n_running;) {
    tn_seq *s = e->running[i];
    tn_status st = tn_kv_reserve(e->kv, s->kv, s->run + s->n_nodes);
    if (st == TN_OK)
      i++;
    else if (s->n_nodes > 0)
      s->n_nodes = 0; /* drafted rows are the first to go */
    else if (st == TN_E_FULL && e->n_resident > 1)
      i = make_room(e, i);
    else {
      char why[160];
      bool room = st != TN_E_FULL && st != TN_E_NEVER; /* else: a page that is not free, or a backend's failure */
      snprintf(why, sizeof why, "%s%s: %s behind %lld tokens of the sequence (%s)", room ? "memory/" : "",
               room ? e->memory.desc->name : "KV cache", room ? "no usable page" : "no room", (long long)s->n_done,
               tn_status_name(st));
      tn_engine_finish(e, s, TN_FINISH_ERROR, why);
    }
  }
}
