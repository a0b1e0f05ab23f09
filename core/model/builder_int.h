/* builder_int: the program under construction. Private to core/model.
 *
 * Errors are sticky: the first one is kept in b->st, later calls do nothing, and tn_mk_op then returns a scratch record,
 * so that the block functions read as equations. */
#ifndef TN_CORE_MODEL_BUILDER_INT_H
#define TN_CORE_MODEL_BUILDER_INT_H

#include "builder.h"

/* The activations that a program may have, reused by all layers. Widths: d model, Q this rank's heads * dh, KV its KV
 * heads * dh, H its heads, FF its channels, V logits. */
enum {
  TN_A_X = 0,       /* [d] input of a layer: the residual stream */
  TN_A_H,           /* [d] normed */
  TN_A_Q,           /* [Q] */
  TN_A_QN,          /* [Q] normed per head */
  TN_A_QR,          /* [Q] rotated */
  TN_A_QS,          /* [Q] rotated for sink entries */
  TN_A_K,           /* [KV] */
  TN_A_KN,          /* [KV] */
  TN_A_KR,          /* [KV] */
  TN_A_V,           /* [KV] */
  TN_A_O,           /* [Q] attention output */
  TN_A_LSE,         /* [H] */
  TN_A_O_PARTS,     /* [segments of the rank][d] */
  TN_A_O_ALL,       /* [segments of the model][d] */
  TN_A_A,           /* [d] attention block */
  TN_A_AN,          /* [d] normed */
  TN_A_Y,           /* [d] residual stream between the blocks */
  TN_A_GATE,        /* [FF] */
  TN_A_UP,          /* [FF] */
  TN_A_GLU,         /* [FF] */
  TN_A_F_PARTS,     /* [segments of the rank][d] */
  TN_A_F_ALL,       /* [segments of the model][d] */
  TN_A_F,           /* [d] feed-forward block */
  TN_A_FN,          /* [d] normed */
  TN_A_XN,          /* [d] output norm of all rows */
  TN_A_XO,          /* [d] picked rows */
  TN_A_HO,          /* [d] picked and normed rows */
  TN_A_LOGITS_PART, /* [logits of the rank] */
  TN_A_LOGITS,      /* [V] */
  TN_A_CAPPED,      /* [V] */
  TN_N_ACTS
};

/* What a tn_built * from tn_program_build points to; b comes first. */
typedef struct tn_built_own {
  tn_built b;
  tn_op **ops;
  tn_act **acts;
  const tn_tensor **weights; /* [n_weights] NULL until bound */
  tn_weight_need *needs;
  tn_mask *masks;
  const tn_kv_group **groups;
  uint32_t *table_dims, *observed;
  int32_t *tile_layers;
  uint32_t cap_ops, cap_acts, cap_needs, cap_masks, cap_observed, cap_tiles;
} tn_built_own;

typedef struct tn_maker {
  const tn_build *in;
  const tn_model *m;
  tn_par_plan par;
  tn_built_own *out;
  tn_err *err;
  tn_status st;           /* first failure */
  int32_t layer;          /* being built, -1 outside the layers */
  int32_t act[TN_N_ACTS]; /* TN_A_* to index in the program; -1: not there yet */
  uint32_t *group_of;     /* [n_layers * n_kv_heads] index of the group, UINT32_MAX: none */
  uint64_t tag;           /* of the last collective */
  tn_op scratch;
} tn_maker;

/* A maximal run of KV heads of one layer that one ATTEND (or STATE_MIX) can serve. */
typedef struct tn_head_run {
  uint32_t kv_head0, n_kv_heads;
  uint32_t group; /* of kv_head0 */
  bool raw;       /* keys are stored before rotation */
  tn_attn_spec spec;
} tn_head_run;

/* builder_list.c: the growing arrays. */
tn_op *tn_mk_op(tn_maker *b, uint32_t kind, int32_t in0, int32_t act, const char *stem);
int32_t tn_mk_act(tn_maker *b, uint32_t act); /* index in the program of a TN_A_* */
int32_t tn_mk_need(tn_maker *b, uint32_t part, bool bias);
void tn_mk_masks(tn_maker *b, const tn_mask *masks, uint32_t n, tn_op_attend *p);
uint32_t tn_mk_observed(tn_maker *b, uint32_t need);
void tn_mk_add_tile_set(tn_maker *b, int32_t layer);
uint32_t tn_mk_tile_set(const tn_maker *b); /* of the layer being built */
void tn_mk_fail(tn_maker *b, tn_status st, const char *fmt, ...) TN_PRINTF(3, 4);
void tn_built_own_free(tn_built_own *own);

/* builder_spec.c: groups, runs of heads, masks. */
void tn_mk_groups(tn_maker *b);
void tn_mk_check_specs(tn_maker *b);
void tn_mk_tile_sets(tn_maker *b); /* one for each layer of the model with tile lists, on every rank */
tn_head_run tn_mk_run(tn_maker *b, uint32_t kv_head0);
void tn_mk_run_masks(tn_maker *b, const tn_head_run *run, tn_op_attend *p);
uint32_t tn_mk_sinks(const tn_maker *b); /* sink entries that need queries of their own; 0: none */

/* builder_ops.c: single records that several blocks use; each returns its output. */
int32_t tn_mk_norm(tn_maker *b, uint32_t part, int32_t x, uint32_t act);
int32_t tn_mk_linear(tn_maker *b, uint32_t part, int32_t x, uint32_t act);
int32_t tn_mk_add(tn_maker *b, const char *stem, int32_t x, int32_t y, uint32_t act);
int32_t tn_mk_gather(tn_maker *b, const char *stem, int32_t x, uint32_t act);
int32_t tn_mk_down(tn_maker *b, uint32_t part, int32_t x, bool split, const uint32_t acts[3]);
bool tn_mk_has(const tn_maker *b, uint32_t part);

/* The blocks, in the order of the model. x, y: indices of acts. */
int32_t tn_mk_embedding(tn_maker *b);
int32_t tn_mk_attention(tn_maker *b, int32_t x);
int32_t tn_mk_feed_forward(tn_maker *b, int32_t y);
void tn_mk_taps(tn_maker *b, int32_t which, int32_t x);
void tn_mk_head(tn_maker *b, int32_t x);

#endif
