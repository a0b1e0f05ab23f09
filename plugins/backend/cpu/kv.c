/* kv: the cache's bytes. A page of a group is [layer][head] units. Where keys and values are f16 and pages are whole blocks
 * of 16 tokens, a unit is keys [page_tokens / 16][d_k][16], then values [page_tokens][d_v padded to 16], so that attention
 * reads lanes; 8-bit codes lie alike (coded.c); any other layout is packed entries [page_tokens]. A pool's pages are as large as its largest user's. */
#include <string.h>

#include "cpu.h"
#include "quant/dtype.h"

static void group_free(tn_inst *in, cpu_group *g)
{
  tn_cpu_free(in, g->layers);
  tn_cpu_free(in, g->heads);
  tn_cpu_free(in, g->pools);
  for (uint32_t i = 0; g->tables && i < 2 * g->n_layouts; i++) tn_cpu_free(in, g->tables[i]);
  tn_cpu_free(in, g->tables);
  tn_cpu_free(in, g->forms);
}

void tn_cpu_kv_close(tn_inst *in, tn_kv *kv)
{
  if (!kv) return;
  for (uint32_t i = 0; kv->groups && i < kv->n_groups; i++) group_free(in, &kv->groups[i]);
  for (uint32_t i = 0; kv->pools && i < kv->n_pools; i++) tn_cpu_free(in, kv->pools[i].data);
  tn_cpu_free(in, kv->groups);
  tn_cpu_free(in, kv->pools);
  tn_cpu_free(in, kv->row);
  tn_cpu_free(in, kv);
}

/* One side (keys or values) of one layout of a group. */
static tn_status copy_layout(tn_inst *in, const tn_layout *lay, const char *what, float **table, tnk_layout *out,
                             tn_err *err)
{
  tn_status st = tn_cpu_layout(lay, what, out, err);
  if (st) return st;
  if (out->super) return tn_cpu_fail(err, TN_E_UNSUPPORTED, "%s: the cache has no two-level scales", what);
  if (out->kind != TNK_LAY_TABLE) return TN_OK;
  *table = tn_cpu_copy(in, lay->table, 1u << out->bits, sizeof **table);
  out->table = *table;
  return *table ? TN_OK : tn_cpu_fail(err, TN_E_NOMEM, "%s: no memory for its table", what);
}

static bool is_f16(const tnk_layout *lay) { return lay->kind == TNK_LAY_DENSE && lay->dtype == TNK_F16; }

static tn_status copy_forms(tn_inst *in, const tn_kv_group *src, uint32_t page_tokens, cpu_group *g, tn_err *err)
{
  for (uint32_t i = 0; i < g->n_layouts; i++) {
    cpu_form *f = &g->forms[i];
    tn_status st = copy_layout(in, src->k_layouts[i], "layout of keys", &g->tables[2 * i], &f->k, err);
    if (!st) st = copy_layout(in, src->v_layouts[i], "layout of values", &g->tables[2 * i + 1], &f->v, err);
    if (st) return st;
    f->halves = is_f16(&f->k) && is_f16(&f->v) && page_tokens % 16 == 0;
    f->k_bytes = f->halves ? 2 * g->d_k : tnk_ref_entry_bytes(&f->k, g->d_k);
    f->v_bytes = f->halves ? 2 * (size_t)g->dv : tnk_ref_entry_bytes(&f->v, g->d_v);
    f->unit_bytes = page_tokens * (f->k_bytes + f->v_bytes);
    f->coded = tn_cpu_coded_fits(g, f, page_tokens);
    if (f->halves) f->unit_bytes = (f->unit_bytes + CPU_LINE - 1) / CPU_LINE * CPU_LINE;
  }
  return TN_OK;
}

static tn_status copy_group(tn_inst *in, const tn_kv_group *src, uint32_t page_tokens, cpu_group *g, tn_err *err)
{
  g->n_layers = src->n_layers;
  g->n_heads = src->n_heads;
  g->d_k = src->d_k;
  g->d_v = src->d_v;
  g->dv = ((int64_t)src->d_v + 15) / 16 * 16;
  g->n_layouts = src->n_layouts;
  g->layers = tn_cpu_copy(in, src->layers, g->n_layers, sizeof *g->layers);
  g->heads = tn_cpu_copy(in, src->heads, g->n_heads, sizeof *g->heads);
  g->pools = tn_cpu_copy(in, src->pools, g->n_layouts, sizeof *g->pools);
  g->tables = tn_cpu_zalloc(in, 2 * (uint64_t)g->n_layouts, sizeof *g->tables);
  g->forms = tn_cpu_zalloc(in, g->n_layouts, sizeof *g->forms);
  if (!g->layers || !g->heads || !g->pools || !g->tables || !g->forms) {
    return tn_cpu_fail(err, TN_E_NOMEM, "no memory for a page group");
  }
  return copy_forms(in, src, page_tokens, g, err);
}

static tn_status size_pools(tn_kv *kv, tn_err *err)
{
  for (uint32_t i = 0; i < kv->n_groups; i++) {
    const cpu_group *g = &kv->groups[i];
    for (uint32_t l = 0; l < g->n_layouts; l++) {
      const uint64_t bytes = (uint64_t)g->n_layers * g->n_heads * g->forms[l].unit_bytes;
      if (g->pools[l] >= kv->n_pools) {
        return tn_cpu_fail(err, TN_E_ARG, "page group %u: pool %u, there are %u", i, g->pools[l], kv->n_pools);
      }
      if (kv->pools[g->pools[l]].page_bytes < bytes) kv->pools[g->pools[l]].page_bytes = bytes;
    }
  }
  return TN_OK;
}

static tn_status check_plan(const tn_kv_plan *plan, tn_err *err)
{
  if (!plan->page_tokens) return tn_cpu_fail(err, TN_E_ARG, "cache plan: pages of 0 tokens");
  for (uint32_t i = 0; i < plan->n_groups; i++) {
    const tn_kv_group *g = plan->groups[i];
    if (g->kind == TN_KV_STATE || g->keys == TN_KEYS_RAW) {
      return tn_cpu_fail(err, TN_E_UNSUPPORTED, "page group %u: backend cpu keeps no recurrent states and no raw keys",
                         i);
    }
    if (g->kind != TN_KV_CACHE || !g->n_layers || !g->n_heads || !g->d_k || !g->d_v || !g->n_layouts ||
        g->n_layouts > 256 || g->keys > TN_KEYS_RAW) {
      return tn_cpu_fail(err, TN_E_ARG, "page group %u: kind %u, %u layers, %u heads of %u and %u, %u layouts, keys %u",
                         i, g->kind, g->n_layers, g->n_heads, g->d_k, g->d_v, g->n_layouts, g->keys);
    }
  }
  return TN_OK;
}

/* The pools' memory, zeroed by nobody: an entry is written before it is read. */
static tn_status open_pools(tn_inst *in, tn_kv *kv, tn_err *err)
{
  for (uint32_t i = 0; i < kv->n_pools; i++) {
    cpu_pool *p = &kv->pools[i];
    uint64_t bytes;
    p->page_bytes = (p->page_bytes + CPU_LINE - 1) / CPU_LINE * CPU_LINE;
    if (__builtin_mul_overflow(p->page_bytes, (uint64_t)p->n_pages, &bytes)) bytes = UINT64_MAX / 2;
    p->data = tn_cpu_big(in, bytes);
    if (!p->data) {
      return tn_cpu_fail(err, TN_E_NOMEM, "cache pool %u: no memory for %u pages of %llu bytes", i, p->n_pages,
                         (unsigned long long)p->page_bytes);
    }
  }
  return TN_OK;
}

tn_status tn_cpu_kv_open(tn_inst *in, const tn_kv_plan *plan, tn_kv **out, tn_err *err)
{
  *out = NULL;
  tn_status st = check_plan(plan, err);
  if (st) return st;
  tn_kv *kv = tn_cpu_zalloc(in, 1, sizeof *kv);
  if (!kv) return tn_cpu_fail(err, TN_E_NOMEM, "no memory for a cache");
  kv->n_pools = plan->n_pools;
  kv->page_tokens = plan->page_tokens;
  kv->pools = tn_cpu_zalloc(in, kv->n_pools, sizeof *kv->pools);
  kv->groups = tn_cpu_zalloc(in, plan->n_groups, sizeof *kv->groups);
  if (!kv->pools || !kv->groups) st = tn_cpu_fail(err, TN_E_NOMEM, "no memory for a cache");
  for (uint32_t i = 0; !st && i < kv->n_pools; i++) kv->pools[i].n_pages = plan->pool_pages[i];
  uint64_t widest = 1;
  for (; !st && kv->n_groups < plan->n_groups; kv->n_groups++) {
    cpu_group *g = &kv->groups[kv->n_groups];
    st = copy_group(in, plan->groups[kv->n_groups], kv->page_tokens, g, err);
    if (g->d_k + (uint64_t)g->d_v > widest) widest = g->d_k + (uint64_t)g->d_v;
  }
  if (!st) kv->row = tn_cpu_zalloc(in, widest, sizeof *kv->row);
  if (!st && !kv->row) st = tn_cpu_fail(err, TN_E_NOMEM, "no memory for a cache");
  if (!st) st = size_pools(kv, err);
  if (!st) st = open_pools(in, kv, err);
  if (st) {
    tn_cpu_kv_close(in, kv);
    return st;
  }
  *out = kv;
  return TN_OK;
}
