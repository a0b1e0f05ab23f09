/* builder: from a model and the composition's decisions to the linear program of op records of one rank.
 *
 * The builder holds no arithmetic: it lists records in the order of the model's equations, and says which weights they
 * need. Activations are few and reused by all layers (a record writes an act that no later record still reads), so their
 * number does not grow with the layers, and records never work in place.
 *
 * CONVENTIONS that backends rely on, beyond plugin_api.h:
 *   heads     attend.head0 and kv_head0 are numbered as in the model. An act of heads ([n_heads * dh] columns) holds the
 *             heads of this rank. The heads of a layer are served by one ATTEND when they all have the same spec. Else
 *             there is one ATTEND or STATE_MIX for each run of KV heads with equal spec; these records have the same
 *             in0 (all the rank's queries) and the same out0 (all the rank's outputs), and each reads and writes only
 *             its own columns: query heads [head0, head0 + n_heads) are columns [(head0 - F) * dh, ...), where F is the
 *             first query head of the rank = the smallest head0 of the layer's records (likewise in1, and out1 with
 *             one column a head). The records of a layer cover every column once.
 *   KV_WRITE  takes p.attend with n_kv_heads, kv_head0, d_head, d_v. One record a layer when all its KV heads store the
 *             same keys; else one for each run, reading its columns of in0 and in1 in the same way (F: first KV head).
 *   keys      ROTATED groups get keys behind ROPE, RAW groups keys before it (ATTEND rotates them: p.attend.rope is the
 *             table, rope_style, rope_dims say how). STATE heads take queries and keys without rotation.
 *   state     STATE_MIX: p.attend.state is the index into tn_program.groups of the group that holds kv_head0.
 *   tables    rope table c is that of layer class c; rope.sink = 1 uses sink_cos and sink_sin of the same table.
 *   masks     masks [mask, mask + n_masks) of an ATTEND are those of the variant, of the layer's window and of the
 *             eviction policy that are not all-pass. n_masks 0: causality only. Records share equal runs.
 *   tiles     p.attend.tiles is 1 + s: set s belongs to layer tile_layers[s] of tn_built, which lists the layers of
 *             the whole model that have tile lists, so that all ranks count alike. The first mask is then the
 *             variant's own, all-pass or not: it counts in tiles of kind MASK alone, the others count in all.
 *   vectors   norm weights and biases are tensors with ne[0] = their length.
 *   parallel  a rank's part sums: LINEAR with TN_OPF_PARTS -> [segments of the rank][d], COLLECTIVE ALL_GATHER ->
 *             [segments of the model][d], SEGSUM -> [d]. p.linear of SEGSUM: n = d, k = 0, segments.
 *             A rank's columns of an ALL_GATHER may differ in number from the other ranks'.
 *   stages    SEND has in0 only and RECV out0 only, tag = first layer of the receiver; BROADCAST has in0 on the rank
 *             p.coll.peer and out0 on the others, tag = layers of the model. All ranks end with the same logits.
 *
 * RECORDS by name (those a model or composition lacks are absent):
 *   token_embd                                     x = embedding rows            (first stage; else recv: hidden)
 *   blk.N.attn_norm                                h = norm(x)
 *   blk.N.attn_q  .attn_k  .attn_v                 q, k, v = h W^T (+ b)
 *   blk.N.attn_q_norm  .attn_k_norm                per head
 *   blk.N.attn_q_rope  .attn_q_sink_rope  .attn_k_rope
 *   blk.N.kv_write                                 (.kv_write.<first KV head> when there are several)
 *   blk.N.attend                                   (.attend.<first KV head>, .state_mix likewise)
 *   blk.N.attn_out  .attn_out_gather  .attn_out_sum
 *   blk.N.attn_post_norm  .attn_add                y = x + attention
 *   blk.N.ffn_norm  .ffn_gate  .ffn_up  .ffn_glu  .ffn_down  .ffn_down_gather  .ffn_down_sum
 *   blk.N.ffn_post_norm  .ffn_add                  x = y + feed-forward
 *   tap.I                                          behind blk.N.ffn_add or output_norm
 *   pick  output_norm                              (output_norm, tap.I, pick where a tap wants all normed rows)
 *   output  output_gather  softcap                 logits
 *   send  logits_bcast                             pipeline stages: hidden rows to the next stage, logits to all ranks
 *   <linear>.observe                               before an observed LINEAR
 */
#ifndef TN_CORE_MODEL_BUILDER_H
#define TN_CORE_MODEL_BUILDER_H

#include "shard.h"

enum {
  TN_BUILD_LSE = 1u << 0,         /* every ATTEND writes its log-sum-exp to out1 */
  TN_BUILD_COLSUM = 1u << 1,      /* every ATTEND has TN_OPF_COLSUM */
  TN_BUILD_KNORM = 1u << 2,       /* every KV_WRITE has TN_OPF_KNORM */
  TN_BUILD_OBSERVE_ALL = 1u << 3, /* an OBSERVE before every LINEAR of the layers */
  TN_BUILD_HIDDEN = 1u << 4       /* the engine taps the rows behind the final norm: tn_engine_hidden */
};

/* What the composition decided. Everything is borrowed until tn_program_build returns, except where said. */
typedef struct tn_build {
  const tn_model *model;  /* must outlive the built program */
  const tn_par_plan *par; /* this rank; NULL: one rank has all */
  /* [n_layers * n_kv_heads], layer-major: what the attention plugin of the layer described. NULL: full attention */
  const tn_attn_spec *const *attn;
  const tn_evict_spec
      *evict; /* POSITION: its mask applies to every ATTEND; renumber > 0 adds the sink queries; or NULL */
  /* [n_groups], must outlive the built program: each (layer, KV head) of the rank in exactly one. */
  const tn_kv_group *const *groups;
  uint32_t n_groups, flags; /* flags: TN_BUILD_* */
  const int32_t *taps;      /* [n_taps] layer (its output rows) or TN_TAP_POST_NORM; record tap.I fills tap I */
  uint32_t n_taps;
  uint32_t n_observe;
  const char *const *observe; /* [n_observe] names of weights: "blk.3.ffn_down.weight" */
} tn_build;

/* One tensor to load: tn_program.weights[i] is needs[i], in the order of first use. */
typedef struct tn_weight_need {
  const char *name;             /* as in the file */
  const tn_gguf_tensor *tensor; /* the model's */
  uint32_t role;                /* TN_ROLE_*; a tied head has the embedding's need, with TN_ROLE_EMBED */
  int32_t layer;                /* -1 outside the layers */
  int64_t n, k;                 /* rows and columns in the file; a vector: 1, its length */
  tn_shard shard;               /* what this rank holds */
} tn_weight_need;

/* A built program. All arrays are owned by it; constant, but for tn_weights_bind, which sets program.weights. */
typedef struct tn_built {
  tn_program program;
  const tn_weight_need *needs; /* [program.n_weights] */
  const uint32_t *observed;    /* [n_observed] need whose input observer I sees (OBSERVE p.tap.index = I) */
  const int32_t *tile_layers;  /* [n_tile_sets] layer of tile set s, ascending; the same on every rank */
  uint32_t n_observed, n_tile_sets;
} tn_built;

/* Builds the program of one rank. On failure *out is NULL and *err (may be NULL) says what and why: TN_E_ARG a spec, tap,
 * group, plan or observer name that does not fit the model; TN_E_UNSUPPORTED what cannot be expressed; TN_E_NOMEM.
 * [cold] any thread, one call at a time per tn_build. */
tn_status tn_program_build(const tn_build *in, tn_built **out, tn_err *err);

/* Accepts NULL. What was prepared from the program must be freed first. */
void tn_built_free(tn_built *b);

/* Index of the record with this name, or false. */
bool tn_built_find(const tn_built *b, const char *name, uint32_t *index);

#endif
