/* step: one turn of the engine. This is the loop; everything else is called from here.
 *
 *   1 schedule  which sequences run how many tokens; admission and preemption
 *   2 draft     a tree of guessed tokens behind each decoding sequence
 *   3 reserve   pages for those rows; too few: somebody gives way, nothing fails
 *   4 run       one flat batch through the program
 *   5 collect   verify and sample, commit and roll back, evict, emit, finish */
#include "engine_int.h"

/* Does anybody look at logits of this step? Not where tokens are given and nobody asked for their probabilities. */
static bool wants_logits(const tn_engine *e)
{
  bool wanted = e->cfg.trace != NULL;
  for (uint32_t i = 0; i < e->n_running; i++) {
    const tn_request *q = &e->running[i]->req;
    wanted = wanted || q->n_forced == 0 || q->n_logprobs > 0 || (q->score && e->cfg.events.logits);
  }
  return wanted;
}

static tn_status run(tn_engine *e, tn_err *err)
{
  tn_batch_begin(e->batcher);
  for (uint32_t i = 0; i < e->n_running; i++) {
    tn_seq *s = e->running[i];
    tn_signals *const *signals = tn_evict_node_signals(e, i, s);
    if (e->ev.scores && !signals) s->n_nodes = 0; /* no memory for what drafted rows signal: they do not run */
    tn_batch_add(e->batcher, s, e->kv, signals);
  }
  tn_batch *b = tn_batch_end(e->batcher);
  tn_status st = tn_tiler_fill(e, e->running, e->n_running, b, err);
  if (st != TN_OK) return st;
  st =
      e->cfg.trace ? tn_exec_trace(e->exec, b, e->cfg.trace, e->cfg.trace_ctx) : tn_exec_run(e->exec, 0, UINT32_MAX, b);
  if (st == TN_OK && b->n_out > 0 && wants_logits(e)) st = tn_exec_logits(e->exec, b->n_out, e->logits);
  if (st != TN_OK) return tn_fail(err, st, "backend/%s: run: %s", e->cfg.backend.desc->name, tn_status_name(st));
  e->step++;
  e->rows += b->n_rows;
  if (e->cfg.events.ran) e->cfg.events.ran(e->cfg.events.ctx);
  return TN_OK;
}

tn_status tn_engine_step(tn_engine *e, tn_err *err)
{
  tn_status st = tn_engine_schedule(e, err);
  if (st == TN_OK && e->n_running > 0) st = tn_draft_propose(e, err);
  if (st == TN_OK && e->n_running > 0) tn_engine_reserve(e);
  if (st == TN_OK && e->n_running > 0) st = run(e, err);
  if (st == TN_OK && e->n_running > 0) st = tn_engine_collect(e, err);
  if (st == TN_OK) return TN_OK;
  while (e->n_running > 0) tn_engine_finish(e, e->running[e->n_running - 1], TN_FINISH_ERROR, err ? err->msg : "");
  return st;
}
