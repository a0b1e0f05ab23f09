/* check: a record's operands and shapes, before it may run. The same for records of a program and for single ops. */
#include "quant/dtype.h"
#include "cpu.h"

/* ---------------------------------------------------------------- which operands */

typedef struct operands { /* bit i: operand i must be there / may be there */
  uint8_t in, in_may, out, out_may, w, w_may;
} operands;

static const operands wants[] = {
    [TN_OP_EMBED] = {0, 0, 1, 1, 1, 1},  [TN_OP_NORM] = {1, 1, 1, 1, 0, 1},     [TN_OP_LINEAR] = {1, 1, 1, 1, 1, 3},
    [TN_OP_SEGSUM] = {1, 1, 1, 1, 0, 2}, [TN_OP_ADD] = {3, 3, 1, 1, 0, 0},      [TN_OP_GLU] = {3, 3, 1, 1, 0, 0},
    [TN_OP_ROPE] = {1, 1, 1, 1, 0, 0},   [TN_OP_KV_WRITE] = {3, 3, 0, 0, 0, 0}, [TN_OP_ATTEND] = {1, 3, 1, 3, 0, 0},
    [TN_OP_PICK] = {1, 1, 1, 1, 0, 0},   [TN_OP_SCALE] = {1, 1, 1, 1, 0, 0},    [TN_OP_SOFTCAP] = {1, 1, 1, 1, 0, 0},
    [TN_OP_TAP] = {1, 1, 0, 0, 0, 0},    [TN_OP_OBSERVE] = {1, 1, 0, 0, 0, 0},  [TN_OP_COLLECTIVE] = {0, 1, 0, 1, 0, 0},
    [TN_OP_MERGE] = {3, 3, 1, 3, 0, 0},
};

static uint8_t present(const int32_t *index, int n)
{
  uint8_t mask = 0;
  for (int i = 0; i < n; i++) mask = (uint8_t)(mask | (index[i] >= 0 ? 1u << i : 0));
  return mask;
}

static bool fits(uint8_t mask, uint8_t must, uint8_t may) { return (mask & must) == must && !(mask & ~may); }

tn_status tn_cpu_check_operands(const tn_op *op, tn_err *err)
{
  if (op->kind == TN_OP_STATE_MIX) {
    return tn_cpu_fail(err, TN_E_UNSUPPORTED, "record %s: backend cpu has no recurrent attention", op->name);
  }
  if (op->kind == TN_OP_EXT) {
    return tn_cpu_fail(err, TN_E_UNSUPPORTED, "record %s: backend cpu has no kernel '%s'", op->name,
                       op->p.ext.id ? op->p.ext.id : "");
  }
  if (op->kind < TN_OP_EMBED || op->kind > TN_OP_EXT) {
    return tn_cpu_fail(err, TN_E_UNSUPPORTED, "record %s: unknown kind %u", op->name, op->kind);
  }
  const operands *o = &wants[op->kind];
  const uint8_t in = present(op->in, 4), out = present(op->out, 2), w = present(op->w, 2);
  if (fits(in, o->in, o->in_may) && fits(out, o->out, o->out_may) && fits(w, o->w, o->w_may)) return TN_OK;
  return tn_cpu_fail(err, TN_E_ARG, "record %s: kind %u with inputs 0x%x, outputs 0x%x, weights 0x%x (bits present)",
                     op->name, op->kind, in, out, w);
}

/* ---------------------------------------------------------------- shapes */

/* "record NAME: WHAT is A, want B" */
static tn_status want(const cpu_call *c, tn_err *err, const char *what, int64_t is, int64_t should)
{
  if (is == should) return TN_OK;
  return tn_cpu_fail(err, TN_E_ARG, "record %s: %s is %lld, want %lld", c->op->name, what, (long long)is,
                     (long long)should);
}

static tn_status bad(const cpu_call *c, tn_err *err, const char *what)
{
  return tn_cpu_fail(err, TN_E_ARG, "record %s: %s", c->op->name, what);
}

static tn_status check_embed(const cpu_call *c, tn_err *err)
{
  tnk_panels w;
  if (!tn_cpu_weight_panels(c->w, &w)) return bad(c, err, "the embedding cannot be decoded");
  return want(c, err, "output columns", c->y.cols, c->w->ne[0]);
}

static tn_status check_norm(const cpu_call *c, tn_err *err)
{
  const int64_t span = c->op->p.norm.span;
  if (span < 1 || c->x.cols % span) return bad(c, err, "the span does not divide the columns");
  if (c->w && !tn_cpu_weight_vector(c->w, span)) return bad(c, err, "the weight is no f32 vector of the span");
  return want(c, err, "output columns", c->y.cols, c->x.cols);
}

static tn_status check_linear(const cpu_call *c, tn_err *err)
{
  const tn_op_linear *l = &c->op->p.linear;
  const bool parts = c->op->flags & TN_OPF_PARTS;
  tnk_panels w;
  if (l->n < 1 || l->k < 1 || l->segments < 1 || l->segments > CPU_MAX_SEGMENTS || l->k % (int64_t)l->segments) {
    return bad(c, err, "the segments do not divide the columns, or are more than 256");
  }
  if (!tn_cpu_weight_panels(c->w, &w)) return bad(c, err, "the weight cannot be decoded");
  if (c->w2 && parts) return bad(c, err, "a bias belongs behind the sum of the parts");
  if (c->w2 && !tn_cpu_weight_vector(c->w2, l->n)) return bad(c, err, "the bias is no f32 vector of the outputs");
  if (c->x.p == c->y.p) return bad(c, err, "input and output are the same");
  tn_status st = want(c, err, "weight columns", c->w->ne[0], l->k);
  if (!st) st = want(c, err, "weight rows", c->w->ne[1], l->n);
  if (!st) st = want(c, err, "input columns", c->x.cols, l->k);
  return st ? st : want(c, err, "output columns", c->y.cols, parts ? l->n * (int64_t)l->segments : l->n);
}

static tn_status check_segsum(const cpu_call *c, tn_err *err)
{
  if (c->x.p == c->y.p) return bad(c, err, "input and output are the same");
  if (c->w2 && !tn_cpu_weight_vector(c->w2, c->y.cols)) return bad(c, err, "the bias is no f32 vector of the outputs");
  return want(c, err, "input columns", c->x.cols, c->y.cols * (int64_t)c->op->p.linear.segments);
}

static tn_status check_rope(const cpu_call *c, tn_err *err)
{
  const tn_op_rope *r = &c->op->p.rope;
  if (r->style != TN_ROPE_INTERLEAVED && r->style != TN_ROPE_HALF) return bad(c, err, "unknown style of rotation");
  if (r->dims % 2 || r->dims > r->d_head) return bad(c, err, "rotated columns are odd or more than a head has");
  if (!c->p || r->table >= c->p->n_tables) return bad(c, err, "no such rope table");
  tn_status st = want(c, err, "rotated columns", r->dims, c->p->table_dims[r->table]);
  if (!st) st = want(c, err, "input columns", c->x.cols, (int64_t)r->n_heads * r->d_head);
  return st ? st : want(c, err, "output columns", c->y.cols, c->x.cols);
}

static tn_status check_masks(const cpu_call *c, tn_err *err)
{
  const tn_op_attend *a = &c->op->p.attend;
  if (a->mask > c->p->n_masks || a->n_masks > c->p->n_masks - a->mask) return bad(c, err, "masks out of range");
  for (uint32_t i = a->mask; i < a->mask + a->n_masks; i++) {
    if (c->p->masks[i].stride < 1) return bad(c, err, "a mask's stride is below 1");
  }
  return TN_OK;
}

/* `cols` columns are whole heads of `width`, and heads [first, first + n) are among them. */
static tn_status heads_fit(const cpu_call *c, tn_err *err, const char *what, int64_t cols, int64_t width, int64_t first,
                           int64_t n)
{
  if (cols % width == 0 && (first + n) * width <= cols) return TN_OK;
  return tn_cpu_fail(err, TN_E_ARG, "record %s: %s has %lld columns, want %lld or more heads of %lld", c->op->name,
                     what, (long long)cols, (long long)(first + n), (long long)width);
}

static tn_status check_kv_write(const cpu_call *c, tn_err *err)
{
  const tn_op_attend *a = &c->op->p.attend;
  const int64_t first = a->kv_head0 - c->p->kv_head0;
  tn_status st = heads_fit(c, err, "the key", c->x.cols, a->d_head, first, a->n_kv_heads);
  return st ? st : heads_fit(c, err, "the value", c->x2.cols, a->d_v, first, a->n_kv_heads);
}

static tn_status check_attend(const cpu_call *c, tn_err *err)
{
  const tn_op_attend *a = &c->op->p.attend;
  const int64_t first = a->head0 - c->p->head0, n = a->n_heads;
  if (n < 1 || a->n_heads % a->n_kv_heads) return bad(c, err, "the KV heads do not divide the heads");
  if (c->op->in[0] == c->op->out[0]) return bad(c, err, "input and output are the same");
  tn_status st = heads_fit(c, err, "the query", c->x.cols, a->d_head, first, n);
  if (!st) st = heads_fit(c, err, "the output", c->y.cols, a->d_v, first, n);
  if (!st && c->x2.p) st = heads_fit(c, err, "the sink query", c->x2.cols, a->d_head, first, n);
  if (!st && c->y2.p) st = heads_fit(c, err, "the lse", c->y2.cols, 1, first, n);
  if (!st && a->tiles) st = tn_cpu_fail(err, TN_E_UNSUPPORTED, "record %s: backend cpu has no tile lists", c->op->name);
  return st ? st : check_masks(c, err);
}

static tn_status check_kv(const cpu_call *c, tn_err *err)
{
  const tn_op_attend *a = &c->op->p.attend;
  if (!c->p || !c->p->kv) return bad(c, err, "there is no cache");
  if (a->n_kv_heads < 1 || a->d_head < 1 || a->d_v < 1) return bad(c, err, "no heads, or heads of no columns");
  return c->op->kind == TN_OP_KV_WRITE ? check_kv_write(c, err) : check_attend(c, err);
}

static tn_status check_merge(const cpu_call *c, tn_err *err)
{
  const int64_t parts = c->op->p.merge.parts, heads = c->op->p.merge.n_heads;
  if (parts < 1 || heads < 1 || c->y.cols % heads) return bad(c, err, "no parts, or heads do not divide the columns");
  if (c->x.p == c->y.p) return bad(c, err, "input and output are the same");
  tn_status st = want(c, err, "input columns", c->x.cols, parts * c->y.cols);
  if (!st) st = want(c, err, "lse columns", c->x2.cols, parts * heads);
  return st || !c->y2.p ? st : want(c, err, "output lse columns", c->y2.cols, heads);
}

static tn_status check_tap(const cpu_call *c, tn_err *err)
{
  const uint32_t i = c->op->p.tap.index;
  if (!c->p || i >= c->p->n_taps) return bad(c, err, "no such tap");
  const tn_tensor *t = &c->p->taps[i];
  const uint64_t last = t->offset + (uint64_t)(c->x.n - 1) * (uint64_t)t->nb[1] + (uint64_t)c->x.cols * sizeof(float);
  if (t->dtype != TN_DT_F32 || t->ne[1] < c->x.n || !t->buf || last > t->buf->bytes) {
    return bad(c, err, "the tap is no f32 tensor of all rows");
  }
  return want(c, err, "tap columns", t->ne[0], c->x.cols);
}

static tn_status check_hooks(const cpu_call *c, tn_err *err)
{
  if (!c->p) return bad(c, err, "not a single op");
  if (c->op->kind == TN_OP_OBSERVE && !c->p->hooks.observe) return bad(c, err, "no observer was given");
  if (c->op->kind == TN_OP_COLLECTIVE && !c->p->hooks.collective) return bad(c, err, "no transport was given");
  return TN_OK;
}

tn_status tn_cpu_check_shapes(const cpu_call *c, tn_err *err)
{
  tn_status st = TN_OK;
  switch (c->op->kind) {
    case TN_OP_EMBED: return check_embed(c, err);
    case TN_OP_NORM: return check_norm(c, err);
    case TN_OP_LINEAR: return check_linear(c, err);
    case TN_OP_SEGSUM: return check_segsum(c, err);
    case TN_OP_GLU:
      if (c->op->p.glu.act < TN_ACT_SILU || c->op->p.glu.act > TN_ACT_NONE) return bad(c, err, "unknown activation");
      st = want(c, err, "gate columns", c->x2.cols, c->x.cols);
      return st ? st : want(c, err, "output columns", c->y.cols, c->x.cols);
    case TN_OP_ADD:
      st = want(c, err, "second input's columns", c->x2.cols, c->x.cols);
      return st ? st : want(c, err, "output columns", c->y.cols, c->x.cols);
    case TN_OP_ROPE: return check_rope(c, err);
    case TN_OP_KV_WRITE:
    case TN_OP_ATTEND: return check_kv(c, err);
    case TN_OP_SOFTCAP:
      if (!(c->op->p.scale.x > 0)) return bad(c, err, "the cap is not above 0");
      return want(c, err, "output columns", c->y.cols, c->x.cols);
    case TN_OP_PICK:
    case TN_OP_SCALE: return want(c, err, "output columns", c->y.cols, c->x.cols);
    case TN_OP_MERGE: return check_merge(c, err);
    case TN_OP_TAP: return check_tap(c, err);
    default: return check_hooks(c, err);
  }
}

void tn_cpu_bind(const cpu_call *c, cpu_op *rec)
{
  const tn_op *op = c->op;
  if (op->kind == TN_OP_EMBED || op->kind == TN_OP_LINEAR) (void)tn_cpu_weight_panels(c->w, &rec->w);
  if (op->kind == TN_OP_LINEAR) {
    const int64_t part = op->p.linear.k / (int64_t)op->p.linear.segments;
    rec->codes = rec->w.fmt.kind == TNK_CODES && (op->p.linear.segments == 1 || part % TNK_BLOCK == 0);
  }
  if (op->kind == TN_OP_NORM && c->w) rec->vec = tn_cpu_weight_vector(c->w, op->p.norm.span);
  if (op->kind == TN_OP_LINEAR && c->w2) rec->vec = tn_cpu_weight_vector(c->w2, op->p.linear.n);
  if (op->kind == TN_OP_SEGSUM && c->w2) rec->vec = tn_cpu_weight_vector(c->w2, c->y.cols);
}

/* ---------------------------------------------------------------- where KV heads live */

/* Index of x in list [n], or n. */
static uint32_t find(const int32_t *list, uint32_t n, int32_t x)
{
  uint32_t i = 0;
  while (i < n && list[i] != x) i++;
  return i;
}

tn_status tn_cpu_check_heads(const cpu_call *c, cpu_head *heads, tn_err *err)
{
  const tn_op_attend *a = &c->op->p.attend;
  const tn_kv *kv = c->p->kv;
  for (uint32_t i = 0; i < a->n_kv_heads; i++) {
    const int32_t head = (int32_t)(a->kv_head0 + i);
    cpu_head *at = &heads[i];
    const cpu_group *g = NULL;
    for (at->group = 0; at->group < kv->n_groups; at->group++) {
      g = &kv->groups[at->group];
      at->layer = find(g->layers, g->n_layers, c->op->layer);
      at->head = find(g->heads, g->n_heads, head);
      if (at->layer < g->n_layers && at->head < g->n_heads) break;
    }
    if (at->group == kv->n_groups) {
      return tn_cpu_fail(err, TN_E_ARG, "record %s: no page group has layer %d, KV head %d", c->op->name, c->op->layer,
                         head);
    }
    tn_status st = want(c, err, "key width of the page group", g->d_k, a->d_head);
    if (!st) st = want(c, err, "value width of the page group", g->d_v, a->d_v);
    if (st) return st;
  }
  return TN_OK;
}
