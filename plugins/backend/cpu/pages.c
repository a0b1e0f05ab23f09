/* pages: reading, writing and moving what is in the cache. */
#include <string.h>

#include "cpu.h"
#include "quant/dtype.h"

uint64_t tn_cpu_kv_page_bytes(tn_inst *in, const tn_kv *kv, uint32_t pool)
{
  (void)in;
  return pool < kv->n_pools ? kv->pools[pool].page_bytes : 0;
}

static uint8_t *page_at(const tn_kv *kv, uint32_t pool, int32_t page)
{
  return kv->pools[pool].data + (uint64_t)page * kv->pools[pool].page_bytes;
}

uint8_t *tn_cpu_kv_unit(const tn_kv *kv, const cpu_group *g, uint32_t layout, int32_t page, uint32_t l, uint32_t h)
{
  return page_at(kv, g->pools[layout], page) + ((uint64_t)l * g->n_heads + h) * g->forms[layout].unit_bytes;
}

/* ---------------------------------------------------------------- entries */

/* Key column 0 of an entry in a unit of halves, columns 16 apart; and its value. */
static uint16_t *key_halves(const cpu_group *g, const uint8_t *unit, int64_t slot)
{
  return (uint16_t *)(uintptr_t)unit + slot / 16 * 16 * g->d_k + slot % 16;
}

static uint16_t *value_halves(const tn_kv *kv, const cpu_group *g, const uint8_t *unit, int64_t slot)
{
  return (uint16_t *)(uintptr_t)unit + (uint64_t)kv->page_tokens * g->d_k + slot * g->dv;
}

static uint8_t *entry(const cpu_form *f, const uint8_t *unit, int64_t slot)
{
  return (uint8_t *)(uintptr_t)unit + (uint64_t)slot * (f->k_bytes + f->v_bytes);
}

void tn_cpu_kv_load(const tn_kv *kv, const cpu_group *g, uint32_t layout, const uint8_t *unit, int64_t slot, float *k,
                    float *v)
{
  const cpu_form *f = &g->forms[layout];
  if (f->halves) {
    const uint16_t *kh = key_halves(g, unit, slot), *vh = value_halves(kv, g, unit, slot);
    for (uint32_t i = 0; i < g->d_k; i++) k[i] = tnk_f16_to_f32(kh[16 * i]);
    for (uint32_t i = 0; i < g->d_v; i++) v[i] = tnk_f16_to_f32(vh[i]);
    return;
  }
  uint8_t codes[CPU_CODED_BYTES];
  const uint8_t *e = f->coded ? codes : entry(f, unit, slot);
  if (f->coded) tn_cpu_coded_take(kv, g, f, unit, slot, codes);
  tnk_ref_entry_decode(&f->k, e, g->d_k, k);
  tnk_ref_entry_decode(&f->v, e + f->k_bytes, g->d_v, v);
}

void tn_cpu_kv_store(const tn_inst *in, const tn_kv *kv, const cpu_group *g, uint32_t layout, uint8_t *unit,
                     int64_t slot, const float *k, const float *v)
{
  const cpu_form *f = &g->forms[layout];
  if (f->halves) {
    in->attend->put(k, g->d_k, key_halves(g, unit, slot), 0, v, g->d_v, value_halves(kv, g, unit, slot), g->dv);
    return;
  }
  uint8_t codes[CPU_CODED_BYTES], *e = f->coded ? codes : entry(f, unit, slot);
  tnk_ref_entry_encode(&f->k, k, g->d_k, e);
  tnk_ref_entry_encode(&f->v, v, g->d_v, e + f->k_bytes);
  if (f->coded) tn_cpu_coded_put(kv, g, f, unit, slot, codes);
}

/* ---------------------------------------------------------------- whole pages */

static bool is_page(const tn_kv *kv, uint32_t pool, int32_t page)
{
  return pool < kv->n_pools && page >= 0 && (uint32_t)page < kv->pools[pool].n_pages;
}

tn_status tn_cpu_kv_page_read(tn_inst *in, const tn_kv *kv, uint32_t pool, int32_t page, void *dst)
{
  (void)in;
  if (!is_page(kv, pool, page)) return TN_E_ARG;
  memcpy(dst, page_at(kv, pool, page), (size_t)kv->pools[pool].page_bytes);
  return TN_OK;
}

tn_status tn_cpu_kv_page_write(tn_inst *in, tn_kv *kv, uint32_t pool, int32_t page, const void *src)
{
  (void)in;
  if (!is_page(kv, pool, page)) return TN_E_ARG;
  memcpy(page_at(kv, pool, page), src, (size_t)kv->pools[pool].page_bytes);
  return TN_OK;
}

/* ---------------------------------------------------------------- moves */

/* One end of a move. */
typedef struct place {
  uint32_t layout;
  int32_t page, slot;
} place;

static bool is_place(const tn_kv *kv, const cpu_group *g, place p)
{
  return p.layout < g->n_layouts && is_page(kv, g->pools[p.layout], p.page) && p.slot >= 0 &&
         (uint32_t)p.slot < kv->page_tokens;
}

/* Moves one entry of one layer and head. A layout's own values survive decoding and encoding only where they are stored as
 * they are, so equal layouts are copied. */
static void move_one(const tn_inst *in, const tn_kv *kv, const cpu_group *g, place src, place dst, uint32_t l,
                     uint32_t h)
{
  const cpu_form *f = &g->forms[src.layout];
  const uint8_t *s = tn_cpu_kv_unit(kv, g, src.layout, src.page, l, h);
  uint8_t *d = tn_cpu_kv_unit(kv, g, dst.layout, dst.page, l, h);
  if (src.layout == dst.layout && f->halves) {
    const uint16_t *ks = key_halves(g, s, src.slot);
    uint16_t *kd = key_halves(g, d, dst.slot);
    for (uint32_t i = 0; i < g->d_k; i++) kd[16 * i] = ks[16 * i];
    memmove(value_halves(kv, g, d, dst.slot), value_halves(kv, g, s, src.slot), f->v_bytes);
  } else if (src.layout == dst.layout && f->coded) {
    uint8_t codes[CPU_CODED_BYTES];
    tn_cpu_coded_take(kv, g, f, s, src.slot, codes);
    tn_cpu_coded_put(kv, g, f, d, dst.slot, codes);
  } else if (src.layout == dst.layout) {
    memmove(entry(f, d, dst.slot), entry(f, s, src.slot), f->k_bytes + f->v_bytes);
  } else {
    tn_cpu_kv_load(kv, g, src.layout, s, src.slot, kv->row, kv->row + g->d_k);
    tn_cpu_kv_store(in, kv, g, dst.layout, d, dst.slot, kv->row, kv->row + g->d_k);
  }
}

tn_status tn_cpu_kv_move(tn_inst *in, tn_kv *kv, const tn_kv_moves *m)
{
  if (m->group >= kv->n_groups) return TN_E_ARG;
  const cpu_group *g = &kv->groups[m->group];
  for (uint32_t pass = 0; pass < 2; pass++) {
    for (uint32_t i = 0; i < m->n; i++) {
      const place src = {m->src_layout ? m->src_layout[i] : 0, m->src_page[i], m->src_slot[i]};
      const place dst = {m->dst_layout ? m->dst_layout[i] : 0, m->dst_page[i], m->dst_slot[i]};
      if (!is_place(kv, g, src) || !is_place(kv, g, dst)) return TN_E_ARG;
      for (uint32_t u = 0; pass && u < g->n_layers * g->n_heads; u++) {
        move_one(in, kv, g, src, dst, u / g->n_heads, u % g->n_heads);
      }
    }
  }
  in->host->count(in->host->ctx, CPU_N_MOVED, m->n);
  return TN_OK;
}
