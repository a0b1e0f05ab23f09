/* pages: reading, writing and moving what is in the cache. */
#include <string.h>

#include "ref.h"

uint64_t tn_ref_kv_page_bytes(tn_inst *in, const tn_kv *kv, uint32_t pool)
{
  (void)in;
  return pool < kv->n_pools ? kv->pools[pool].page_bytes : 0;
}

static uint8_t *page_at(const tn_kv *kv, uint32_t pool, int32_t page)
{
  return kv->pools[pool].data + (uint64_t)page * kv->pools[pool].page_bytes;
}

uint8_t *tn_ref_kv_entry(const tn_kv *kv, const ref_group *g, uint32_t layout, int32_t page, int64_t slot, uint32_t l,
                         uint32_t h)
{
  const uint64_t index = ((uint64_t)l * g->n_heads + h) * kv->page_tokens + (uint64_t)slot;
  return page_at(kv, g->pools[layout], page) + index * (g->k_bytes[layout] + g->v_bytes[layout]);
}

double *tn_ref_kv_state(const tn_kv *kv, const ref_group *g, int32_t state, uint32_t l, uint32_t h)
{
  const int64_t one = g->n_features * (g->d_v + 1);
  return (double *)(void *)page_at(kv, g->state_pool, state) + ((int64_t)l * g->n_heads + h) * one;
}

void tn_ref_kv_load(const tn_kv *kv, const ref_group *g, const tn_kv_view *view, int64_t entry, uint32_t l, uint32_t h,
                    float *k, float *v)
{
  const int64_t at = entry / kv->page_tokens;
  const uint32_t layout = view->layout ? view->layout[at] : 0;
  const uint8_t *p = tn_ref_kv_entry(kv, g, layout, view->page[at], entry % kv->page_tokens, l, h);
  if (k) tnk_ref_entry_decode(&g->k_lay[layout], p, g->d_k, k);
  if (v) tnk_ref_entry_decode(&g->v_lay[layout], p + g->k_bytes[layout], g->d_v, v);
}

int64_t tn_ref_kv_pos(const tn_kv *kv, const tn_kv_view *view, int64_t entry)
{
  if (view->page[entry / kv->page_tokens] < 0) return -1;
  return view->text_pos ? view->text_pos[entry] : entry;
}

static bool is_page(const tn_kv *kv, uint32_t pool, int32_t page)
{
  return pool < kv->n_pools && page >= 0 && (uint32_t)page < kv->pools[pool].n_pages;
}

tn_status tn_ref_kv_page_read(tn_inst *in, const tn_kv *kv, uint32_t pool, int32_t page, void *dst)
{
  (void)in;
  if (!is_page(kv, pool, page)) return TN_E_ARG;
  memcpy(dst, page_at(kv, pool, page), (size_t)kv->pools[pool].page_bytes);
  return TN_OK;
}

tn_status tn_ref_kv_page_write(tn_inst *in, tn_kv *kv, uint32_t pool, int32_t page, const void *src)
{
  (void)in;
  if (!is_page(kv, pool, page)) return TN_E_ARG;
  memcpy(page_at(kv, pool, page), src, (size_t)kv->pools[pool].page_bytes);
  return TN_OK;
}

/* One end of a move. */
typedef struct place {
  uint32_t layout;
  int32_t page, slot;
} place;

static bool is_place(const tn_kv *kv, const ref_group *g, place p)
{
  return p.layout < g->n_layouts && is_page(kv, g->pools[p.layout], p.page) && p.slot >= 0 &&
         (uint32_t)p.slot < kv->page_tokens;
}

/* Moves one entry of one layer and head; row: scratch for a key or value. */
static void move_one(const tn_kv *kv, const ref_group *g, place src, place dst, uint32_t l, uint32_t h, float *row)
{
  const uint8_t *s = tn_ref_kv_entry(kv, g, src.layout, src.page, src.slot, l, h);
  uint8_t *d = tn_ref_kv_entry(kv, g, dst.layout, dst.page, dst.slot, l, h);
  if (src.layout == dst.layout) {
    memmove(d, s, g->k_bytes[src.layout] + g->v_bytes[src.layout]);
    return;
  }
  tnk_ref_entry_decode(&g->k_lay[src.layout], s, g->d_k, row);
  tnk_ref_entry_encode(&g->k_lay[dst.layout], row, g->d_k, d);
  tnk_ref_entry_decode(&g->v_lay[src.layout], s + g->k_bytes[src.layout], g->d_v, row);
  tnk_ref_entry_encode(&g->v_lay[dst.layout], row, g->d_v, d + g->k_bytes[dst.layout]);
}

tn_status tn_ref_kv_move(tn_inst *in, tn_kv *kv, const tn_kv_moves *m)
{
  if (m->group >= kv->n_groups) return TN_E_ARG;
  const ref_group *g = &kv->groups[m->group];
  for (uint32_t i = 0; i < m->n; i++) {
    const place src = {m->src_layout ? m->src_layout[i] : 0, m->src_page[i], m->src_slot[i]};
    const place dst = {m->dst_layout ? m->dst_layout[i] : 0, m->dst_page[i], m->dst_slot[i]};
    if (!is_place(kv, g, src) || !is_place(kv, g, dst)) return TN_E_ARG;
  }
  for (uint32_t i = 0; i < m->n; i++) {
    const place src = {m->src_layout ? m->src_layout[i] : 0, m->src_page[i], m->src_slot[i]};
    const place dst = {m->dst_layout ? m->dst_layout[i] : 0, m->dst_page[i], m->dst_slot[i]};
    for (uint32_t l = 0; l < g->n_layers; l++) {
      for (uint32_t h = 0; h < g->n_heads; h++) move_one(kv, g, src, dst, l, h, kv->row);
    }
  }
  in->host->count(in->host->ctx, REF_N_MOVED, m->n);
  return TN_OK;
}
