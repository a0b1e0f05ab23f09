/* kv_int: what the kv_*.c files share. See kv.h. */
#ifndef TN_CORE_ENGINE_KV_INT_H
#define TN_CORE_ENGINE_KV_INT_H

#include "kv.h"

typedef struct tn_kv_spare { /* pages of one group put aside for a compaction, by layout */
  uint32_t n[2];
  int32_t *page[2]; /* [cap_pages] */
} tn_kv_spare;

#define TN_NOWHERE UINT32_MAX

typedef struct tn_prefix_node { /* one block of tokens behind its parent's */
  uint64_t hash;
  tn_prefix_root root; /* of a first block */
  uint32_t parent, n_children, n_pages;
  uint32_t next;       /* in its bucket, or in the list of free nodes */
  uint32_t generation; /* of the place: counts its uses */
} tn_prefix_node;

typedef struct tn_idle_list { /* pages of one pool that are in the index and that nobody holds; longest unused first */
  uint32_t *before, *after;   /* [pages] */
  uint32_t *node; /* [pages] of the index, also for pages that are held; TN_NOWHERE: the page is not in it */
  uint32_t first, last, n;
} tn_idle_list;

typedef struct tn_prefix {
  uint32_t cap, n_buckets, free; /* n_buckets: a power of two */
  tn_prefix_node *node;          /* [cap] */
  uint32_t *bucket;              /* [n_buckets] */
  int32_t *tokens;               /* [cap][page_tokens] */
  int32_t *page;                 /* [cap][n_groups] -1: gone */
  tn_idle_list *idle;            /* [n_pools] */
  uint32_t *path;                /* [cap_pages] nodes of what was found */
  int32_t *pinned;               /* [n_groups][cap_pages] */
  uint32_t n_pinned;             /* blocks */
  uint64_t n_asked;              /* tokens of the search that is pinned */
  tn_prefix_stat stat;
} tn_prefix;

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
  tn_prefix *prefix;              /* NULL: none */
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

/* Frees what masks hide from every query at next or later, whole pages only. */
void tn_kv_free_hidden(tn_kv_store *s, tn_kv_seq *q, uint32_t group, int64_t next);

/* kv_prefix.c. All but close accept a store without an index. */
void tn_kv_prefix_close(tn_kv_store *s);
void tn_kv_prefix_note(tn_kv_store *s, tn_kv_seq *q);                  /* enters q's new full blocks */
void tn_kv_prefix_cut(const tn_kv_store *s, tn_kv_seq *q, int64_t to); /* q goes back to `to` tokens */
void tn_kv_prefix_forget(tn_kv_store *s, uint32_t pool, int32_t page);
bool tn_kv_prefix_check(const tn_kv_store *s, tn_err *err);

/* kv_idle.c */
static inline bool tn_kv_indexed(const tn_kv_store *s, uint32_t pool, int32_t page)
{
  return s->prefix && s->prefix->idle[pool].node[page] != TN_NOWHERE;
}
void tn_kv_idle_add(tn_idle_list *l, int32_t page);
void tn_kv_idle_remove(tn_idle_list *l, int32_t page);
uint32_t tn_kv_idle_pages(const tn_kv_store *s, uint32_t pool);
/* Gives up to n idle pages back to the memory plugin; how many. */
uint32_t tn_kv_reclaim(tn_kv_store *s, uint32_t pool, uint32_t n);
/* The same in every pool, so that need[p] pages are free if it can; false: nothing was left to give. */
bool tn_kv_reclaim_for(tn_kv_store *s, const uint32_t *need);

#endif
