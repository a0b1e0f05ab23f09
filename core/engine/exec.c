/* exec: what the engine asks of all ranks. See exec.h. */
#include <string.h>

#include "exec_open.h"
#include "transport.h"

typedef tn_status (*rank_fn)(tn_rank *r, void *arg);

typedef struct job {
  tn_exec *x;
  rank_fn fn;
  void *arg;
} job;

static void run_rank(void *arg, uint32_t worker, uint32_t n)
{
  (void)n;
  job *j = arg;
  j->x->status[worker] = j->fn(&j->x->ranks[worker], j->arg);
  if (j->x->status[worker] != TN_OK) tn_transport_abort(j->x->transport);
}

/* fn on every rank at once; the first failure that is not another rank's abort counts. */
static tn_status on_all(tn_exec *x, rank_fn fn, void *arg)
{
  if (x->world == 1) return fn(&x->ranks[0], arg);
  job j = {x, fn, arg};
  tn_transport_reset(x->transport);
  tn_pool_gang(x->rank_pool, run_rank, &j);
  tn_status worst = TN_OK;
  for (uint32_t r = 0; r < x->world; r++)
    if (x->status[r] != TN_OK && (worst == TN_OK || worst == TN_E_STATE)) worst = x->status[r];
  return worst;
}

typedef struct run_arg {
  uint32_t first, last;
  const tn_batch *batch;
} run_arg;

static tn_status do_run(tn_rank *r, void *arg)
{
  const run_arg *a = arg;
  uint32_t last = a->last == UINT32_MAX ? r->built->program.n_ops : a->last;
  return r->b->run(r->backend.inst, r->prepared, a->first, last, a->batch);
}

tn_status tn_exec_run(tn_exec *x, uint32_t first, uint32_t last, const tn_batch *batch)
{
  run_arg a = {first, last, batch};
  return on_all(x, do_run, &a);
}

tn_status tn_exec_logits(tn_exec *x, uint32_t n_out, float *dst)
{
  tn_rank *r = &x->ranks[0];
  const tn_tensor *t = &r->logits;
  tn_status st =
      r->b->download(r->backend.inst, t->buf, t->offset, dst, (uint64_t)n_out * (uint64_t)t->ne[0] * sizeof *dst);
  return st == TN_OK ? r->b->sync(r->backend.inst) : st;
}

static tn_status do_move(tn_rank *r, void *arg) { return r->b->kv_move(r->backend.inst, r->kv, arg); }

tn_status tn_exec_kv_move(tn_exec *x, const tn_kv_moves *m)
{
  tn_kv_moves copy = *m;
  return on_all(x, do_move, &copy);
}

typedef struct state_arg {
  uint32_t group;
  int32_t state;
  const tn_kv_view *view;
} state_arg;

static tn_status do_reset(tn_rank *r, void *arg)
{
  const state_arg *a = arg;
  return r->b->state_reset(r->backend.inst, r->kv, a->group, a->state);
}

static tn_status do_fold(tn_rank *r, void *arg)
{
  const state_arg *a = arg;
  return r->b->state_fold(r->backend.inst, r->kv, a->group, a->view);
}

tn_status tn_exec_state_reset(tn_exec *x, uint32_t group, int32_t state)
{
  state_arg a = {group, state, NULL};
  return on_all(x, do_reset, &a);
}

tn_status tn_exec_state_fold(tn_exec *x, uint32_t group, const tn_kv_view *view)
{
  state_arg a = {group, -1, view};
  return on_all(x, do_fold, &a);
}

uint64_t tn_exec_page_bytes(const tn_exec *x, uint32_t pool)
{
  uint64_t n = 0;
  for (uint32_t r = 0; r < x->world; r++) n += x->ranks[r].page_bytes[pool];
  return n;
}

tn_status tn_exec_page_read(tn_exec *x, uint32_t pool, int32_t page, void *dst)
{
  uint8_t *at = dst;
  for (uint32_t i = 0; i < x->world; i++) {
    tn_rank *r = &x->ranks[i];
    tn_status st = r->b->kv_page_read(r->backend.inst, r->kv, pool, page, at);
    if (st == TN_OK) st = r->b->sync(r->backend.inst);
    if (st != TN_OK) return st;
    at += r->page_bytes[pool];
  }
  return TN_OK;
}

tn_status tn_exec_page_write(tn_exec *x, uint32_t pool, int32_t page, const void *src)
{
  const uint8_t *at = src;
  for (uint32_t i = 0; i < x->world; i++) {
    tn_rank *r = &x->ranks[i];
    tn_status st = r->b->kv_page_write(r->backend.inst, r->kv, pool, page, at);
    if (st == TN_OK) st = r->b->sync(r->backend.inst);
    if (st != TN_OK) return st;
    at += r->page_bytes[pool];
  }
  return TN_OK;
}
