/* mini_run: one run of a mini_forward: angles, batch, ranks in turn. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mini_int.h"

static size_t half(const mini_forward *f) { return f->cfg.model->shape.rope_dims / 2; }

/* Kind 0: the run's rows; 1: the same for sink entries; 2: the whole sequence (raw keys). which 0: cos, 1: sin. */
static float *angles(const mini_forward *f, uint32_t kind, uint32_t cls, uint32_t which)
{
  size_t one = (size_t)f->cfg.max_tokens * half(f);
  return f->angles + ((kind * (size_t)f->cfg.model->shape.n_classes + cls) * 2 + which) * one;
}

/* Row r of a table: position pos. */
static void put_angles(const mini_forward *f, uint32_t kind, uint32_t cls, uint32_t r, double pos)
{
  const tn_rope_query *q = &f->cfg.model->rope[cls];
  double linear = strcmp(q->scaling, "linear") == 0 ? q->factor : 1;
  for (size_t i = 0; i < half(f); i++) {
    double freq = pow(q->base, -2.0 * (double)i / (double)q->dims) / linear;
    if (q->factors_short) freq /= (double)q->factors_short[i];
    angles(f, kind, cls, 0)[r * half(f) + i] = (float)cos(pos * freq);
    angles(f, kind, cls, 1)[r * half(f) + i] = (float)sin(pos * freq);
  }
}

static void fill_tables(const mini_forward *f, uint32_t n)
{
  const tn_evict_spec *e = f->cfg.build.evict;
  for (uint32_t c = 0; c < f->cfg.model->shape.n_classes; c++) {
    for (uint32_t r = 0; r < n; r++) {
      double pos = (double)f->n + r, last = e && e->renumber ? (double)(e->renumber - 1) : pos;
      put_angles(f, 0, c, r, pos);
      put_angles(f, 1, c, r, pos < last ? pos : last);
    }
    for (uint32_t r = 0; r < (uint32_t)f->n + n; r++) put_angles(f, 2, c, r, r);
  }
}

tn_status mini_observe(void *ctx, const tn_op *op, const tn_tensor *x, uint32_t n_rows)
{
  mini_rank *r = ctx;
  return r->f->cfg.observe ? r->f->cfg.observe(r->f->cfg.observe_ctx, op, x, n_rows) : TN_OK;
}

static tn_status read_rows(const mini_forward *f, const tn_tensor *t, uint32_t n, float *dst)
{
  const backend *b = f->cfg.backend;
  for (uint32_t r = 0; r < n; r++) {
    tn_status st = b->v->download(b->inst, t->buf, t->offset + r * (uint64_t)t->nb[1], dst + r * t->ne[0],
                                  (uint64_t)t->ne[0] * sizeof(float));
    if (st) return st;
  }
  return b->v->sync(b->inst);
}

/* Columns [at, at + cols) of n rows of out from src [n][cols]. */
static tn_status write_columns(const mini_forward *f, const tn_tensor *out, int64_t at, int64_t cols, const float *src,
                               uint32_t n)
{
  const backend *b = f->cfg.backend;
  for (uint32_t r = 0; r < n; r++) {
    uint64_t where = out->offset + r * (uint64_t)out->nb[1] + (uint64_t)at * sizeof(float);
    tn_status st = b->v->upload(b->inst, out->buf, where, src + r * cols, (uint64_t)cols * sizeof(float));
    if (st) return st;
  }
  return TN_OK;
}

/* Called when all that the record waits for is posted (see ready). */
tn_status mini_collective(void *ctx, const tn_op *op, const tn_tensor *in, const tn_tensor *out, uint32_t n_rows)
{
  mini_rank *r = ctx;
  const mini_forward *f = r->f;
  int64_t at = 0;
  (void)in;
  if (!out) return TN_OK;
  if (op->p.coll.kind == TN_COLL_RECV || op->p.coll.kind == TN_COLL_BROADCAST) {
    const mini_rank *from = &f->ranks[op->p.coll.peer];
    return write_columns(f, out, 0, from->mail_cols, from->mail, n_rows);
  }
  for (uint32_t i = 0; i < f->cfg.world; i++) {
    tn_status st = write_columns(f, out, at, f->ranks[i].mail_cols, f->ranks[i].mail, n_rows);
    if (st) return st;
    at += f->ranks[i].mail_cols;
  }
  return at == out->ne[0] ? TN_OK : TN_E_INTERNAL;
}

/* Puts in0 of the record into the rank's mail, once. */
static tn_status post(mini_rank *r, const tn_op *op, uint32_t n)
{
  const backend *b = r->f->cfg.backend;
  tn_tensor t = {.struct_size = sizeof t};
  if (op->in[0] < 0 || r->posted == op->p.coll.tag) return TN_OK;
  tn_status st = b->v->act(b->inst, r->prepared, (uint32_t)op->in[0], &t);
  if (st) return st;
  free(r->mail);
  r->mail_cols = t.ne[0];
  r->mail = calloc((size_t)n * (size_t)t.ne[0], sizeof *r->mail);
  r->posted = op->p.coll.tag;
  return r->mail ? read_rows(r->f, &t, n, r->mail) : TN_E_NOMEM;
}

static bool ready(const mini_rank *r, const tn_op *op)
{
  const mini_forward *f = r->f;
  if (op->out[0] < 0) return true;
  if (op->p.coll.kind != TN_COLL_ALL_GATHER) return f->ranks[op->p.coll.peer].posted == op->p.coll.tag;
  for (uint32_t i = 0; i < f->cfg.world; i++)
    if (f->ranks[i].posted != op->p.coll.tag) return false;
  return true;
}

/* Runs until a collective has to wait, or the end. A rank that took part in an ALL_GATHER stops at its next collective:
 * its mail must stay until all the others have been here. */
static tn_status advance(mini_rank *r, const tn_batch *batch)
{
  const backend *b = r->f->cfg.backend;
  const tn_program *g = &r->built->program;
  bool passed = false;
  while (r->pc < g->n_ops) {
    const tn_op *op = g->ops[r->pc];
    if (op->kind == TN_OP_COLLECTIVE) {
      if (passed) return TN_OK;
      tn_status st = post(r, op, batch->n_rows);
      if (st) return st;
      if (!ready(r, op)) return TN_OK;
      passed = op->p.coll.kind == TN_COLL_ALL_GATHER;
    }
    tn_status st = b->v->run(b->inst, r->prepared, r->pc, r->pc + 1, batch);
    if (st) return st;
    r->pc++;
  }
  return TN_OK;
}

static tn_status run_all(mini_forward *f, const tn_batch *batch)
{
  const backend *b = f->cfg.backend;
  if (f->cfg.world == 1) {
    const uint32_t n_ops = f->ranks[0].built->program.n_ops, most = f->cfg.most_records;
    for (uint32_t i = 0, n; i < n_ops; i += n) {
      n = most && most < n_ops - i ? most : n_ops - i;
      tn_status st = b->v->run(b->inst, f->ranks[0].prepared, i, i + n, batch);
      if (st) return st;
    }
    return b->v->sync(b->inst);
  }
  for (uint32_t r = 0; r < f->cfg.world; r++) f->ranks[r].pc = 0, f->ranks[r].posted = 0;
  for (bool busy = true; busy;) {
    uint64_t before = 0, after = 0;
    busy = false;
    for (uint32_t r = 0; r < f->cfg.world; r++) {
      before += f->ranks[r].pc + f->ranks[r].posted;
      tn_status st = advance(&f->ranks[r], batch);
      if (st) return st;
      after += f->ranks[r].pc + f->ranks[r].posted;
      busy = busy || f->ranks[r].pc < f->ranks[r].built->program.n_ops;
    }
    if (busy && before == after) return TN_E_INTERNAL; /* all wait for each other */
  }
  return b->v->sync(b->inst);
}

/* Pointers of the tables, and the views of the sequence's groups. */
typedef struct tables {
  const float *cos[MINI_CLASSES], *sin[MINI_CLASSES], *sink_cos[MINI_CLASSES], *sink_sin[MINI_CLASSES];
  tn_kv_view view[MINI_CLASSES];
  const tn_kv_view *views[MINI_CLASSES];
} tables;

static void fill_pointers(const mini_forward *f, tables *t)
{
  for (uint32_t c = 0; c < f->cfg.model->shape.n_classes; c++) {
    t->cos[c] = angles(f, 0, c, 0);
    t->sin[c] = angles(f, 0, c, 1);
    t->sink_cos[c] = angles(f, 1, c, 0);
    t->sink_sin[c] = angles(f, 1, c, 1);
    t->view[c] =
        (tn_kv_view){.struct_size = sizeof t->view[c], .n_pages = f->n_pages, .n = f->n, .page = f->pages, .state = -1};
    if (f->cfg.keys == TN_KEYS_RAW) t->view[c].cos = angles(f, 2, c, 0), t->view[c].sin = angles(f, 2, c, 1);
    t->views[c] = &t->view[c];
  }
}

tn_status mini_run(mini_forward *f, const int32_t *tokens, uint32_t n, float *logits)
{
  const uint32_t max = f->cfg.max_tokens, n_classes = f->cfg.model->shape.n_classes;
  int32_t *seq = f->ints, *ord = seq + max, *path_off = ord + max, *out_row = path_off + max;
  tables t = {0};
  tn_tensor act = {.struct_size = sizeof act};
  if (n_classes > MINI_CLASSES || n == 0 || (uint64_t)f->n + n > max) return TN_E_ARG;
  fill_tables(f, n);
  fill_pointers(f, &t);
  for (uint32_t r = 0; r < n; r++) {
    f->text_pos[r] = f->n + r;
    ord[r] = out_row[r] = (int32_t)r;
    path_off[r] = -1;
  }
  tn_seq_view view = {.struct_size = sizeof view, .n_groups = n_classes, .id = 1, .kv = t.views};
  const tn_seq_view *views[1] = {&view};
  tn_batch batch = {.struct_size = sizeof batch,
                    .n_rows = n,
                    .n_seqs = 1,
                    .n_out = n,
                    .n_tables = n_classes,
                    .token = tokens,
                    .seq = seq,
                    .text_pos = f->text_pos,
                    .ord = ord,
                    .slot = ord,
                    .path_off = path_off,
                    .out_row = out_row,
                    .seqs = views,
                    .cos = t.cos,
                    .sin = t.sin,
                    .sink_cos = t.sink_cos,
                    .sink_sin = t.sink_sin};
  tn_status st = run_all(f, &batch);
  if (st) return st;
  f->n += n;
  const backend *b = f->cfg.backend;
  st = b->v->act(b->inst, f->ranks[0].prepared, f->ranks[0].built->program.logits, &act);
  return st ? st : read_rows(f, &act, n, logits);
}

tn_status mini_tap(mini_forward *f, uint32_t i, uint32_t n, float *out)
{
  return read_rows(f, &f->ranks[0].taps[i], n, out);
}
