/* coded: entries of 8-bit codes, laid out so that attention reads lanes. A unit is
 *
 *   keys     codes i8 [page_tokens / 16][d_k][16],  scales f16 [page_tokens / 16][d_k / group][16]
 *   values   codes i8 [page_tokens][d_v],           scales f16 [page_tokens][d_v / group]
 *
 * as many bytes as packed entries take. A code is the packed one less 128. */
#include <string.h>

#include "cpu.h"
#include "quant/dtype.h"

static int64_t group_of(const tnk_layout *lay, int64_t d) { return lay->group ? (int64_t)lay->group : d; }

static bool side_fits(const tnk_layout *lay, int64_t d)
{
  return lay->kind == TNK_LAY_AFFINE && lay->bits == 8 && lay->offset == TNK_OFF_NONE && lay->scale_type == TNK_F16 &&
         d % 16 == 0 && d <= 1024 && group_of(lay, d) % 16 == 0 && d % group_of(lay, d) == 0;
}

bool tn_cpu_coded_fits(const cpu_group *g, const cpu_form *f, uint32_t page_tokens)
{
  return page_tokens % 16 == 0 && side_fits(&f->k, g->d_k) && side_fits(&f->v, g->d_v);
}

/* Parts of a unit. */
typedef struct parts {
  int8_t *k, *v;
  uint16_t *ks, *vs;
  int64_t k_groups, v_groups; /* scales of a key, of a value */
} parts;

static parts parts_of(const tn_kv *kv, const cpu_group *g, const cpu_form *f, const uint8_t *unit)
{
  const int64_t n = kv->page_tokens, d_k = g->d_k, d_v = g->d_v;
  parts p = {
      .k = (int8_t *)(uintptr_t)unit, .k_groups = d_k / group_of(&f->k, d_k), .v_groups = d_v / group_of(&f->v, d_v)};
  p.ks = (uint16_t *)(void *)(p.k + n * d_k);
  p.v = (int8_t *)(p.ks + n * p.k_groups);
  p.vs = (uint16_t *)(void *)(p.v + n * d_v);
  return p;
}

void tn_cpu_coded_block(const tn_kv *kv, const cpu_group *g, const cpu_form *f, const uint8_t *unit, int64_t slot,
                        int64_t block, tnk_tile *out)
{
  const parts p = parts_of(kv, g, f, unit);
  out->k8[block] = p.k + slot * g->d_k;
  out->ks[block] = p.ks + slot * p.k_groups;
  out->v8[block] = p.v + slot * g->d_v;
  out->vs[block] = p.vs + slot * p.v_groups;
  out->k_group = group_of(&f->k, g->d_k);
  out->v_group = group_of(&f->v, g->d_v);
}

void tn_cpu_coded_take(const tn_kv *kv, const cpu_group *g, const cpu_form *f, const uint8_t *unit, int64_t slot,
                       uint8_t *entry)
{
  const parts p = parts_of(kv, g, f, unit);
  const int64_t block = slot / 16 * 16, lane = slot % 16;
  for (int64_t i = 0; i < p.k_groups; i++, entry += 2) memcpy(entry, &p.ks[block * p.k_groups + i * 16 + lane], 2);
  for (int64_t c = 0; c < g->d_k; c++) *entry++ = (uint8_t)(p.k[block * g->d_k + c * 16 + lane] ^ -128);
  memcpy(entry, p.vs + slot * p.v_groups, (size_t)p.v_groups * 2);
  entry += p.v_groups * 2;
  for (int64_t c = 0; c < g->d_v; c++) entry[c] = (uint8_t)(p.v[slot * g->d_v + c] ^ -128);
}

void tn_cpu_coded_put(const tn_kv *kv, const cpu_group *g, const cpu_form *f, uint8_t *unit, int64_t slot,
                      const uint8_t *entry)
{
  const parts p = parts_of(kv, g, f, unit);
  const int64_t block = slot / 16 * 16, lane = slot % 16;
  for (int64_t i = 0; i < p.k_groups; i++, entry += 2) memcpy(&p.ks[block * p.k_groups + i * 16 + lane], entry, 2);
  for (int64_t c = 0; c < g->d_k; c++) p.k[block * g->d_k + c * 16 + lane] = (int8_t)(*entry++ ^ 128);
  memcpy(p.vs + slot * p.v_groups, entry, (size_t)p.v_groups * 2);
  entry += p.v_groups * 2;
  for (int64_t c = 0; c < g->d_v; c++) p.v[slot * g->d_v + c] = (int8_t)(entry[c] ^ 128);
}
