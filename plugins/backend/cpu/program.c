/* program: what prepare() makes of a program: a private copy, checked, with memory for its activations. */
#include <string.h>

#include "cpu.h"

void tn_cpu_prepared_free(tn_inst *in, tn_prepared *p)
{
  if (!p) return;
  for (uint32_t i = 0; p->ops && i < p->n_ops; i++) {
    tn_cpu_free(in, (void *)(uintptr_t)p->ops[i].op.name);
    tn_cpu_free(in, p->ops[i].heads);
  }
  for (uint32_t i = 0; p->buffers && i < p->n_acts; i++) tn_cpu_free(in, p->buffers[i].data);
  tn_cpu_free(in, p->ops);
  tn_cpu_free(in, p->buffers);
  tn_cpu_free(in, p->acts);
  tn_cpu_free(in, p->act_rows);
  tn_cpu_free(in, p->weights);
  tn_cpu_free(in, p->masks);
  tn_cpu_free(in, p->table_dims);
  tn_cpu_free(in, p->taps);
  tn_cpu_free(in, p->cells);
  tn_cpu_free(in, p->rounded);
  tn_cpu_free(in, p->own_cells);
  tn_cpu_free(in, p->own_rows);
  tn_cpu_free(in, p->passed);
  tn_cpu_free(in, p->calls);
  tn_cpu_free(in, p->units);
  tn_cpu_free(in, p->unit_of);
  tn_cpu_free(in, p->next);
  tn_cpu_free(in, p->work);
  tn_cpu_free(in, p->parts);
  tn_cpu_free(in, p);
}

static tn_status no_memory(tn_err *err, const char *what)
{
  return tn_cpu_fail(err, TN_E_NOMEM, "backend cpu: no memory for the program's %s", what);
}

/* Copies of an array of tensors behind pointers; NULL entries are not allowed. */
static tn_status copy_tensors(tn_inst *in, const tn_tensor *const *src, uint32_t n, tn_tensor **out, tn_err *err)
{
  *out = tn_cpu_zalloc(in, n, sizeof **out);
  if (!*out) return no_memory(err, "tensors");
  for (uint32_t i = 0; i < n; i++) (*out)[i] = *src[i];
  return TN_OK;
}

static tn_status copy_ops(tn_inst *in, const tn_program *pr, tn_prepared *p, tn_err *err)
{
  p->ops = tn_cpu_zalloc(in, pr->n_ops, sizeof *p->ops);
  if (!p->ops) return no_memory(err, "records");
  p->n_ops = pr->n_ops;
  for (uint32_t i = 0; i < pr->n_ops; i++) {
    tn_op *op = &p->ops[i].op;
    const tn_op *src = pr->ops[i];
    const char *name = src->name ? src->name : "";
    memcpy(op, src, src->struct_size < sizeof *op ? src->struct_size : sizeof *op);
    op->struct_size = sizeof *op;
    op->name = tn_cpu_copy(in, name, strlen(name) + 1, 1);
    if (!op->name) return no_memory(err, "records");
  }
  return TN_OK;
}

static tn_status make_acts(tn_inst *in, const tn_program *pr, tn_prepared *p, tn_err *err)
{
  p->acts = tn_cpu_zalloc(in, pr->n_acts, sizeof *p->acts);
  p->act_rows = tn_cpu_zalloc(in, pr->n_acts, sizeof *p->act_rows);
  p->buffers = tn_cpu_zalloc(in, pr->n_acts, sizeof *p->buffers);
  if (!p->acts || !p->act_rows || !p->buffers) return no_memory(err, "activations");
  p->n_acts = pr->n_acts;
  for (uint32_t i = 0; i < pr->n_acts; i++) {
    const tn_act *a = pr->acts[i];
    const int64_t rows = a->rows == TN_ROWS_OUT ? p->max_out : p->max_rows, row = a->cols * (int64_t)sizeof(float);
    if (a->cols < 1 || a->cols > INT32_MAX || a->rows > TN_ROWS_OUT) {
      return tn_cpu_fail(err, TN_E_ARG, "activation %s: %lld columns, rows %u", a->name ? a->name : "",
                         (long long)a->cols, a->rows);
    }
    p->buffers[i].bytes = (uint64_t)(rows * row);
    p->buffers[i].data = in->host->alloc(in->host->ctx, p->buffers[i].bytes ? p->buffers[i].bytes : 1, 64);
    if (!p->buffers[i].data) return no_memory(err, "activations");
    p->act_rows[i] = a->rows;
    p->acts[i] = (tn_tensor){.struct_size = sizeof(tn_tensor),
                             .dtype = TN_DT_F32,
                             .buf = &p->buffers[i],
                             .ne = {a->cols, rows, 1, 1},
                             .nb = {sizeof(float), row, rows * row, rows * row}};
  }
  return TN_OK;
}

/* ---------------------------------------------------------------- checks */

static bool uses_cache(const tn_op *op) { return op->kind == TN_OP_KV_WRITE || op->kind == TN_OP_ATTEND; }

static tn_status check_indices(const tn_prepared *p, const tn_op *op, tn_err *err)
{
  const int32_t acts = (int32_t)p->n_acts, weights = (int32_t)p->n_weights;
  for (int i = 0; i < 4; i++) {
    if (op->in[i] < -1 || op->in[i] >= acts || (i < 2 && (op->out[i] < -1 || op->out[i] >= acts))) {
      return tn_cpu_fail(err, TN_E_ARG, "record %s: activation out of range, there are %d", op->name, acts);
    }
  }
  for (int i = 0; i < 2; i++) {
    if (op->w[i] < -1 || op->w[i] >= weights) {
      return tn_cpu_fail(err, TN_E_ARG, "record %s: weight %d, there are %d", op->name, op->w[i], weights);
    }
  }
  return tn_cpu_check_operands(op, err);
}

/* All operands have the rows that the kind wants: the same everywhere, except that PICK goes from all to wanted. */
static tn_status check_rows(const tn_prepared *p, const tn_op *op, tn_err *err)
{
  const bool all =
      op->kind == TN_OP_EMBED || op->kind == TN_OP_ROPE || op->kind == TN_OP_KV_WRITE || op->kind == TN_OP_ATTEND;
  const uint32_t first = op->in[0] >= 0 ? p->act_rows[op->in[0]] : op->out[0] >= 0 ? p->act_rows[op->out[0]] : 0;
  const uint32_t in = all || op->kind == TN_OP_PICK ? (uint32_t)TN_ROWS_ALL : first;
  const uint32_t out = op->kind == TN_OP_PICK ? (uint32_t)TN_ROWS_OUT : in;
  for (int i = 0; i < 4; i++) {
    if ((op->in[i] >= 0 && p->act_rows[op->in[i]] != in) ||
        (i < 2 && op->out[i] >= 0 && p->act_rows[op->out[i]] != out)) {
      return tn_cpu_fail(err, TN_E_ARG,
                         "record %s: an operand has all rows where wanted rows should be, or the reverse", op->name);
    }
  }
  return TN_OK;
}

/* Scratch that records need beyond their operands. */
static void add_work(tn_prepared *p, const cpu_op *r)
{
  const tn_op *op = &r->op;
  if (op->kind == TN_OP_LINEAR && r->w.blocks > p->max_blocks) p->max_blocks = r->w.blocks;
  if (op->kind == TN_OP_LINEAR && !r->codes) p->has_floats = true;
  for (uint32_t h = 0; op->kind == TN_OP_ATTEND && h < op->p.attend.n_kv_heads; h++) {
    const cpu_group *g = &p->kv->groups[r->heads[h].group];
    const uint64_t bytes = (tn_cpu_attend_bytes(g, op) + CPU_LINE - 1) / CPU_LINE * CPU_LINE;
    const int64_t parts = tn_cpu_attend_parts(g, op);
    if (bytes > p->work_bytes) p->work_bytes = bytes;
    if (parts > p->parts_size) p->parts_size = parts;
  }
}

static tn_status check_op(tn_inst *in, tn_prepared *p, uint32_t i, tn_err *err)
{
  cpu_op *r = &p->ops[i];
  tn_status st = check_indices(p, &r->op, err);
  if (!st) st = check_rows(p, &r->op, err);
  if (st) return st;
  const cpu_call c = tn_cpu_call_of(in, p, i);
  st = tn_cpu_check_shapes(&c, err);
  if (!st) tn_cpu_bind(&c, r);
  if (st || !uses_cache(&r->op)) return st;
  r->heads = tn_cpu_zalloc(in, r->op.p.attend.n_kv_heads, sizeof *r->heads);
  return r->heads ? tn_cpu_check_heads(&c, r->heads, err) : no_memory(err, "records");
}

/* This rank's first heads. */
static void count_heads(tn_prepared *p)
{
  p->head0 = p->kv_head0 = UINT32_MAX;
  for (uint32_t i = 0; i < p->n_ops; i++) {
    const tn_op *op = &p->ops[i].op;
    const tn_op_attend *a = &op->p.attend;
    if (!uses_cache(op)) continue;
    if (a->kv_head0 < p->kv_head0) p->kv_head0 = a->kv_head0;
    if (op->kind == TN_OP_ATTEND && a->head0 < p->head0) p->head0 = a->head0;
  }
}

/* Scratch for the rows of LINEARs. */
static tn_status make_rows(tn_inst *in, tn_prepared *p, tn_err *err)
{
  const uint64_t rows = p->max_rows > p->max_out ? p->max_rows : p->max_out, own = in->n_workers;
  const uint64_t blocks = (uint64_t)p->max_blocks;
  p->own_rows = tn_cpu_zalloc(in, own * (CPU_OWN_ROWS + CPU_BEFORE) * blocks, TNK_BLOCK * sizeof *p->own_rows);
  if (!p->own_rows) return no_memory(err, "scratch");
  if (!(p->flags & TN_PREP_ACT_INT8)) return TN_OK;
  p->cells = tn_cpu_zalloc(in, rows * blocks, sizeof *p->cells);
  p->own_cells = tn_cpu_zalloc(in, own * CPU_OWN_ROWS * blocks, sizeof *p->own_cells);
  p->passed = tn_cpu_zalloc(in, rows * (uint64_t)p->pass_blocks, sizeof *p->passed);
  if (p->has_floats) p->rounded = tn_cpu_zalloc(in, rows * blocks, TNK_BLOCK * sizeof *p->rounded);
  return p->cells && p->own_cells && p->passed && (p->rounded || !p->has_floats) ? TN_OK : no_memory(err, "scratch");
}

static tn_status check_program(tn_inst *in, tn_prepared *p, tn_err *err)
{
  count_heads(p);
  for (uint32_t i = 0; i < p->n_ops; i++) {
    tn_status st = check_op(in, p, i, err);
    if (st) return st;
    add_work(p, &p->ops[i]);
  }
  p->next = tn_cpu_zalloc(in, p->n_ops, sizeof *p->next);
  p->work = tn_cpu_zalloc(in, in->n_workers, p->work_bytes);
  p->parts = tn_cpu_zalloc(in, (uint64_t)p->parts_size, sizeof *p->parts);
  p->calls = tn_cpu_zalloc(in, p->n_ops, sizeof *p->calls);
  if (!p->next || !p->work || !p->parts || !p->calls) return no_memory(err, "scratch");
  for (uint32_t i = 0; i < p->n_ops; i++) p->calls[i] = tn_cpu_call_of(in, p, i);
  if (tn_cpu_fuse(in, p)) return no_memory(err, "units");
  return make_rows(in, p, err);
}

/* ---------------------------------------------------------------- the slot's calls */

static tn_status build(tn_inst *in, const tn_program *pr, tn_prepared *p, tn_err *err)
{
  if (p->kv && pr->n_groups != p->kv->n_groups) {
    return tn_cpu_fail(err, TN_E_ARG, "the program has %u page groups, the cache %u", pr->n_groups, p->kv->n_groups);
  }
  p->masks = tn_cpu_copy(in, pr->masks, pr->n_masks, sizeof *p->masks);
  p->table_dims = tn_cpu_copy(in, pr->table_dims, pr->n_tables, sizeof *p->table_dims);
  if (!p->masks || !p->table_dims) return no_memory(err, "masks");
  tn_status st = copy_tensors(in, pr->weights, pr->n_weights, &p->weights, err);
  if (!st) st = copy_tensors(in, p->hooks.taps, p->n_taps, &p->taps, err);
  if (!st) st = copy_ops(in, pr, p, err);
  if (!st) st = make_acts(in, pr, p, err);
  return st ? st : check_program(in, p, err);
}

tn_status tn_cpu_prepare(tn_inst *in, const tn_program *pr, const tn_prepare *how, tn_kv *kv, tn_prepared **out,
                         tn_err *err)
{
  *out = NULL;
  if (!how->max_rows) return tn_cpu_fail(err, TN_E_ARG, "prepare: max_rows is 0, want at least 1");
  tn_prepared *p = tn_cpu_zalloc(in, 1, sizeof *p);
  if (!p) return no_memory(err, "records");
  p->kv = kv;
  p->n_weights = pr->n_weights;
  p->n_masks = pr->n_masks;
  p->n_tables = pr->n_tables;
  p->n_taps = how->n_taps;
  p->flags = how->flags;
  p->max_rows = how->max_rows;
  p->max_out = how->max_out;
  p->hooks = *how;
  tn_status st = build(in, pr, p, err);
  if (st) {
    tn_cpu_prepared_free(in, p);
    return st;
  }
  *out = p;
  return TN_OK;
}

tn_status tn_cpu_act(tn_inst *in, tn_prepared *p, uint32_t act, tn_tensor *out)
{
  (void)in;
  if (act >= p->n_acts) return TN_E_ARG;
  *out = p->acts[act];
  return TN_OK;
}
