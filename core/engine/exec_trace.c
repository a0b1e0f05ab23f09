/* exec_trace: a program run record by record, each one's output handed out. See exec.h. */
#include <stdlib.h>
#include <string.h>

#include "exec_open.h"

/* Columns of its output that a record writes: records of one layer's attention share an act. */
static void columns(const tn_program *p, const tn_op *op, int64_t all, int64_t *col0, int64_t *n)
{
  *col0 = 0;
  *n = all;
  if (op->kind != TN_OP_ATTEND && op->kind != TN_OP_STATE_MIX) return;
  uint32_t first = op->p.attend.head0;
  for (uint32_t i = 0; i < p->n_ops; i++) {
    const tn_op *o = p->ops[i];
    if (o->layer == op->layer && (o->kind == TN_OP_ATTEND || o->kind == TN_OP_STATE_MIX) && o->p.attend.head0 < first)
      first = o->p.attend.head0;
  }
  *col0 = (int64_t)(op->p.attend.head0 - first) * op->p.attend.d_v;
  *n = (int64_t)op->p.attend.n_heads * op->p.attend.d_v;
}

/* Text position of each row of an act. */
static void positions(const tn_batch *b, uint32_t rows, int64_t *pos)
{
  uint32_t n = rows == TN_ROWS_OUT ? b->n_out : b->n_rows;
  for (uint32_t i = 0; i < n; i++) pos[i] = b->text_pos[rows == TN_ROWS_OUT ? b->out_row[i] : (int32_t)i];
}

/* What record i left on rank 0. */
static tn_status hand_out(const tn_rank *r, uint32_t i, const tn_batch *b, tn_trace_fn fn, void *ctx)
{
  const tn_program *p = &r->built->program;
  const tn_op *op = p->ops[i];
  if (op->out[0] < 0) return TN_OK;
  const tn_act *act = p->acts[op->out[0]];
  uint32_t n = act->rows == TN_ROWS_OUT ? b->n_out : b->n_rows;
  tn_tensor t;
  tn_status st = n ? r->b->act(r->backend.inst, r->prepared, (uint32_t)op->out[0], &t) : TN_OK;
  if (n == 0 || st != TN_OK) return st;
  size_t bytes = (size_t)act->cols * n * sizeof(float);
  float *x = malloc(bytes);
  int64_t *pos = malloc(n * sizeof *pos);
  st = x && pos ? TN_OK : TN_E_NOMEM;
  if (st == TN_OK) st = r->b->download(r->backend.inst, t.buf, t.offset, x, bytes);
  if (st == TN_OK) st = r->b->sync(r->backend.inst);
  if (st == TN_OK) {
    tn_traced out = {.op = op, .index = i, .n_rows = n, .cols = act->cols, .x = x, .pos = pos};
    positions(b, act->rows, pos);
    columns(p, op, act->cols, &out.col0, &out.n_cols);
    st = fn(ctx, &out);
  }
  free(x);
  free(pos);
  return st;
}

tn_status tn_exec_trace(tn_exec *x, const tn_batch *b, tn_trace_fn fn, void *ctx)
{
  const tn_rank *r = &x->ranks[0];
  uint32_t n = r->built->program.n_ops;
  for (uint32_t i = 1; i < x->world; i++)
    if (x->ranks[i].built->program.n_ops != n) return TN_E_UNSUPPORTED; /* stages: ranks have other records */
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < n; i++) {
    st = tn_exec_run(x, i, i + 1, b);
    if (st == TN_OK) st = hand_out(r, i, b, fn, ctx);
  }
  return st;
}
