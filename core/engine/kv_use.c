/* kv_use: what the cache's bytes are used for. See kv.h. */
#include "kv_int.h"

tn_kv_shares tn_kv_shares_of(const tn_kv_store *s)
{
  tn_kv_shares x = {0};
  for (uint32_t p = 0; p < s->groups->n_pools; p++) {
    uint64_t page = tn_exec_page_bytes(s->exec, p);
    x.total += s->groups->pool_pages[p] * page;
    x.held += s->used[p] * page;
    x.idle += tn_kv_idle_pages(s, p) * page;
    x.free += s->memory->free_pages(s->inst, p) * page;
  }
  return x;
}

/* Pages of a table that are there: those freed by mask are not. */
static uint32_t pages_there(const tn_kv_table *t)
{
  uint32_t n = t->n_pages;
  if (t->live == t->n) return n; /* nothing was freed */
  for (uint32_t p = 0; p < t->n_pages; p++) n -= t->page[p] < 0;
  return n;
}

uint64_t tn_kv_empty_bytes(const tn_kv_store *s, const tn_kv_seq *q, int64_t n_rows)
{
  uint64_t bytes = 0;
  int64_t page_tokens = s->groups->page_tokens;
  for (uint32_t g = 0; g < q->n_groups; g++) {
    const tn_kv_table *t = &q->t[g];
    int64_t slots = pages_there(t) * page_tokens - t->live - n_rows;
    uint64_t page = tn_exec_page_bytes(s->exec, s->groups->g[g].desc.pools[0]);
    if (slots > 0) bytes += (uint64_t)slots * page / (uint64_t)page_tokens;
  }
  return bytes;
}

uint64_t tn_kv_bytes_to_come(const tn_kv_store *s, const tn_kv_seq *q, int64_t n_end)
{
  uint64_t bytes = 0;
  for (uint32_t g = 0; g < q->n_groups; g++) {
    const tn_group *group = &s->groups->g[g];
    uint32_t need = tn_pages_for(s, n_end < group->held_limit ? n_end : group->held_limit),
             have = pages_there(&q->t[g]);
    if (need > have) bytes += (uint64_t)(need - have) * tn_exec_page_bytes(s->exec, group->desc.pools[0]);
  }
  return bytes;
}
