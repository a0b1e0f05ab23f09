/* kv_model: see kv_model.h. */
#include "kv_model.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "stats.h"

static uint32_t below(kv_model *m, uint32_t n) { return (uint32_t)(plain_uniform(&m->rng) * n); }

kv_model *kv_model_open(const kv_spec *spec)
{
  kv_model *m = tn_zalloc(1, sizeof *m);
  m->rig = kv_rig_open(spec);
  cr_assert(m->rig->groups.n <= KV_MAX_GROUPS);
  m->next_id = m->next_entry = m->rng = 1;
  return m;
}

void kv_model_close(kv_model *m)
{
  for (int i = 0; i < KV_MAX_SEQS; i++)
    if (m->seq[i].q) kv_model_free(m, &m->seq[i]);
  kv_rig_close(m->rig);
  free(m);
}

static kv_model_seq *free_place(kv_model *m)
{
  for (int i = 0; i < KV_MAX_SEQS; i++)
    if (!m->seq[i].q) return &m->seq[i];
  return NULL;
}

/* TN_OK, or no pages now. */
static bool got(kv_model *m, tn_status st, const char *what)
{
  cr_assert(st == TN_OK || st == TN_E_FULL, "%s: %s", what, tn_status_name(st));
  m->n_full += st != TN_OK;
  return st == TN_OK;
}

static bool admit(kv_model *m, tn_kv_seq **q)
{
  return got(m, tn_kv_seq_new(m->rig->store, m->next_id++, 1 + below(m, 40), m->rig->spec.max_ctx, q), "new");
}

kv_model_seq *kv_model_new(kv_model *m)
{
  kv_model_seq *s = free_place(m);
  tn_kv_seq *q;
  if (!s || !admit(m, &q)) return NULL;
  memset(s, 0, sizeof *s);
  for (uint32_t g = 0; g < m->rig->groups.n; g++) s->g[g].state = 1;
  s->q = q;
  return s;
}

void kv_model_free(kv_model *m, kv_model_seq *s)
{
  tn_kv_seq_free(m->rig->store, s->q);
  s->q = NULL;
}

/* Rows at slots 0 .. n-1 of every group, as a step writes them; then n_commit of them become permanent. */
bool kv_model_rows(kv_model *m, kv_model_seq *s, uint32_t n, uint32_t n_commit, const int32_t *slots)
{
  kv_rig *r = m->rig;
  if (!got(m, tn_kv_reserve(r->store, s->q, n), "reserve")) return false;
  uint64_t first = m->next_entry;
  m->next_entry += n * KV_MAX_GROUPS;
  for (uint32_t g = 0; g < r->groups.n; g++)
    for (uint32_t i = 0; i < n; i++) *kv_rig_entry(r, &s->q->t[g], g, s->q->t[g].n + i) = first + g * n + i;
  cr_assert(tn_kv_commit(r->store, s->q, n_commit, slots, s->n_text) == TN_OK);
  for (uint32_t g = 0; g < r->groups.n; g++) {
    kv_list *l = &s->g[g];
    for (uint32_t i = 0; i < n_commit; i++)
      l->e[l->n++] =
          (kv_entry){first + g * n + (slots ? (uint32_t)slots[i] : i), s->n_text + i, l->next_rope++, 0, false};
    if (r->groups.g[g].desc.kind != TN_KV_STATE) continue;
    for (; l->n - l->folded >= 64; l->folded += 64)
      for (int64_t e = l->folded; e < l->folded + 64; e++) l->state = kv_rig_folded(l->state, l->e[e].id);
  }
  s->n_text += n_commit;
  return true;
}

bool kv_model_truncate(kv_model *m, kv_model_seq *s, int64_t to)
{
  tn_status st = tn_kv_truncate(m->rig->store, s->q, to);
  cr_assert(st == TN_OK || st == TN_E_STATE, "%s", tn_status_name(st));
  if (st != TN_OK) return false;
  for (uint32_t g = 0; g < m->rig->groups.n; g++)
    if (s->g[g].n > to) s->g[g].n = s->g[g].next_rope = to;
  s->n_text = to < s->n_text ? to : s->n_text;
  return true;
}

/* The reference's side of a compaction: demoted entries, holes up to a page, the rest. */
static void compact_list(const kv_model *m, kv_list *l, uint32_t group, int64_t n, const int64_t *entry,
                         const uint8_t *layout, const int64_t *map)
{
  static kv_entry kept[KV_MAX_ENTRIES];
  bool raw = m->rig->groups.g[group].desc.keys == TN_KEYS_RAW;
  int64_t at = 0, next_rope = l->next_rope;
  for (uint8_t part = 1; part < 2; part--) {
    for (int64_t i = 0; i < n; i++) {
      if (layout[i] != part) continue;
      cr_assert(map[i] == at, "group %u: entry %lld goes to rank %lld, want %lld", group, (long long)entry[i],
                (long long)map[i], (long long)at);
      kept[at] = l->e[entry[i]];
      kept[at++].layout = part;
    }
    if (part == 1) l->parts = l->parts || at > 0;
    while (part == 1 && at % m->rig->groups.page_tokens) kept[at++] = (kv_entry){.pos = -1, .layout = 1, .hole = true};
  }
  int64_t live = 0;
  for (int64_t r = 0; r < at; r++)
    if (raw && !kept[r].hole) kept[r].rope = live++;
  memcpy(l->e, kept, (size_t)at * sizeof *kept);
  l->n = at;
  l->next_rope = raw ? live : next_rope;
}

bool kv_model_compact(kv_model *m, kv_model_seq *s, uint32_t group, double keep, double demote)
{
  static int64_t entry[KV_MAX_ENTRIES], map[KV_MAX_ENTRIES];
  static uint8_t layout[KV_MAX_ENTRIES];
  kv_list *l = &s->g[group];
  const tn_kv_table *t = &s->q->t[group];
  const tn_kv_group *d = &m->rig->groups.g[group].desc;
  int64_t n = 0;
  if (d->kind != TN_KV_CACHE) return false;
  tn_kv_forget_hidden(m->rig->store, s->q, group, s->n_text);
  for (int64_t e = 0; e < l->n; e++) {
    if (t->text_pos[e] < 0 || plain_uniform(&m->rng) >= keep) continue;
    layout[n] = d->n_layouts > 1 && (l->e[e].layout || plain_uniform(&m->rng) < demote);
    entry[n++] = e;
  }
  m->rig->fail_moves = below(m, 50) == 0; /* a failing backend changes nothing */
  bool fails = m->rig->fail_moves;
  tn_status st = tn_kv_compact(m->rig->store, s->q, group, n, entry, layout, map);
  if (fails && st == TN_E_DEVICE) return false;
  m->rig->fail_moves = 0;
  if (!got(m, st, "compact")) return false;
  compact_list(m, l, group, n, entry, layout, map);
  return true;
}

kv_model_seq *kv_model_fork(kv_model *m, kv_model_seq *s)
{
  kv_model_seq *c = free_place(m);
  tn_kv_seq *q;
  if (!c || !admit(m, &q)) return NULL;
  if (!got(m, tn_kv_fork(m->rig->store, s->q, q), "fork")) {
    tn_kv_seq_free(m->rig->store, q);
    return NULL;
  }
  *c = *s;
  c->q = q;
  return c;
}

/* Out as bytes and back in, as another sequence; when there is no room for it, the sequence is gone. */
bool kv_model_swap(kv_model *m, kv_model_seq *s)
{
  uint8_t *bytes;
  size_t n;
  tn_kv_seq *q;
  cr_assert(tn_kv_save(m->rig->store, s->q, &bytes, &n) == TN_OK);
  kv_model_free(m, s);
  bool ok = admit(m, &q);
  if (ok && !got(m, tn_kv_load(m->rig->store, q, bytes, n, s->n_text, NULL), "load")) {
    tn_kv_seq_free(m->rig->store, q);
    ok = false;
  }
  free(bytes);
  s->q = ok ? q : NULL;
  return ok;
}

/* ---------------------------------------------------------------- looking */

/* No query at next or later sees the entry. */
static bool hidden(const tn_group *g, const kv_list *l, int64_t rank, int64_t next)
{
  const kv_entry *e = &l->e[rank];
  if (e->hole) return true;
  if (g->desc.kind == TN_KV_STATE) return rank < l->folded;
  for (uint32_t i = 0; i < g->n_rules; i++)
    if (e->pos >= g->rules[i].sinks && next - e->pos >= g->rules[i].hi) return true;
  return false;
}

static void check_entry(kv_model *m, kv_model_seq *s, uint32_t group, int64_t r)
{
  const tn_kv_table *t = &s->q->t[group];
  const kv_entry *e = &s->g[group].e[r];
  uint32_t p = (uint32_t)(r / m->rig->groups.page_tokens);
  bool unseen = hidden(&m->rig->groups.g[group], &s->g[group], r, s->n_text);
  if (t->page[p] < 0 || t->text_pos[r] < 0) {
    cr_assert(unseen, "group %u: entry %lld (position %lld of %lld) is gone", group, (long long)r, (long long)e->pos,
              (long long)s->n_text);
    cr_assert(t->page[p] >= 0 || t->text_pos[r] < 0, "group %u: entry %lld has no page", group, (long long)r);
    return;
  }
  cr_assert(!e->hole && t->text_pos[r] == e->pos && t->rope_pos[r] == e->rope && t->layout[p] == e->layout,
            "group %u entry %lld: position %lld, %lld; rope %lld, %lld; layout %u, %u", group, (long long)r,
            (long long)t->text_pos[r], (long long)e->pos, (long long)t->rope_pos[r], (long long)e->rope, t->layout[p],
            e->layout);
  uint64_t is = *kv_rig_entry(m->rig, t, group, r);
  cr_assert(is == e->id, "group %u: entry %lld is %llu, want %llu", group, (long long)r, (unsigned long long)is,
            (unsigned long long)e->id);
  cr_assert(t->sparse || t->text_pos[r] == r, "group %u: entry %lld stands at position %lld", group, (long long)r,
            (long long)t->text_pos[r]);
}

/* Whole pages of hidden entries are not kept. Where a compaction made two parts, the first may hide the second's. */
static void check_freed(kv_model *m, const kv_model_seq *s, uint32_t group)
{
  const tn_kv_table *t = &s->q->t[group];
  const tn_group *g = &m->rig->groups.g[group];
  uint32_t pt = m->rig->groups.page_tokens;
  if (s->g[group].parts || (g->n_rules == 0 && g->desc.kind != TN_KV_STATE)) return;
  for (uint32_t p = 0; (int64_t)(p + 1) * pt <= t->n; p++) {
    bool all = true;
    for (uint32_t i = 0; i < pt; i++)
      all = all && hidden(g, &s->g[group], (int64_t)p * pt + i, s->n_text - m->rig->groups.rollback);
    cr_assert(!all || t->page[p] < 0, "group %u: page %u of hidden entries is kept", group, p);
  }
}

void kv_model_check_seq(kv_model *m, kv_model_seq *s)
{
  tn_kv_views(m->rig->store, s->q);
  for (uint32_t g = 0; g < m->rig->groups.n; g++) {
    const tn_kv_table *t = &s->q->t[g];
    const tn_kv_view *v = s->q->view_ptrs[g];
    const kv_list *l = &s->g[g];
    bool raw = m->rig->groups.g[g].desc.keys == TN_KEYS_RAW, low = false;
    int64_t live = 0;
    cr_assert(t->n == l->n && t->next_rope == l->next_rope,
              "group %u: %lld entries, want %lld; next rope %lld, want %lld", g, (long long)t->n, (long long)l->n,
              (long long)t->next_rope, (long long)l->next_rope);
    for (int64_t r = 0; r < t->n; r++) {
      check_entry(m, s, g, r);
      live += t->text_pos[r] >= 0;
    }
    for (uint32_t p = 0; p < t->n_pages; p++) low = low || t->layout[p] != 0;
    cr_assert(t->live == live, "group %u: %lld live, %lld counted", g, (long long)live, (long long)t->live);
    cr_assert(v->n == t->n && v->n_pages == t->n_pages && v->page == t->page && (v->text_pos != NULL) == t->sparse);
    cr_assert((v->rope_pos != NULL) == raw && (v->layout != NULL || !low));
    if (m->rig->groups.g[g].desc.kind == TN_KV_STATE) {
      cr_assert(t->folded == l->folded && v->folded == l->folded && v->state == t->state);
      cr_assert(t->state < 0 ? l->n == 0 : kv_rig_state(m->rig, t, g) == l->state, "group %u: another state", g);
    }
    check_freed(m, s, g);
  }
}

void kv_model_check(kv_model *m)
{
  const tn_kv_seq *held[KV_MAX_SEQS];
  uint32_t n = 0;
  tn_err err = tn_err_init();
  for (int i = 0; i < KV_MAX_SEQS; i++) {
    if (!m->seq[i].q) continue;
    kv_model_check_seq(m, &m->seq[i]);
    held[n++] = m->seq[i].q;
  }
  cr_assert(tn_kv_check(m->rig->store, held, n, &err), "%s", err.msg);
}

/* ---------------------------------------------------------------- at random */

/* A tree's accepted rows: slot 0 and an ascending choice of others. */
static bool tree_rows(kv_model *m, kv_model_seq *s, uint32_t room)
{
  int32_t slots[64];
  uint32_t rows = 1 + below(m, 20), n = 1;
  slots[0] = 0;
  for (uint32_t i = 1; i < rows && n < room; i++)
    if (below(m, 3) == 0) slots[n++] = (int32_t)i;
  return kv_model_rows(m, s, rows, n, slots);
}

static bool act(kv_model *m, uint32_t kind, kv_model_seq *s)
{
  uint32_t room = (uint32_t)(m->rig->spec.max_ctx - s->n_text), n;
  switch (kind) {
    case KV_TEXT:
      n = 1 + below(m, below(m, 4) ? 3 : m->rig->spec.max_rows);
      return room > 0 && kv_model_rows(m, s, n < room ? n : room, n < room ? n : room, NULL);
    case KV_TREE: return room > 0 && tree_rows(m, s, room);
    case KV_NOTHING: return kv_model_rows(m, s, 1 + below(m, 30), 0, NULL); /* drafted, and all refused */
    case KV_TRUNCATE:
      return kv_model_truncate(m, s, s->n_text - below(m, (uint32_t)(s->n_text < 80 ? s->n_text : 80) + 1));
    case KV_COMPACT:
      return m->rig->spec.gran && kv_model_compact(m, s, below(m, m->rig->groups.n), 0.3 + 0.7 * plain_uniform(&m->rng),
                                                   plain_uniform(&m->rng));
    case KV_FORK: return kv_model_fork(m, s) != NULL;
    case KV_SWAP: return kv_model_swap(m, s);
    default: kv_model_free(m, s); return true;
  }
}

void kv_model_step(kv_model *m)
{
  static const uint8_t often[] = {KV_NEW,  KV_TEXT,    KV_TEXT,    KV_TEXT, KV_TEXT, KV_TEXT,    KV_TEXT,
                                  KV_TEXT, KV_TREE,    KV_TREE,    KV_TREE, KV_TREE, KV_TREE,    KV_TREE,
                                  KV_TREE, KV_NOTHING, KV_COMPACT, KV_FORK, KV_SWAP, KV_TRUNCATE};
  uint32_t kind = below(m, 60) == 0 ? KV_FREE : often[below(m, sizeof often)];
  kv_model_seq *s = &m->seq[below(m, KV_MAX_SEQS)];
  if (kind != KV_NEW && !s->q) kind = KV_NEW;
  m->n_done[kind] += kind == KV_NEW ? kv_model_new(m) != NULL : act(m, kind, s);
  if (s->q) kv_model_check_seq(m, s);
  if (++m->n_ops % 256 == 0) kv_model_check(m);
}
