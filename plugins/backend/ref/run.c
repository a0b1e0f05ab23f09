/* run: records one after the other, and single ops outside a program. */
#include "ref.h"

static tn_status (*const records[])(ref_call *) = {
    [TN_OP_EMBED] = tn_ref_do_embed,     [TN_OP_NORM] = tn_ref_do_norm,
    [TN_OP_LINEAR] = tn_ref_do_linear,   [TN_OP_SEGSUM] = tn_ref_do_segsum,
    [TN_OP_ADD] = tn_ref_do_add,         [TN_OP_GLU] = tn_ref_do_glu,
    [TN_OP_ROPE] = tn_ref_do_rope,       [TN_OP_KV_WRITE] = tn_ref_do_kv_write,
    [TN_OP_ATTEND] = tn_ref_do_attend,   [TN_OP_STATE_MIX] = tn_ref_do_state_mix,
    [TN_OP_PICK] = tn_ref_do_pick,       [TN_OP_SCALE] = tn_ref_do_scale,
    [TN_OP_SOFTCAP] = tn_ref_do_softcap, [TN_OP_TAP] = tn_ref_do_tap,
    [TN_OP_OBSERVE] = tn_ref_do_observe, [TN_OP_COLLECTIVE] = tn_ref_do_collective,
    [TN_OP_MERGE] = tn_ref_do_merge,
};

static ref_rows rows_of(const tn_tensor *t)
{
  if (!t) return (ref_rows){0};
  return (ref_rows){(float *)(void *)(t->buf->data + t->offset), t->nb[1] / (int64_t)sizeof(float), t->ne[0], t->ne[1]};
}

static const tn_tensor *pick(const tn_tensor *all, int32_t index) { return index < 0 ? NULL : &all[index]; }

/* A record may work on some heads of its operands: columns begin at the first of them. */
static void skip_heads(const tn_prepared *p, ref_call *c)
{
  const tn_op_attend *a = &c->op->p.attend;
  if (c->op->kind == TN_OP_KV_WRITE) {
    c->x.p += (int64_t)(a->kv_head0 - p->kv_head0) * a->d_head;
    c->x2.p += (int64_t)(a->kv_head0 - p->kv_head0) * a->d_v;
  } else if (c->op->kind == TN_OP_ATTEND || c->op->kind == TN_OP_STATE_MIX) {
    const int64_t first = a->head0 - p->head0;
    c->x.p += first * a->d_head;
    c->y.p += first * a->d_v;
    if (c->x2.p) c->x2.p += first * a->d_head;
    if (c->y2.p) c->y2.p += first;
  }
}

ref_call tn_ref_call_of(tn_inst *in, tn_prepared *p, uint32_t i)
{
  const tn_op *op = &p->ops[i].op;
  return (ref_call){.in = in,
                    .op = op,
                    .x = rows_of(pick(p->acts, op->in[0])),
                    .x2 = rows_of(pick(p->acts, op->in[1])),
                    .y = rows_of(pick(p->acts, op->out[0])),
                    .y2 = rows_of(pick(p->acts, op->out[1])),
                    .w = pick(p->weights, op->w[0]),
                    .w2 = pick(p->weights, op->w[1]),
                    .p = p,
                    .heads = p->ops[i].heads,
                    .f32 = p->f32};
}

/* Rows that a record works on: as many as its output has, or its input. */
static int64_t rows_now(const tn_prepared *p, const tn_op *op, const tn_batch *b)
{
  const int32_t act = op->out[0] >= 0 ? op->out[0] : op->in[0];
  return act >= 0 && p->act_rows[act] == TN_ROWS_OUT ? b->n_out : b->n_rows;
}

tn_status tn_ref_run(tn_inst *in, tn_prepared *p, uint32_t first, uint32_t last, const tn_batch *b)
{
  if (first > last || last > p->n_ops) return TN_E_ARG;
  tn_status st = tn_ref_batch_check(p, b);
  for (uint32_t i = first; !st && i < last; i++) {
    ref_call c = tn_ref_call_of(in, p, i);
    skip_heads(p, &c);
    c.b = b;
    c.n = rows_now(p, c.op, b);
    c.token = b->token;
    st = records[c.op->kind](&c);
  }
  if (st) return st;
  in->host->count(in->host->ctx, REF_N_RUNS, 1);
  in->host->count(in->host->ctx, REF_N_RECORDS, last - first);
  in->host->count(in->host->ctx, REF_N_ROWS, b->n_rows);
  return TN_OK;
}

/* ---------------------------------------------------------------- single ops */

static bool stateless(uint32_t kind)
{
  return kind == TN_OP_EMBED || kind == TN_OP_NORM || kind == TN_OP_LINEAR || kind == TN_OP_ADD || kind == TN_OP_GLU ||
         kind == TN_OP_SCALE || kind == TN_OP_SOFTCAP || kind == TN_OP_SEGSUM;
}

/* t is a matrix of n rows of `dtype` inside its buffer, or NULL. */
static bool matrix_ok(const tn_tensor *t, uint32_t dtype, int64_t n)
{
  if (!t) return true;
  if (!t->buf || !t->buf->data || t->dtype != dtype || t->ne[0] < 1 || t->ne[1] < n || t->nb[0] != 4) return false;
  if (t->nb[1] < t->ne[0] * 4 || t->nb[1] % 4 || t->offset % 4) return false;
  return n == 0 || t->offset + (uint64_t)(n - 1) * (uint64_t)t->nb[1] + (uint64_t)t->ne[0] * 4 <= t->buf->bytes;
}

/* Operand `index` of a list, or NULL. */
static const tn_tensor *operand(const tn_tensor *const *list, const int32_t *index, int i)
{
  return index[i] < 0 || !list ? NULL : list[i];
}

tn_status tn_ref_op(tn_inst *in, const tn_op *op, const tn_tensor *const *ins, const tn_tensor *const *outs,
                    const tn_tensor *const *weights, int64_t n_rows)
{
  if (n_rows < 0 || !stateless(op->kind)) return TN_E_UNSUPPORTED;
  const bool embed = op->kind == TN_OP_EMBED;
  const tn_tensor *x = embed ? (ins ? ins[0] : NULL) : operand(ins, op->in, 0), *x2 = operand(ins, op->in, 1);
  const tn_tensor *y = operand(outs, op->out, 0);
  if (!matrix_ok(embed ? NULL : x, TN_DT_F32, n_rows) || !matrix_ok(x2, TN_DT_F32, n_rows)) return TN_E_ARG;
  if (!y || !matrix_ok(y, TN_DT_F32, n_rows)) return TN_E_ARG;
  if (!x || (embed && (!x->buf || !x->buf->data || x->dtype != TN_DT_I32))) return TN_E_ARG;
  if (embed && x->offset + (uint64_t)n_rows * 4 > x->buf->bytes) return TN_E_ARG;
  ref_call c = {.in = in,
                .op = op,
                .x = embed ? (ref_rows){0} : rows_of(x),
                .x2 = rows_of(x2),
                .y = rows_of(y),
                .w = operand(weights, op->w, 0),
                .w2 = operand(weights, op->w, 1),
                .n = n_rows,
                .f32 = in->accumulate == REF_ACC_F32,
                .token = embed ? (const int32_t *)(const void *)(x->buf->data + x->offset) : NULL};
  tn_status st = tn_ref_check_shapes(&c, NULL);
  if (!st && c.w) st = tn_ref_scratch(in, c.w->ne[0]);
  return st ? st : records[op->kind](&c);
}
