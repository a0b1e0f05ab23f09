/* kv_save: fork, and a sequence's KV as bytes (swap-out, sessions on disk). See kv.h. */
#include <stdlib.h>
#include <string.h>

#include "kv_int.h"

#define MAGIC 0x31564B54u /* "TKV1" */

typedef struct head {
  uint32_t magic, n_groups, n_pools, page_tokens;
} head;

typedef struct table_head {
  int64_t n, folded, next_rope;
  uint32_t n_pages, first_kept, has_state, sparse;
} table_head;

tn_status tn_kv_fork(tn_kv_store *s, const tn_kv_seq *parent, tn_kv_seq *child)
{
  child->prefix = parent->prefix;
  child->prefix.text = NULL;
  child->prefix.n_text = 0;
  for (uint32_t g = 0; g < parent->n_groups; g++) {
    const tn_kv_table *a = &parent->t[g];
    const tn_group *group = &s->groups->g[g];
    tn_kv_table *b = &child->t[g];
    size_t entries = (size_t)a->n;
    b->n = a->n, b->live = a->live, b->folded = a->folded, b->next_rope = a->next_rope;
    b->first_kept = a->first_kept, b->sparse = a->sparse, b->mixed = a->mixed, b->rotated = 0;
    b->n_pages = tn_pages_for(s, a->n);
    memcpy(b->page, a->page, b->n_pages * sizeof *b->page);
    memcpy(b->layout, a->layout, b->n_pages);
    memcpy(b->text_pos, a->text_pos, entries * sizeof *b->text_pos);
    memcpy(b->rope_pos, a->rope_pos, entries * sizeof *b->rope_pos);
    for (uint32_t p = 0; p < b->n_pages; p++)
      if (b->page[p] >= 0) s->refs[tn_kv_pool_of(group, b, p)][b->page[p]]++;
    if (group->desc.kind != TN_KV_STATE || a->state < 0) continue;
    uint32_t pool = group->desc.state_pool; /* a state changes in place, so it is copied at once */
    tn_status st = tn_kv_take(s, child->id, pool, -1, 1, &b->state);
    void *bytes = st == TN_OK ? malloc((size_t)tn_exec_page_bytes(s->exec, pool)) : NULL;
    if (st == TN_OK && !bytes) st = TN_E_NOMEM;
    if (st == TN_OK) st = tn_exec_page_read(s->exec, pool, a->state, bytes);
    if (st == TN_OK) st = tn_exec_page_write(s->exec, pool, b->state, bytes);
    free(bytes);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

static size_t table_bytes(const tn_kv_store *s, uint32_t g, const tn_kv_table *t)
{
  const tn_group *group = &s->groups->g[g];
  uint32_t n_pages = tn_pages_for(s, t->n); /* without those that are reserved */
  size_t n = sizeof(table_head) + n_pages + 2 * (size_t)t->n * sizeof(int64_t);
  for (uint32_t p = 0; p < n_pages; p++)
    n += 1 + (t->page[p] >= 0 ? (size_t)tn_exec_page_bytes(s->exec, tn_kv_pool_of(group, t, p)) : 0);
  if (t->state >= 0) n += (size_t)tn_exec_page_bytes(s->exec, group->desc.state_pool);
  return n;
}

static uint8_t *put(uint8_t *at, const void *p, size_t n)
{
  memcpy(at, p, n);
  return at + n;
}

static tn_status save_table(tn_kv_store *s, uint32_t g, const tn_kv_table *t, uint8_t **at)
{
  const tn_group *group = &s->groups->g[g];
  uint32_t n_pages = tn_pages_for(s, t->n);
  table_head h = {t->n, t->folded, t->next_rope, n_pages, t->first_kept, t->state >= 0, t->sparse};
  uint8_t *w = put(*at, &h, sizeof h);
  w = put(w, t->layout, n_pages);
  w = put(w, t->text_pos, (size_t)t->n * sizeof(int64_t));
  w = put(w, t->rope_pos, (size_t)t->n * sizeof(int64_t));
  for (uint32_t p = 0; p < n_pages; p++) {
    uint32_t pool = tn_kv_pool_of(group, t, p);
    *w++ = t->page[p] >= 0;
    if (t->page[p] < 0) continue;
    tn_status st = tn_exec_page_read(s->exec, pool, t->page[p], w);
    if (st != TN_OK) return st;
    w += tn_exec_page_bytes(s->exec, pool);
  }
  if (t->state >= 0) {
    tn_status st = tn_exec_page_read(s->exec, group->desc.state_pool, t->state, w);
    if (st != TN_OK) return st;
    w += tn_exec_page_bytes(s->exec, group->desc.state_pool);
  }
  *at = w;
  return TN_OK;
}

tn_status tn_kv_save(tn_kv_store *s, const tn_kv_seq *q, uint8_t **out, size_t *n_bytes)
{
  size_t n = sizeof(head);
  for (uint32_t g = 0; g < q->n_groups; g++) n += table_bytes(s, g, &q->t[g]);
  *out = NULL;
  uint8_t *bytes = malloc(n), *at = bytes;
  if (!bytes) return TN_E_NOMEM;
  head h = {MAGIC, q->n_groups, s->groups->n_pools, s->groups->page_tokens};
  at = put(at, &h, sizeof h);
  tn_status st = TN_OK;
  for (uint32_t g = 0; st == TN_OK && g < q->n_groups; g++) st = save_table(s, g, &q->t[g], &at);
  if (st != TN_OK) {
    free(bytes);
    return st;
  }
  *out = bytes;
  *n_bytes = n;
  return TN_OK;
}

typedef struct reader {
  const uint8_t *p;
  size_t left;
} reader;

static bool get(reader *r, void *dst, size_t n)
{
  if (n > r->left) return false;
  memcpy(dst, r->p, n);
  r->p += n;
  r->left -= n;
  return true;
}

/* One page of bytes from r into a fresh page. */
static tn_status load_page(tn_kv_store *s, uint64_t seq, uint32_t pool, reader *r, int32_t *page)
{
  size_t n = (size_t)tn_exec_page_bytes(s->exec, pool);
  if (n > r->left) return TN_E_IO;
  tn_status st = tn_kv_take(s, seq, pool, -1, 1, page);
  if (st == TN_OK) st = tn_exec_page_write(s->exec, pool, *page, r->p);
  r->p += n;
  r->left -= n;
  return st;
}

/* An entry that is there, or that nobody looks for: a hole, or one that masks hide. */
static bool sound_entry(const tn_group *g, const tn_kv_table *t, int64_t r, bool has_page, int64_t n_text)
{
  int64_t pos = t->text_pos[r];
  if (pos < -1 || pos >= n_text || t->rope_pos[r] < 0 || t->rope_pos[r] > n_text) return false;
  if (g->desc.kind == TN_KV_STATE) return r < t->folded ? !has_page && pos == -1 : has_page && pos == r;
  if (!has_page) return pos == -1 && (t->sparse || tn_kv_hides(g, r, n_text));
  return t->sparse || pos == r;
}

/* What load_table filled in could have been saved from a sequence of n_text tokens. */
static bool sound_table(const tn_kv_store *s, const tn_group *g, const tn_kv_table *t, int64_t n_text)
{
  bool state = g->desc.kind == TN_KV_STATE, dense = !t->sparse;
  if (t->n_pages != tn_pages_for(s, t->n) || t->first_kept > t->n / s->groups->page_tokens) return false;
  if ((dense || state) && (t->n != n_text || !dense)) return false;
  if (t->next_rope < 0 || t->next_rope > n_text || (dense && t->next_rope != n_text)) return false;
  if (state ? t->folded != t->n / 64 * 64 || (t->n > 0 && t->state < 0) : t->folded != 0) return false;
  for (int64_t r = 0; r < t->n; r++)
    if (!sound_entry(g, t, r, t->page[r / s->groups->page_tokens] >= 0, n_text)) return false;
  return true;
}

/* Tables, then pages: nothing is read into a table that its arrays do not hold. */
static tn_status load_table(tn_kv_store *s, tn_kv_seq *q, uint32_t g, int64_t n_text, reader *r)
{
  const tn_group *group = &s->groups->g[g];
  tn_kv_table *t = &q->t[g];
  table_head h;
  if (!get(r, &h, sizeof h) || h.n_pages > t->cap_pages || h.n < 0) return TN_E_IO;
  if (h.n > (int64_t)h.n_pages * s->groups->page_tokens) return TN_E_IO;
  size_t positions = (size_t)h.n * sizeof(int64_t);
  if (!get(r, t->layout, h.n_pages) || !get(r, t->text_pos, positions) || !get(r, t->rope_pos, positions))
    return TN_E_IO;
  for (uint32_t p = 0; p < h.n_pages; p++) {
    uint8_t there;
    if (!get(r, &there, 1) || t->layout[p] >= group->desc.n_layouts) return TN_E_IO;
    t->page[p] = -1;
    t->n_pages = p + 1;
    t->mixed = t->mixed || t->layout[p] != 0;
    tn_status st = there ? load_page(s, q->id, tn_kv_pool_of(group, t, p), r, &t->page[p]) : TN_OK;
    if (st != TN_OK) return st;
  }
  t->n = h.n, t->folded = h.folded, t->next_rope = h.next_rope, t->first_kept = h.first_kept;
  t->sparse = h.sparse != 0, t->rotated = 0;
  t->live = 0;
  for (int64_t e = 0; e < t->n; e++) t->live += t->text_pos[e] >= 0;
  tn_status st = TN_OK;
  if (h.has_state && group->desc.kind == TN_KV_STATE) st = load_page(s, q->id, group->desc.state_pool, r, &t->state);
  if (st == TN_OK && !sound_table(s, group, t, n_text)) st = TN_E_IO;
  if (st != TN_OK) t->n = 0; /* its entries are not to be looked at; the pages are the sequence's */
  return st;
}

tn_status tn_kv_load(tn_kv_store *s, tn_kv_seq *q, const uint8_t *p, size_t n_bytes, int64_t n_text, tn_err *err)
{
  reader r = {p, n_bytes};
  head h;
  if (!get(&r, &h, sizeof h) || h.magic != MAGIC) return tn_fail(err, TN_E_IO, "saved KV: not a saved sequence");
  if (h.n_groups != q->n_groups || h.n_pools != s->groups->n_pools || h.page_tokens != s->groups->page_tokens)
    return tn_fail(err, TN_E_IO, "saved KV: %u groups and %u tokens a page in the file, %u and %u here", h.n_groups,
                   h.page_tokens, q->n_groups, s->groups->page_tokens);
  tn_status st = TN_OK;
  for (uint32_t g = 0; st == TN_OK && g < q->n_groups; g++) st = load_table(s, q, g, n_text, &r);
  if (st == TN_OK && r.left > 0) st = TN_E_IO;
  if (st == TN_E_IO) return tn_fail(err, st, "saved KV: the file is cut short or damaged");
  if (st != TN_OK) return tn_fail(err, st, "saved KV: cannot restore (%s)", tn_status_name(st));
  return TN_OK;
}
