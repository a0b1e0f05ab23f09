/* run_int: what run.c (the command line) hands to run_session.c (the work). */
#ifndef TN_CORE_CLI_RUN_INT_H
#define TN_CORE_CLI_RUN_INT_H

#include "cli/engine_args.h"

#define RUN_MAX_BIAS 64u

typedef struct run_args {
  tn_engine_args engine;
  const char *prompt, *file, *save, *load;
  int64_t n_predict, seed;
  tn_sampling sampling;
  int32_t bias_token[RUN_MAX_BIAS];
  float bias[RUN_MAX_BIAS];
  uint32_t n_logprobs;
  bool seed_given, ignore_eos, no_prompt;
} run_args;

/* Opens the engine, runs the prompt, prints. Returns the exit code. */
int tn_run_session(const run_args *a);

#endif
