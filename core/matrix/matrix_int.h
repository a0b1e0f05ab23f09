/* matrix_int: shared by the files of core/matrix. See matrix.h. */
#ifndef TN_CORE_MATRIX_MATRIX_INT_H
#define TN_CORE_MATRIX_MATRIX_INT_H

#include "compose/catalog.h"
#include "matrix/matrix.h"

enum { TN_RUN_UNKNOWN = 0 /* the process ended before it said anything */, TN_RUN_DONE, TN_RUN_REFUSED, TN_RUN_FAILED };

typedef struct tn_matrix_outcome { /* of one run, in memory that its process shares */
  uint32_t state, reserved0;       /* TN_RUN_* */
  uint64_t scored, generated;      /* digests of the logits, of tokens and their logprobs */
  double kld;                      /* against the reference rows; NaN: some logit is no number */
  uint64_t engaged[2];             /* all counters of a and of b */
  char fingerprint[24], text[400];
} tn_matrix_outcome;

typedef struct tn_matrix_run_args { /* one run */
  const tn_matrix_cfg *cfg;
  const char *model;
  const tn_matrix_part *a, *b; /* NULL: none */
  const tn_names *backends;    /* tried in turn where the default one is refused */
  const float *reference;      /* [rows][V], or NULL */
  float *rows;                 /* [rows][V] gets the logits, or NULL */
  uint32_t n_vocab;
  tn_matrix_outcome *out;
} tn_matrix_run_args;

#define TN_MATRIX_ROWS ((size_t)(TN_MATRIX_TEXT - TN_MATRIX_FROM - 1))

/* parts.c */
tn_status tn_matrix_parts(const tn_matrix_cfg *cfg, uint32_t world, tn_matrix *m, tn_names *backends, tn_err *err);

/* one.c: the run itself, in the calling process. *out says how it went. */
void tn_matrix_one(const tn_matrix_run_args *r);

/* jobs.c: every run in a process of its own, cfg->jobs of them at once. */
tn_status tn_matrix_jobs(const tn_matrix_cfg *cfg, const tn_matrix_run_args *runs, size_t n, size_t *done,
                         size_t planned, tn_err *err);

/* judge.c */
void tn_matrix_judge_alone(const tn_matrix *m, const tn_matrix_outcome *o, const tn_matrix_outcome *reference,
                           tn_matrix_cell *c);
/* alone: the outcomes of a and b alone, on the model of the pair; cells: how those were judged. */
void tn_matrix_judge_pair(const tn_matrix *m, const tn_matrix_outcome *o, const tn_matrix_outcome *reference,
                          const tn_matrix_outcome *const alone[2], tn_matrix_cell *c);

#endif
