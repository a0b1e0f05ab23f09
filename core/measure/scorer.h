/* scorer: the rows of logits that a composed engine gives for a text it is made to read (teacher forcing), and its greedy
 * continuations. Everything that measures quality gets its rows here, so all of it runs whatever the composition runs.
 *
 * A scorer is made before its engine, because the engine's events go to it: pass tn_scorer_events as
 * tn_setup_args.events. One text at a time. Thread rule: the engine's. */
#ifndef TN_CORE_MEASURE_SCORER_H
#define TN_CORE_MEASURE_SCORER_H

#include "setup/setup.h"

typedef struct tn_scorer tn_scorer;

/* NULL: no memory. Free after the engine is closed; accepts NULL. */
tn_scorer *tn_scorer_new(void);
tn_events tn_scorer_events(tn_scorer *s);
void tn_scorer_free(tn_scorer *s);

typedef struct tn_score { /* a text to read */
  const int32_t *tokens;  /* [n] borrowed until it is done */
  int64_t n;              /* >= 2 */
  int64_t first; /* 0 .. n - 2: the rows at text positions first .. n - 2 are told; row i predicts tokens[i + 1] */
  bool decode; /* first >= 1: tokens[first ..] one at a time, as generation writes them, with the composition's drafts;
                * false: as a prompt, in chunks. Eviction policies take the first `first` tokens for the prompt */
  /* logits: [n_vocab], borrowed until return. In order of pos, each once. Another status than TN_OK ends the text. */
  tn_status (*row)(void *ctx, int64_t pos, const float *logits, tn_err *err);
  void *ctx;
} tn_score;

/* Queues the text. Errors: TN_E_ARG (n, first), what tn_engine_submit says, TN_E_STATE when another text is not done. */
tn_status tn_scorer_begin(tn_scorer *s, tn_engine *e, const tn_score *t, tn_err *err);

/* One step of the engine. Errors: the engine's, the callback's; after one there is nothing left to run. */
tn_status tn_scorer_step(tn_scorer *s, tn_err *err);

/* Is there still something to run? */
bool tn_scorer_busy(const tn_scorer *s);

/* Ends the text that runs, if any; no more of its rows are told. */
void tn_scorer_stop(tn_scorer *s);

/* Both, to the end. */
tn_status tn_scorer_run(tn_scorer *s, tn_engine *e, const tn_score *t, tn_err *err);

/* Greedy continuation of a prompt: at most max_new tokens into out, fewer where an end-of-generation token came (it is
 * the last one). Errors: the engine's. */
tn_status tn_scorer_generate(tn_scorer *s, tn_engine *e, const int32_t *prompt, int64_t n_prompt, int64_t max_new,
                             int32_t *out, int64_t *n_out, tn_err *err);

#endif
