/* engine_args: the options that every command with an engine takes, and opening that engine with progress on stderr. */
#ifndef TN_CORE_CLI_ENGINE_ARGS_H
#define TN_CORE_CLI_ENGINE_ARGS_H

#include "cli/cli.h"
#include "setup/setup.h"

#define TN_ENGINE_OPTIONS                                                                                        \
  {"model", 'm', "FILE", "model, a GGUF file; over [model] path"},                                               \
      {"conf", 0, "FILE", "composition, an INI file; may be given several times"},                               \
      {"set", 0, "S.K=V", "one option, as in --set eviction.streaming_llm.window=252 or --set compose.kv=int8"}, \
      {"ctx-size", 'c', "N", "tokens that a sequence may have; 0: the model's, at most 8192"},                   \
      {"threads", 't', "N", "compute threads; 0: as many CPUs as the process may use"},                          \
      {"batch-size", 'b', "N", "rows of one step; longer prompts are cut into such chunks"},                     \
      {"json", 0, NULL, "results as JSON on stdout"},                                                            \
      {"verbose", 'v', NULL, "what was loaded, and every plugin's counters, on stderr"},                         \
  {                                                                                                              \
    "no-cache", 0, NULL, "neither use nor keep packed weights ([engine] weights_cache)"                          \
  }
#define TN_N_ENGINE_OPTIONS 9u
#define TN_MAX_SETS 64u

typedef struct tn_engine_args {
  const tn_cli_args *cli; /* borrowed: who speaks */
  const char *model;
  const char *conf[16];
  const char *sets[TN_MAX_SETS];
  const char *from[TN_MAX_SETS]; /* what each set stands for, "-c 4096"; NULL: --set itself */
  char *owned[2 * TN_MAX_SETS];  /* texts behind sets and from that were made here */
  size_t n_conf, n_sets, n_owned;
  bool json, verbose, no_cache;
} tn_engine_args;

/* Takes option i of the usage's table (its first TN_N_ENGINE_OPTIONS entries are TN_ENGINE_OPTIONS); false: a mistake
 * that has been printed. a->cli is set. */
bool tn_engine_args_take(tn_engine_args *a, int i, const char *value);

/* Adds a --set of engine.<key>; from is what the user wrote for it, "-c 4096". false: too many, or no memory (printed). */
bool tn_engine_args_set(tn_engine_args *a, const char *from, const char *key, int64_t value);
void tn_engine_args_release(tn_engine_args *a);

/* Opens everything, with warnings and progress on stderr (with either no_engine or null_forward without warnings). more: events, observers, build flags; its
 * conf, sets, model, log and progress are overwritten. TN_EXIT_OK, or TN_EXIT_FAIL after the reason was printed. */
int tn_engine_args_open(const tn_engine_args *a, const tn_setup_args *more, tn_setup *out);

/* To an error that names a key of [engine] which has an option of its own: where the value came from, or the option. */
void tn_engine_args_explain(const tn_engine_args *a, tn_err *err);

/* "KV cache size" and "Maximum concurrency", and with verbose the composition and what weights take. */
void tn_engine_print_memory(FILE *out, const tn_setup *s, bool verbose);

/* Every plugin's counters, one line each; those at 0 only of a part of which none counted. */
void tn_engine_print_counters(FILE *out, const tn_engine *e);

/* {"backend.ref.runs": 12, ...} */
json_t *tn_engine_counters_json(const tn_engine *e);

/* 1234567 as "1,234,567". */
void tn_cli_thousands(uint64_t n, char out[32]);

/* Counts SIGINTs from now on: the first asks for an end, the second kills. tn_cli_interrupted: was there one? */
void tn_cli_catch_interrupt(void);
bool tn_cli_interrupted(void);
/* Begins to count anew: what was asked for has ended, and the program goes on. */
void tn_cli_forget_interrupt(void);

/* The same for a server: SIGTERM as well, and no signal kills; a pipe that nobody reads ends nothing.
 * tn_cli_interrupts: how many were there? */
void tn_cli_catch_ends(void);
int tn_cli_interrupts(void);

#endif
