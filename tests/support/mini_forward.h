/* mini_forward: a model's forward pass on one backend without the engine: open, build, load, run.
 *
 * One sequence, one page group a class of layers, page tables that are the identity. Several ranks run in one thread, each
 * record where its turn comes, so that a divided model can be compared with a whole one. For tests of the model and of
 * backends; the engine has its own tests. */
#ifndef TN_TESTS_MINI_FORWARD_H
#define TN_TESTS_MINI_FORWARD_H

#include "backend_host.h"
#include "model/weights.h"

typedef struct mini_forward mini_forward;

typedef struct mini_cfg {
  backend *backend;                 /* borrowed until close */
  const tn_model *model;            /* likewise */
  tn_build build;                   /* attn, evict, flags, taps, observe; the rest is filled in */
  const tn_par_plan *pars;          /* [world]; NULL: one rank has all */
  uint32_t world;                   /* 0: 1 */
  uint32_t kv_dtype, keys;          /* TN_DT_F32 for exact comparisons, TN_DT_F16; TN_KEYS_* */
  uint32_t prepare;                 /* TN_PREP_* */
  uint32_t max_tokens;              /* of the sequence; also the most rows of a run */
  uint32_t most_records;            /* of a range that is run at once; 0: all. For one rank */
  const tn_quantizer_v1 *quantizer; /* NULL: none */
  tn_inst *quantizer_inst;
  tn_status (*observe)(void *ctx, const tn_op *op, const tn_tensor *x, uint32_t n_rows);
  void *observe_ctx;
} mini_cfg;

/* NULL on failure, err says why. Free with mini_close. */
mini_forward *mini_open(const mini_cfg *cfg, tn_err *err);
void mini_close(mini_forward *f);

/* Appends n tokens to the sequence and writes the logits of all of them, [n][V], of rank 0. */
tn_status mini_run(mini_forward *f, const int32_t *tokens, uint32_t n, float *logits);

/* Empties the sequence. */
void mini_restart(mini_forward *f);

/* Rows of tap i of rank 0 as the last run left them, [n][d]. */
tn_status mini_tap(mini_forward *f, uint32_t i, uint32_t n, float *out);

/* Rank r's program, for names and indices. */
const tn_built *mini_built(const mini_forward *f, uint32_t r);

#endif
