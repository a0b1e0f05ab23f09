/* run: records in gangs of the host's pool, hooks between them on the caller's thread, and single ops. */
#include <string.h>

#include "cpu.h"

static void (*const records[])(const cpu_call *) = {
    [TN_OP_EMBED] = tn_cpu_do_embed,   [TN_OP_NORM] = tn_cpu_do_norm,         [TN_OP_LINEAR] = tn_cpu_do_linear,
    [TN_OP_SEGSUM] = tn_cpu_do_segsum, [TN_OP_ADD] = tn_cpu_do_add,           [TN_OP_GLU] = tn_cpu_do_glu,
    [TN_OP_ROPE] = tn_cpu_do_rope,     [TN_OP_KV_WRITE] = tn_cpu_do_kv_write, [TN_OP_ATTEND] = tn_cpu_do_attend,
    [TN_OP_PICK] = tn_cpu_do_pick,     [TN_OP_SCALE] = tn_cpu_do_scale,       [TN_OP_SOFTCAP] = tn_cpu_do_softcap,
    [TN_OP_TAP] = tn_cpu_do_tap,       [TN_OP_MERGE] = tn_cpu_do_merge,
};

static cpu_rows rows_of(const tn_tensor *t)
{
  if (!t) return (cpu_rows){0};
  return (cpu_rows){(float *)(void *)(t->buf->data + t->offset), t->nb[1] / (int64_t)sizeof(float), t->ne[0], t->ne[1]};
}

static const tn_tensor *pick(const tn_tensor *all, int32_t index) { return index < 0 ? NULL : &all[index]; }

/* A record may work on some heads of its operands: columns begin at the first of them. */
static void skip_heads(const tn_prepared *p, cpu_call *c)
{
  const tn_op_attend *a = &c->op->p.attend;
  if (c->op->kind == TN_OP_KV_WRITE) {
    c->x.p += (int64_t)(a->kv_head0 - p->kv_head0) * a->d_head;
    c->x2.p += (int64_t)(a->kv_head0 - p->kv_head0) * a->d_v;
  } else if (c->op->kind == TN_OP_ATTEND) {
    const int64_t first = a->head0 - p->head0;
    c->x.p += first * a->d_head;
    c->y.p += first * a->d_v;
    if (c->x2.p) c->x2.p += first * a->d_head;
    if (c->y2.p) c->y2.p += first;
  }
}

cpu_call tn_cpu_call_of(tn_inst *in, tn_prepared *p, uint32_t i)
{
  const tn_op *op = &p->ops[i].op;
  return (cpu_call){.in = in,
                    .op = op,
                    .rec = &p->ops[i],
                    .x = rows_of(pick(p->acts, op->in[0])),
                    .x2 = rows_of(pick(p->acts, op->in[1])),
                    .y = rows_of(pick(p->acts, op->out[0])),
                    .y2 = rows_of(pick(p->acts, op->out[1])),
                    .w = pick(p->weights, op->w[0]),
                    .w2 = pick(p->weights, op->w[1]),
                    .p = p,
                    .next = p->next ? &p->next[i] : NULL};
}

/* Rows that a record works on: as many as its output has, or its input. */
static int64_t rows_now(const tn_prepared *p, const tn_op *op, const tn_batch *b)
{
  const int32_t act = op->out[0] >= 0 ? op->out[0] : op->in[0];
  return act >= 0 && p->act_rows[act] == TN_ROWS_OUT ? b->n_out : b->n_rows;
}

cpu_call tn_cpu_call_for(const tn_prepared *p, uint32_t i, const tn_batch *b, uint32_t worker, uint32_t n_workers)
{
  cpu_call c = p->calls[i];
  skip_heads(p, &c);
  c.b = b;
  c.n = rows_now(p, c.op, b);
  c.token = b->token;
  c.worker = worker;
  c.n_workers = n_workers;
  return c;
}

/* ---------------------------------------------------------------- programs */

typedef struct span { /* records [first, last) in one gang */
  tn_inst *in;
  tn_prepared *p;
  const tn_batch *b;
  uint32_t first, last;
  uint64_t fused; /* records that ran in units with others, counted by worker 0 */
} span;

static void run_record(const span *s, uint32_t i, uint32_t worker, uint32_t n_workers)
{
  const cpu_call c = tn_cpu_call_for(s->p, i, s->b, worker, n_workers);
  records[c.op->kind](&c);
}

/* The units of the span; where it cuts one, new ones of the part that is left. */
static void span_of_worker(void *arg, uint32_t worker, uint32_t n_workers)
{
  span *s = arg;
  const tn_prepared *p = s->p;
  cpu_unit part;
  bool cut = false, passed = false;
  for (uint32_t i = s->first; i < s->last;) {
    const cpu_unit *u = &p->units[p->unit_of[i]];
    const bool after_cut = cut, take = passed;
    cut = u->first != i || u->last > s->last;
    if (i > s->first && (cut || after_cut || u->barrier)) tn_cpu_barrier(s->in);
    passed = !cut && u->passes && u[1].last <= s->last;
    if (cut) {
      tn_cpu_unit_at(s->in, p, i, s->last < u->last ? s->last : u->last, &part);
      u = &part;
    }
    if (u->kind == CPU_MATMUL) {
      tn_cpu_do_unit(p, u, s->b, worker, n_workers, take, passed);
    } else {
      for (uint32_t r = u->first; r < u->last; r++) run_record(s, r, worker, n_workers);
    }
    if (worker == 0 && u->last - u->first > 1) s->fused += u->last - u->first;
    i = u->last;
  }
}

static bool is_hook(const tn_op *op) { return op->kind == TN_OP_OBSERVE || op->kind == TN_OP_COLLECTIVE; }

/* The host's part of a record, outside any gang: it may call back into the backend. */
static tn_status run_hook(const tn_prepared *p, const tn_op *op, const tn_batch *b)
{
  const tn_tensor *x = pick(p->acts, op->in[0]), *y = pick(p->acts, op->out[0]);
  const uint32_t n = (uint32_t)rows_now(p, op, b);
  if (op->kind == TN_OP_OBSERVE) return p->hooks.observe(p->hooks.ctx, op, x, n);
  return p->hooks.collective(p->hooks.ctx, op, x, y, n);
}

tn_status tn_cpu_run(tn_inst *in, tn_prepared *p, uint32_t first, uint32_t last, const tn_batch *b)
{
  if (first > last || last > p->n_ops) return TN_E_ARG;
  tn_status st = tn_cpu_batch_check(p, first, last, b);
  uint64_t fused = 0;
  memset(p->next, 0, p->n_ops * sizeof *p->next);
  for (uint32_t i = first; !st && i < last;) {
    span s = {in, p, b, i, i, 0};
    while (s.last < last && !is_hook(&p->ops[s.last].op)) s.last++;
    if (s.last > s.first) tn_cpu_gang(in, span_of_worker, &s);
    if (s.last < last) st = run_hook(p, &p->ops[s.last].op, b);
    fused += s.fused;
    i = s.last + 1;
  }
  if (st) return st;
  in->host->count(in->host->ctx, CPU_N_RUNS, 1);
  in->host->count(in->host->ctx, CPU_N_RECORDS, last - first);
  in->host->count(in->host->ctx, CPU_N_ROWS, b->n_rows);
  in->host->count(in->host->ctx, CPU_N_FUSED, fused);
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

static void op_of_worker(void *arg, uint32_t worker, uint32_t n_workers)
{
  cpu_call c = *(const cpu_call *)arg;
  c.worker = worker;
  c.n_workers = n_workers;
  records[c.op->kind](&c);
}

static bool tokens_ok(const cpu_call *c)
{
  for (int64_t r = 0; c->token && r < c->n; r++) {
    if (c->token[r] < 0 || c->token[r] >= c->rec->w.n) return false;
  }
  return true;
}

tn_status tn_cpu_op(tn_inst *in, const tn_op *op, const tn_tensor *const *ins, const tn_tensor *const *outs,
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
  cpu_op rec = {.op = *op};
  cpu_call c = {.in = in,
                .op = op,
                .rec = &rec,
                .x = embed ? (cpu_rows){0} : rows_of(x),
                .x2 = rows_of(x2),
                .y = rows_of(y),
                .w = operand(weights, op->w, 0),
                .w2 = operand(weights, op->w, 1),
                .n = n_rows,
                .token = embed ? (const int32_t *)(const void *)(x->buf->data + x->offset) : NULL};
  tn_status st = tn_cpu_check_shapes(&c, NULL);
  if (st) return st;
  tn_cpu_bind(&c, &rec);
  if (!tokens_ok(&c)) return TN_E_ARG;
  tn_cpu_gang(in, op_of_worker, &c);
  return TN_OK;
}
