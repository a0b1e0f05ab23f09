/* golden_law: laws of the next token that llama.cpp computed, tests/data/quality/<model>.golden (its README.md gives the
 * format), and how far a row of logits is from one. */
#ifndef TN_TESTS_GOLDEN_LAW_H
#define TN_TESTS_GOLDEN_LAW_H

#include <stdbool.h>
#include <stdint.h>

#define GOLDEN_TOP 5

typedef struct golden_law { /* of one row, best first */
  int32_t id[GOLDEN_TOP];
  float logprob[GOLDEN_TOP];
  float rest; /* probability of all other tokens */
} golden_law;

typedef struct golden_set {
  uint32_t n_prompts, n_tokens, n_vocab;
  int32_t *ids;     /* [n_prompts][n_tokens] */
  golden_law *rows; /* [n_prompts][n_tokens]: row i is what follows ids[0..i] */
} golden_set;

/* NULL when the file is not there or not of the format. Free with golden_set_free, which accepts NULL. */
golden_set *golden_set_read(const char *model);
void golden_set_free(golden_set *g);

/* KL divergence in nats of the golden law from that of logits [n_vocab], over the golden top and the rest as one. */
double golden_kld(const golden_law *g, const float *logits, uint32_t n_vocab);

/* KL divergence in nats of the law of q from that of p, both logits [n]. */
double full_kld(const float *p, const float *q, uint32_t n);

/* Token of the largest logit, the lowest id of equals; *gap: how far the second is behind. */
int32_t best_token(const float *logits, uint32_t n, float *gap);

/* How far the rows of one side are from the other's. clear: the first side's best leads by more than 1e-2; differ: the
 * other side has another best there. */
typedef struct law_distance {
  double mean, worst; /* KL divergence of a row in nats */
  uint32_t rows, clear, differ;
} law_distance;

/* Counts a row: its divergence, the first side's lead and whether the best tokens are not the same. */
void law_distance_add(law_distance *d, double kld, double lead, bool differs);

#endif
