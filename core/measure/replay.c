/* replay: see replay.h. The load's clock goes on with the machine's, or by the cost of each step. */
#include "measure/replay.h"

#include <stdlib.h>
#include <time.h>

#include "engine/engine_int.h"

#define MOST_WAITING 1024u       /* requests inside the engine that wait; the rest waits outside, in order */
#define MOST_EMPTY_TURNS 100000u /* turns in a row in which nobody runs */
#define NAP_NS 20000000u         /* a sleep until the next arrival is cut into such */
#define SHOW_NS 100000000u       /* between two calls of progress */
#define START_NS 1000000000u     /* where simulated time begins */
#define FORCED_SEED 0x5EEDu      /* tells given answers from prompts */

typedef struct pending { /* of a request that runs */
  int64_t goal;          /* tokens after which it has ended */
  uint32_t fresh;        /* tokens of this step */
} pending;

struct tn_replay {
  bool simulated;
  tn_replay_cost cost;
  uint64_t now_ns, step, rows; /* simulated: time at that many steps and rows of the engine */
  tn_engine *e;
  const tn_replay_cfg *cfg;
  tn_serving *out;
  pending *p;                  /* [n] */
  size_t touched[TN_MAX_SEQS]; /* requests with fresh tokens */
  uint32_t n_touched;
  size_t next, ended, under_way;
  int32_t *tokens, *given; /* [longest prompt], [longest answer] */
  tn_waste_now held;       /* while the step ran */
  bool ran;
  uint64_t shown_ns;
};

tn_replay *tn_replay_new(const tn_replay_cost *cost)
{
  tn_replay *r = tn_zalloc(1, sizeof *r);
  if (!r) return NULL;
  r->simulated = cost != NULL;
  if (cost) r->cost = *cost;
  r->now_ns = START_NS;
  return r;
}

void tn_replay_free(tn_replay *r) { free(r); }

uint64_t tn_replay_now(void *replay)
{
  const tn_replay *r = replay;
  if (!r->simulated) return tn_now_ns();
  if (!r->e || r->e->step == r->step) return r->now_ns;
  double us =
      (double)(r->e->step - r->step) * r->cost.us_per_step + (double)(r->e->rows - r->rows) * r->cost.us_per_row;
  return r->now_ns + (uint64_t)(us * 1e3);
}

/* Simulated time goes on from here, at least at `at`. */
static void settle_clock(tn_replay *r, uint64_t at)
{
  r->now_ns = tn_replay_now(r);
  if (at > r->now_ns) r->now_ns = at;
  r->step = r->e->step;
  r->rows = r->e->rows;
}

/* ---------------------------------------------------------------- the engine's events */

static void on_token(void *ctx, const tn_token_event *ev)
{
  tn_replay *r = ctx;
  size_t i = (size_t)(uintptr_t)ev->user;
  if (r->p[i].fresh++ == 0 && r->n_touched < TN_MAX_SEQS) r->touched[r->n_touched++] = i;
  if (r->out->r[i].n_new + r->p[i].fresh >= r->p[i].goal) tn_engine_cancel(r->e, ev->seq); /* as the client hangs up */
}

static void on_finish(void *ctx, const tn_seq *s, uint32_t why, const char *msg)
{
  tn_replay *r = ctx;
  size_t i = (size_t)(uintptr_t)s->req.user;
  bool whole = r->out->r[i].n_new + r->p[i].fresh >= r->p[i].goal;
  r->under_way--;
  r->out->r[i].n_cached = (uint32_t)s->n_cached;
  if (why == TN_FINISH_ERROR)
    tn_serving_fail(r->out, i, msg);
  else if (why != TN_FINISH_CANCELLED || whole)
    tn_serving_done(r->out, i);
  else
    return;
  r->ended++;
}

static int64_t end_of(void *ctx, const tn_seq *s)
{
  const tn_replay *r = ctx;
  int64_t goal = r->p[(size_t)(uintptr_t)s->req.user].goal, most = s->max_len - 1; /* the last token is never run */
  return goal < s->max_len - s->n_prompt ? s->n_prompt + goal - 1 : most;
}

static void on_ran(void *ctx)
{
  tn_replay *r = ctx;
  r->held = tn_waste_look(r->e, end_of, r);
  r->ran = true;
}

tn_events tn_replay_events(tn_replay *r)
{
  return (tn_events){.ctx = r, .token = on_token, .finish = on_finish, .ran = on_ran};
}

/* ---------------------------------------------------------------- requests */

static tn_status make_room(tn_replay *r, tn_err *err)
{
  const tn_trace *t = r->cfg->trace;
  int64_t prompt = t->longest_prompt > 0 ? t->longest_prompt : 1, answer = 1;
  for (size_t i = 0; i < t->n; i++)
    if (tn_replay_asks(r->cfg, i) > answer) answer = tn_replay_asks(r->cfg, i);
  r->p = tn_zalloc(t->n, sizeof *r->p);
  r->tokens = tn_zalloc((size_t)prompt, sizeof *r->tokens);
  r->given = tn_zalloc((size_t)answer, sizeof *r->given);
  if (!r->p || !r->tokens || !r->given) return tn_fail(err, TN_E_NOMEM, "no memory for %zu requests", t->n);
  tn_replay_tokens(r->cfg->seed ^ FORCED_SEED, 0, r->e->n_vocab, r->given, answer);
  return TN_OK;
}

/* Request i, arrived at arrival_ns. TN_E_FULL: the engine takes none now. */
static tn_status submit(tn_replay *r, size_t i, uint64_t arrival_ns, tn_err *err)
{
  const tn_trace_request *t = &r->cfg->trace->r[i];
  tn_served *x = &r->out->r[i];
  tn_err why = tn_err_init();
  uint64_t id;
  x->n_prompt = t->n_prompt > 0 ? t->n_prompt : 1;
  if (!t->tokens) tn_replay_tokens(r->cfg->seed, i, r->e->n_vocab, r->tokens, x->n_prompt);
  r->p[i].goal = tn_replay_goal(r->cfg, i);
  tn_request q = {.prompt = t->tokens ? t->tokens : r->tokens,
                  .n_prompt = x->n_prompt,
                  .max_new = tn_replay_asks(r->cfg, i),
                  .sampling = tn_sampling_default(),
                  .key = r->cfg->seed + i,
                  .ignore_eog = r->p[i].goal < INT64_MAX,
                  .user = (void *)(uintptr_t)i};
  if (r->simulated) {
    q.forced = r->given;
    q.n_forced = q.max_new;
  }
  tn_status st = tn_engine_submit(r->e, &q, &id, &why);
  if (st == TN_E_FULL) return st;
  if (st == TN_E_NOMEM) return tn_fail(err, st, "%s", why.msg);
  x->arrival_ns = arrival_ns;
  if (st == TN_OK) {
    r->under_way++;
  } else {
    tn_serving_fail(r->out, i, why.msg);
    r->ended++;
  }
  return TN_OK;
}

/* When the next request arrives, UINT64_MAX: not now. */
static uint64_t next_arrival(const tn_replay *r, uint64_t now)
{
  const tn_replay_cfg *c = r->cfg;
  if (r->next == c->trace->n || (c->concurrency > 0 && r->under_way >= c->concurrency)) return UINT64_MAX;
  if (!c->trace->timed) return now;
  return r->out->start_ns + tn_replay_arrival(c, r->next);
}

static tn_status submit_due(tn_replay *r, tn_err *err)
{
  uint64_t now = tn_replay_now(r), at;
  while ((at = next_arrival(r, now)) <= now && r->e->n_seqs - r->e->n_resident < MOST_WAITING) {
    tn_status st = submit(r, r->next, at, err);
    if (st == TN_E_FULL) return TN_OK;
    if (st != TN_OK) return st;
    r->next++;
  }
  return TN_OK;
}

/* ---------------------------------------------------------------- the run */

/* What the step gave goes out. */
static tn_status flush(tn_replay *r, uint64_t now, tn_err *err)
{
  tn_status st = TN_OK;
  for (uint32_t k = 0; k < r->n_touched; k++) {
    size_t i = r->touched[k];
    if (st == TN_OK) st = tn_serving_piece(r->out, i, r->p[i].fresh, now);
    r->p[i].fresh = 0;
  }
  r->n_touched = 0;
  return st == TN_OK ? st : tn_fail(err, st, "no memory for the times of tokens");
}

static tn_status turn(tn_replay *r, tn_replay_result *more, tn_err *err)
{
  uint64_t from = tn_replay_now(r), host = tn_now_ns();
  r->ran = false;
  tn_status st = tn_engine_step(r->e, err);
  more->host_seconds += (double)(tn_now_ns() - host) * 1e-9;
  uint64_t now = tn_replay_now(r);
  if (r->simulated) settle_clock(r, now);
  if (r->ran) tn_waste_add(&more->waste, &r->held, (double)(now - from) * 1e-9);
  tn_status flushed = flush(r, now, st == TN_OK ? err : NULL);
  return st == TN_OK ? flushed : st;
}

/* Until the next request arrives, or for a while. */
static void wait_for(tn_replay *r, uint64_t at)
{
  if (r->simulated) {
    settle_clock(r, at);
    return;
  }
  uint64_t now = tn_now_ns(), ns = at > now ? at - now : 0;
  if (ns > NAP_NS) ns = NAP_NS;
  struct timespec t = {.tv_sec = 0, .tv_nsec = (long)ns};
  nanosleep(&t, NULL);
}

/* False: break off. */
static bool show(tn_replay *r)
{
  uint64_t host = tn_now_ns();
  if (!r->cfg->progress || host - r->shown_ns < SHOW_NS) return true;
  r->shown_ns = host;
  tn_replay_state s = {.n = r->cfg->trace->n,
                       .ended = r->ended,
                       .under_way = r->under_way,
                       .seconds = (double)(tn_replay_now(r) - r->out->start_ns) * 1e-9};
  return r->cfg->progress(r->cfg->ctx, &s);
}

static tn_status run(tn_replay *r, tn_replay_result *more, tn_err *err)
{
  tn_status st = TN_OK;
  uint32_t empty = 0;
  while (st == TN_OK && show(r)) {
    st = submit_due(r, err);
    if (st != TN_OK) break;
    if (tn_engine_idle(r->e)) {
      uint64_t at = next_arrival(r, tn_replay_now(r));
      if (at == UINT64_MAX) break;
      wait_for(r, at);
      continue;
    }
    st = turn(r, more, err);
    empty = r->ran || tn_engine_idle(r->e) ? 0 : empty + 1;
    if (r->simulated && empty > 0) wait_for(r, r->now_ns + 1000);
    if (st == TN_OK && empty > MOST_EMPTY_TURNS)
      st = tn_fail(err, TN_E_STATE, "scheduler/%s runs nobody, and %u requests are there", r->e->scheduler.desc->name,
                   r->e->n_seqs);
  }
  return st;
}

static void take_stat(const tn_replay *r, const tn_engine_info *before, tn_replay_result *more)
{
  tn_engine_info i = tn_engine_stat(r->e);
  more->steps = i.steps - before->steps;
  more->rows = i.rows - before->rows;
  more->n_preempted = i.n_preempted - before->n_preempted;
  more->n_swapped = i.n_swapped_out - before->n_swapped_out;
  more->kv_bytes_total = i.kv_bytes_total;
}

/* Ends who is left, so that the engine is as it was. */
static void clear(tn_engine *e)
{
  for (tn_seq *s = e->first, *next; s; s = next) {
    next = s->next;
    tn_engine_finish(e, s, TN_FINISH_CANCELLED, NULL);
  }
}

tn_status tn_replay_run(tn_replay *r, tn_engine *e, const tn_replay_cfg *cfg, tn_serving *out, tn_replay_result *more,
                        tn_err *err)
{
  tn_engine_info before = tn_engine_stat(e);
  *more = (tn_replay_result){0};
  r->e = e;
  r->cfg = cfg;
  r->out = out;
  r->next = r->ended = r->under_way = 0;
  settle_clock(r, r->now_ns);
  tn_status st = tn_serving_new(out, cfg->trace->n, err);
  if (st == TN_OK) st = make_room(r, err);
  out->start_ns = out->end_ns = tn_replay_now(r);
  if (st == TN_OK) {
    st = run(r, more, err);
    out->end_ns = tn_replay_now(r);
    take_stat(r, &before, more);
    clear(e);
  }
  free(r->p);
  free(r->tokens);
  free(r->given);
  r->p = NULL;
  r->tokens = r->given = NULL;
  r->e = NULL;
  return st;
}
