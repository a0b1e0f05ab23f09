/* kv_seq: a sequence's tables as it grows: reserve, views, commit, truncate, freeing by mask. See kv.h. */
#include <stdlib.h>
#include <string.h>

#include "kv_int.h"

/* The last committed page of t will be written by the next rows but has other holders: give t a copy of its own. */
static tn_status unshare_tail(tn_kv_store *s, tn_kv_seq *q, uint32_t group)
{
  const tn_group *g = &s->groups->g[group];
  tn_kv_table *t = &q->t[group];
  uint32_t pt = s->groups->page_tokens, used = (uint32_t)(t->n % pt), p = (uint32_t)(t->n / pt);
  if (used == 0 || p >= t->n_pages || t->page[p] < 0) return TN_OK;
  uint32_t pool = tn_kv_pool_of(g, t, p);
  if (s->refs[pool][t->page[p]] < 2) {
    tn_kv_prefix_forget(s, pool, t->page[p]); /* it will not be what it was */
    return TN_OK;
  }
  int32_t fresh;
  tn_status st = tn_kv_take(s, q->id, pool, t->page[p], 1, &fresh);
  if (st != TN_OK) return st;
  size_t cap = (size_t)s->cap_pages * pt;
  int32_t *src_page = s->scratch, *src_slot = src_page + cap, *dst_page = src_slot + cap;
  for (uint32_t i = 0; i < used; i++) {
    src_page[i] = t->page[p];
    dst_page[i] = fresh;
    src_slot[i] = (int32_t)i;
    s->scratch_layout[i] = t->layout[p];
  }
  tn_kv_moves m = {.struct_size = sizeof m,
                   .group = group,
                   .n = used,
                   .src_page = src_page,
                   .src_slot = src_slot,
                   .dst_page = dst_page,
                   .dst_slot = src_slot,
                   .src_layout = s->scratch_layout,
                   .dst_layout = s->scratch_layout};
  st = tn_exec_kv_move(s->exec, &m);
  if (st != TN_OK) {
    tn_kv_drop_page(s, pool, fresh);
    return st;
  }
  tn_kv_drop_page(s, pool, t->page[p]);
  t->page[p] = fresh;
  return TN_OK;
}

static tn_status reserve_group(tn_kv_store *s, tn_kv_seq *q, uint32_t group, uint32_t n_rows)
{
  const tn_group *g = &s->groups->g[group];
  tn_kv_table *t = &q->t[group];
  if (g->desc.kind == TN_KV_STATE && t->state < 0) {
    tn_status st = tn_kv_take(s, q->id, g->desc.state_pool, -1, 1, &t->state);
    if (st == TN_OK) st = tn_exec_state_reset(s->exec, group, t->state);
    if (st != TN_OK) return st;
  }
  tn_status st = unshare_tail(s, q, group);
  if (st != TN_OK) return st;
  uint32_t want = tn_pages_for(s, t->n + n_rows);
  if (want > t->cap_pages) return TN_E_NEVER;
  if (want <= t->n_pages) return TN_OK;
  int32_t near = t->n_pages ? t->page[t->n_pages - 1] : -1;
  st = tn_kv_take(s, q->id, g->desc.pools[0], near, want - t->n_pages, t->page + t->n_pages);
  if (st != TN_OK) return st;
  memset(t->layout + t->n_pages, 0, want - t->n_pages);
  t->n_pages = want;
  return TN_OK;
}

/* Pages behind what n entries need go back. */
static void trim(tn_kv_store *s, tn_kv_seq *q, uint32_t group, uint32_t keep)
{
  tn_kv_table *t = &q->t[group];
  while (t->n_pages > keep) {
    t->n_pages--;
    tn_kv_drop_page(s, tn_kv_pool_of(&s->groups->g[group], t, t->n_pages), t->page[t->n_pages]);
  }
}

tn_status tn_kv_reserve(tn_kv_store *s, tn_kv_seq *q, uint32_t n_rows)
{
  for (uint32_t g = 0; g < q->n_groups; g++) {
    tn_status st = reserve_group(s, q, g, n_rows);
    if (st == TN_OK) continue;
    for (uint32_t k = 0; k < g; k++) trim(s, q, k, tn_pages_for(s, q->t[k].n));
    return st;
  }
  return TN_OK;
}

void tn_kv_views(tn_kv_store *s, tn_kv_seq *q)
{
  for (uint32_t g = 0; g < q->n_groups; g++) {
    const tn_kv_table *t = &q->t[g];
    bool raw = s->groups->g[g].desc.keys == TN_KEYS_RAW;
    q->views[g] = (tn_kv_view){.struct_size = sizeof(tn_kv_view),
                               .n_pages = t->n_pages,
                               .n = t->n,
                               .page = t->page,
                               .layout = t->mixed ? t->layout : NULL,
                               .text_pos = t->sparse ? t->text_pos : NULL,
                               .rope_pos = raw ? t->rope_pos : NULL,
                               .cos = t->cos,
                               .sin = t->sin,
                               .folded = t->folded,
                               .state = t->state};
  }
}

/* Moves the accepted rows of a tree down to the places right behind the committed entries. */
static tn_status close_gaps(tn_kv_store *s, const tn_kv_table *t, uint32_t group, uint32_t n, const int32_t *slots)
{
  uint32_t pt = s->groups->page_tokens, moves = 0;
  size_t cap = (size_t)s->cap_pages * pt;
  int32_t *src_page = s->scratch, *src_slot = src_page + cap, *dst_page = src_slot + cap, *dst_slot = dst_page + cap;
  for (uint32_t i = 0; i < n; i++) {
    if (slots[i] == (int32_t)i) continue;
    int64_t from = t->n + slots[i], to = t->n + i;
    src_page[moves] = t->page[from / pt];
    src_slot[moves] = (int32_t)(from % pt);
    dst_page[moves] = t->page[to / pt];
    dst_slot[moves++] = (int32_t)(to % pt);
  }
  if (moves == 0) return TN_OK;
  tn_kv_moves m = {.struct_size = sizeof m,
                   .group = group,
                   .n = moves,
                   .src_page = src_page,
                   .src_slot = src_slot,
                   .dst_page = dst_page,
                   .dst_slot = dst_slot};
  return tn_exec_kv_move(s->exec, &m);
}

/* What the group's masks say of entry r, whatever query comes at text position next or later. */
enum { SEEN = 0, SINK = 1 /* stays for good */, HIDDEN = 2 };

static int fate_of_position(const tn_group *g, int64_t j, int64_t next)
{
  bool sink = true;
  for (uint32_t i = 0; i < g->n_rules; i++) {
    if (j < g->rules[i].sinks) continue;
    sink = false;
    if (next - j >= g->rules[i].hi) return HIDDEN;
  }
  return sink ? SINK : SEEN;
}

bool tn_kv_hides(const tn_group *g, int64_t j, int64_t next) { return fate_of_position(g, j, next) == HIDDEN; }

static int fate(const tn_group *g, const tn_kv_table *t, int64_t r, int64_t next)
{
  if (g->desc.kind == TN_KV_STATE) return r < t->folded ? HIDDEN : SEEN;
  return t->text_pos[r] < 0 ? HIDDEN : fate_of_position(g, t->text_pos[r], next);
}

/* Frees whole pages that masks hide from every later query, or that a state has absorbed. Pages below first_kept are
 * settled: freed, or holding sinks for good. Positions ascend, so the first page with a seen entry ends the scan. */
void tn_kv_free_hidden(tn_kv_store *s, tn_kv_seq *q, uint32_t group, int64_t next)
{
  const tn_group *g = &s->groups->g[group];
  tn_kv_table *t = &q->t[group];
  uint32_t pt = s->groups->page_tokens;
  if (g->n_rules == 0 && g->desc.kind != TN_KV_STATE) return;
  for (uint32_t p = t->first_kept; (int64_t)(p + 1) * pt <= t->n; p++) {
    bool sinks = false;
    for (uint32_t i = 0; i < pt; i++) {
      int f = fate(g, t, (int64_t)p * pt + i, next);
      if (f == SEEN) return;
      sinks = sinks || f == SINK;
    }
    if (!sinks) {
      tn_kv_drop_page(s, tn_kv_pool_of(g, t, p), t->page[p]);
      t->page[p] = -1;
      for (uint32_t i = 0; i < pt; i++) {
        t->live -= t->text_pos[p * pt + i] >= 0;
        t->text_pos[p * pt + i] = -1;
      }
    }
    t->first_kept = p + 1;
  }
}

void tn_kv_forget_hidden(const tn_kv_store *s, tn_kv_seq *q, uint32_t group, int64_t next)
{
  const tn_group *g = &s->groups->g[group];
  tn_kv_table *t = &q->t[group];
  if (g->desc.kind != TN_KV_CACHE || g->n_rules == 0) return;
  for (int64_t r = 0; r < t->n; r++) {
    if (t->text_pos[r] < 0 || fate(g, t, r, next) != HIDDEN) continue;
    t->text_pos[r] = -1;
    t->live--;
    t->sparse = true;
  }
}

static tn_status fold_tiles(tn_kv_store *s, tn_kv_seq *q, uint32_t group)
{
  tn_kv_table *t = &q->t[group];
  while (t->n - t->folded >= 64) {
    tn_kv_views(s, q);
    tn_status st = tn_exec_state_fold(s->exec, group, &q->views[group]);
    if (st != TN_OK) return st;
    t->folded += 64;
  }
  return TN_OK;
}

tn_status tn_kv_commit(tn_kv_store *s, tn_kv_seq *q, uint32_t n, const int32_t *slots, int64_t pos0)
{
  for (uint32_t g = 0; g < q->n_groups; g++) {
    tn_kv_table *t = &q->t[g];
    tn_status st = slots ? close_gaps(s, t, g, n, slots) : TN_OK;
    if (st != TN_OK) return st;
    for (uint32_t i = 0; i < n; i++) {
      t->text_pos[t->n + i] = pos0 + i;
      t->rope_pos[t->n + i] = t->next_rope + i;
    }
    t->n += n;
    t->live += n;
    t->next_rope += n;
    if (s->groups->g[g].desc.kind == TN_KV_STATE) st = fold_tiles(s, q, g);
    if (st != TN_OK) return st;
  }
  tn_kv_prefix_note(s, q);
  for (uint32_t g = 0; g < q->n_groups; g++) tn_kv_free_hidden(s, q, g, pos0 + n - s->groups->rollback);
  return TN_OK;
}

/* What masks have freed is hidden from queries at `to` as well. */
static bool can_go_back(const tn_kv_store *s, const tn_group *g, const tn_kv_table *t, int64_t to)
{
  if (t->sparse || t->folded > to) return false;
  uint32_t pt = s->groups->page_tokens;
  for (uint32_t p = 0; g->desc.kind == TN_KV_CACHE && p < t->first_kept && (int64_t)p * pt < to; p++) {
    if (t->page[p] >= 0) continue;
    for (int64_t j = (int64_t)p * pt; j < (int64_t)(p + 1) * pt && j < to; j++)
      if (!tn_kv_hides(g, j, to)) return false;
  }
  return true;
}

tn_status tn_kv_truncate(tn_kv_store *s, tn_kv_seq *q, int64_t to)
{
  for (uint32_t g = 0; g < q->n_groups; g++)
    if (!can_go_back(s, &s->groups->g[g], &q->t[g], to)) return TN_E_STATE;
  tn_kv_prefix_cut(s, q, to);
  for (uint32_t g = 0; g < q->n_groups; g++) {
    tn_kv_table *t = &q->t[g];
    for (int64_t r = to; r < t->n; r++) t->live -= t->text_pos[r] >= 0;
    if (t->n > to) t->n = t->next_rope = to;
    uint32_t whole = (uint32_t)(t->n / s->groups->page_tokens);
    if (t->first_kept > whole) t->first_kept = whole;
    trim(s, q, g, tn_pages_for(s, t->n));
  }
  return TN_OK;
}
