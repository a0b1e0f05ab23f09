/* roofline_cost: what records read and compute at least. See roofline.h. */
#include "engine/engine_int.h"
#include "quant/dtype.h"
#include "roofline.h"

/* Bytes of a row of k values, scales and offsets included. */
static double layout_bytes(const tn_layout *l, double k)
{
  if (l->kind == TN_LAY_DENSE || l->kind == TN_LAY_EXOTIC) {
    tnk_dtype_info d = tnk_dtype(l->kind == TN_LAY_DENSE ? l->dtype : (uint32_t)TN_DT_F32);
    return k * d.block_bytes / d.block;
  }
  double bits = l->kind == TN_LAY_FLOAT8 ? 8 : l->bits, groups = l->group ? k / l->group : 1;
  double offsets = l->offset == TN_OFF_NONE ? 1 : 2;
  if (l->super) return k * bits / 8 + groups * offsets * l->sub_bits / 8 + groups / l->super * offsets * 2;
  double scale = l->scale_type == TN_DT_F32 ? 4 : 2;
  return k * bits / 8 + groups * (scale + (l->offset == TN_OFF_MIN ? scale : l->offset == TN_OFF_INT ? 1 : 0));
}

static double row_bytes(const tn_tensor *t)
{
  if (t->dtype == TN_DT_LAYOUT) return layout_bytes(t->layout, (double)t->ne[0]);
  tnk_dtype_info d = tnk_dtype(t->dtype);
  return d.block ? (double)t->ne[0] / d.block * d.block_bytes : 0;
}

static bool is_float(const tn_tensor *t)
{
  return t->dtype == TN_DT_F32 || t->dtype == TN_DT_F16 || t->dtype == TN_DT_BF16 || t->dtype == TN_DT_F64 ||
         (t->dtype == TN_DT_LAYOUT && t->layout->kind != TN_LAY_AFFINE && t->layout->kind != TN_LAY_TABLE);
}

static bool is_bytes(const tn_tensor *t)
{
  return t->dtype == TN_DT_Q8_0 || (t->dtype == TN_DT_LAYOUT && t->layout->bits == 8);
}

static void add_record(tn_cost *c, const tn_program *p, const tn_op *op, uint32_t n_rows, uint32_t n_out, bool act_int8)
{
  double rows = op->out[0] >= 0 && p->acts[op->out[0]]->rows == TN_ROWS_OUT ? n_out : n_rows;
  for (size_t i = 0; i < TN_ARRAY_LEN(op->w) && rows > 0; i++) {
    const tn_tensor *w = op->w[i] >= 0 ? p->weights[op->w[i]] : NULL;
    if (!w) continue;
    double n = (double)w->ne[1], k = (double)w->ne[0];
    c->bytes += row_bytes(w) * (op->kind == TN_OP_EMBED ? rows : n);
    if (op->kind != TN_OP_LINEAR || !act_int8 || is_float(w)) continue;
    *(is_bytes(w) ? &c->byte_ops : &c->int_ops) += 2 * rows * k * n;
  }
}

tn_cost tn_cost_of(const tn_engine *e, uint32_t first, uint32_t last, uint32_t n_rows, uint32_t n_out)
{
  tn_cost c = {0};
  for (uint32_t r = 0; r < e->exec->world; r++) {
    const tn_program *p = &e->exec->ranks[r].built->program;
    for (uint32_t i = first; i < last && i < p->n_ops; i++)
      add_record(&c, p, p->ops[i], n_rows, n_out, e->cfg.flags & TN_PREP_ACT_INT8);
  }
  return c;
}

/* Bytes of one token in a group, in those of its layers that are asked for. */
static double group_bytes(const tn_kv_group *g, int32_t layer)
{
  double layers = 0;
  if (g->kind != TN_KV_CACHE) return 0;
  for (uint32_t l = 0; l < g->n_layers; l++) layers += layer < 0 || g->layers[l] == layer;
  return layers * g->n_heads * (layout_bytes(g->k_layouts[0], g->d_k) + layout_bytes(g->v_layouts[0], g->d_v));
}

double tn_cost_kv_token(const tn_engine *e, int32_t layer)
{
  double sum = 0;
  for (uint32_t i = 0; i < e->groups.n; i++) sum += group_bytes(&e->groups.g[i].desc, layer);
  return sum;
}

double tn_cost_kv(const tn_engine *e, const tn_seq *s, int32_t layer)
{
  double sum = 0;
  for (uint32_t i = 0; s->kv && i < e->groups.n; i++)
    sum += (double)s->kv->t[i].live * group_bytes(&e->groups.g[i].desc, layer);
  return sum;
}

double tn_cost_compute(const tn_cost *c, const tn_bounds *b)
{
  return (b->int_ops > 0 ? c->int_ops / b->int_ops : 0) + (b->byte_ops > 0 ? c->byte_ops / b->byte_ops : 0);
}

double tn_cost_bound(const tn_cost *c, const tn_bounds *b)
{
  double read = b->read > 0 ? c->bytes / b->read : 0, compute = tn_cost_compute(c, b);
  return read > compute ? read : compute;
}
