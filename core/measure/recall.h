/* recall: long texts with something to find in them, and the answer, after RULER's kinds (Hsieh et al., RULER: What's the
 * Real Context Size of Your Long-Context Language Models?, 2024, section 3).
 *
 *   needle    one sentence with a number in a haystack of real text; the question asks for the number
 *   passkey   the same in repeated noise
 *   multikey  four such sentences with four names; the question asks for one of them
 *   vartrack  a number is given to a variable, that to another, five in all; the question asks for all their names
 *
 * Pieces are tokenized one by one, so that a text has exactly the length asked for. All draws come from the seed. */
#ifndef TN_CORE_MEASURE_RECALL_H
#define TN_CORE_MEASURE_RECALL_H

#include "tokenizer/tokenizer.h"

enum { TN_RECALL_NEEDLE = 0, TN_RECALL_PASSKEY, TN_RECALL_MULTIKEY, TN_RECALL_VARTRACK, TN_RECALL_N };
extern const char *const tn_recall_names[TN_RECALL_N];

typedef struct tn_recall_spec {
  uint32_t kind;  /* TN_RECALL_* */
  int64_t length; /* tokens in all, the answer's among them */
  double depth;   /* 0 .. 1: where in the haystack what is asked for stands; vartrack: where the chain begins */
  uint64_t seed;
  tn_str haystack; /* text, repeated as needed; passkey takes none */
} tn_recall_spec;

typedef struct tn_recall {
  int32_t *tokens; /* [n] owned */
  int64_t n, n_prompt;
} tn_recall;

/* Errors: TN_E_ARG (a length too short for what is to be said in it, with both numbers; a haystack without tokens), the
 * tokenizer's, TN_E_NOMEM. */
tn_status tn_recall_make(const tn_tokenizer *t, const tn_recall_spec *spec, tn_recall *out, tn_err *err);
void tn_recall_free(tn_recall *r);

#endif
