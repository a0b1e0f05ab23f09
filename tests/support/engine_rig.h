/* engine_rig: a composed engine for tests, and a record of what it said.
 *
 * The composition is conf/default.ini plus "section.key=value" settings; plugins come from the build tree, those of
 * tests/plugins as well. */
#ifndef TN_TESTS_ENGINE_RIG_H
#define TN_TESTS_ENGINE_RIG_H

#include "setup/setup.h"

#define RIG_MAX_RESULTS 64

typedef struct rig_result { /* of one request */
  uint64_t seq;
  int32_t *tokens;  /* [n] generated */
  double *logprobs; /* [n] of each, where logprobs were asked for */
  uint32_t n, n_rows;
  float *rows;  /* [n_rows][V] logits of a scored prompt, in order */
  uint32_t why; /* TN_FINISH_* */
  bool done;
  char msg[256];
  uint64_t n_drafted, n_accepted, n_dropped, n_demoted, n_preempted;
} rig_result;

typedef struct rig {
  tn_setup s;
  tn_loader *loader;
  uint32_t n, n_vocab;
  rig_result r[RIG_MAX_RESULTS];
  void (*on_token)(void *ctx, const tn_token_event *e); /* called as well, when set */
  void *on_token_ctx;
  void (*on_finish)(void *ctx, const tn_seq *s); /* called first, when set */
  void *on_finish_ctx;
} rig;

/* sets: NULL-terminated. rig_try gives the error back; rig_open ends the test on one. Close with rig_close. */
tn_status rig_try(const char *model, const char *const *sets, rig **out, tn_err *err);
rig *rig_open(const char *model, const char *const *sets);
void rig_close(rig *r);

/* The same from an INI file in place of conf/default.ini. */
tn_status rig_conf(const char *model, const char *conf, const char *const *sets, rig **out, tn_err *err);

/* Path of a tiny model ("llama", "gemma3", ...), or of a real one; static. rig_real is NULL when the file is not there:
 * the test is then to be skipped with rig_skip. */
const char *rig_tiny(const char *name);
const char *rig_real(const char *file);
void rig_skip(const char *file);

/* Submits; the index of the result. Ends the test on a refusal. */
uint32_t rig_submit(rig *r, const tn_request *q);

/* Prompt of n tokens, greedy, with logprobs of what is generated; or scored, with logits of all rows. */
uint32_t rig_generate(rig *r, const int32_t *prompt, int64_t n, int64_t max_new);
uint32_t rig_score(rig *r, const int32_t *prompt, int64_t n);

/* Steps until idle, checking the KV store's invariants at every `check` steps (0: only at the end). */
void rig_run(rig *r, uint32_t check);

/* Two compositions of one model, each with the same n tokens of a seed scored as its result 0. Close both. */
typedef struct rig_pair {
  rig *a, *b;
} rig_pair;
rig_pair rig_score_both(const char *model, const char *const *a, const char *const *b, uint32_t seed, int64_t n);
void rig_close_both(rig_pair p);

/* Frees what results hold and starts over with the same engine. */
void rig_clear(rig *r);

/* n pseudo-random tokens below n_vocab, the same for the same seed. */
void rig_tokens(uint32_t seed, uint32_t n_vocab, int32_t *out, int64_t n);

/* Bitwise equality of two results: tokens, logprobs, logits. */
bool rig_same(const rig *a, uint32_t i, const rig *b, uint32_t k);

/* Sum of a counter over instances: "eviction", "h2o", 0. */
uint64_t rig_counter(const rig *r, const char *key, uint32_t index);

#endif
