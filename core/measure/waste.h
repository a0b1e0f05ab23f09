/* waste: what the KV cache's memory is used for while a load runs, as shares weighted by time.
 *
 *   filled     entries                                                       (what the memory is for)
 *   internal   places in pages that sequences have, without an entry         (the end of a last page)
 *   temporary  promised to a sequence, which will fill it before it ends     (reserved for future tokens)
 *   external   promised and never filled, or too small a rest for anybody    (nobody else can have it)
 *   free       what a new sequence could have, the prefix index's idle pages among it
 * The first four are what is occupied; waste is all of it but what is filled. Kwon et al., SOSP 2023, section 3.1. Thread
 * rule: the engine thread for tn_waste_look, any for the others. */
#ifndef TN_CORE_MEASURE_WASTE_H
#define TN_CORE_MEASURE_WASTE_H

#include "engine/engine.h"

typedef struct tn_waste_now { /* bytes at a moment */
  uint64_t total, held, idle, free;
  uint64_t empty;   /* of held, without an entry */
  uint64_t to_come; /* sequences will still take it */
  uint32_t n_seqs;  /* that hold entries */
  uint32_t n_waiting;
} tn_waste_now;

/* n_end: entries that a sequence will have in the end. From tn_events.ran, so that the step's own rows count. */
tn_waste_now tn_waste_look(const tn_engine *e, int64_t (*n_end)(void *ctx, const tn_seq *s), void *ctx);

typedef struct tn_waste { /* zeroed to begin. Bytes times seconds, but for seconds and peak_seqs */
  double seconds;
  double total, filled, internal, temporary, external, free;
  double free_waiting; /* of free, while requests waited */
  double seqs;         /* sequences times seconds */
  uint32_t peak_seqs;
  uint64_t peak_held; /* bytes */
} tn_waste;

/* It was so for that long. */
void tn_waste_add(tn_waste *w, const tn_waste_now *now, double seconds);

/* x (one of the first four) as a share of what is occupied; 0 when nothing ever was. */
double tn_waste_share(const tn_waste *w, double x);

#endif
