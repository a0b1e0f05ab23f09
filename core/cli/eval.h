/* eval: what the subcommands of `tenon eval` share: the tested engine and the reference beside it, progress, reports.
 * Thread rule: the main thread. */
#ifndef TN_CORE_CLI_EVAL_H
#define TN_CORE_CLI_EVAL_H

#include "cli/engine_args.h"
#include "measure/quality.h"

int tn_cli_eval_ppl(int argc, char **argv);
int tn_cli_eval_kld(int argc, char **argv);
int tn_cli_eval_needle(int argc, char **argv);
int tn_cli_eval_passkey(int argc, char **argv);
int tn_cli_eval_multikey(int argc, char **argv);
int tn_cli_eval_vartrack(int argc, char **argv);
int tn_cli_eval_tasks(int argc, char **argv);
int tn_cli_eval_match(int argc, char **argv);

/* ---------------------------------------------------------------- engines */

#define TN_EVAL_REF_OPTIONS                                                                       \
  {"ref", 0, "FILE", "composition of the reference, an INI file; may be given several times"},    \
      {"ref-set", 0, "S.K=V", "one option of the reference; without --ref: of conf/default.ini"}, \
  {                                                                                               \
    "ref-model", 0, "FILE", "model of the reference, of the same vocabulary; default: -m"         \
  }
#define TN_N_EVAL_REF_OPTIONS 3u

typedef struct tn_eval { /* zeroed, then begun */
  tn_cli_args cli;
  tn_engine_args engine, reference; /* the second shares -c, -t and -b */
  bool has_reference;
  bool decode;       /* scored tokens one at a time */
  tn_setup setup[2]; /* tested, reference; open while code is TN_EXIT_OK */
  tn_scorer *scorer[2];
} tn_eval;

/* Before the options are walked. */
void tn_eval_begin(tn_eval *e, const tn_cli_usage *usage, int argc, char **argv);

/* Takes option i: of TN_ENGINE_OPTIONS, or with i counted from TN_EVAL_REF_OPTIONS. false: a mistake, printed. */
bool tn_eval_take_ref(tn_eval *e, int i, const char *value);

/* Opens both, or the one there is; also the notes that every report begins with go to stderr. An exit code. */
int tn_eval_open(tn_eval *e);
void tn_eval_close(tn_eval *e);

/* decode as asked for, and where a drafter is to be engaged. */
static inline tn_subject tn_eval_subject(tn_eval *e, int i)
{
  return (tn_subject){&e->setup[i], e->scorer[i],
                      e->decode || tn_composition_part(e->setup[i].composition, "draft") != NULL};
}
static inline tn_subject tn_eval_tested(tn_eval *e) { return tn_eval_subject(e, 0); }
static inline tn_subject tn_eval_reference(tn_eval *e)
{
  return e->has_reference ? tn_eval_subject(e, 1) : (tn_subject){0};
}

/* What goes into JSON for an engine: fingerprint, untrained parts, counters. NULL: no memory. */
json_t *tn_eval_subject_json(const tn_setup *s);

/* A line for each part that the model was not trained for; what: "tested composition". */
void tn_eval_print_untrained(const tn_setup *s, const char *what);

/* ---------------------------------------------------------------- progress */

typedef struct tn_eval_progress { /* on stderr, where that is a terminal */
  uint64_t start;
  bool tty, shown;
  uint32_t before; /* units that were done before start */
} tn_eval_progress;

tn_eval_progress tn_eval_progress_begin(uint32_t before);
void tn_eval_progress_show(tn_eval_progress *p, uint32_t done, uint32_t all);
/* Takes the line away, so that something can be printed. */
void tn_eval_progress_clear(tn_eval_progress *p);

/* ---------------------------------------------------------------- reports */

/* eval_report.c: the lines of llama-perplexity's report; the same for programs (NULL: no memory). */
void tn_eval_print_stats(const tn_kld_stats *s);
json_t *tn_eval_stats_json(const tn_kld_stats *s);

/* A table of n_buckets equal parts of the scored positions. n_buckets 0: nothing. TN_E_NOMEM. */
tn_status tn_eval_print_buckets(const tn_quality *q, const tn_chunks *c, uint32_t n_buckets, tn_err *err);
json_t *tn_eval_buckets_json(const tn_quality *q, const tn_chunks *c, uint32_t n_buckets);

#endif
