/* kv_model: what a KV store must hold, kept naively beside it. Every operation is done to both, then compared: contents,
 * positions, layouts, what may be freed and what must be. */
#ifndef TN_TESTS_ENGINE_KV_MODEL_H
#define TN_TESTS_ENGINE_KV_MODEL_H

#include "kv_rig.h"

enum { KV_MAX_SEQS = 6, KV_MAX_GROUPS = 4, KV_MAX_ENTRIES = 400 };

enum { /* kinds of operation */
       KV_NEW,
       KV_TEXT,
       KV_TREE,
       KV_NOTHING,
       KV_TRUNCATE,
       KV_COMPACT,
       KV_FORK,
       KV_SWAP,
       KV_FREE,
       KV_N_KINDS
};

typedef struct kv_entry {
  uint64_t id; /* what the backend keeps; unique */
  int64_t pos, rope;
  uint8_t layout;
  bool hole; /* padding */
} kv_entry;

typedef struct kv_list { /* one sequence's entries in one group */
  int64_t n, next_rope, folded;
  uint64_t state;
  bool parts; /* a compaction has put demoted entries first */
  kv_entry e[KV_MAX_ENTRIES];
} kv_list;

typedef struct kv_model_seq {
  tn_kv_seq *q; /* NULL: a free place */
  int64_t n_text;
  kv_list g[KV_MAX_GROUPS];
} kv_model_seq;

typedef struct kv_model {
  kv_rig *rig;
  kv_model_seq seq[KV_MAX_SEQS];
  uint64_t next_id, next_entry, rng;
  uint64_t n_full, n_ops, n_done[KV_N_KINDS]; /* refused for want of pages; all; by kind */
} kv_model;

kv_model *kv_model_open(const kv_spec *spec);
void kv_model_close(kv_model *m);

/* One random operation, and a look at the sequences that it touched. */
void kv_model_step(kv_model *m);

/* Everything, refcounts as well. */
void kv_model_check(kv_model *m);

/* A run of random operations on one of the shapes of stores, on the memory plugin paged or contiguous (slabs). */
void kv_model_run(uint32_t spec, bool slabs, uint64_t seed, uint32_t ops);

/* The shapes; NULL past the end. */
const kv_spec *kv_spec_at(uint32_t i);

/* The operations, for tests that want a certain one. False: no pages now, and nothing has changed. */
kv_model_seq *kv_model_new(kv_model *m);
bool kv_model_rows(kv_model *m, kv_model_seq *s, uint32_t n, uint32_t n_commit, const int32_t *slots);
bool kv_model_truncate(kv_model *m, kv_model_seq *s, int64_t to);
bool kv_model_compact(kv_model *m, kv_model_seq *s, uint32_t group, double keep, double demote);
kv_model_seq *kv_model_fork(kv_model *m, kv_model_seq *s);
bool kv_model_swap(kv_model *m, kv_model_seq *s);
void kv_model_free(kv_model *m, kv_model_seq *s);
void kv_model_check_seq(kv_model *m, kv_model_seq *s);

#endif
