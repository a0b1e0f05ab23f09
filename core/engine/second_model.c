/* second_model: a model beside the target, for drafters. Its own engine on the same plugins, without speculation,
 * eviction or a scheduler's say: eval() appends tokens to a sequence and returns the logits behind the last one. */
#include <stdlib.h>
#include <string.h>

#include "engine_int.h"

typedef struct second {
  tn_model *model;
  tn_engine *engine;
  tn_layer_part attention;
  tn_plan plan;
} second;

static const tn_value no_values[1];

tn_status tn_second_open(tn_hctx *ctx, const char *path, void **out, tn_err *err)
{
  tn_engine *e = tn_hctx_engine(ctx);
  *out = NULL;
  second *m = tn_zalloc(1, sizeof *m);
  if (!m) return tn_fail(err, TN_E_NOMEM, "no memory for a second model");
  tn_status st = tn_model_open(path, NULL, NULL, &m->model, err);
  if (st == TN_OK && m->model->shape.n_vocab != e->n_vocab)
    st = tn_fail(err, TN_E_ARG, "%s: a vocabulary of %u tokens, the target has %u", path, m->model->shape.n_vocab,
                 e->n_vocab);
  if (st == TN_OK) {
    tn_engine_cfg c = e->cfg;
    m->attention = (tn_layer_part){e->cfg.attention[0].part, 0, m->model->shape.n_layers};
    if (e->cfg.plan) m->plan = *e->cfg.plan;
    m->plan.model = &m->model->shape;
    m->plan.world = 1;
    c.model = m->model;
    c.plan = &m->plan;
    c.attention = &m->attention;
    c.n_attention = 1;
    c.draft = c.eviction = c.weights = c.parallel = c.demote = (tn_part_ref){NULL, no_values};
    c.events = (tn_events){0};
    c.rollback = TN_MAX_DEPTH + 1;
    c.progress = NULL;
    st = tn_engine_open(&c, &m->engine, err);
  }
  if (st != TN_OK) {
    tn_second_close(ctx, m);
    return st;
  }
  *out = m;
  return TN_OK;
}

void tn_second_close(tn_hctx *ctx, void *model)
{
  (void)ctx;
  second *m = model;
  if (!m) return;
  tn_engine_close(m->engine);
  tn_model_close(m->model);
  free(m);
}

/* The sequence that stands for the target's `user`; made on first use with room for the whole context. */
static tn_status find_or_make(tn_engine *e, uint64_t user, int32_t token, tn_seq **out)
{
  for (tn_seq *s = e->first; s; s = s->next)
    if ((uint64_t)(uintptr_t)s->req.user == user) {
      *out = s;
      return TN_OK;
    }
  if (e->n_resident == e->cfg.max_seqs) tn_engine_finish(e, e->first, TN_FINISH_CANCELLED, NULL);
  tn_request r = {.prompt = &token,
                  .n_prompt = 1,
                  .max_new = e->cfg.ctx - 1,
                  .sampling = tn_sampling_default(),
                  .user = (void *)(uintptr_t)user};
  uint64_t id;
  tn_status st = tn_engine_submit(e, &r, &id, NULL);
  if (st != TN_OK) return st;
  tn_seq *s = e->first;
  while (s->id != id) s = s->next;
  st = tn_engine_admit(e, s, NULL);
  if (st != TN_OK) {
    tn_engine_finish(e, s, TN_FINISH_ERROR, NULL);
    return st;
  }
  s->n_tok = 0;
  *out = s;
  return TN_OK;
}

static tn_status run_chunk(tn_engine *e, tn_seq *s, uint32_t n)
{
  s->run = n;
  s->n_nodes = 0;
  tn_status st = tn_kv_reserve(e->kv, s->kv, n);
  if (st != TN_OK) return st;
  tn_batch_begin(e->batcher);
  tn_batch_add(e->batcher, s, e->kv, NULL);
  tn_batch *b = tn_batch_end(e->batcher);
  st = tn_tiler_fill(e, &s, 1, b, NULL);
  if (st == TN_OK) st = tn_exec_run(e->exec, 0, UINT32_MAX, b);
  if (st == TN_OK && b->n_out > 0) st = tn_exec_logits(e->exec, b->n_out, e->logits);
  if (st == TN_OK) st = tn_kv_commit(e->kv, s->kv, n, NULL, s->n_done);
  if (st == TN_OK) s->n_done += n;
  return st;
}

/* Keeps the first `to` tokens. Where masks have freed what a query there would see, they are run again. */
static tn_status go_back(tn_engine *e, tn_seq *s, int64_t to)
{
  tn_status st = tn_kv_truncate(e->kv, s->kv, to);
  s->n_done = to;
  if (st != TN_E_STATE) return st;
  tn_engine_preempt(e, s, TN_PREEMPT_RECOMPUTE);
  return tn_engine_admit(e, s, NULL);
}

tn_status tn_second_eval(tn_hctx *ctx, void *model, uint64_t seq, int64_t n_keep, const int32_t *tokens, int64_t n,
                         const float **logits)
{
  (void)ctx;
  tn_engine *e = ((second *)model)->engine;
  tn_seq *s;
  if (n < 1 || n_keep < 0) return TN_E_ARG;
  for (int64_t i = 0; i < n; i++)
    if (tokens[i] < 0 || (uint32_t)tokens[i] >= e->n_vocab) return TN_E_ARG;
  tn_status st = find_or_make(e, seq, tokens[0], &s);
  if (st != TN_OK) return st;
  if (n_keep > s->n_done || n_keep + n > s->max_len) return TN_E_ARG;
  st = go_back(e, s, n_keep);
  if (st == TN_OK) memcpy(s->tokens + n_keep, tokens, (size_t)n * sizeof *tokens);
  s->n_tok = n_keep + n;
  while (st == TN_OK && s->n_done < s->n_tok) {
    int64_t left = s->n_tok - s->n_done;
    st = run_chunk(e, s, left < e->cfg.max_rows ? (uint32_t)left : e->cfg.max_rows);
  }
  if (st != TN_OK) tn_engine_discard(e, s); /* the next call starts over */
  *logits = e->logits;
  return st;
}
