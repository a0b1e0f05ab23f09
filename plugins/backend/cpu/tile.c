/* tile: what a query finds in a tile of 64 ranks: which ranks it sees, and their keys and values.
 *
 * Ranks below view.n are committed entries; rank n + o is the row's ancestor (or the row itself) at order o. */
#include <string.h>

#include "cpu.h"

/* ---------------------------------------------------------------- visible bits */

static bool mask_sees(const tn_mask *m, int64_t i, int64_t j)
{
  const int64_t d = i - j;
  return j < m->sinks || (m->lo <= d && d < m->hi && d % m->stride == m->residue);
}

/* Text position that the row finds at a rank; -1: nothing there. */
static int64_t pos_at(const cpu_sight *s, int64_t row, int64_t rank)
{
  const tn_kv_view *v = s->view;
  if (rank >= v->n) return s->c->b->text_pos[row] - (v->n + s->c->b->ord[row] - rank);
  if (v->page[rank / s->kv->page_tokens] < 0) return -1;
  return v->text_pos ? v->text_pos[rank] : rank;
}

static bool sees(const cpu_sight *s, int64_t i, int64_t j)
{
  const tn_op_attend *a = &s->c->op->p.attend;
  const tn_mask *m = s->c->p->masks + a->mask;
  bool all = j >= 0 && j <= i;
  for (uint32_t k = 0; all && k < a->n_masks; k++) all = mask_sees(&m[k], i, j);
  return all;
}

/* Bits [lo, hi) of a tile, ranks relative to its first. */
static uint64_t bits(int64_t lo, int64_t hi)
{
  if (lo < 0) lo = 0;
  if (hi > TNK_KEYS) hi = TNK_KEYS;
  if (lo >= hi) return 0;
  return (hi - lo == TNK_KEYS ? ~0ull : (1ull << (hi - lo)) - 1) << lo;
}

/* Bits of pages that are not freed. */
static uint64_t bits_there(const cpu_sight *s, int64_t rank0)
{
  const int64_t per = s->kv->page_tokens, n = s->view->n;
  uint64_t b = ~0ull;
  for (int64_t at = rank0 / per; at * per < rank0 + TNK_KEYS && at * per < n; at++) {
    if (s->view->page[at] < 0) b &= ~bits(at * per - rank0, (at + 1) * per - rank0);
  }
  return b;
}

/* Every rank of the tile is its own text position, and masks are windows: bits by arithmetic. */
static uint64_t visible_windows(const cpu_sight *s, int64_t i, int64_t rank0)
{
  const tn_op_attend *a = &s->c->op->p.attend;
  const tn_mask *m = s->c->p->masks + a->mask;
  uint64_t b = bits(0, i + 1 - rank0);
  for (uint32_t k = 0; k < a->n_masks; k++) {
    const int64_t first = m[k].hi > i ? 0 : i - m[k].hi + 1;
    b &= bits(0, m[k].sinks - rank0) | bits(first - rank0, i - m[k].lo + 1 - rank0);
  }
  return b ? b & bits_there(s, rank0) : 0;
}

uint64_t tn_cpu_visible(const cpu_sight *s, int64_t row, int64_t t, uint64_t *sinks)
{
  const tn_op_attend *a = &s->c->op->p.attend;
  const tn_mask *m = s->c->p->masks + a->mask;
  const int64_t rank0 = t * TNK_KEYS, i = s->c->b->text_pos[row], own = s->view->n + s->c->b->ord[row];
  bool windows = !s->view->text_pos && i == own;
  for (uint32_t k = 0; k < a->n_masks; k++) windows = windows && m[k].stride == 1 && m[k].residue == 0;
  const int64_t n_sinks = s->c->x2.p ? a->n_sinks : 0;
  if (windows) {
    *sinks = bits(0, n_sinks - rank0);
    return visible_windows(s, i, rank0);
  }
  uint64_t b = 0;
  *sinks = 0;
  for (int64_t bit = 0; bit < TNK_KEYS && rank0 + bit <= own; bit++) {
    const int64_t j = pos_at(s, row, rank0 + bit);
    if (!sees(s, i, j)) continue;
    b |= 1ull << bit;
    if (j < n_sinks) *sinks |= 1ull << bit;
  }
  return b;
}

/* ---------------------------------------------------------------- keys and values */

static int64_t entry_of(const cpu_sight *s, int64_t row, int64_t rank)
{
  return rank < s->view->n ? rank : s->view->n + tn_cpu_slot_at(s->c->b, row, rank - s->view->n);
}

/* Block i of 16 ranks from `rank` on where it lies in the cache; false: its page's layout is not read in place. */
static bool block_in_place(const cpu_sight *s, int64_t rank, int64_t i, tnk_tile *out)
{
  const int64_t per = s->kv->page_tokens, at = rank / per, slot = rank % per;
  const uint32_t layout = s->view->layout ? s->view->layout[at] : 0;
  const cpu_form *f = &s->g->forms[layout];
  if (!f->halves && !f->coded) return false;
  const uint8_t *unit = tn_cpu_kv_unit(s->kv, s->g, layout, s->view->page[at], s->at->layer, s->at->head);
  if (f->coded) {
    tn_cpu_coded_block(s->kv, s->g, f, unit, slot, i, out);
    return true;
  }
  const uint16_t *h = (const uint16_t *)(const void *)unit;
  out->k16[i] = h + slot * s->g->d_k;
  out->v16[i] = h + per * s->g->d_k + slot * s->g->dv;
  return true;
}

/* Blocks that nobody sees become block i, so that they can be read. False: some are halves and some are codes. */
static bool fill_blocks(tnk_tile *t, int64_t i)
{
  const bool coded = t->k8[i] != NULL;
  for (int64_t b = 0; b < 4; b++) {
    if (coded ? t->k16[b] != NULL : t->k8[b] != NULL) return false;
    if (t->k16[b] || t->k8[b]) continue;
    t->k16[b] = t->k16[i], t->v16[b] = t->v16[i];
    t->k8[b] = t->k8[i], t->v8[b] = t->v8[i];
    t->ks[b] = t->ks[i], t->vs[b] = t->vs[i];
  }
  return true;
}

/* The tile's blocks where they lie in the cache, if all are halves or all are codes, and whole. */
static bool in_place(const cpu_sight *s, int64_t row, int64_t t, uint64_t wanted, tnk_tile *out)
{
  const int64_t rank0 = t * TNK_KEYS;
  const bool path = s->c->b->path_off[row] >= 0 && rank0 + TNK_KEYS > s->view->n;
  int64_t some = 0;
  if (path || s->kv->page_tokens % 16) return false;
  *out = (tnk_tile){0};
  for (int64_t i = 0; i < 4; i++) {
    if (!(wanted >> (16 * i) & 0xFFFF)) continue;
    if (!block_in_place(s, rank0 + 16 * i, i, out)) return false;
    some = i;
  }
  return fill_blocks(out, some);
}

/* Keys of the tile that comes next, of those of its blocks that are read in place; else those of this one. */
static void point_next(const cpu_sight *s, int64_t t, tnk_tile *out)
{
  const int64_t rank0 = (t + 1) * TNK_KEYS;
  tnk_tile next = *out;
  for (int64_t i = 0; i < 4 && rank0 + 16 * i < s->view->n; i++) {
    if (s->view->page[(rank0 + 16 * i) / s->kv->page_tokens] >= 0) block_in_place(s, rank0 + 16 * i, i, &next);
  }
  for (int64_t i = 0; i < 4; i++) {
    out->next[i] = next.k8[i] ? (const uint8_t *)next.k8[i] : (const uint8_t *)next.k16[i];
  }
}

/* The wanted entries one by one to scratch. */
static void gather(const cpu_sight *s, int64_t row, int64_t t, uint64_t wanted, tnk_tile *out)
{
  const int64_t per = s->kv->page_tokens, d = s->g->d_k;
  float *k = s->k32 + TNK_KEYS * d + TNK_KEYS * s->g->dv; /* one key, then one value, behind the tile */
  memset(s->k32, 0, (size_t)(TNK_KEYS * d) * sizeof *s->k32);
  for (uint64_t left = wanted; left; left &= left - 1) {
    const int64_t bit = __builtin_ctzll(left), entry = entry_of(s, row, t * TNK_KEYS + bit), at = entry / per;
    const uint32_t layout = s->view->layout ? s->view->layout[at] : 0;
    const uint8_t *unit = tn_cpu_kv_unit(s->kv, s->g, layout, s->view->page[at], s->at->layer, s->at->head);
    float *v = k + d;
    tn_cpu_kv_load(s->kv, s->g, layout, unit, entry % per, k, v);
    for (int64_t c = s->g->d_v; c < s->g->dv; c++) v[c] = 0;
    for (int64_t c = 0; c < d; c++) s->k32[(bit / 16 * d + c) * 16 + bit % 16] = k[c];
    for (int64_t c = 0; c < s->g->dv; c++) s->v32[(c / 16 * TNK_KEYS + bit) * 16 + c % 16] = v[c];
  }
  *out = (tnk_tile){.k32 = s->k32, .v32 = s->v32};
}

void tn_cpu_tile(const cpu_sight *s, int64_t row, int64_t t, uint64_t wanted, bool widen, tnk_tile *out)
{
  if (!in_place(s, row, t, wanted, out)) {
    gather(s, row, t, wanted, out);
  } else if (!widen) {
    point_next(s, t, out);
  } else {
    s->c->in->attend->widen(out, s->g->d_k, s->g->dv, s->k32, s->v32);
    *out = (tnk_tile){.k32 = s->k32, .v32 = s->v32};
  }
}
