/* exec_open: see exec_open.h. Each rank in turn: plan, backend, program, weights, KV pools, taps, prepare. */
#include "exec_open.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec_null.h"
#include "transport.h"

static tn_status on_collective(void *ctx, const tn_op *op, const tn_tensor *in, const tn_tensor *out, uint32_t n_rows)
{
  tn_rank *r = ctx;
  return r->exec->transport ? tn_transport_exchange(r->exec->transport, r, op, in, out, n_rows) : TN_E_UNSUPPORTED;
}

static tn_status on_observe(void *ctx, const tn_op *op, const tn_tensor *x, uint32_t n_rows)
{
  tn_rank *r = ctx;
  const tn_exec_cfg *c = &r->exec->cfg;
  return c->observe ? c->observe(c->observe_ctx, op, x, n_rows) : TN_OK;
}

static tn_status plan_rank(tn_rank *r, tn_err *err)
{
  const tn_exec_cfg *c = &r->exec->cfg;
  r->par = tn_par_whole(c->model);
  if (!c->parallel) return TN_OK;
  tn_status st = c->parallel->plan(c->parallel_inst, c->plan, r->index, &r->par, err);
  if (st == TN_OK && (r->par.rank != r->index || r->par.world != r->exec->world))
    st = tn_fail(err, TN_E_INTERNAL, "the plan asked for is of rank %u of %u, the one given of rank %u of %u", r->index,
                 r->exec->world, r->par.rank, r->par.world);
  if (st == TN_OK) st = tn_par_check(c->model, &r->par, err);
  return st == TN_OK ? tn_par_check_joint(c->model, r->index ? &r[-1].par : NULL, &r->par, err) : st;
}

static tn_status make_null(tn_rank *r, tn_err *err)
{
  const tn_exec_cfg *c = &r->exec->cfg;
  r->services = *c->services;
  r->null = tn_null_new(c->groups->page_bytes, c->groups->n_pools, r->par.n_kv_heads, c->model->shape.n_kv_heads);
  if (!r->null) return tn_fail(err, TN_E_NOMEM, "no memory for an executor");
  r->backend.inst = r->null;
  r->b = &tn_null_backend;
  return TN_OK;
}

static tn_status make_instances(tn_rank *r, tn_err *err)
{
  const tn_exec_cfg *c = &r->exec->cfg;
  if (c->null_forward) return make_null(r, err);
  uint32_t threads = c->threads / r->exec->world;
  r->services = *c->services;
  tn_status st = tn_pool_new(threads ? threads : 1, &r->services.pool, err);
  if (st == TN_OK) r->services.wcache = tn_rank_wcache(r);
  if (st == TN_OK) st = tn_instance_new(c->backend, c->backend_values, &r->services, &r->backend, err);
  if (st != TN_OK) return st;
  r->b = c->backend->vtable;
  tn_backend_info info = {.struct_size = sizeof info};
  st = r->b->info(r->backend.inst, &info);
  if (st != TN_OK) return tn_fail(err, st, "backend/%s: info: %s", c->backend->name, tn_status_name(st));
  if (info.max_rows && info.max_rows < c->max_rows)
    return tn_fail(err, TN_E_ARG, "backend/%s runs %u rows at once at most, [engine] max_rows is %u", c->backend->name,
                   info.max_rows, c->max_rows);
  return c->weights ? tn_instance_new(c->weights, c->weights_values, &r->services, &r->quantizer, err) : TN_OK;
}

static tn_status load_program(tn_rank *r, tn_err *err)
{
  const tn_exec_cfg *c = &r->exec->cfg;
  r->groups = tn_groups_rank(c->groups, r->par.kv_head0, r->par.n_kv_heads);
  if (!r->groups) return tn_fail(err, TN_E_NOMEM, "no memory for the page groups of rank %u", r->index);
  tn_build b = *c->build;
  b.par = r->exec->world > 1 ? &r->par : NULL;
  b.groups = (const tn_kv_group *const *)r->groups;
  b.n_groups = c->groups->n;
  tn_status st = tn_program_build(&b, &r->built, err);
  if (st != TN_OK) return st;
  tn_weights_job j = {.model = c->model,
                      .built = r->built,
                      .backend = r->b,
                      .backend_inst = r->backend.inst,
                      .quantizer = r->quantizer.inst ? c->weights->vtable : NULL,
                      .quantizer_inst = r->quantizer.inst,
                      .pool = r->null ? NULL : tn_instance_pool(&r->backend),
                      .pool_ctx = r->backend.ctx,
                      .progress = r->index == 0 ? c->progress : NULL,
                      .progress_ctx = c->progress_ctx,
                      .keep = r->services.wcache != NULL,
                      .kept = r->services.wcache && tn_wcache_reads(r->services.wcache)};
  st = tn_weights_load(&j, &r->weights, err);
  if (st == TN_OK && r->services.wcache) tn_wcache_done(r->services.wcache);
  return st == TN_OK ? tn_weights_bind(r->weights, r->built, err) : st;
}

/* Says what the size follows from, behind the backend's own words. */
static tn_status cache_too_large(const tn_groups *g, tn_err *err)
{
  char why[sizeof err->msg];
  double bytes = 0;
  for (uint32_t p = 0; p < g->n_pools; p++) bytes += (double)g->pool_pages[p] * (double)g->page_bytes[p];
  snprintf(why, sizeof why, "%s", err ? err->msg : "");
  return tn_fail(err, TN_E_NOMEM,
                 "%.300s: the KV cache takes %.0f MiB: lower [engine] ctx or max_seqs, or give it a kv_budget", why,
                 bytes / 1048576);
}

static tn_status open_kv(tn_rank *r, tn_err *err)
{
  const tn_groups *g = r->exec->cfg.groups;
  tn_kv_plan plan = {.struct_size = sizeof plan,
                     .n_pools = g->n_pools,
                     .page_tokens = g->page_tokens,
                     .n_groups = g->n,
                     .pool_pages = g->pool_pages,
                     .groups = (const tn_kv_group *const *)r->groups};
  tn_status st = r->b->kv_open(r->backend.inst, &plan, &r->kv, err);
  if (st == TN_E_NOMEM) return cache_too_large(g, err);
  if (st != TN_OK) return st;
  r->page_bytes = tn_zalloc(g->n_pools, sizeof *r->page_bytes);
  if (!r->page_bytes) return tn_fail(err, TN_E_NOMEM, "no memory for the KV pools of rank %u", r->index);
  for (uint32_t p = 0; p < g->n_pools; p++) r->page_bytes[p] = r->b->kv_page_bytes(r->backend.inst, r->kv, p);
  return TN_OK;
}

static tn_status make_taps(tn_rank *r, tn_err *err)
{
  const tn_exec_cfg *c = &r->exec->cfg;
  uint32_t n = c->build->n_taps;
  int64_t d = c->model->shape.d_model;
  r->taps = tn_zalloc(n, sizeof *r->taps);
  r->tap_ptrs = tn_zalloc(n, sizeof *r->tap_ptrs);
  if (!r->taps || !r->tap_ptrs) return tn_fail(err, TN_E_NOMEM, "no memory for hidden taps");
  for (uint32_t i = 0; i < n; i++) {
    tn_tensor *t = &r->taps[i];
    *t =
        (tn_tensor){.struct_size = sizeof *t, .dtype = TN_DT_F32, .ne = {d, c->max_rows, 1, 1}, .nb = {4, d * 4, 0, 0}};
    t->nb[2] = t->nb[3] = d * 4 * c->max_rows;
    tn_status st = r->b->buffer_new(r->backend.inst, (uint64_t)t->nb[2], &t->buf, err);
    if (st != TN_OK) return st;
    r->tap_ptrs[i] = t;
  }
  return TN_OK;
}

static tn_status prepare(tn_rank *r, tn_err *err)
{
  const tn_exec_cfg *c = &r->exec->cfg;
  tn_prepare p = {.struct_size = sizeof p,
                  .flags = c->flags,
                  .max_rows = c->max_rows,
                  .max_out = c->max_out,
                  .n_taps = c->build->n_taps,
                  .rank = r->index,
                  .taps = r->tap_ptrs,
                  .ctx = r,
                  .observe = on_observe,
                  .collective = on_collective};
  tn_status st = r->b->prepare(r->backend.inst, &r->built->program, &p, r->kv, &r->prepared, err);
  if (st != TN_OK) return st;
  st = r->b->act(r->backend.inst, r->prepared, r->built->program.logits, &r->logits);
  return st == TN_OK ? st : tn_fail(err, st, "%s: no handle for the logits", c->backend->name);
}

static tn_status open_rank(tn_rank *r, tn_err *err)
{
  static tn_status (*const phases[])(tn_rank *, tn_err *) = {plan_rank, make_instances, load_program,
                                                             open_kv,   make_taps,      prepare};
  tn_err why = tn_err_init();
  for (size_t i = 0; i < TN_ARRAY_LEN(phases); i++) {
    tn_status st = phases[i](r, &why);
    if (st == TN_OK) continue;
    if (r->exec->world > 1) tn_err_prefix(&why, "rank %u", r->index);
    return tn_fail(err, st, "%s", why.msg[0] ? why.msg : tn_status_name(st));
  }
  return TN_OK;
}

static void close_rank(tn_rank *r)
{
  if (r->b) {
    if (r->prepared) r->b->prepared_free(r->backend.inst, r->prepared);
    for (uint32_t i = 0; r->taps && i < r->exec->cfg.build->n_taps; i++)
      if (r->taps[i].buf) r->b->buffer_free(r->backend.inst, r->taps[i].buf);
    if (r->kv) r->b->kv_close(r->backend.inst, r->kv);
  }
  tn_weights_free(r->weights);
  tn_built_free(r->built);
  tn_groups_rank_free(r->groups, r->exec->cfg.groups->n);
  tn_instance_release(&r->quantizer);
  tn_instance_release(&r->backend);
  tn_null_free(r->null);
  tn_wcache_close(r->services.wcache);
  tn_pool_free(r->services.pool);
  free(r->taps);
  free(r->tap_ptrs);
  free(r->page_bytes);
}

void tn_exec_close(tn_exec *x)
{
  if (!x) return;
  for (uint32_t r = 0; x->ranks && r < x->world; r++)
    if (x->ranks[r].exec) close_rank(&x->ranks[r]);
  tn_transport_free(x->transport);
  tn_pool_free(x->rank_pool);
  free(x->ranks);
  free(x->status);
  free(x);
}

static int64_t widest(const tn_model *m)
{
  const tn_model_shape *s = &m->shape;
  int64_t w = s->n_vocab, parts = (int64_t)s->n_kv_heads * s->d_model;
  if (parts > w) w = parts;
  return s->d_ff > w ? s->d_ff : w;
}

tn_status tn_exec_open(const tn_exec_cfg *cfg, tn_exec **out, tn_err *err)
{
  *out = NULL;
  tn_exec *x = tn_zalloc(1, sizeof *x);
  if (!x) return tn_fail(err, TN_E_NOMEM, "no memory for the executor");
  x->cfg = *cfg;
  x->world = cfg->parallel ? cfg->parallel->world(cfg->parallel_inst) : 1;
  x->n_pools = cfg->groups->n_pools;
  x->n_vocab = cfg->model->shape.n_vocab;
  tn_status st = TN_OK;
  if (x->world < 1 || x->world > TN_MAX_RANKS) {
    st = tn_fail(err, TN_E_ARG, "%u ranks: between 1 and %u run in one process", x->world, TN_MAX_RANKS);
    x->world = 1;
  }
  x->ranks = tn_zalloc(x->world, sizeof *x->ranks);
  x->status = tn_zalloc(x->world, sizeof *x->status);
  if (st == TN_OK && (!x->ranks || !x->status)) st = tn_fail(err, TN_E_NOMEM, "no memory for %u ranks", x->world);
  if (st == TN_OK && x->world > 1) {
    st = tn_pool_new(x->world, &x->rank_pool, err);
    if (st == TN_OK) st = tn_transport_new(x->world, cfg->max_rows, widest(cfg->model), &x->transport, err);
  }
  for (uint32_t r = 0; st == TN_OK && r < x->world; r++) {
    x->ranks[r].index = r;
    x->ranks[r].exec = x;
    st = open_rank(&x->ranks[r], err);
  }
  if (st != TN_OK) {
    tn_exec_close(x);
    return st;
  }
  *out = x;
  return TN_OK;
}
