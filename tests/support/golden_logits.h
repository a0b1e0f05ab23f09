/* golden_logits: reader of tests/data/tiny/<name>.golden (its README.md gives the format). */
#ifndef TN_TESTS_GOLDEN_LOGITS_H
#define TN_TESTS_GOLDEN_LOGITS_H

#include <stdint.h>

typedef struct golden_prompt {
  uint32_t n;
  int32_t *ids;  /* [n] */
  float *logits; /* [n][n_vocab]: row i is what follows ids[0..i] */
} golden_prompt;

typedef struct golden_logits {
  uint32_t n_prompts, n_vocab;
  golden_prompt *prompts; /* [n_prompts] */
} golden_logits;

/* NULL when the file is not there or not of the format. Free with golden_logits_free, which accepts NULL. */
golden_logits *golden_logits_read(const char *name);
void golden_logits_free(golden_logits *g);

/* Path of a file of tests/data/tiny, in buf. */
const char *golden_path(const char *name, const char *suffix, char *buf, uint32_t n);

#endif
