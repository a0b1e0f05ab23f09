/* kv_int: what the kv_*.c files share. See kv.h. */
#ifndef TN_CORE_ENGINE_KV_INT_H
#define TN_CORE_ENGINE_KV_INT_H

#include "kv.h"

typedef struct tn_kv_spare { /* pages of one group put aside for a compaction, by layout */
  uint32_t n[2];
  int32_t *page[2]; /* [cap_pages] */
} tn_kv_spare;

struct tn_kv_store {
  const tn_groups *groups;
  const tn_memory_v1 *memory;
  tn_inst *inst;
  tn_exec *exec;
  uint32_t **refs; /* [n_pools][pages] holders of each page */
  uint32_t *used;  /* [n_pools] pages with a holder */
  uint32_t max_rows, rot_dims;
  int64_t max_ctx;
  tn_kv_spare *spare;             /* [n_groups] */
  uint32_t cap_pages;             /* pages of the longest table */
  int32_t *scratch;               /* [5 * cap_entries] page and slot lists of one move */
  uint8_t *scratch_layout;        /* [2 * cap_entries] */
  uint32_t *need_now, *need_most; /* [n_pools] */
};

static inline uint32_t tn_pages_for(const tn_kv_store *s, int64_t entries)
{
  int64_t pt = s->groups->page_tokens;
  return (uint32_t)((entries + pt - 1) / pt);
}

/* Takes n pages of one layout's pool for a sequence and counts the holder. */
tn_status tn_kv_take(tn_kv_store *s, uint64_t seq, uint32_t pool, int32_t near, uint32_t n, int32_t *out);

/* One holder less; the page goes back to the memory plugin with its last one. -1 is ignored. */
void tn_kv_drop_page(tn_kv_store *s, uint32_t pool, int32_t page);

static inline uint32_t tn_kv_pool_of(const tn_group *g, const tn_kv_table *t, uint32_t p)
{
  return g->desc.pools[t->layout[p]];
}

/* The group's masks hide text position j from every query at next or later. */
bool tn_kv_hides(const tn_group *g, int64_t j, int64_t next);

/* Returns all pages of a table and empties it. */
void tn_kv_table_clear(tn_kv_store *s, uint32_t group, tn_kv_table *t);

#endif
