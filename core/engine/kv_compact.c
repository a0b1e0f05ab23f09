/* kv_compact: keep some entries of a group and forget the rest. See kv.h.
 *
 * Pages that nobody shares are filled again in place: entries only move towards the front, in order, so none is overwritten
 * before it is read. Shared pages and a change of layout take fresh pages. Entries that go to a narrower layout come first, padded with holes to a whole page, then the others: a page has one
 * layout. Order inside both parts is the old order, so ranks keep ascending in text position within each part. */
#include <stdlib.h>
#include <string.h>

#include "kv_int.h"

typedef struct target { /* the new table, before it replaces the old one */
  int64_t n, live;
  uint32_t n_pages, n_demoted_pages;
  int32_t *page;
  uint8_t *layout;
  int64_t *text_pos;
} target;

static void target_release(target *d)
{
  free(d->page);
  free(d->layout);
  free(d->text_pos);
}

/* Ranks: demoted entries from 0, holes up to a page boundary, then the rest. */
static tn_status lay_out(const tn_kv_store *s, const tn_kv_table *t, int64_t n, const int64_t *entry,
                         const uint8_t *layout, int64_t *map, target *d)
{
  int64_t demoted = 0, pt = s->groups->page_tokens;
  for (int64_t i = 0; layout && i < n; i++) demoted += layout[i] != 0;
  d->n_demoted_pages = tn_pages_for(s, demoted);
  d->n = d->n_demoted_pages * pt + (n - demoted);
  d->live = n;
  d->n_pages = tn_pages_for(s, d->n);
  if (d->n_pages > t->cap_pages) return TN_E_NEVER;
  d->page = tn_zalloc(d->n_pages + 1u, sizeof *d->page);
  d->layout = tn_zalloc(d->n_pages + 1u, 1);
  d->text_pos = tn_zalloc((size_t)d->n_pages * (size_t)pt + 1, sizeof *d->text_pos);
  if (!d->page || !d->layout || !d->text_pos) return TN_E_NOMEM;
  for (int64_t r = 0; r < d->n; r++) d->text_pos[r] = -1;
  int64_t low = 0, high = d->n_demoted_pages * pt;
  for (int64_t i = 0; i < n; i++) {
    map[i] = layout && layout[i] ? low++ : high++;
    d->text_pos[map[i]] = t->text_pos[entry[i]];
  }
  memset(d->layout, 1, d->n_demoted_pages);
  return TN_OK;
}

/* Nobody else holds a page of layout 0. */
static bool exclusive(const tn_kv_store *s, const tn_group *g, const tn_kv_table *t)
{
  for (uint32_t p = 0; p < t->n_pages; p++)
    if (t->layout[p] == 0 && t->page[p] >= 0 && s->refs[g->desc.pools[0]][t->page[p]] > 1) return false;
  return true;
}

/* n pages of one layout: those put aside, then others. All or none. */
static tn_status fresh_pages(tn_kv_store *s, uint64_t seq, uint32_t group, uint32_t layout, uint32_t n, int32_t *out)
{
  tn_kv_spare *a = &s->spare[group];
  uint32_t have = a->n[layout] < n ? a->n[layout] : n;
  tn_status st = TN_OK;
  if (have < n) st = tn_kv_take(s, seq, s->groups->g[group].desc.pools[layout], -1, n - have, out + have);
  if (st != TN_OK) return st;
  a->n[layout] -= have;
  memcpy(out, a->page[layout] + a->n[layout], have * sizeof *out);
  return TN_OK;
}

/* The first n pages of layout 0, held once more. */
static void own_pages(tn_kv_store *s, const tn_group *g, const tn_kv_table *t, uint32_t n, int32_t *out)
{
  for (uint32_t p = 0, i = 0; i < n && p < t->n_pages; p++) {
    if (t->layout[p] != 0 || t->page[p] < 0) continue;
    s->refs[g->desc.pools[0]][t->page[p]]++;
    out[i++] = t->page[p];
  }
}

static void drop_pages(tn_kv_store *s, uint32_t pool, uint32_t n, const int32_t *page)
{
  for (uint32_t p = 0; p < n; p++) tn_kv_drop_page(s, pool, page[p]);
}

static tn_status take_pages(tn_kv_store *s, const tn_kv_seq *q, uint32_t group, target *d)
{
  const tn_group *g = &s->groups->g[group];
  uint32_t low = d->n_demoted_pages, high = d->n_pages - low;
  tn_status st = low ? fresh_pages(s, q->id, group, 1, low, d->page) : TN_OK;
  if (st != TN_OK || high == 0) return st;
  if (exclusive(s, g, &q->t[group])) {
    own_pages(s, g, &q->t[group], high, d->page + low);
    return TN_OK;
  }
  st = fresh_pages(s, q->id, group, 0, high, d->page + low);
  if (st != TN_OK && low) drop_pages(s, g->desc.pools[1], low, d->page);
  return st;
}

tn_status tn_kv_compact_begin(tn_kv_store *s, const tn_kv_seq *q, int64_t keep, bool demotes)
{
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < s->groups->n; i++) {
    const tn_group *g = &s->groups->g[i];
    const tn_kv_table *t = &q->t[i];
    tn_kv_spare *a = &s->spare[i];
    if (g->desc.kind != TN_KV_CACHE) continue;
    uint32_t n = tn_pages_for(s, t->live < keep ? t->live : keep);
    if (n > 0 && demotes) st = tn_kv_take(s, q->id, g->desc.pools[1], -1, n, a->page[1]);
    if (n > 0 && demotes && st == TN_OK) a->n[1] = n;
    if (n == 0 || st != TN_OK || exclusive(s, g, t)) continue;
    st = tn_kv_take(s, q->id, g->desc.pools[0], -1, n, a->page[0]);
    if (st == TN_OK) a->n[0] = n;
  }
  if (st != TN_OK) tn_kv_compact_end(s);
  return st;
}

void tn_kv_compact_end(tn_kv_store *s)
{
  for (uint32_t i = 0; i < s->groups->n; i++) {
    const tn_kv_group *d = &s->groups->g[i].desc;
    for (uint32_t l = 0; l < d->n_layouts && l < 2; l++) {
      drop_pages(s, d->pools[l], s->spare[i].n[l], s->spare[i].page[l]);
      s->spare[i].n[l] = 0;
    }
  }
}

static tn_status move_entries(tn_kv_store *s, const tn_kv_table *t, uint32_t group, const target *d, int64_t n,
                              const int64_t *entry, const int64_t *map)
{
  int64_t pt = s->groups->page_tokens;
  size_t cap = (size_t)s->cap_pages * (size_t)pt;
  int32_t *src_page = s->scratch, *src_slot = src_page + cap, *dst_page = src_slot + cap, *dst_slot = dst_page + cap;
  uint8_t *src_layout = s->scratch_layout, *dst_layout = src_layout + cap;
  uint32_t moves = 0;
  for (int64_t i = 0; i < n; i++) {
    int64_t from = entry[i], to = map[i];
    if (t->page[from / pt] < 0) return TN_E_INTERNAL;
    src_page[moves] = t->page[from / pt];
    src_slot[moves] = (int32_t)(from % pt);
    src_layout[moves] = t->layout[from / pt];
    dst_page[moves] = d->page[to / pt];
    dst_slot[moves] = (int32_t)(to % pt);
    dst_layout[moves++] = d->layout[to / pt];
  }
  tn_kv_moves m = {.struct_size = sizeof m,
                   .group = group,
                   .n = moves,
                   .src_page = src_page,
                   .src_slot = src_slot,
                   .dst_page = dst_page,
                   .dst_slot = dst_slot,
                   .src_layout = src_layout,
                   .dst_layout = dst_layout};
  return tn_exec_kv_move(s->exec, &m);
}

static void adopt(tn_kv_store *s, tn_kv_seq *q, uint32_t group, const target *d)
{
  tn_kv_table *t = &q->t[group];
  int64_t next_rope = t->next_rope;
  tn_kv_table_clear(s, group, t);
  memcpy(t->page, d->page, d->n_pages * sizeof *t->page);
  memcpy(t->layout, d->layout, d->n_pages);
  memcpy(t->text_pos, d->text_pos, (size_t)d->n * sizeof *t->text_pos);
  bool raw = s->groups->g[group].desc.keys == TN_KEYS_RAW;
  int64_t live = 0;
  for (int64_t r = 0; r < d->n; r++) {
    t->rope_pos[r] = t->text_pos[r] < 0 ? 0 : raw ? live : t->text_pos[r];
    live += t->text_pos[r] >= 0;
  }
  t->n = d->n;
  t->live = d->live;
  t->next_rope = raw ? d->live : next_rope;
  t->n_pages = d->n_pages;
  t->sparse = true;
  t->mixed = d->n_demoted_pages > 0;
}

tn_status tn_kv_compact(tn_kv_store *s, tn_kv_seq *q, uint32_t group, int64_t n, const int64_t *entry,
                        const uint8_t *layout, int64_t *map)
{
  const tn_group *g = &s->groups->g[group];
  tn_kv_table *t = &q->t[group];
  if (g->desc.kind != TN_KV_CACHE) return TN_E_STATE;
  target d = {0};
  tn_status st = lay_out(s, t, n, entry, layout, map, &d);
  if (st == TN_OK) st = take_pages(s, q, group, &d);
  if (st == TN_OK) {
    st = move_entries(s, t, group, &d, n, entry, map);
    if (st == TN_OK) {
      adopt(s, q, group, &d);
    } else {
      for (uint32_t p = 0; p < d.n_pages; p++) tn_kv_drop_page(s, g->desc.pools[d.layout[p]], d.page[p]);
    }
  }
  target_release(&d);
  return st;
}
