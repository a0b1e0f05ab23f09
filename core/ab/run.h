/* run: the experiment itself. Engines are open at the same time; within a block the variants take their turns in an
 * order drawn anew: first the prompt, then `slice` tokens at a time, so that what else happens on the machine meets all
 * of them alike. Servers run on their own: there the turns are whole runs, one after the other.
 *
 * Thread rule: the engine thread. */
#ifndef TN_CORE_AB_RUN_H
#define TN_CORE_AB_RUN_H

#include "ab/experiment.h"
#include "ab/remote.h"
#include "ab/rig.h"

typedef struct tn_ab_tokens { /* a prompt's tokens, owned */
  int32_t *at;
  int64_t n;
} tn_ab_tokens;

typedef struct tn_ab_run {
  tn_ab_exp *e;
  tn_ab_rig *rig;             /* [n_variants], open; NULL: the variants are servers */
  const tn_ab_tokens *prompt; /* [n_prompts] for rig */
  tn_ab_remote *remote;       /* [n_variants] in place of rig */
  bool (*stop)(void);         /* ends a server's run early; may be NULL */
  /* Between blocks; false: ends here (*e is marked partial). */
  bool (*go)(void *ctx, const tn_ab_exp *e);
  void *ctx;
} tn_ab_run;

/* One run of a prompt by every variant that is not measured. Errors: those of the engine, prefixed by the variant. */
tn_status tn_ab_warm_up(tn_ab_run *r, tn_err *err);

/* n more blocks; prompts come round in a seeded order. A block that fails is no part of the experiment. */
tn_status tn_ab_blocks(tn_ab_run *r, uint32_t n, tn_err *err);

/* Perplexity of every variant on a text, and the divergence of its laws from the reference's, chunk by chunk. An early
 * end keeps whole chunks that all variants have. */
tn_status tn_ab_quality(tn_ab_run *r, const tn_chunks *chunks, tn_err *err);

/* A random order of 0 .. n - 1 for a place in the experiment. */
void tn_ab_order(uint64_t seed, uint32_t block, uint32_t turn, uint32_t n, uint32_t *order);

#endif
