/* kv: the KV storage mechanism. Page groups, refcounts, page tables, copy-on-write, fork, compaction, save and restore.
 *
 * The memory plugin says which physical pages a sequence gets; the backend owns the bytes; everything between is here.
 * A page is (pool, id); a group's layout i draws from pool pools[i]. Entries of a group are numbered by rank; entry r
 * lies at page[r / page_tokens], slot r % page_tokens. Thread rule: engine thread only. */
#ifndef TN_CORE_ENGINE_KV_H
#define TN_CORE_ENGINE_KV_H

#include "exec.h"

#define TN_KV_MAX_FREE_RULES 4u

/* Entry j may go when every later query i >= n has j >= sinks and i - j >= hi. */
typedef struct tn_free_rule {
  int64_t hi, sinks;
} tn_free_rule;

typedef struct tn_group { /* one page group, model-wide (all ranks' heads) */
  tn_kv_group desc;       /* its arrays are owned by the plan */
  uint32_t n_rules;
  tn_free_rule rules[TN_KV_MAX_FREE_RULES];
  int64_t held_limit; /* entries it may hold at once, TN_POS_INF: no limit but the context */
} tn_group;

typedef struct tn_group_in { /* what groups follow from */
  const tn_model_shape *shape;
  const tn_attn_spec *attn;                 /* [n_layers * n_kv_heads] */
  const tn_evict_spec *evict;               /* or NULL */
  uint32_t page_tokens, max_seqs, max_rows; /* max_rows: rows of one step, drafted ones included */
  int64_t max_ctx;
  uint64_t budget_bytes; /* 0: enough for max_seqs sequences of max_ctx tokens */
  uint32_t n_layouts;    /* 1, or 2 with demotion */
  uint32_t rollback;     /* tokens that a truncate may always go back: masks free entries so much later */
  const tn_layout *k_layouts[2], *v_layouts[2];
} tn_group_in;

typedef struct tn_groups {
  uint32_t n, n_pools, page_tokens, rollback;
  tn_group *g;             /* [n] */
  uint32_t *pool_pages;    /* [n_pools] */
  uint32_t *pages_per_seq; /* [n_pools] a sequence of max_ctx tokens at most */
  uint64_t *page_bytes;    /* [n_pools] estimate by layout */
} tn_groups;

tn_status tn_groups_plan(const tn_group_in *in, tn_groups *out, tn_err *err);
void tn_groups_release(tn_groups *g);

/* The groups as one rank holds them (KV heads [head0, head0 + n_heads)). Free with tn_groups_rank_free. */
tn_kv_group **tn_groups_rank(const tn_groups *g, uint32_t head0, uint32_t n_heads);
void tn_groups_rank_free(tn_kv_group **groups, uint32_t n);

typedef struct tn_kv_table { /* one sequence's entries in one group */
  int64_t n;                 /* committed entries (ranks, holes counted) */
  int64_t live;              /* of them, neither holes nor freed */
  int64_t next_rope;         /* rope position of the next entry: its text position, or, with RAW keys, its live rank */
  uint32_t n_pages, cap_pages;
  uint32_t first_kept; /* pages below are settled: freed by mask, or sinks that stay */
  int32_t *page;       /* [cap_pages] */
  uint8_t *layout;     /* [cap_pages] */
  int64_t *text_pos;   /* [cap_pages * page_tokens] */
  int64_t *rope_pos;
  float *cos, *sin; /* RAW keys: [cap_pages * page_tokens][dims/2], else NULL */
  int64_t rotated;  /* RAW keys: entries whose cos and sin are up to date */
  int64_t folded;
  int32_t state;
  bool sparse; /* text_pos is no longer the identity */
  bool mixed;  /* some page has a layout other than 0 */
} tn_kv_table;

typedef struct tn_prefix_root { /* what decides, besides the tokens, what a block of entries holds */
  int64_t regime;
  uint64_t epoch, salt[2]; /* epoch: of the run-time options; salt: the request's */
} tn_prefix_root;

typedef struct tn_prefix_place { /* how far a sequence's blocks are in the prefix index */
  bool on;                       /* false: its entries are not to be found by others */
  uint32_t node, generation;     /* its last block there */
  int64_t blocks;
  tn_prefix_root root;
  const int32_t *text; /* [n_text] borrowed: its tokens at the next commit */
  int64_t n_text;
} tn_prefix_place;

typedef struct tn_kv_seq {
  uint64_t id;
  uint32_t n_groups;
  tn_prefix_place prefix;
  tn_kv_table *t;    /* [n_groups] */
  tn_kv_view *views; /* [n_groups] rebuilt by tn_kv_views */
  const tn_kv_view **view_ptrs;
} tn_kv_seq;

typedef struct tn_kv_store tn_kv_store;

/* memory is configured here. Borrows groups, memory and exec until close. rot_dims: rotated dims for RAW keys. */
tn_status tn_kv_store_open(const tn_groups *groups, const tn_memory_v1 *memory, tn_inst *inst, tn_exec *exec,
                           uint32_t max_seqs, int64_t max_ctx, uint32_t max_rows, uint32_t rot_dims, tn_kv_store **out,
                           tn_err *err);
void tn_kv_store_close(tn_kv_store *s);

/* TN_E_NEVER and both numbers when no pool could hold max_len tokens of a sequence, were it alone, or the memory plugin's
 * quota of a sequence does not. */
tn_status tn_kv_could_hold(tn_kv_store *s, int64_t max_len, tn_err *err);

/* Asks the memory plugin to admit (TN_E_FULL, TN_E_NEVER) and makes empty tables. Release with tn_kv_seq_free. */
tn_status tn_kv_seq_new(tn_kv_store *s, uint64_t id, int64_t n_start, int64_t max_len, tn_kv_seq **out);
void tn_kv_seq_free(tn_kv_store *s, tn_kv_seq *q);

/* Pages for n_rows more entries in every group, shared pages that would be written copied first. All or nothing. */
tn_status tn_kv_reserve(tn_kv_store *s, tn_kv_seq *q, uint32_t n_rows);

/* Refreshes q->views; valid until the next change of q. */
void tn_kv_views(tn_kv_store *s, tn_kv_seq *q);

/* Makes n rows of this step permanent: row i lies at slot slots[i] behind the committed entries (NULL: slot i), at text
 * position pos0 + i. slots ascends. Then folds full state tiles and frees what masks hide. */
tn_status tn_kv_commit(tn_kv_store *s, tn_kv_seq *q, uint32_t n, const int32_t *slots, int64_t pos0);

/* Marks entries that masks hide from every query at text position next or later as holes, so that a choice among
 * entries does not depend on where pages end. */
void tn_kv_forget_hidden(const tn_kv_store *s, tn_kv_seq *q, uint32_t group, int64_t next);

/* Forgets entries from text position `to` on. TN_E_STATE, and nothing changed, where a group was compacted, where a state
 * has absorbed later entries, or where a query at `to` would see what masks have freed since. */
tn_status tn_kv_truncate(tn_kv_store *s, tn_kv_seq *q, int64_t to);

/* Puts pages aside, so that compacting every group of q to at most `keep` entries cannot fail for want of pages. All or
 * nothing. end gives back those that were not needed. */
tn_status tn_kv_compact_begin(tn_kv_store *s, const tn_kv_seq *q, int64_t keep, bool demotes);
void tn_kv_compact_end(tn_kv_store *s);

/* Keeps the n entries `entry` (ascending) of one group, entry i in layout[i] (NULL: 0), in place or in fresh pages;
 * entries of other layouts come first. map[i] receives the new rank of entry[i]. RAW keys get their live rank as rope position. */
tn_status tn_kv_compact(tn_kv_store *s, tn_kv_seq *q, uint32_t group, int64_t n, const int64_t *entry,
                        const uint8_t *layout, int64_t *map);

/* child (new, empty) shares all of parent's pages. */
tn_status tn_kv_fork(tn_kv_store *s, const tn_kv_seq *parent, tn_kv_seq *child);

/* Contents as bytes: tables and pages. save returns owned memory (free()). load fills an empty sequence with n_text
 * committed tokens; TN_E_IO for bytes that are cut short, or that no such sequence could have given. */
tn_status tn_kv_save(tn_kv_store *s, const tn_kv_seq *q, uint8_t **out, size_t *n_bytes);
tn_status tn_kv_load(tn_kv_store *s, tn_kv_seq *q, const uint8_t *p, size_t n_bytes, int64_t n_text, tn_err *err);

/* The prefix index: full blocks of page_tokens tokens, found again by their content and all that stands before them. Pages of
 * blocks that nobody holds any more stay in it, the longest unused first to go when pages are short; memory counts as free
 * what they occupy. Tokens are compared, not their hashes: no two texts are ever taken for one. Only for stores whose
 * entries depend on tokens and positions alone: no compaction, no states, no RAW keys (TN_E_UNSUPPORTED). */
tn_status tn_kv_prefix_open(tn_kv_store *s, tn_err *err);

/* The longest beginning of tokens[0 .. n) that is there: its tokens, 0 for none. pin holds on to its pages as well. Then
 * tn_kv_seq_new, which counts them as had, and settle: into the empty sequence q, or, q NULL, back. */
int64_t tn_kv_prefix_look(tn_kv_store *s, const tn_prefix_root *root, const int32_t *tokens, int64_t n);
int64_t tn_kv_prefix_pin(tn_kv_store *s, const tn_prefix_root *root, const int32_t *tokens, int64_t n);
void tn_kv_prefix_settle(tn_kv_store *s, tn_kv_seq *q);

/* Forgets all blocks. */
void tn_kv_prefix_clear(tn_kv_store *s);

typedef struct tn_prefix_stat {
  uint64_t asked, found; /* tokens looked for, and found, by sequences that started */
  uint64_t idle_bytes;   /* in pages that nobody holds */
  uint64_t reclaimed;    /* pages that went for want of others */
} tn_prefix_stat;
tn_prefix_stat tn_kv_prefix_stat(const tn_kv_store *s);

/* Figures: entries that free pages can hold in the scarcest group; bytes in use; pages held in a pool. */
int64_t tn_kv_free_tokens(const tn_kv_store *s);
uint64_t tn_kv_bytes_used(const tn_kv_store *s);
uint64_t tn_kv_bytes_total(const tn_kv_store *s);

typedef struct
    tn_kv_shares {      /* bytes of all pools, by who has them; what is left is promised to somebody, or of no use */
  uint64_t total, held; /* held: in pages that sequences have */
  uint64_t idle, free;  /* idle: of the prefix index, for whoever needs them; free: what a new sequence could take */
} tn_kv_shares;
tn_kv_shares tn_kv_shares_of(const tn_kv_store *s);

/* Bytes of q's pages that hold no entry, n_rows of a step under way counted as entries; and bytes of the pages that it
 * will still take until it has n_end entries. */
uint64_t tn_kv_empty_bytes(const tn_kv_store *s, const tn_kv_seq *q, int64_t n_rows);
uint64_t tn_kv_bytes_to_come(const tn_kv_store *s, const tn_kv_seq *q, int64_t n_end);

/* Checks all invariants of refcounts against the given sequences (tests, idle engine): false and a reason on a breach. */
bool tn_kv_check(const tn_kv_store *s, const tn_kv_seq *const *seqs, uint32_t n, tn_err *err);

#endif
