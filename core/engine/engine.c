/* engine: opening and closing. See engine.h; the loop is in step.c. */
#include <stdlib.h>
#include <string.h>

#include "engine_int.h"

#define LOGITS_BYTES (64u << 20) /* of logits rows kept for one step, at most (but 16 rows at least) */

static void set_defaults(tn_engine *e)
{
  tn_engine_cfg *c = &e->cfg;
  if (c->threads == 0) c->threads = tn_cpus_allowed();
  if (c->max_rows == 0) c->max_rows = 512;
  if (c->max_seqs == 0) c->max_seqs = 8;
  int64_t trained = e->model->shape.n_ctx_train;
  if (c->ctx == 0) c->ctx = trained < 8192 ? trained : 8192;
  e->n_vocab = e->model->shape.n_vocab;
}

static tn_status check_cfg(const tn_engine_cfg *c, tn_err *err)
{
  const struct {
    const char *key;
    const tn_desc *desc;
  } needed[] = {{"backend", c->backend.desc},
                {"memory", c->memory.desc},
                {"position", c->position.desc},
                {"scheduler", c->scheduler.desc}};
  for (size_t i = 0; i < TN_ARRAY_LEN(needed); i++)
    if (!needed[i].desc) return tn_fail(err, TN_E_ARG, "the composition has no %s", needed[i].key);
  if (c->n_attention == 0) return tn_fail(err, TN_E_ARG, "the composition has no attention");
  if (c->max_seqs > TN_MAX_SEQS) return tn_fail(err, TN_E_ARG, "max_seqs = %u: at most %u", c->max_seqs, TN_MAX_SEQS);
  if (c->max_rows > 65536) return tn_fail(err, TN_E_ARG, "max_rows = %u: at most 65536", c->max_rows);
  if (c->ctx < 1 || c->ctx > (int64_t)1 << 30)
    return tn_fail(err, TN_E_ARG, "ctx = %lld: between 1 and 2^30", (long long)c->ctx);
  return TN_OK;
}

static const tn_layout f16 = {.struct_size = sizeof(tn_layout), .kind = TN_LAY_DENSE, .dtype = TN_DT_F16};

static tn_status kv_layouts(const tn_instance *q, const tn_model_shape *shape, const char *key, const tn_layout **k,
                            const tn_layout **v, tn_err *err)
{
  *k = *v = &f16;
  if (!q->desc) return TN_OK;
  const tn_quantizer_v1 *vt = q->desc->vtable;
  if (!TN_CAN(vt, kv_layout))
    return tn_fail(err, TN_E_UNSUPPORTED, "%s = %s: this quantizer is for weights only", key, q->desc->name);
  tn_status st = vt->kv_layout(q->inst, shape, k, v, err);
  if (st != TN_OK) tn_err_prefix(err, "%s = %s", key, q->desc->name);
  return st;
}

static tn_status check_evict_spec(const tn_engine *e, tn_err *err)
{
  const char *name = e->eviction.desc->name;
  if (!TN_CAN(e->ev.v, when) || !TN_CAN(e->ev.v, score))
    return tn_fail(err, TN_E_INTERNAL, "eviction/%s: a scoring policy needs when() and score()", name);
  if (e->ev.spec.rank_rope && e->ev.spec.first_layer > 0)
    return tn_fail(err, TN_E_INTERNAL,
                   "eviction/%s: keys rotated by rank (rank_rope) need all layers, not those from %u", name,
                   e->ev.spec.first_layer);
  return TN_OK;
}

static tn_status describe_policies(tn_engine *e, tn_err *err)
{
  tn_status st = TN_OK;
  if (e->eviction.desc) {
    e->ev.v = e->eviction.desc->vtable;
    e->ev.spec = (tn_evict_spec){.struct_size = sizeof e->ev.spec, .mask = TN_MASK_ALL, .gran = TN_GRAN_ALL};
    st = e->ev.v->describe(e->eviction.inst, e->cfg.plan, &e->ev.spec, err);
    e->ev.scores = e->ev.spec.kind == TN_EV_SCORE;
    if (st == TN_OK && e->ev.scores) st = check_evict_spec(e, err);
  }
  if (st == TN_OK && e->cfg.draft.desc) {
    const tn_draft_v1 *v = e->cfg.draft.desc->vtable;
    st = tn_instance_new(e->cfg.draft.desc, e->cfg.draft.values, &e->services, &e->draft, err);
    e->dr.spec = (tn_draft_spec){.struct_size = sizeof e->dr.spec};
    if (st == TN_OK) st = v->describe(e->draft.inst, e->cfg.plan, &e->dr.spec, err);
    e->dr.max_nodes = e->dr.spec.max_nodes;
    if (e->dr.max_nodes > TN_MAX_NODES) e->dr.max_nodes = TN_MAX_NODES;
    if (e->dr.max_nodes >= e->cfg.max_rows) e->dr.max_nodes = e->cfg.max_rows - 1;
  }
  return st;
}

static tn_status plan_memory(tn_engine *e, tn_err *err)
{
  const tn_memory_v1 *m = e->memory.desc->vtable;
  tn_group_in in = {.shape = &e->model->shape,
                    .attn = e->attn,
                    .evict = e->ev.v ? &e->ev.spec : NULL,
                    .page_tokens = TN_CAN(m, page_tokens) ? m->page_tokens(e->memory.inst) : 16,
                    .max_seqs = e->cfg.max_seqs,
                    .max_rows = e->cfg.max_rows,
                    .max_ctx = e->cfg.ctx,
                    .budget_bytes = e->cfg.kv_budget,
                    .rollback = e->cfg.rollback,
                    .n_layouts = e->demote.desc ? 2 : 1};
  tn_status st = kv_layouts(&e->kv_quantizer, &e->model->shape, "kv", &in.k_layouts[0], &in.v_layouts[0], err);
  if (st == TN_OK && e->demote.desc)
    st = kv_layouts(&e->demote, &e->model->shape, "demote", &in.k_layouts[1], &in.v_layouts[1], err);
  if (st == TN_OK && e->ev.v && e->ev.spec.demotes && !e->demote.desc)
    st = tn_fail(err, TN_E_ARG,
                 "eviction = %s demotes entries to fewer bits: name a quantizer with demote =", e->eviction.desc->name);
  if (st == TN_OK) st = tn_groups_plan(&in, &e->groups, err);
  e->n_groups = e->groups.n;
  e->cap_entries = (uint32_t)(e->cfg.ctx + e->cfg.max_rows + 4 * 64);
  return st;
}

/* The drafter's taps, and behind them the engine's own. */
static tn_status list_taps(tn_engine *e, tn_err *err)
{
  uint32_t n = e->dr.spec.n_taps;
  e->taps = tn_zalloc(n + 1, sizeof *e->taps);
  if (!e->taps) return tn_fail(err, TN_E_NOMEM, "no memory for hidden taps");
  for (uint32_t i = 0; i < n; i++) e->taps[i] = e->dr.spec.taps[i];
  e->taps[n] = TN_TAP_POST_NORM;
  e->build.taps = e->taps;
  e->build.n_taps = n + (e->cfg.build_flags & TN_BUILD_HIDDEN ? 1 : 0);
  return TN_OK;
}

static tn_status open_exec(tn_engine *e, tn_err *err)
{
  const tn_engine_cfg *c = &e->cfg;
  uint64_t rows = LOGITS_BYTES / (4ull * e->n_vocab);
  e->max_out = c->max_rows < rows ? c->max_rows : (uint32_t)rows;
  if (e->max_out < 16) e->max_out = c->max_rows < 16 ? c->max_rows : 16;
  uint32_t signals = e->ev.scores ? e->ev.spec.signals : 0;
  e->build =
      (tn_build){.model = e->model,
                 .attn = e->attn_ptrs,
                 .evict = e->ev.v ? &e->ev.spec : NULL,
                 .flags = c->build_flags | (signals & (TN_SIG_ATTN | TN_SIG_ATTN_WINDOW) ? TN_BUILD_COLSUM : 0u) |
                          (signals & TN_SIG_KNORM ? TN_BUILD_KNORM : 0u)};
  tn_status st = list_taps(e, err);
  if (st != TN_OK) return st;
  tn_exec_cfg x = {.model = e->model,
                   .backend = c->backend.desc,
                   .backend_values = c->backend.values,
                   .weights = c->weights.desc,
                   .weights_values = c->weights.values,
                   .parallel = e->parallel.desc ? e->parallel.desc->vtable : NULL,
                   .parallel_inst = e->parallel.inst,
                   .plan = c->plan,
                   .build = &e->build,
                   .groups = &e->groups,
                   .threads = c->threads,
                   .max_rows = c->max_rows,
                   .max_out = e->max_out,
                   .flags = c->flags,
                   .observe = c->observe,
                   .observe_ctx = c->observe_ctx,
                   .services = &e->services,
                   .cache_dir = c->cache_dir,
                   .cache_limit = c->cache_limit,
                   .progress = c->progress,
                   .progress_ctx = c->progress_ctx,
                   .null_forward = c->null_forward};
  return tn_exec_open(&x, &e->exec, err);
}

/* Entries follow from tokens and positions alone, nobody must see every row of a text, and pages can have two holders. */
static bool may_share(const tn_engine *e)
{
  bool pages = false, plain = true;
  for (const char *const *t = e->memory.desc->provides; t && *t; t++) pages = pages || strcmp(*t, "kv.share/1") == 0;
  for (uint32_t g = 0; g < e->n_groups; g++) plain = plain && e->groups.g[g].desc.kind == TN_KV_CACHE;
  return e->cfg.prefix_cache && pages && plain && !e->ev.scores && e->dr.spec.n_taps == 0 && !e->cfg.observe;
}

static tn_status open_state(tn_engine *e, tn_err *err)
{
  const tn_engine_cfg *c = &e->cfg;
  tn_status st = tn_kv_store_open(&e->groups, e->memory.desc->vtable, e->memory.inst, e->exec, c->max_seqs, c->ctx,
                                  c->max_rows, e->model->shape.rope_dims, &e->kv, err);
  if (st == TN_OK) st = tn_rope_new(e->model, e->position.desc, e->position.inst, &e->rope, err);
  if (st == TN_OK && may_share(e)) {
    st = tn_kv_prefix_open(e->kv, err);
    e->prefix_cache = st == TN_OK;
  }
  const tn_rope_table *table; /* made now, so that a wrong option is an error of the load and not of a request */
  if (st == TN_OK) st = tn_rope_table_for(e->rope, tn_rope_regime(e->rope, 1, c->ctx), &table, err);
  if (st != TN_OK) return st;
  tn_batch_cfg b = {.max_rows = c->max_rows,
                    .max_seqs = c->max_seqs,
                    .max_out = e->max_out,
                    .n_groups = e->n_groups,
                    .renumber = e->ev.v && !e->ev.scores ? e->ev.spec.renumber : 0,
                    .groups = &e->groups,
                    .rope = e->rope,
                    .no_angles = c->null_forward,
                    .n_classes = e->model->shape.n_classes,
                    .signals = e->ev.scores,
                    .window_rows =
                        e->ev.scores && (e->ev.spec.signals & TN_SIG_ATTN_WINDOW) ? e->ev.spec.window_rows : 0};
  st = tn_batcher_new(&b, &e->batcher, err);
  if (st == TN_OK) st = tn_verifier_new(e->n_vocab, &e->verifier, err);
  if (st == TN_OK) st = tn_drafter_open(e, err);
  if (st == TN_OK) st = tn_evictor_open(e, err);
  if (st == TN_OK) st = tn_tiler_open(e, err);
  if (st != TN_OK) return st;
  e->logits = tn_zalloc((size_t)e->max_out * e->n_vocab, sizeof *e->logits);
  e->running = tn_zalloc(c->max_seqs, sizeof *e->running);
  e->dr.verdicts = tn_zalloc(c->max_seqs, sizeof *e->dr.verdicts);
  e->eog = tn_zalloc(c->n_eog, sizeof *e->eog);
  if (!e->logits || !e->running || !e->dr.verdicts || !e->eog) return tn_fail(err, TN_E_NOMEM, "no memory for logits");
  if (c->n_eog) memcpy(e->eog, c->eog, c->n_eog * sizeof *e->eog);
  e->view = (tn_sched_view){.struct_size = sizeof e->view,
                            .max_rows = c->max_rows,
                            .max_seqs = c->max_seqs,
                            .page_tokens = e->groups.page_tokens};
  return TN_OK;
}

tn_status tn_engine_open(const tn_engine_cfg *cfg, tn_engine **out, tn_err *err)
{
  static tn_status (*const phases[])(tn_engine *, tn_err *) = {tn_engine_plugins_open, describe_policies, plan_memory,
                                                               open_exec, open_state};
  *out = NULL;
  tn_engine *e = tn_zalloc(1, sizeof *e);
  if (!e) return tn_fail(err, TN_E_NOMEM, "no memory for an engine");
  e->cfg = *cfg;
  e->model = cfg->model;
  e->next_id = 1;
  tn_engine_services(e);
  set_defaults(e);
  tn_status st = check_cfg(&e->cfg, err);
  for (size_t i = 0; st == TN_OK && i < TN_ARRAY_LEN(phases); i++) st = phases[i](e, err);
  if (st != TN_OK) {
    tn_engine_close(e);
    return st;
  }
  *out = e;
  return TN_OK;
}

void tn_engine_close(tn_engine *e)
{
  if (!e) return;
  e->cfg.events = (tn_events){0};
  while (e->first) tn_engine_finish(e, e->first, TN_FINISH_CANCELLED, NULL);
  tn_instance_release(&e->draft); /* its tensors are the backend's */
  tn_tiler_close(e);
  tn_evictor_close(e);
  tn_drafter_close(e);
  tn_verifier_free(e->verifier);
  tn_batcher_free(e->batcher);
  tn_rope_free(e->rope);
  tn_kv_store_close(e->kv);
  tn_exec_close(e->exec);
  e->exec = NULL;
  tn_groups_release(&e->groups);
  tn_engine_plugins_close(e);
  free(e->logits);
  free(e->running);
  free(e->eog);
  free(e->taps);
  free(e->view_store);
  free(e->by_index);
  free(e);
}

bool tn_engine_idle(const tn_engine *e) { return e->n_seqs == 0; }
