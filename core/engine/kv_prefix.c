/* kv_prefix: the prefix index. Blocks of page_tokens tokens form a tree; a node names the page of every group that holds its
 * entries. See kv.h.
 *
 * A page is in at most one node. Groups with a window lose their early pages: a node may lack a page, and still serves a
 * text whose masks hide that block. A node without pages and children is gone. */
#include <stdlib.h>
#include <string.h>

#include "kv_int.h"

static int32_t *page_at(const tn_kv_store *s, uint32_t node, uint32_t group)
{
  return &s->prefix->page[(size_t)node * s->groups->n + group];
}

static int32_t *tokens_of(const tn_kv_store *s, uint32_t node)
{
  return s->prefix->tokens + (size_t)node * s->groups->page_tokens;
}

static uint32_t pool_of(const tn_kv_store *s, uint32_t group) { return s->groups->g[group].desc.pools[0]; }

/* ---------------------------------------------------------------- opening and closing */

void tn_kv_prefix_close(tn_kv_store *s)
{
  tn_prefix *x = s->prefix;
  if (!x) return;
  for (uint32_t p = 0; x->idle && p < s->groups->n_pools; p++) {
    free(x->idle[p].before);
    free(x->idle[p].after);
    free(x->idle[p].node);
  }
  free(x->idle);
  free(x->node);
  free(x->bucket);
  free(x->tokens);
  free(x->page);
  free(x->path);
  free(x->pinned);
  free(x);
  s->prefix = NULL;
}

static bool alloc_idle(tn_idle_list *l, size_t pages)
{
  l->first = l->last = TN_NOWHERE;
  l->before = tn_zalloc(pages, sizeof *l->before);
  l->after = tn_zalloc(pages, sizeof *l->after);
  l->node = tn_zalloc(pages, sizeof *l->node);
  if (l->node) memset(l->node, 0xff, pages * sizeof *l->node);
  return l->before && l->after && l->node;
}

static bool alloc_index(const tn_kv_store *s, tn_prefix *x)
{
  const tn_groups *g = s->groups;
  x->node = tn_zalloc(x->cap, sizeof *x->node);
  x->bucket = tn_zalloc(x->n_buckets, sizeof *x->bucket);
  x->tokens = tn_zalloc((size_t)x->cap * g->page_tokens, sizeof *x->tokens);
  x->page = tn_zalloc((size_t)x->cap * g->n, sizeof *x->page);
  x->path = tn_zalloc(s->cap_pages, sizeof *x->path);
  x->pinned = tn_zalloc((size_t)g->n * s->cap_pages, sizeof *x->pinned);
  x->idle = tn_zalloc(g->n_pools, sizeof *x->idle);
  if (!x->node || !x->bucket || !x->tokens || !x->page || !x->path || !x->pinned || !x->idle) return false;
  for (uint32_t p = 0; p < g->n_pools; p++)
    if (!alloc_idle(&x->idle[p], g->pool_pages[p])) return false;
  memset(x->bucket, 0xff, x->n_buckets * sizeof *x->bucket);
  for (uint32_t i = 0; i < x->cap; i++) x->node[i].next = i + 1 < x->cap ? i + 1 : TN_NOWHERE;
  return true;
}

tn_status tn_kv_prefix_open(tn_kv_store *s, tn_err *err)
{
  const tn_groups *g = s->groups;
  uint32_t most = 0;
  for (uint32_t i = 0; i < g->n; i++) {
    const tn_kv_group *d = &g->g[i].desc;
    if (d->kind != TN_KV_CACHE || d->keys == TN_KEYS_RAW || d->n_layouts > 1)
      return tn_fail(err, TN_E_UNSUPPORTED, "page group %u does not hold plain entries", i);
    if (g->pool_pages[d->pools[0]] > most) most = g->pool_pages[d->pools[0]];
  }
  tn_prefix *x = s->prefix = tn_zalloc(1, sizeof *x);
  if (x) {
    x->cap = most;
    for (x->n_buckets = 16; x->n_buckets < 2 * (uint64_t)most && x->n_buckets < 1u << 30;) x->n_buckets *= 2;
    if (alloc_index(s, x)) return TN_OK;
  }
  tn_kv_prefix_close(s);
  return tn_fail(err, TN_E_NOMEM, "no memory for a prefix index over %u pages", most);
}

/* ---------------------------------------------------------------- nodes */

static uint64_t mix(uint64_t h, uint64_t x)
{
  h = (h ^ x) * 0x9E3779B97F4A7C15u;
  return h ^ h >> 32;
}

static uint64_t hash_of(const tn_kv_store *s, const tn_prefix_root *root, uint32_t parent, const int32_t *tokens)
{
  uint64_t h = mix(1, parent);
  if (parent == TN_NOWHERE) {
    h = mix(mix(h, (uint64_t)root->regime), root->epoch);
    h = mix(mix(h, root->salt[0]), root->salt[1]);
  }
  for (uint32_t i = 0; i < s->groups->page_tokens; i++) h = mix(h, (uint32_t)tokens[i]);
  return h;
}

static bool same_root(const tn_prefix_root *a, const tn_prefix_root *b)
{
  return a->regime == b->regime && a->epoch == b->epoch && a->salt[0] == b->salt[0] && a->salt[1] == b->salt[1];
}

static uint32_t find(const tn_kv_store *s, const tn_prefix_root *root, uint32_t parent, const int32_t *tokens)
{
  const tn_prefix *x = s->prefix;
  uint64_t h = hash_of(s, root, parent, tokens);
  for (uint32_t i = x->bucket[h & (x->n_buckets - 1)]; i != TN_NOWHERE; i = x->node[i].next) {
    const tn_prefix_node *n = &x->node[i];
    if (n->hash != h || n->parent != parent || (parent == TN_NOWHERE && !same_root(&n->root, root))) continue;
    if (memcmp(tokens_of(s, i), tokens, s->groups->page_tokens * sizeof *tokens) == 0) return i;
  }
  return TN_NOWHERE;
}

static uint32_t add(tn_kv_store *s, const tn_prefix_root *root, uint32_t parent, const int32_t *tokens)
{
  tn_prefix *x = s->prefix;
  uint32_t at = x->free;
  if (at == TN_NOWHERE) return at;
  tn_prefix_node *n = &x->node[at];
  x->free = n->next;
  uint64_t h = hash_of(s, root, parent, tokens);
  uint32_t *bucket = &x->bucket[h & (x->n_buckets - 1)];
  *n = (tn_prefix_node){.hash = h, .root = *root, .parent = parent, .next = *bucket, .generation = n->generation + 1};
  *bucket = at;
  memcpy(tokens_of(s, at), tokens, s->groups->page_tokens * sizeof *tokens);
  for (uint32_t g = 0; g < s->groups->n; g++) *page_at(s, at, g) = -1;
  if (parent != TN_NOWHERE) x->node[parent].n_children++;
  return at;
}

/* A node that neither holds a page nor leads to one goes, and so may its parents. */
static void prune(tn_prefix *x, uint32_t at)
{
  while (at != TN_NOWHERE && x->node[at].n_pages == 0 && x->node[at].n_children == 0) {
    tn_prefix_node *n = &x->node[at];
    uint32_t *link = &x->bucket[n->hash & (x->n_buckets - 1)], parent = n->parent;
    while (*link != at) link = &x->node[*link].next;
    *link = n->next;
    n->generation++;
    n->next = x->free;
    x->free = at;
    if (parent != TN_NOWHERE) x->node[parent].n_children--;
    at = parent;
  }
}

void tn_kv_prefix_forget(tn_kv_store *s, uint32_t pool, int32_t page)
{
  tn_prefix *x = s->prefix;
  if (!tn_kv_indexed(s, pool, page)) return;
  tn_idle_list *l = &x->idle[pool];
  uint32_t at = l->node[page];
  for (uint32_t g = 0; g < s->groups->n; g++)
    if (pool_of(s, g) == pool && *page_at(s, at, g) == page) *page_at(s, at, g) = -1;
  l->node[page] = TN_NOWHERE;
  x->node[at].n_pages--;
  prune(x, at);
  if (s->refs[pool][page] > 0) return;
  tn_kv_idle_remove(l, page);
  s->memory->give(s->inst, pool, 1, &page);
}

void tn_kv_prefix_clear(tn_kv_store *s)
{
  for (uint32_t p = 0; s->prefix && p < s->groups->n_pools; p++)
    for (uint32_t page = 0; page < s->groups->pool_pages[p]; page++) tn_kv_prefix_forget(s, p, (int32_t)page);
}

/* ---------------------------------------------------------------- a sequence's blocks go in */

/* Block b of q at a node: pages that the node lacks are q's from now on. False: an empty leaf, of no use. */
static bool fill(tn_kv_store *s, const tn_kv_seq *q, int64_t b, uint32_t at)
{
  tn_prefix *x = s->prefix;
  for (uint32_t g = 0; g < s->groups->n; g++) {
    int32_t page = q->t[g].page[b];
    uint32_t *node = &x->idle[pool_of(s, g)].node[page >= 0 ? page : 0];
    if (page < 0 || *page_at(s, at, g) >= 0 || *node != TN_NOWHERE) continue;
    *page_at(s, at, g) = page;
    *node = at;
    x->node[at].n_pages++;
  }
  return x->node[at].n_pages > 0 || x->node[at].n_children > 0;
}

void tn_kv_prefix_note(tn_kv_store *s, tn_kv_seq *q)
{
  tn_prefix *x = s->prefix;
  tn_prefix_place *at = &q->prefix;
  if (!x || !at->on || !at->text) return;
  int64_t pt = s->groups->page_tokens, n = q->t[0].n < at->n_text ? q->t[0].n : at->n_text;
  for (; (at->blocks + 1) * pt <= n; at->blocks++) {
    uint32_t parent = at->blocks > 0 ? at->node : TN_NOWHERE;
    at->on = parent == TN_NOWHERE || x->node[parent].generation == at->generation;
    if (!at->on) return;
    const int32_t *tokens = at->text + at->blocks * pt;
    uint32_t node = find(s, &at->root, parent, tokens);
    if (node == TN_NOWHERE) node = add(s, &at->root, parent, tokens);
    at->on = node != TN_NOWHERE && fill(s, q, at->blocks, node);
    if (node != TN_NOWHERE && !at->on) prune(x, node);
    if (!at->on) return;
    at->node = node;
    at->generation = x->node[node].generation;
  }
}

void tn_kv_prefix_cut(const tn_kv_store *s, tn_kv_seq *q, int64_t to)
{
  const tn_prefix *x = s->prefix;
  tn_prefix_place *at = &q->prefix;
  if (!x || !at->on) return;
  for (; at->blocks * s->groups->page_tokens > to; at->blocks--) {
    at->on = x->node[at->node].generation == at->generation;
    if (!at->on) return;
    at->node = x->node[at->node].parent;
    if (at->node != TN_NOWHERE) at->generation = x->node[at->node].generation;
  }
}

/* ---------------------------------------------------------------- and are found again */

/* No query behind n blocks sees block b. */
static bool hidden(const tn_kv_store *s, const tn_group *g, uint32_t b, uint32_t n)
{
  int64_t pt = s->groups->page_tokens, next = n * pt - s->groups->rollback;
  for (int64_t j = b * pt; j < (b + 1) * pt; j++)
    if (!tn_kv_hides(g, j, next)) return false;
  return true;
}

/* Of n blocks on the path, those that this group can go on behind. */
static uint32_t usable(const tn_kv_store *s, uint32_t group, uint32_t n)
{
  const tn_group *g = &s->groups->g[group];
  for (uint32_t b = n; b-- > 0;)
    if (*page_at(s, s->prefix->path[b], group) < 0 && !hidden(s, g, b, n)) n = b;
  return n;
}

static void hold(tn_kv_store *s, uint32_t pool, int32_t page)
{
  if (s->refs[pool][page]++ > 0) return;
  tn_kv_idle_remove(&s->prefix->idle[pool], page);
  s->used[pool]++;
}

int64_t tn_kv_prefix_look(tn_kv_store *s, const tn_prefix_root *root, const int32_t *tokens, int64_t n)
{
  tn_prefix *x = s->prefix;
  if (!x) return 0;
  uint32_t pt = s->groups->page_tokens, depth = 0, at = TN_NOWHERE;
  for (; (depth + 1) * (int64_t)pt <= n && depth < s->cap_pages; depth++) {
    at = find(s, root, at, tokens + (int64_t)depth * pt);
    if (at == TN_NOWHERE) break;
    x->path[depth] = at;
  }
  for (uint32_t before = depth + 1; before != depth;) { /* what one group lacks can lay bare what another does */
    before = depth;
    for (uint32_t g = 0; g < s->groups->n; g++) depth = usable(s, g, depth);
  }
  return (int64_t)depth * pt;
}

int64_t tn_kv_prefix_pin(tn_kv_store *s, const tn_prefix_root *root, const int32_t *tokens, int64_t n)
{
  tn_prefix *x = s->prefix;
  int64_t found = tn_kv_prefix_look(s, root, tokens, n);
  if (!x) return 0;
  uint32_t depth = (uint32_t)(found / s->groups->page_tokens);
  for (uint32_t g = 0; g < s->groups->n; g++)
    for (uint32_t b = 0; b < depth; b++) {
      int32_t page = *page_at(s, x->path[b], g);
      if (page >= 0 && hidden(s, &s->groups->g[g], b, depth)) page = -1;
      x->pinned[g * s->cap_pages + b] = page;
      if (page >= 0) hold(s, pool_of(s, g), page);
    }
  x->n_pinned = depth;
  x->n_asked = n > 0 ? (uint64_t)n : 0;
  return found;
}

static void settle_group(tn_kv_store *s, tn_kv_seq *q, uint32_t g)
{
  tn_kv_table *t = &q->t[g];
  int64_t n = (int64_t)s->prefix->n_pinned * s->groups->page_tokens;
  memcpy(t->page, s->prefix->pinned + g * s->cap_pages, s->prefix->n_pinned * sizeof *t->page);
  memset(t->layout, 0, s->prefix->n_pinned);
  t->n_pages = s->prefix->n_pinned;
  t->n = t->live = t->next_rope = n;
  for (int64_t r = 0; r < n; r++) t->text_pos[r] = t->rope_pos[r] = r;
  tn_kv_free_hidden(s, q, g, n - s->groups->rollback);
}

void tn_kv_prefix_settle(tn_kv_store *s, tn_kv_seq *q)
{
  tn_prefix *x = s->prefix;
  if (!x) return;
  for (uint32_t g = 0; g < s->groups->n; g++) {
    if (q && x->n_pinned > 0) settle_group(s, q, g);
    for (uint32_t b = x->n_pinned; !q && b-- > 0;) tn_kv_drop_page(s, pool_of(s, g), x->pinned[g * s->cap_pages + b]);
  }
  if (q && x->n_pinned > 0) {
    q->prefix.node = x->path[x->n_pinned - 1];
    q->prefix.generation = x->node[q->prefix.node].generation;
    q->prefix.blocks = x->n_pinned;
  }
  if (q) x->stat.asked += x->n_asked, x->stat.found += (uint64_t)x->n_pinned * s->groups->page_tokens;
  x->n_pinned = 0;
  x->n_asked = 0;
}

tn_prefix_stat tn_kv_prefix_stat(const tn_kv_store *s)
{
  tn_prefix_stat st = s->prefix ? s->prefix->stat : (tn_prefix_stat){0};
  for (uint32_t p = 0; s->prefix && p < s->groups->n_pools; p++)
    st.idle_bytes += s->prefix->idle[p].n * tn_exec_page_bytes(s->exec, p);
  return st;
}

bool tn_kv_prefix_check(const tn_kv_store *s, tn_err *err)
{
  const tn_prefix *x = s->prefix;
  for (uint32_t p = 0; x && p < s->groups->n_pools; p++) {
    const tn_idle_list *l = &x->idle[p];
    uint32_t idle = 0, listed = 0;
    for (uint32_t page = 0; page < s->groups->pool_pages[p]; page++) {
      uint32_t at = l->node[page], found = 0;
      if (at == TN_NOWHERE) continue;
      idle += s->refs[p][page] == 0;
      for (uint32_t g = 0; g < s->groups->n; g++) found += pool_of(s, g) == p && *page_at(s, at, g) == (int32_t)page;
      if (found == 1 && x->node[at].n_pages > 0) continue;
      tn_fail(err, TN_E_INTERNAL, "pool %u page %u: %u places in node %u of the prefix index, want 1", p, page, found,
              at);
      return false;
    }
    for (uint32_t i = l->first; i != TN_NOWHERE && listed <= l->n; i = l->after[i]) listed++;
    if (idle == l->n && listed == l->n) continue;
    tn_fail(err, TN_E_INTERNAL, "pool %u: %u idle pages, %u listed, %u counted", p, idle, listed, l->n);
    return false;
  }
  return true;
}
