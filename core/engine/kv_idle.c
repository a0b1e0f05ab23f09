/* kv_idle: pages that the prefix index keeps though no sequence holds them, and how they are given up. See kv.h. */
#include "kv_int.h"

void tn_kv_idle_add(tn_idle_list *l, int32_t page)
{
  uint32_t at = (uint32_t)page;
  l->before[at] = l->last;
  l->after[at] = TN_NOWHERE;
  if (l->last == TN_NOWHERE)
    l->first = at;
  else
    l->after[l->last] = at;
  l->last = at;
  l->n++;
}

void tn_kv_idle_remove(tn_idle_list *l, int32_t page)
{
  uint32_t before = l->before[page], after = l->after[page];
  if (before == TN_NOWHERE)
    l->first = after;
  else
    l->after[before] = after;
  if (after == TN_NOWHERE)
    l->last = before;
  else
    l->before[after] = before;
  l->n--;
}

uint32_t tn_kv_idle_pages(const tn_kv_store *s, uint32_t pool) { return s->prefix ? s->prefix->idle[pool].n : 0; }

uint32_t tn_kv_reclaim(tn_kv_store *s, uint32_t pool, uint32_t n)
{
  uint32_t given = 0;
  while (given < n && tn_kv_idle_pages(s, pool) > 0) {
    tn_kv_prefix_forget(s, pool, (int32_t)s->prefix->idle[pool].first);
    s->prefix->stat.reclaimed++;
    given++;
  }
  return given;
}

/* Where enough pages seem free, the plugin has reasons of its own: a part of what is left goes, and it is asked again. */
bool tn_kv_reclaim_for(tn_kv_store *s, const uint32_t *need)
{
  uint32_t given = 0;
  for (uint32_t p = 0; s->prefix && p < s->groups->n_pools; p++) {
    uint32_t there = s->memory->free_pages(s->inst, p);
    if (need[p] > there) given += tn_kv_reclaim(s, p, need[p] - there);
  }
  for (uint32_t p = 0; given == 0 && s->prefix && p < s->groups->n_pools; p++)
    given += tn_kv_reclaim(s, p, tn_kv_idle_pages(s, p) / 8 + 1);
  return given > 0;
}
