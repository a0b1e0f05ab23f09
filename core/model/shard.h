/* shard: which rows and columns of each tensor one rank holds.
 *
 * Tensor parallelism cuts at KV-head groups: q, k, v, gate and up by rows (outputs), attn_out and ffn_down by columns
 * (inputs), at the segments in which NUMERICS.md sums them. So every rank holds whole terms of one fixed sum, and n
 * ranks compute the bits of one. Pure functions over caller-owned structs: any thread. */
#ifndef TN_CORE_MODEL_SHARD_H
#define TN_CORE_MODEL_SHARD_H

#include "model.h"

/* Rows [row0, row0 + n_rows) and columns [col0, col0 + n_cols) of a [n][k] tensor. A vector (norm, bias) is one row of
 * k columns. At most one of the two ranges is partial. */
typedef struct tn_shard {
  uint32_t kind, reserved0; /* TN_SHARD_COPY: all of it; ROWS; COLS */
  int64_t row0, n_rows, col0, n_cols;
} tn_shard;

/* The plan of a single rank: it has everything. */
tn_par_plan tn_par_whole(const tn_model *m);

/* Whether the plan is one that can be built: ranges inside the model, whole KV-head groups, cuts at segments, and layers
 * or heads divided, not both. TN_OK, TN_E_ARG (ranges) or TN_E_UNSUPPORTED, with both values in *err. */
tn_status tn_par_check(const tn_model *m, const tn_par_plan *par, tn_err *err);

/* Whether all ranks together have everything once: asked for each rank with the plan of the one before it (NULL: none).
 * TN_OK or TN_E_ARG. */
tn_status tn_par_check_joint(const tn_model *m, const tn_par_plan *before, const tn_par_plan *par, tn_err *err);

/* Does the plan divide attention heads, feed-forward channels, logits? */
bool tn_par_splits_heads(const tn_model *m, const tn_par_plan *par);
bool tn_par_splits_ff(const tn_model *m, const tn_par_plan *par);
bool tn_par_splits_vocab(const tn_model *m, const tn_par_plan *par);

/* The rank's share of a part's weight (or of its bias: one row of n columns). The plan has passed tn_par_check. */
tn_shard tn_shard_of(const tn_model *m, const tn_par_plan *par, uint32_t part);
tn_shard tn_shard_of_bias(const tn_model *m, const tn_par_plan *par, uint32_t part);

#endif
