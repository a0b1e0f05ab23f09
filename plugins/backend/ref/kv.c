/* kv: the cache's bytes. A page of a group is [layer][head][slot] entries, a key and then a value each in the page's
 * layout; a state page is [layer][head] states. A pool's pages are as large as the largest user of the pool. */
#include <string.h>

#include "ref.h"

static void group_free(tn_inst *in, ref_group *g)
{
  tn_ref_free(in, g->layers);
  tn_ref_free(in, g->heads);
  tn_ref_free(in, g->pools);
  for (uint32_t i = 0; g->tables && i < 2 * g->n_layouts; i++) tn_ref_free(in, g->tables[i]);
  tn_ref_free(in, g->tables);
  tn_ref_free(in, g->k_lay);
  tn_ref_free(in, g->v_lay);
  tn_ref_free(in, g->k_bytes);
  tn_ref_free(in, g->v_bytes);
  tn_ref_free(in, g->features);
}

void tn_ref_kv_close(tn_inst *in, tn_kv *kv)
{
  if (!kv) return;
  for (uint32_t i = 0; kv->groups && i < kv->n_groups; i++) group_free(in, &kv->groups[i]);
  for (uint32_t i = 0; kv->pools && i < kv->n_pools; i++) tn_ref_free(in, kv->pools[i].data);
  tn_ref_free(in, kv->groups);
  tn_ref_free(in, kv->pools);
  tn_ref_free(in, kv->row);
  tn_ref_free(in, kv->fold);
  tn_ref_free(in, kv);
}

/* One side (keys or values) of one layout of a group. */
static tn_status copy_layout(tn_inst *in, const tn_layout *lay, const char *what, float **table, tnk_layout *out,
                             tn_err *err)
{
  tn_status st = tn_ref_layout(lay, what, out, err);
  if (st) return st;
  if (out->super) return tn_ref_fail(err, TN_E_UNSUPPORTED, "%s: the cache has no two-level scales", what);
  if (out->kind != TNK_LAY_TABLE) return TN_OK;
  *table = tn_ref_copy(in, lay->table, 1u << out->bits, sizeof **table);
  out->table = *table;
  return *table ? TN_OK : tn_ref_fail(err, TN_E_NOMEM, "%s: no memory for its table", what);
}

static tn_status copy_layouts(tn_inst *in, const tn_kv_group *src, ref_group *g, tn_err *err)
{
  for (uint32_t i = 0; i < g->n_layouts; i++) {
    tn_status st = copy_layout(in, src->k_layouts[i], "layout of keys", &g->tables[2 * i], &g->k_lay[i], err);
    if (!st) st = copy_layout(in, src->v_layouts[i], "layout of values", &g->tables[2 * i + 1], &g->v_lay[i], err);
    if (st) return st;
    g->k_bytes[i] = tnk_ref_entry_bytes(&g->k_lay[i], g->d_k);
    g->v_bytes[i] = tnk_ref_entry_bytes(&g->v_lay[i], g->d_v);
  }
  return TN_OK;
}

static tn_status copy_state(tn_inst *in, const tn_state_spec *spec, ref_group *g, tn_err *err)
{
  const bool favor = spec && spec->phi == TN_PHI_FAVOR;
  if (!spec || (!favor && spec->phi != TN_PHI_ELU1) || (favor && (!spec->features || !spec->n_features))) {
    return tn_ref_fail(err, TN_E_ARG, "state group: no feature map, or one without features");
  }
  if (spec->fold != 64) return tn_ref_fail(err, TN_E_ARG, "state group: fold boundary %u, want 64", spec->fold);
  g->n_features = favor ? spec->n_features : g->d_k;
  g->fold = spec->fold;
  g->eps = spec->eps;
  if (!favor) return TN_OK;
  g->features = tn_ref_copy(in, spec->features, (uint64_t)g->n_features * g->d_k, sizeof *g->features);
  return g->features ? TN_OK : tn_ref_fail(err, TN_E_NOMEM, "state group: no memory for its features");
}

static tn_status copy_group(tn_inst *in, const tn_kv_group *src, ref_group *g, tn_err *err)
{
  g->kind = src->kind;
  g->n_layers = src->n_layers;
  g->n_heads = src->n_heads;
  g->d_k = src->d_k;
  g->d_v = src->d_v;
  g->keys = src->keys;
  g->n_layouts = src->n_layouts;
  g->state_pool = src->state_pool;
  g->layers = tn_ref_copy(in, src->layers, g->n_layers, sizeof *g->layers);
  g->heads = tn_ref_copy(in, src->heads, g->n_heads, sizeof *g->heads);
  g->pools = tn_ref_copy(in, src->pools, g->n_layouts, sizeof *g->pools);
  g->tables = tn_ref_zalloc(in, 2 * (uint64_t)g->n_layouts, sizeof *g->tables);
  g->k_lay = tn_ref_zalloc(in, g->n_layouts, sizeof *g->k_lay);
  g->v_lay = tn_ref_zalloc(in, g->n_layouts, sizeof *g->v_lay);
  g->k_bytes = tn_ref_zalloc(in, g->n_layouts, sizeof *g->k_bytes);
  g->v_bytes = tn_ref_zalloc(in, g->n_layouts, sizeof *g->v_bytes);
  if (!g->layers || !g->heads || !g->pools || !g->tables || !g->k_lay || !g->v_lay || !g->k_bytes || !g->v_bytes) {
    return tn_ref_fail(err, TN_E_NOMEM, "no memory for a page group");
  }
  tn_status st = copy_layouts(in, src, g, err);
  return st || g->kind != TN_KV_STATE ? st : copy_state(in, src->state, g, err);
}

/* Makes the pages of a pool at least `bytes` large. */
static tn_status pool_grow(tn_kv *kv, uint32_t group, uint32_t pool, uint64_t bytes, tn_err *err)
{
  if (pool >= kv->n_pools) {
    return tn_ref_fail(err, TN_E_ARG, "page group %u: pool %u, there are %u", group, pool, kv->n_pools);
  }
  bytes = (bytes + 7) / 8 * 8; /* states are doubles */
  if (kv->pools[pool].page_bytes < bytes) kv->pools[pool].page_bytes = bytes;
  return TN_OK;
}

static tn_status size_pools(tn_kv *kv, tn_err *err)
{
  for (uint32_t i = 0; i < kv->n_groups; i++) {
    const ref_group *g = &kv->groups[i];
    const uint64_t units = (uint64_t)g->n_layers * g->n_heads;
    for (uint32_t l = 0; l < g->n_layouts; l++) {
      const uint64_t entry = g->k_bytes[l] + g->v_bytes[l];
      tn_status st = pool_grow(kv, i, g->pools[l], units * kv->page_tokens * entry, err);
      if (st) return st;
    }
    if (g->kind != TN_KV_STATE) continue;
    const uint64_t state = (uint64_t)g->n_features * (g->d_v + 1) * sizeof(double);
    tn_status st = pool_grow(kv, i, g->state_pool, units * state, err);
    if (st) return st;
  }
  return TN_OK;
}

static tn_status check_plan(const tn_kv_plan *plan, tn_err *err)
{
  if (!plan->page_tokens) return tn_ref_fail(err, TN_E_ARG, "cache plan: pages of 0 tokens");
  for (uint32_t i = 0; i < plan->n_groups; i++) {
    const tn_kv_group *g = plan->groups[i];
    const bool kind = g->kind == TN_KV_CACHE || g->kind == TN_KV_STATE;
    if (!kind || !g->n_layers || !g->d_k || !g->d_v || !g->n_layouts || g->n_layouts > 256 || g->keys > TN_KEYS_RAW) {
      return tn_ref_fail(err, TN_E_ARG, "page group %u: kind %u, %u layers, %u heads of %u and %u, %u layouts, keys %u",
                         i, g->kind, g->n_layers, g->n_heads, g->d_k, g->d_v, g->n_layouts, g->keys);
    }
  }
  return TN_OK;
}

/* The pools' memory, zeroed by nobody: an entry is written before it is read. */
static tn_status open_pools(tn_inst *in, tn_kv *kv, tn_err *err)
{
  for (uint32_t i = 0; i < kv->n_pools; i++) {
    ref_pool *p = &kv->pools[i];
    uint64_t bytes;
    if (__builtin_mul_overflow(p->page_bytes, (uint64_t)p->n_pages, &bytes)) bytes = UINT64_MAX / 2;
    p->data = in->host->alloc(in->host->ctx, bytes ? bytes : 1, 64);
    if (!p->data) {
      return tn_ref_fail(err, TN_E_NOMEM, "cache pool %u: no memory for %u pages of %llu bytes", i, p->n_pages,
                         (unsigned long long)p->page_bytes);
    }
  }
  return TN_OK;
}

/* Scratch of moves and of folding. */
static tn_status open_scratch(tn_inst *in, tn_kv *kv, tn_err *err)
{
  uint64_t widest = 0, fold = 0;
  for (uint32_t i = 0; i < kv->n_groups; i++) {
    const ref_group *g = &kv->groups[i];
    const uint64_t bytes = g->kind == TN_KV_STATE ? tn_ref_mix_bytes(g, 0) : 0;
    if (g->d_k > widest) widest = g->d_k;
    if (g->d_v > widest) widest = g->d_v;
    if (bytes > fold) fold = bytes;
  }
  kv->row = tn_ref_zalloc(in, widest, sizeof *kv->row);
  kv->fold = tn_ref_zalloc(in, fold, 1);
  return kv->row && kv->fold ? TN_OK : tn_ref_fail(err, TN_E_NOMEM, "no memory for a cache");
}

tn_status tn_ref_kv_open(tn_inst *in, const tn_kv_plan *plan, tn_kv **out, tn_err *err)
{
  *out = NULL;
  tn_status st = check_plan(plan, err);
  if (st) return st;
  tn_kv *kv = tn_ref_zalloc(in, 1, sizeof *kv);
  if (!kv) return tn_ref_fail(err, TN_E_NOMEM, "no memory for a cache");
  kv->n_pools = plan->n_pools;
  kv->n_groups = plan->n_groups;
  kv->page_tokens = plan->page_tokens;
  kv->pools = tn_ref_zalloc(in, kv->n_pools, sizeof *kv->pools);
  kv->groups = tn_ref_zalloc(in, kv->n_groups, sizeof *kv->groups);
  if (!kv->pools || !kv->groups) st = tn_ref_fail(err, TN_E_NOMEM, "no memory for a cache");
  for (uint32_t i = 0; !st && i < kv->n_pools; i++) kv->pools[i].n_pages = plan->pool_pages[i];
  for (uint32_t i = 0; !st && i < kv->n_groups; i++) st = copy_group(in, plan->groups[i], &kv->groups[i], err);
  if (!st) st = open_scratch(in, kv, err);
  if (!st) st = size_pools(kv, err);
  if (!st) st = open_pools(in, kv, err);
  if (st) {
    tn_ref_kv_close(in, kv);
    return st;
  }
  *out = kv;
  return TN_OK;
}
