/* naive: a model's forward pass in double, one token at a time, written from the model's equations and nothing of the
 * engine or a backend. The oracle for what policies do to attention: hooks say who sees whom, by which position a key is
 * turned, what a cached entry has become, and which heads mix recurrently (in the parallel form, summed over all keys).
 *
 * Causality and the model's own window apply on top of the hooks. Ends the test on a failure. */
#ifndef TN_TESTS_NAIVE_H
#define TN_TESTS_NAIVE_H

#include "model/model.h"

typedef struct
    naive_hooks { /* any may be NULL; head: a KV head, q_head: a query head; i the query's text position, j a key's */
  void *ctx;
  bool (*sees)(void *ctx, uint32_t layer, uint32_t head, int64_t i, int64_t j);
  int64_t (*turned_by)(void *ctx, uint32_t layer, uint32_t head, int64_t i, int64_t j); /* j == i: the query as well */
  void (*stored)(void *ctx, uint32_t layer, uint32_t head, int64_t i, int64_t j, float *k, float *v); /* k rotated,
                                                      but for recurrent heads */
  bool raw; /* stored() gets keys before rotation */
  const tn_state_spec *(*state)(void *ctx, uint32_t layer, uint32_t head);
  void (*share)(void *ctx, uint32_t layer, uint32_t q_head, int64_t i, int64_t j, double p); /* softmax weights */
  void (*lse)(void *ctx, uint32_t layer, uint32_t q_head, int64_t i, double lse); /* log of the sum of exp(score) */
  void (*input)(void *ctx, uint32_t layer, uint32_t part, int64_t i, const double *row, int64_t k); /* of a linear */
  double (*frequency)(void *ctx, uint32_t cls, uint32_t pair);
} naive_hooks;

typedef struct naive {
  const tn_model *m;
  naive_hooks h;
  double softcap; /* of scores; 0: none */
  int64_t n, cap; /* tokens so far, at most */
  float *weights[(TN_MAX_LAYERS + 1) * TN_N_PARTS];
  float *k, *v;   /* [layer][head][cap][dh], keys not rotated */
  double *hidden; /* [layers][d] rows behind each layer, of the last token */
  double *normed; /* [d] row behind the output norm */
  double *logits; /* [V] of the last token */
  double *angles; /* [class][cap][dims / 2][2] cosine and sine of each position below cap */
  double *phi;    /* [layer][head][cap][n_phi] features of the keys of recurrent heads */
  uint32_t n_phi;
  double *work, *seen; /* seen: [cap][dh] values that the query at hand reads */
} naive;

/* hooks NULL: plain causal attention. The model is borrowed until close. */
naive *naive_open(const tn_model *m, const naive_hooks *hooks, int64_t cap);
void naive_close(naive *x);

/* Appends a token; its logits are in x->logits. */
void naive_push(naive *x, int32_t token);

/* Logits [V] of one hidden row [d], as behind the last layer. */
void naive_head(const naive *x, const double *hidden, double *logits);

/* Starts over. */
void naive_restart(naive *x);

/* Key of entry j as it is stored when it is turned by its text position; [dh]. */
void naive_key(const naive *x, uint32_t layer, uint32_t head, int64_t j, float *k);

/* Largest |a - b| over a row of logits, relative to max(1, |b|). */
double naive_error(const naive *x, const float *row);

/* The larger of two errors, NaN above all: fmax would lose it. */
static inline double naive_worse(double worst, double e) { return e > worst || e != e ? e : worst; }

/* Appends n tokens; the largest naive_error over their rows of logits [n][V], or NaN where a row holds one. */
double naive_worst(naive *x, const int32_t *tokens, int64_t n, const float *rows);

#endif
