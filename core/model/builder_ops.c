/* builder_ops: the records that several blocks use. Shapes are columns of a row; r marks this rank's share. */
#include <stdio.h>
#include <string.h>

#include "builder_int.h"

bool tn_mk_has(const tn_maker *b, uint32_t part) { return (b->m->arch->required & TN_PART_BIT(part)) != 0; }

/* [span] parts of x, each over its root mean square, times the weight */
int32_t tn_mk_norm(tn_maker *b, uint32_t part, int32_t x, uint32_t act)
{
  const tn_part_info *info = tn_part(part);
  tn_op *op = tn_mk_op(b, TN_OP_NORM, x, (int32_t)act, info->record);
  op->w[0] = tn_mk_need(b, part, false);
  op->p.norm = (tn_op_norm){.eps = b->m->norm_eps, .span = tn_model_dim(b->m, info->k)};
  return op->out[0];
}

static bool wants_observer(const tn_maker *b, const char *weight)
{
  if (b->layer >= 0 && (b->in->flags & TN_BUILD_OBSERVE_ALL)) return true;
  for (uint32_t i = 0; i < b->in->n_observe; i++)
    if (strcmp(b->in->observe[i], weight) == 0) return true;
  return false;
}

/* Hands x to the observer of the linear that follows. */
static void observe(tn_maker *b, uint32_t part, int32_t need, int32_t x)
{
  char stem[64];
  if (need < 0 || !wants_observer(b, b->out->needs[need].name)) return;
  snprintf(stem, sizeof stem, "%s.observe", tn_part(part)->record);
  tn_op *op = tn_mk_op(b, TN_OP_OBSERVE, x, -1, stem);
  op->p.tap.index = tn_mk_observed(b, (uint32_t)need);
}

/* x [k_r] -> x W^T + bias [n_r]. The parts in which a sum over all of k is made are a matter of the model (NUMERICS.md):
 * attn_out and ffn_down have segments, and a rank with a share of k has its share of them. */
int32_t tn_mk_linear(tn_maker *b, uint32_t part, int32_t x, uint32_t act)
{
  const tn_part_info *info = tn_part(part);
  tn_shard s = tn_shard_of(b->m, &b->par, part);
  int64_t k = tn_model_dim(b->m, info->k), segments = 1;
  int32_t w = tn_mk_need(b, part, false), bias = tn_mk_need(b, part, true);
  if (info->role == TN_ROLE_ATTN_OUT || info->role == TN_ROLE_DOWN) segments = tn_model_segments(b->m, k);
  if (s.kind == TN_SHARD_COLS && bias >= 0)
    tn_mk_fail(b, TN_E_UNSUPPORTED, "blk.%d.%s.bias: a bias behind a sum that is divided among ranks", b->layer,
               info->file);
  observe(b, part, w, x);
  tn_op *op = tn_mk_op(b, TN_OP_LINEAR, x, (int32_t)act, info->record);
  op->w[0] = w;
  op->w[1] = bias;
  op->p.linear = (tn_op_linear){.n = s.n_rows, .k = s.n_cols, .segments = (uint32_t)(segments * s.n_cols / k)};
  if (s.kind == TN_SHARD_COLS) op->flags |= TN_OPF_PARTS;
  return op->out[0];
}

/* x + y [d] */
int32_t tn_mk_add(tn_maker *b, const char *stem, int32_t x, int32_t y, uint32_t act)
{
  tn_op *op = tn_mk_op(b, TN_OP_ADD, x, (int32_t)act, stem);
  op->in[1] = y;
  return op->out[0];
}

/* The columns of all ranks, in order */
int32_t tn_mk_gather(tn_maker *b, const char *stem, int32_t x, uint32_t act)
{
  tn_op *op = tn_mk_op(b, TN_OP_COLLECTIVE, x, (int32_t)act, stem);
  op->p.coll = (tn_op_coll){.kind = TN_COLL_ALL_GATHER, .tag = ++b->tag};
  return op->out[0];
}

/* A projection down to [d]. Whole: one LINEAR. Split: part sums [s_r][d] of this rank, gathered to [s][d], and added in
 * the order that one rank adds them in. acts: part sums, all part sums, result. */
int32_t tn_mk_down(tn_maker *b, uint32_t part, int32_t x, bool split, const uint32_t acts[3])
{
  const tn_part_info *info = tn_part(part);
  char stem[64];
  if (!split) return tn_mk_linear(b, part, x, acts[2]);
  int32_t parts = tn_mk_linear(b, part, x, acts[0]);
  snprintf(stem, sizeof stem, "%s_gather", info->record);
  int32_t all = tn_mk_gather(b, stem, parts, acts[1]);
  snprintf(stem, sizeof stem, "%s_sum", info->record);
  tn_op *op = tn_mk_op(b, TN_OP_SEGSUM, all, (int32_t)acts[2], stem);
  op->p.linear = (tn_op_linear){.n = tn_model_dim(b->m, info->n),
                                .segments = tn_model_segments(b->m, tn_model_dim(b->m, info->k))};
  return op->out[0];
}
