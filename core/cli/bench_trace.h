/* bench_trace: the part of `tenon bench` that replays a trace of requests, against an engine of its own or a server. */
#ifndef TN_CORE_CLI_BENCH_TRACE_H
#define TN_CORE_CLI_BENCH_TRACE_H

#include "cli/bench_out.h"
#include "measure/replay.h"

#define TN_BENCH_TRACE_OPTIONS                                                                                    \
  {"trace", 0, "FILE", "replay requests: a CSV of Azure's LLM traces, or prompts as JSON lines (Spec-Bench)"},    \
      {"poisson", 0, "RATE", "replay made-up requests instead, RATE a second"},                                   \
      {"rate", 0, "RATE", "arrivals for prompts that have none, RATE a second"},                                  \
      {"concurrency", 0, "N", "at most N requests at once (default: no limit; 32 for prompts without arrivals)"}, \
      {"requests", 0, "N", "the first N requests (default: all; 1000 with --poisson)"},                           \
      {"prompt-tokens", 0, "N", "tokens of a made-up prompt (default 512)"},                                      \
      {"gen-tokens", 0, "N", "tokens of a made-up answer; of an answer to a prompt at most (default 128)"},       \
      {"max-tokens", 0, "N", "requests ask for N tokens at least, though answers end as the trace says"},         \
      {"speed", 0, "X", "arrivals come X times as fast"},                                                         \
      {"seed", 0, "N", "of what is random about the requests (default 0)"},                                       \
      {"target-ttft", 0, "MS", "goodput counts requests whose first token came within MS"},                       \
      {"target-itl", 0, "MS", "... and whose tokens came MS apart at most, on average"},                          \
      {"null-forward", 0, NULL, "simulate: the engine without its model, on a clock of its own"},                 \
      {"step-cost", 0, "US,US", "simulated microseconds of a step, and of each token in it (default 10000,100)"}, \
      {"url", 0, "URL", "against a server that speaks OpenAI's API, as in http://127.0.0.1:8080"},                \
      {"api-key", 0, "KEY", "for the server (default: " TN_CLIENT_KEY_ENV ", then OPENAI_API_KEY)"},              \
  {                                                                                                               \
    "served-model", 0, "NAME", "model to ask the server for (default: the first that it lists)"                   \
  }
#define TN_N_BENCH_TRACE 17

typedef struct tn_bench_trace { /* zeroed to begin */
  const tn_cli_args *cli;
  const char *file, *url, *api_key, *model;
  double poisson, rate, speed, target_ttft, target_itl;
  int64_t concurrency, requests, prompt_tokens, gen_tokens, max_tokens, seed;
  bool null_forward, simulated_cost;
  tn_replay_cost cost;
  const char *stray; /* an option that says nothing without --trace or --poisson */
  /* of the run */
  tn_trace trace;
  tn_replay_cfg cfg;
} tn_bench_trace;

/* Takes option i of TN_BENCH_TRACE_OPTIONS; false: a mistake that has been printed. t->cli is set. */
bool tn_bench_trace_take(tn_bench_trace *t, int i, const char *value);

/* Is a replay asked for? */
bool tn_bench_trace_asked(const tn_bench_trace *t);

/* TN_EXIT_OK, or TN_EXIT_USAGE after the options' contradiction was printed. */
int tn_bench_trace_check(const tn_bench_trace *t);

/* Replays the trace with every composition of e; the results on stdout in out's format. The exit code. */
int tn_bench_trace_run(tn_bench_trace *t, const tn_engine_args *e, tn_bench_out *out);

typedef struct tn_bench_served { /* one result, for bench_serving.c */
  const tn_bench_trace *t;
  const tn_setup *s;          /* NULL: a server */
  const char *server, *model; /* of a server */
  const char *variant;        /* NULL: the only one */
  tn_serving_figures f;
  const tn_replay_result *more; /* NULL: a server */
  bool partial;
} tn_bench_served;

/* bench_serving.c: the block that vLLM's serving benchmark prints, or its fields as JSON. n: results before. */
int tn_bench_served_out(const tn_bench_served *r, uint32_t format, uint32_t n, bool several);

#endif
