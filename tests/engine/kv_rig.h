/* kv_rig: a KV store on a memory plugin and a backend that keeps one number an entry, so that a test can tell every
 * entry from every other. */
#ifndef TN_TESTS_ENGINE_KV_RIG_H
#define TN_TESTS_ENGINE_KV_RIG_H

#include "engine/exec_open.h"
#include "support/plugin_rig.h"

typedef struct kv_spec {      /* all zero: two layers, one group that nothing ever hides */
  const char *name;           /* for messages */
  const char *memory;         /* NULL: "paged" */
  const char *page_tokens;    /* "page_tokens=16" or NULL */
  int64_t window, sinks;      /* of every layer; 0: none. With windows_differ: of the second layer only */
  bool windows_differ, state; /* state: the second layer is recurrent */
  uint32_t gran, n_layouts;   /* TN_GRAN_* of a scoring policy, 0: none; layouts, 0: 1 */
  bool rank_rope;
  int64_t max_ctx;             /* 0: 200 */
  uint32_t max_seqs, max_rows; /* 0: 6, 40 */
  uint32_t rollback;
  double share; /* of what max_seqs sequences need; 0: all of it */
} kv_spec;

typedef struct kv_rig {
  kv_spec spec;
  plugin_rig *memory;
  tn_groups groups;
  tn_kv_store *store;
  tn_exec exec;
  tn_rank rank;
  tn_attn_spec attn[4];
  tn_model_shape shape;
  uint32_t layer_class[2];
  int64_t class_window[2];
  uint64_t **entries;       /* [n_pools][pages * page_tokens]; of a state page, only the first */
  uint64_t n_moved, n_free; /* entries moved; pages that were free at the start */
  uint32_t fail_moves;      /* 1: the next kv_move fails */
} kv_rig;

kv_rig *kv_rig_open(const kv_spec *spec);

/* Ends the test when a page is still held. */
void kv_rig_close(kv_rig *r);

/* What stands at entry r (or behind the committed entries) of one group; the place must have a page. */
uint64_t *kv_rig_entry(kv_rig *r, const tn_kv_table *t, uint32_t group, int64_t entry);

/* What a recurrent state has become: empty is 1, then one step for each entry. */
uint64_t kv_rig_folded(uint64_t state, uint64_t entry);
uint64_t kv_rig_state(const kv_rig *r, const tn_kv_table *t, uint32_t group);

/* Pages that the plugin says are free, in all pools together. */
uint64_t kv_rig_free(const kv_rig *r);

#endif
