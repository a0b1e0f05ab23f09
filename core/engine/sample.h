/* sample: from a row of logits to the law that tokens are drawn from, and a draw from it.
 *
 * Order, as llama.cpp's default chain: logit bias, repetition, presence and frequency penalties (over the last
 * penalty_last tokens), top-k, top-p, min-p, temperature. Ties go to the lowest id. temperature 0 is greedy: the law is
 * all on the arg max after bias and penalties, whatever the other fields say. A draw depends on (request, position,
 * purpose, index) only. Host code, f64. Thread rule: one call at a time per tn_sampler. */
#ifndef TN_CORE_ENGINE_SAMPLE_H
#define TN_CORE_ENGINE_SAMPLE_H

#include "../base.h"

typedef struct tn_sampling {
  double temperature;         /* >= 0; 0: greedy */
  double top_p;               /* (0, 1]; 1: off; 0 is taken as "the best token only" */
  double min_p;               /* [0, 1); 0: off */
  double repetition;          /* > 0; 1: off */
  double presence, frequency; /* [-2, 2]; 0: off */
  int32_t top_k;              /* >= 0; 0: off */
  int32_t penalty_last;       /* tokens of history that penalties look at; -1: all */
  uint32_t n_bias, reserved0;
  const int32_t *bias_token; /* [n_bias] */
  const float *bias;         /* [n_bias] added to the logit; -INFINITY bans */
} tn_sampling;

/* Greedy, nothing else on. */
tn_sampling tn_sampling_default(void);

/* TN_E_ARG and a sentence naming the field when a value is out of range. */
tn_status tn_sampling_check(const tn_sampling *s, uint32_t n_vocab, tn_err *err);

typedef struct tn_sampler tn_sampler;
tn_status tn_sampler_new(uint32_t n_vocab, tn_sampler **out, tn_err *err);
void tn_sampler_free(tn_sampler *s);

/* History for penalties: n tokens, then n_path more (a tree path). */
typedef struct tn_history {
  const int32_t *tokens;
  int64_t n;
  const int32_t *path;
  uint32_t n_path, reserved0;
} tn_history;

/* A law: n candidates with probabilities that sum to 1, borrowed until the sampler's next call. */
typedef struct tn_law {
  const int32_t *id;
  const double *p;
  uint32_t n, reserved0;
} tn_law;

tn_law tn_sampler_law(tn_sampler *s, const tn_sampling *how, const float *logits, const tn_history *h);

/* The candidate that u in [0, 1) falls on, walking the law in its order. */
int32_t tn_law_draw(const tn_law *law, double u);

/* Probability of a token under the law; 0 when it is no candidate. */
double tn_law_p(const tn_law *law, int32_t token);

/* Arg max of a row, lowest id on ties; NaN never wins. */
int32_t tn_argmax(const float *logits, uint32_t n);

/* log of the sum of exponentials of a row, each in f32, summed in f64: logprob(t) = logits[t] - lse. */
double tn_log_sum_exp(const float *logits, uint32_t n);

/* The n largest logits, best first (ties: lowest id; NaN last), into id[]. n <= n_vocab. */
void tn_top_n(const float *logits, uint32_t n_vocab, uint32_t n, int32_t *id);

#endif
