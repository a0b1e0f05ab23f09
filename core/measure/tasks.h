/* tasks: multiple-choice questions of a local JSON-lines file, scored by log-likelihood as lm-evaluation-harness does
 * (multiple_choice tasks): each choice is read behind the context, and the most probable one is the answer.
 *   acc       by ln p of the choice
 *   acc_norm  by ln p of the choice divided by its length in characters
 *
 * A line is an object:
 *   context   text; or "question", "query", "ctx", "prompt"
 *   choices   array of texts; or "endings"; or {"text": [...]} as in ARC
 *   gold      index of the right one, or its text or letter; or "label", "answer", "answerKey", "target"
 * A choice is joined to the context by one space unless the context ends or the choice begins with white space. Spaces at the
 * end of the context are tokenized with the choice. Blank lines are skipped. Thread rule: any. */
#ifndef TN_CORE_MEASURE_TASKS_H
#define TN_CORE_MEASURE_TASKS_H

#include "measure/answer.h"

enum { TN_TASK_MAX_CHOICES = 64 };

typedef struct tn_task {
  char *context;
  char **choices; /* [n_choices] with the space before it, where there is one */
  uint32_t n_choices, gold;
} tn_task;

typedef struct tn_tasks {
  tn_task *at; /* [n] */
  size_t n;
} tn_tasks;

/* path is for messages. Errors: TN_E_ARG (file, line, field and value), TN_E_NOMEM; then *out is empty. */
tn_status tn_tasks_parse(const char *path, const char *text, size_t n_text, tn_tasks *out, tn_err *err);
void tn_tasks_free(tn_tasks *t);

typedef struct tn_task_result {
  double loglik[TN_TASK_MAX_CHOICES]; /* [n_choices] */
  uint32_t best, best_norm;           /* ties: the first */
  bool right, right_norm;
} tn_task_result;

/* Errors: TN_E_ARG for a choice without tokens, the tokenizer's, the engine's. */
tn_status tn_task_score(const tn_subject *s, const tn_task *t, tn_task_result *out, tn_err *err);

#endif
