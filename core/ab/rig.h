/* rig: the engine of one variant and the run that it is in. A run is one prompt, a sequence of its own from an empty
 * cache, and n_gen greedy tokens. The engine is stepped in turns, so that the variants of a block can run in slices by
 * turns; a clock adds up the time inside the engine's steps alone.
 *
 *   time to first token   clock at the first token
 *   prompt speed          prompt tokens by that time
 *   inter-token gap       clock between two steps that gave tokens: several tokens of one step arrive together
 *   decode speed          tokens after the first step that gave any, by the time since
 * Thread rule: the engine thread. */
#ifndef TN_CORE_AB_RIG_H
#define TN_CORE_AB_RIG_H

#include "ab/metric.h"
#include "measure/quality.h"
#include "setup/setup.h"

typedef struct tn_ab_rig {
  tn_setup s;
  tn_scorer *scorer; /* events go here while score is set */
  bool score, open;
  double open_s;
  /* the run */
  uint64_t clock_ns, step_ns, first_ns, last_ns; /* step_ns: when the step in progress began */
  int64_t n_prompt, n_gen, n_tokens, n_first;    /* n_first: tokens of the first step that gave any */
  int32_t *tokens;                               /* [n_gen] */
  double *gap;                                   /* [n_gen] seconds */
  int64_t n_gaps;
  bool gave; /* this step has given tokens */
  uint64_t kv_peak;
  bool over;
  /* of all runs */
  uint64_t n_cached, n_drafted, n_dropped, n_demoted;
  bool hidden; /* entries of a text were freed by position */
  char failed[256];
} tn_ab_rig;

/* Events for tn_setup_args.events; r must stay where it is. */
tn_events tn_ab_rig_events(tn_ab_rig *r);

/* Opens the engine: args as of setup, events overwritten. Room for runs of n_gen tokens. Close also after a failure. */
tn_status tn_ab_rig_open(tn_ab_rig *r, const tn_setup_args *args, int64_t n_gen, tn_err *err);
void tn_ab_rig_close(tn_ab_rig *r);

/* Begins a run. Whatever ran before is ended. */
tn_status tn_ab_rig_begin(tn_ab_rig *r, const int32_t *prompt, int64_t n_prompt, tn_err *err);

/* Steps until there are so many tokens in all, or the run is over. */
tn_status tn_ab_rig_advance(tn_ab_rig *r, int64_t tokens, tn_err *err);

/* Figures of a run that is over, into x; ref is the same prompt's run of the reference, NULL: this is it. */
void tn_ab_rig_figures(tn_ab_rig *r, const tn_ab_rig *ref, double x[TN_AB_N_METRICS]);

/* Names the techniques of the composition that did not act in the runs so far, "eviction = x (dropped nothing), ...";
 * "" when all did. Free with free(); NULL: no memory. */
char *tn_ab_rig_idle(const tn_ab_rig *r);

/* Techniques whose part is done when the engine opens or at every step are seen by their counters, drafts and evictions
 * by what the host did for them. {"key.name.counter": n}. */
json_t *tn_ab_rig_counters(const tn_ab_rig *r);

#endif
