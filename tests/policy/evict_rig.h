/* evict_rig: score-based eviction plugins on the engine: against the oracle, and against other ways to run the same. */
#ifndef TN_TESTS_EVICT_RIG_H
#define TN_TESTS_EVICT_RIG_H

#include "evict_oracle.h"
#include "support/engine_rig.h"

typedef struct evict_case { /* one composition; sets are NULL-terminated */
  const char *backend, *model, *const *sets;
  oracle_rule rule;
} evict_case;

/* Generates, n_prompt >= 2 chunks of the prompt first; every cell holds what the oracle holds after every step, demoted
 * entries as well. Returns how many entries were dropped and demoted in all cells, and whether heads of a layer differed. */
typedef struct evict_seen {
  uint64_t dropped, narrow;
  bool heads_differ;
} evict_seen;
evict_seen evict_follow(const evict_case *c, uint32_t seed);

/* Scores a text whose first n_prompt tokens are the prompt; logits of the rows behind it are the oracle's. */
void evict_scores(const evict_case *c, uint32_t seed);

/* The composition gives the same bits as plain attention: dropping nothing is not evicting. */
void evict_like_full(const char *backend, const char *model, const char *const *sets);

/* The composition gives the same bits whatever the batch, the chunks, the threads, the pages, drafts, other sequences and
 * preemption. */
void evict_invariant(const char *backend, const char *model, const char *const *sets);

/* Sequences that share pages of a prefix with others come out as if they were alone. */
void evict_shared(const char *backend, const char *model, const char *const *sets);

/* The composition is refused, and the message says so. */
void evict_refused(const char *const *sets, const char *says);

#endif
