/* bench: how fast a composed engine takes prompts and generates, as llama-bench measures it.
 *
 * A test is n_seqs sequences that run together: each has n_depth tokens in the cache beforehand (not timed), then
 * takes a prompt of n_prompt tokens, then decodes n_gen tokens, one row a sequence and step. Tokens are arbitrary.
 * What is timed are the engine's steps, with logits; tokenization is not part of it, and what passes between logits
 * and the token (sampling) is taken out. Depth is prefilled once and put back for each repetition, as a saved session
 * is.
 *
 * Thread rule: the engine thread. */
#ifndef TN_CORE_MEASURE_BENCH_H
#define TN_CORE_MEASURE_BENCH_H

#include "measure/roofline.h"

typedef struct tn_bench_test {
  int64_t n_prompt, n_gen, n_depth; /* tokens of a sequence; one of the first two > 0 */
  uint32_t n_seqs, reps;            /* >= 1 */
  bool warm_up;                     /* one more repetition before: of the prompt, and of a few tokens */
} tn_bench_test;

typedef struct tn_bench_result {
  uint32_t n;
  uint64_t *ns;         /* [n] time of each repetition; free() */
  uint64_t steps;       /* of one repetition */
  tn_cost cost;         /* of one repetition */
  double avg_ns, sd_ns; /* mean and standard deviation (n - 1) */
  double avg_ts, sd_ts; /* tokens a second, all sequences together */
  uint64_t kv_peak;     /* bytes of the cache in use, the most at any time that logits came */
} tn_bench_result;

typedef struct tn_bench tn_bench;

/* Made before the engine, because the engine's events go to it: pass tn_bench_events as tn_setup_args.events. */
tn_bench *tn_bench_new(void);
tn_events tn_bench_events(tn_bench *b);
void tn_bench_free(tn_bench *b);

/* Tokens that a sequence of the test can come to hold: [engine] ctx must be that much. */
int64_t tn_bench_ctx(const tn_bench_test *t);

/* The backend's tensors are host memory: no layer is on a device. */
bool tn_bench_on_host(const tn_engine *e);

/* Errors: TN_E_UNSUPPORTED a composition with a drafter, whose speed depends on the text; TN_E_STATE when sequences did
 * not run together (the cache is too small for them); those of the engine. */
tn_status tn_bench_run(tn_bench *b, tn_engine *e, const tn_bench_test *t, tn_bench_result *out, tn_err *err);

#endif
