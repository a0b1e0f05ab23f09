/* run_int: what the files of `tenon run` share: run.c is the command line, run_prompt.c and run_file.c its input,
 * run_session.c the work. */
#ifndef TN_CORE_CLI_RUN_INT_H
#define TN_CORE_CLI_RUN_INT_H

#include "cli/engine_args.h"

#define RUN_MAX_BIAS 64u

typedef struct run_args {
  tn_cli_args cli;
  tn_engine_args engine;
  const char *prompt, *file, *save, *load;
  int64_t n_predict, seed;
  tn_sampling sampling;
  int32_t bias_token[RUN_MAX_BIAS];
  float bias[RUN_MAX_BIAS];
  uint32_t n_logprobs;
  bool seed_given, ignore_eos, no_prompt;
} run_args;

typedef struct tn_run_file { /* a saved session */
  uint8_t *bytes;            /* [n] of tn_engine_save */
  size_t n;
  int32_t *pending; /* [n_pending] tokens of the answer that follow the saved text; none after an end-of-generation */
  uint32_t n_pending;
} tn_run_file;

/* Errors: TN_E_IO with the option, the file and the reason, TN_E_NOMEM. What is read is the caller's (tn_run_file_free);
 * after a failure there is nothing to free. */
tn_status tn_run_file_check(const char *path,
                            tn_err *err); /* can it be written? Before an answer is made to be saved */
tn_status tn_run_file_write(const char *path, const tn_run_file *r, tn_err *err);
tn_status tn_run_file_read(const char *path, tn_run_file *r, tn_err *err);
void tn_run_file_free(tn_run_file *r);

typedef struct tn_run_prompt { /* what a run begins with */
  tn_str text;                 /* of -p or -f; may be empty behind a saved session */
  char *owned;                 /* what text lies in, or NULL */
  int32_t *ids;                /* [n] pending tokens of the session, then the text's */
  size_t n;
  tn_run_file saved; /* --load */
} tn_run_prompt;

/* Errors: TN_E_IO, TN_E_ARG (no tokens at all, or what the tokenizer says), TN_E_NOMEM. Release also after a failure. */
tn_status tn_run_prompt_read(const run_args *a, const tn_tokenizer *t, tn_run_prompt *p, tn_err *err);
void tn_run_prompt_free(tn_run_prompt *p);

/* Opens the engine, runs the prompt, prints. Returns the exit code. */
int tn_run_session(const run_args *a);

#endif
