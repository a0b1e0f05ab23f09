/* kv_rig: see kv_rig.h. */
#include "kv_rig.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 2, HEADS = 2 };

static kv_rig *rig_of(tn_inst *in) { return (kv_rig *)(void *)in; }

static uint64_t *place(kv_rig *r, uint32_t pool, int32_t page, uint32_t slot)
{
  cr_assert(page >= 0 && (uint32_t)page < r->groups.pool_pages[pool] && slot < r->groups.page_tokens);
  return &r->entries[pool][(size_t)page * r->groups.page_tokens + slot];
}

static tn_status kv_move(tn_inst *in, tn_kv *kv, const tn_kv_moves *m)
{
  (void)kv;
  kv_rig *r = rig_of(in);
  const uint32_t *pools = r->groups.g[m->group].desc.pools;
  if (r->fail_moves) {
    r->fail_moves = 0;
    return TN_E_DEVICE;
  }
  for (uint32_t i = 0; i < m->n; i++) {
    uint32_t from = pools[m->src_layout ? m->src_layout[i] : 0], to = pools[m->dst_layout ? m->dst_layout[i] : 0];
    *place(r, to, m->dst_page[i], (uint32_t)m->dst_slot[i]) = *place(r, from, m->src_page[i], (uint32_t)m->src_slot[i]);
  }
  r->n_moved += m->n;
  return TN_OK;
}

static tn_status kv_page_read(tn_inst *in, const tn_kv *kv, uint32_t pool, int32_t page, void *dst)
{
  (void)kv;
  kv_rig *r = rig_of(in);
  memcpy(dst, place(r, pool, page, 0), r->groups.page_tokens * sizeof(uint64_t));
  return TN_OK;
}

static tn_status kv_page_write(tn_inst *in, tn_kv *kv, uint32_t pool, int32_t page, const void *src)
{
  (void)kv;
  kv_rig *r = rig_of(in);
  memcpy(place(r, pool, page, 0), src, r->groups.page_tokens * sizeof(uint64_t));
  return TN_OK;
}

static tn_status state_reset(tn_inst *in, tn_kv *kv, uint32_t group, int32_t state)
{
  (void)kv;
  kv_rig *r = rig_of(in);
  *place(r, r->groups.g[group].desc.state_pool, state, 0) = 1;
  return TN_OK;
}

uint64_t kv_rig_folded(uint64_t state, uint64_t entry) { return state * 6364136223846793005u + entry; }

static tn_status state_fold(tn_inst *in, tn_kv *kv, uint32_t group, const tn_kv_view *v)
{
  (void)kv;
  kv_rig *r = rig_of(in);
  uint32_t pt = r->groups.page_tokens;
  uint64_t *state = place(r, r->groups.g[group].desc.state_pool, v->state, 0);
  cr_assert(v->folded % 64 == 0 && v->folded + 64 <= v->n);
  for (int64_t e = v->folded; e < v->folded + 64; e++)
    *state = kv_rig_folded(*state, *place(r, r->groups.g[group].desc.pools[0], v->page[e / pt], (uint32_t)(e % pt)));
  return TN_OK;
}

static tn_status sync_all(tn_inst *in)
{
  (void)in;
  return TN_OK;
}

static const tn_backend_v1 backend = {.struct_size = sizeof backend,
                                      .sync = sync_all,
                                      .kv_move = kv_move,
                                      .kv_page_read = kv_page_read,
                                      .kv_page_write = kv_page_write,
                                      .state_reset = state_reset,
                                      .state_fold = state_fold};

static const tn_layout f16 = {.struct_size = sizeof f16, .kind = TN_LAY_DENSE, .dtype = TN_DT_F16};
static const tn_layout low = {
    .struct_size = sizeof low, .kind = TN_LAY_AFFINE, .bits = 4, .group = 16, .scale_type = TN_DT_F16};
static const tn_state_spec state = {.struct_size = sizeof state, .phi = TN_PHI_ELU1, .fold = 64, .eps = 1e-6};

static void plan_groups(kv_rig *r)
{
  const kv_spec *s = &r->spec;
  tn_evict_spec evict = {.struct_size = sizeof evict, .kind = TN_EV_SCORE, .gran = s->gran, .rank_rope = s->rank_rope};
  r->layer_class[1] = s->windows_differ;
  r->class_window[s->windows_differ] = s->sinks ? 0 : s->window;
  if (!s->windows_differ) r->class_window[0] = s->sinks ? 0 : s->window;
  r->shape = (tn_model_shape){.struct_size = sizeof r->shape,
                              .n_layers = LAYERS,
                              .n_heads = HEADS,
                              .n_kv_heads = HEADS,
                              .d_head = 16,
                              .n_classes = 1 + s->windows_differ,
                              .layer_class = r->layer_class,
                              .class_window = r->class_window};
  for (int i = 0; i < LAYERS * HEADS; i++) {
    r->attn[i] = (tn_attn_spec){.struct_size = sizeof r->attn[i], .kind = TN_AT_MASK, .mask = TN_MASK_ALL};
    if (s->sinks && (!s->windows_differ || i >= HEADS)) r->attn[i].mask = (tn_mask){0, s->window, 1, 0, s->sinks};
    if (s->state && i >= HEADS) r->attn[i].kind = TN_AT_STATE, r->attn[i].state = &state;
  }
  tn_group_in in = {.shape = &r->shape,
                    .attn = r->attn,
                    .evict = s->gran ? &evict : NULL,
                    .page_tokens = ((const tn_memory_v1 *)r->memory->vtable)->page_tokens(r->memory->inst),
                    .max_seqs = s->max_seqs,
                    .max_rows = s->max_rows,
                    .max_ctx = s->max_ctx,
                    .n_layouts = s->n_layouts,
                    .rollback = s->rollback,
                    .k_layouts = {&f16, &low},
                    .v_layouts = {&f16, &low}};
  tn_err err = tn_err_init();
  cr_assert(tn_groups_plan(&in, &r->groups, &err) == TN_OK, "%s", err.msg);
  if (s->share <= 0) return;
  uint64_t one = 0;
  for (uint32_t p = 0; p < r->groups.n_pools; p++) one += r->groups.pages_per_seq[p] * r->groups.page_bytes[p];
  in.budget_bytes = (uint64_t)((double)one * s->share * s->max_seqs);
  tn_groups_release(&r->groups);
  cr_assert(tn_groups_plan(&in, &r->groups, &err) == TN_OK, "%s", err.msg);
}

kv_rig *kv_rig_open(const kv_spec *spec)
{
  kv_rig *r = tn_zalloc(1, sizeof *r);
  r->spec = *spec;
  if (!r->spec.max_ctx) r->spec.max_ctx = 200;
  if (!r->spec.max_seqs) r->spec.max_seqs = 6;
  if (!r->spec.max_rows) r->spec.max_rows = 40;
  if (!r->spec.n_layouts) r->spec.n_layouts = 1;
  const char *const sets[] = {r->spec.page_tokens, NULL};
  r->memory = plugin_rig_open(TN_SLOT_MEMORY, r->spec.memory ? r->spec.memory : "paged", sets);
  plan_groups(r);
  const tn_groups *g = &r->groups;
  r->entries = tn_zalloc(g->n_pools, sizeof *r->entries);
  r->rank = (tn_rank){.b = &backend, .page_bytes = tn_zalloc(g->n_pools, sizeof(uint64_t)), .exec = &r->exec};
  r->rank.backend.inst = (tn_inst *)(void *)r;
  for (uint32_t p = 0; p < g->n_pools; p++) {
    r->entries[p] = tn_zalloc((size_t)g->pool_pages[p] * g->page_tokens, sizeof **r->entries);
    r->rank.page_bytes[p] = g->page_tokens * sizeof **r->entries;
  }
  r->exec = (tn_exec){.world = 1, .n_pools = g->n_pools, .ranks = &r->rank};
  tn_err err = tn_err_init();
  tn_status st = tn_kv_store_open(g, r->memory->vtable, r->memory->inst, &r->exec, r->spec.max_seqs, r->spec.max_ctx,
                                  r->spec.max_rows, 16, &r->store, &err);
  cr_assert(st == TN_OK, "%s", err.msg);
  r->n_free = kv_rig_free(r);
  return r;
}

void kv_rig_close(kv_rig *r)
{
  tn_err err = tn_err_init();
  cr_assert(tn_kv_check(r->store, NULL, 0, &err), "at the end: %s", err.msg);
  cr_assert(tn_kv_bytes_used(r->store) == 0);
  cr_assert(kv_rig_free(r) == r->n_free, "%llu pages free, %llu at the start", (unsigned long long)kv_rig_free(r),
            (unsigned long long)r->n_free);
  tn_kv_store_close(r->store);
  for (uint32_t p = 0; p < r->groups.n_pools; p++) free(r->entries[p]);
  free(r->entries);
  free(r->rank.page_bytes);
  tn_groups_release(&r->groups);
  plugin_rig_close(r->memory);
  free(r);
}

uint64_t *kv_rig_entry(kv_rig *r, const tn_kv_table *t, uint32_t group, int64_t entry)
{
  uint32_t pt = r->groups.page_tokens, p = (uint32_t)(entry / pt);
  cr_assert(p < t->n_pages, "group %u: entry %lld lies past the last of %u pages", group, (long long)entry, t->n_pages);
  return place(r, r->groups.g[group].desc.pools[t->layout[p]], t->page[p], (uint32_t)(entry % pt));
}

uint64_t kv_rig_state(const kv_rig *r, const tn_kv_table *t, uint32_t group)
{
  return r->entries[r->groups.g[group].desc.state_pool][(size_t)t->state * r->groups.page_tokens];
}

uint64_t kv_rig_free(const kv_rig *r)
{
  const tn_memory_v1 *m = r->memory->vtable;
  uint64_t n = 0;
  for (uint32_t p = 0; p < r->groups.n_pools; p++) n += m->free_pages(r->memory->inst, p);
  return n;
}
