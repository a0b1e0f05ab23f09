/* trie: see trie.h. Keys are sorted, then laid out level by level, so that siblings stand together. */
#include "trie.h"

#include <stdlib.h>
#include <string.h>

static int by_text(const void *x, const void *y, void *ctx)
{
  const tn_str *text = ctx;
  int32_t i = *(const int32_t *)x, j = *(const int32_t *)y;
  tn_str a = text[i], b = text[j];
  int d = memcmp(a.p, b.p, a.n < b.n ? a.n : b.n);
  if (d) return d;
  if (a.n != b.n) return a.n < b.n ? -1 : 1;
  return (i > j) - (i < j);
}

/* Nodes below the root: distinct beginnings of the sorted keys. */
static size_t count_nodes(const tn_str *text, const int32_t *ids, size_t n)
{
  size_t nodes = 0;
  for (size_t i = 0; i < n; i++) {
    tn_str a = text[ids[i]];
    size_t same = 0;
    if (i > 0) {
      tn_str b = text[ids[i - 1]];
      while (same < a.n && same < b.n && a.p[same] == b.p[same]) same++;
    }
    nodes += a.n - same;
  }
  return nodes;
}

/* Sorted keys that a node stands for: all begin with its path. */
struct range {
  size_t lo, hi;
};

/* Gives node k, whose path has depth bytes, its key and its children. */
static void expand(tn_trie *t, struct range *range, size_t k, size_t depth, const tn_str *text, const int32_t *ids)
{
  size_t lo = range[k].lo, hi = range[k].hi;
  struct tn_trie_node *node = &t->node[k];
  node->id = -1;
  node->child = (uint32_t)t->n_nodes;
  while (lo < hi && text[ids[lo]].n == depth) {
    if (node->id < 0) node->id = ids[lo];
    lo++;
  }
  while (lo < hi) {
    char byte = text[ids[lo]].p[depth];
    size_t end = lo + 1;
    while (end < hi && text[ids[end]].p[depth] == byte) end++;
    t->node[t->n_nodes].byte = (uint8_t)byte;
    range[t->n_nodes++] = (struct range){lo, end};
    node->n++;
    lo = end;
  }
}

tn_status tn_trie_build(tn_trie *t, const tn_str *text, int32_t *ids, size_t n)
{
  *t = (tn_trie){0};
  size_t kept = 0;
  for (size_t i = 0; i < n; i++) {
    if (text[ids[i]].n) ids[kept++] = ids[i];
  }
  if (kept == 0) return TN_OK;
  qsort_r(ids, kept, sizeof *ids, by_text, (void *)(uintptr_t)text);
  size_t nodes = count_nodes(text, ids, kept) + 1;
  struct range *range = nodes < UINT32_MAX ? tn_zalloc(nodes, sizeof *range) : NULL;
  t->node = range ? tn_zalloc(nodes, sizeof *t->node) : NULL;
  if (!t->node) {
    free(range);
    return TN_E_NOMEM;
  }
  range[0] = (struct range){0, kept};
  t->n_nodes = 1;
  size_t level = 1; /* end of the level at hand */
  for (size_t k = 0, depth = 0; k < t->n_nodes; k++) {
    if (k == level) {
      level = t->n_nodes;
      depth++;
    }
    expand(t, range, k, depth, text, ids);
  }
  for (uint32_t c = t->node[0].child; c < t->node[0].child + t->node[0].n; c++) t->root[t->node[c].byte] = c;
  free(range);
  return TN_OK;
}

void tn_trie_clear(tn_trie *t)
{
  free(t->node);
  *t = (tn_trie){0};
}

uint32_t tn_trie_step(const tn_trie *t, uint32_t node, uint8_t byte)
{
  if (node == 0) return t->root[byte];
  uint32_t lo = t->node[node].child, hi = lo + t->node[node].n;
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (t->node[mid].byte == byte) return mid;
    if (t->node[mid].byte < byte) {
      lo = mid + 1;
    } else {
      hi = mid;
    }
  }
  return 0;
}
