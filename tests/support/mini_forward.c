/* mini_forward: opening and closing; see mini_forward.h. mini_run.c runs. */
#include "mini_forward.h"

#include <stdlib.h>
#include <string.h>

#include "mini_int.h"
#include "tiny_model.h"

static tn_status make_taps(mini_forward *f, mini_rank *r, tn_err *err)
{
  const tn_backend_v1 *v = f->cfg.backend->v;
  int64_t d = f->cfg.model->shape.d_model, rows = f->cfg.max_tokens;
  r->taps = calloc(f->cfg.build.n_taps + 1, sizeof *r->taps);
  r->tap_ptrs = calloc(f->cfg.build.n_taps + 1, sizeof *r->tap_ptrs);
  if (!r->taps || !r->tap_ptrs) return TN_E_NOMEM;
  for (uint32_t i = 0; i < f->cfg.build.n_taps; i++) {
    tn_tensor *t = &r->taps[i];
    *t = (tn_tensor){.struct_size = sizeof *t, .dtype = TN_DT_F32, .ne = {d, rows, 1, 1}, .nb = {4, 4 * d, 0, 0}};
    tn_status st = v->buffer_new(f->cfg.backend->inst, (uint64_t)(4 * d * rows), &t->buf, err);
    if (st) return st;
    r->tap_ptrs[i] = t;
  }
  return TN_OK;
}

static tn_status build_rank(mini_forward *f, mini_rank *r, tn_err *err)
{
  const mini_cfg *c = &f->cfg;
  tn_build in = c->build;
  r->par = c->pars ? c->pars[r->index] : tn_par_whole(c->model);
  r->groups = tiny_groups(c->model, r->par.kv_head0, r->par.n_kv_heads, c->kv_dtype, &r->n_groups);
  for (uint32_t g = 0; g < r->n_groups; g++) r->groups[g]->keys = c->keys;
  in.model = c->model;
  in.par = &r->par;
  in.groups = (const tn_kv_group *const *)r->groups;
  in.n_groups = r->n_groups;
  tn_status st = tn_program_build(&in, &r->built, err);
  if (st) return st;
  tn_weights_job job = {.model = c->model,
                        .built = r->built,
                        .backend = c->backend->v,
                        .backend_inst = c->backend->inst,
                        .quantizer = c->quantizer,
                        .quantizer_inst = c->quantizer_inst};
  st = tn_weights_load(&job, &r->weights, err);
  return st ? st : tn_weights_bind(r->weights, r->built, err);
}

static tn_status open_rank(mini_forward *f, mini_rank *r, tn_err *err)
{
  const mini_cfg *c = &f->cfg;
  const tn_backend_v1 *v = c->backend->v;
  tn_inst *inst = c->backend->inst;
  tn_status st = build_rank(f, r, err);
  if (!st) st = make_taps(f, r, err);
  if (st) return st;
  tn_kv_plan plan = {.struct_size = sizeof plan,
                     .n_pools = r->n_groups,
                     .page_tokens = MINI_PAGE,
                     .n_groups = r->n_groups,
                     .pool_pages = f->pool_pages,
                     .groups = (const tn_kv_group *const *)r->groups};
  st = v->kv_open(inst, &plan, &r->kv, err);
  if (st) return st;
  tn_prepare how = {.struct_size = sizeof how,
                    .flags = c->prepare,
                    .max_rows = c->max_tokens,
                    .max_out = c->max_tokens,
                    .n_taps = c->build.n_taps,
                    .rank = r->index,
                    .taps = r->tap_ptrs,
                    .ctx = r,
                    .observe = mini_observe,
                    .collective = mini_collective};
  return v->prepare(inst, &r->built->program, &how, r->kv, &r->prepared, err);
}

static void close_rank(mini_forward *f, mini_rank *r)
{
  const tn_backend_v1 *v = f->cfg.backend->v;
  tn_inst *inst = f->cfg.backend->inst;
  if (r->prepared) v->prepared_free(inst, r->prepared);
  if (r->kv) v->kv_close(inst, r->kv);
  for (uint32_t i = 0; r->taps && i < f->cfg.build.n_taps; i++)
    if (r->taps[i].buf) v->buffer_free(inst, r->taps[i].buf);
  tn_weights_free(r->weights);
  tn_built_free(r->built);
  tiny_groups_free(r->groups, r->n_groups);
  free(r->taps);
  free(r->tap_ptrs);
  free(r->mail);
}

/* Arrays of a batch of max_tokens rows. */
static bool make_arrays(mini_forward *f)
{
  const tn_model_shape *s = &f->cfg.model->shape;
  uint32_t rows = f->cfg.max_tokens, pages = (rows + MINI_PAGE - 1) / MINI_PAGE;
  f->pages = calloc(pages, sizeof *f->pages);
  f->ints = calloc((size_t)rows * 4, sizeof *f->ints);
  f->text_pos = calloc(rows, sizeof *f->text_pos);
  f->angles = calloc((size_t)rows * s->rope_dims * 3 * s->n_classes, sizeof *f->angles);
  if (!f->pages || !f->ints || !f->text_pos || !f->angles) return false;
  for (uint32_t p = 0; p < pages; p++) f->pages[p] = (int32_t)p;
  for (uint32_t c = 0; c < MINI_CLASSES; c++) f->pool_pages[c] = pages;
  f->n_pages = pages;
  return true;
}

mini_forward *mini_open(const mini_cfg *cfg, tn_err *err)
{
  mini_forward *f = calloc(1, sizeof *f);
  if (!f) return NULL;
  f->cfg = *cfg;
  if (!f->cfg.world) f->cfg.world = 1;
  f->ranks = calloc(f->cfg.world, sizeof *f->ranks);
  tn_status st = f->ranks && make_arrays(f) ? TN_OK : TN_E_NOMEM;
  for (uint32_t r = 0; !st && r < f->cfg.world; r++) {
    f->ranks[r].f = f;
    f->ranks[r].index = r;
    st = open_rank(f, &f->ranks[r], err);
  }
  if (!st) return f;
  mini_close(f);
  return NULL;
}

void mini_close(mini_forward *f)
{
  if (!f) return;
  for (uint32_t r = 0; f->ranks && r < f->cfg.world; r++) close_rank(f, &f->ranks[r]);
  free(f->ranks);
  free(f->pages);
  free(f->ints);
  free(f->text_pos);
  free(f->angles);
  free(f);
}

void mini_restart(mini_forward *f) { f->n = 0; }

const tn_built *mini_built(const mini_forward *f, uint32_t r) { return f->ranks[r].built; }
