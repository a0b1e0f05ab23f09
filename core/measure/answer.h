/* answer: how probable a composed engine finds a given continuation of a prompt, and greedy continuations against a
 * reference's. Thread rule: the engines'. */
#ifndef TN_CORE_MEASURE_ANSWER_H
#define TN_CORE_MEASURE_ANSWER_H

#include "measure/quality.h"

typedef struct tn_answer {
  double loglik; /* ln p of the continuation, in nats */
  int64_t n;     /* its tokens */
  int64_t n_top; /* of them the most probable one in their place (ties: the lowest id) */
  bool exact;    /* all of them: greedy decoding would write it */
} tn_answer;

/* tokens [n]: prompt and continuation, the first n_prompt the prompt. The continuation is read, not written (teacher
 * forcing). Eviction policies take the prompt without its last token for the prompt, so that all of the continuation is
 * predicted after what they do at the prompt's end. Errors: TN_E_ARG (n_prompt not in 1 .. n - 1), the engine's,
 * TN_E_INTERNAL for logits that are not finite. */
tn_status tn_answer_score(const tn_subject *s, const int32_t *tokens, int64_t n, int64_t n_prompt, tn_answer *out,
                          tn_err *err);

typedef struct tn_match {
  int64_t n_same;         /* tokens from the start that are equal */
  int64_t n, n_reference; /* tokens that each wrote */
  bool exact;             /* both wrote the same */
} tn_match;

/* Both continue the prompt greedily by at most max_new tokens. */
tn_status tn_match_greedy(const tn_subject *tested, const tn_subject *reference, const int32_t *prompt,
                          int64_t n_prompt, int64_t max_new, tn_match *out, tn_err *err);

#endif
