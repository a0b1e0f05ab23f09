/* rows: records that treat each row on its own, without weights matrices; and the hooks into the host. */
#include <string.h>

#include "ref.h"
#include "ref/glu.h"
#include "ref/merge.h"
#include "ref/norm.h"
#include "ref/order_attend.h"
#include "ref/order_math.h"
#include "ref/order_rows.h"
#include "ref/rope.h"

static const float *row_of(const ref_rows *m, int64_t r) { return m->p + r * m->stride; }
static float *out_of(const ref_rows *m, int64_t r) { return m->p + r * m->stride; }

/* ---------------------------------------------------------------- one row of each record */

static void norm_row(const ref_call *c, int64_t r)
{
  const int64_t span = c->op->p.norm.span;
  const float *w = c->w ? tn_ref_weight_vector(c->w, span) : NULL;
  for (int64_t i = 0; i < c->x.cols; i += span) {
    if (c->f32)
      tnk_order_norm(row_of(&c->x, r) + i, w, span, (float)c->op->p.norm.eps, out_of(&c->y, r) + i);
    else
      tnk_ref_norm(row_of(&c->x, r) + i, w, span, c->op->p.norm.eps, out_of(&c->y, r) + i);
  }
}

static void add_row(const ref_call *c, int64_t r)
{
  const float *a = row_of(&c->x, r), *b = row_of(&c->x2, r);
  float *y = out_of(&c->y, r);
  for (int64_t i = 0; i < c->x.cols; i++) y[i] = a[i] + b[i];
}

static void glu_row(const ref_call *c, int64_t r)
{
  static double (*const acts[])(double) = {
      [TN_ACT_SILU] = tnk_ref_silu, [TN_ACT_GELU_TANH] = tnk_ref_gelu_tanh, [TN_ACT_NONE] = NULL};
  static float (*const order_acts[])(float) = {
      [TN_ACT_SILU] = tnk_order_silu, [TN_ACT_GELU_TANH] = tnk_order_gelu, [TN_ACT_NONE] = NULL};
  const uint32_t act = c->op->p.glu.act;
  const float *a = row_of(&c->x, r), *b = row_of(&c->x2, r);
  if (c->f32)
    tnk_order_glu(order_acts[act], a, b, c->x.cols, out_of(&c->y, r));
  else
    tnk_ref_glu(acts[act], a, b, c->x.cols, out_of(&c->y, r));
}

static void rope_row(const ref_call *c, int64_t r)
{
  const tn_op_rope *p = &c->op->p.rope;
  const float *cos = (p->sink ? c->b->sink_cos : c->b->cos)[p->table] + r * (p->dims / 2);
  const float *sin = (p->sink ? c->b->sink_sin : c->b->sin)[p->table] + r * (p->dims / 2);
  for (uint32_t h = 0; h < p->n_heads; h++) {
    const int64_t at = (int64_t)h * p->d_head;
    (c->f32 ? tnk_order_rope : tnk_ref_rope)(row_of(&c->x, r) + at, p->d_head, p->dims, p->style == TN_ROPE_INTERLEAVED,
                                             cos, sin, out_of(&c->y, r) + at);
  }
}

static void pick_row(const ref_call *c, int64_t r)
{
  memcpy(out_of(&c->y, r), row_of(&c->x, c->b->out_row[r]), (size_t)c->x.cols * sizeof(float));
}

static void scale_row(const ref_call *c, int64_t r)
{
  const float *x = row_of(&c->x, r);
  float *y = out_of(&c->y, r);
  const double s = c->op->p.scale.x;
  for (int64_t i = 0; i < c->x.cols; i++) y[i] = c->f32 ? x[i] * (float)s : (float)(x[i] * s);
}

static void softcap_row(const ref_call *c, int64_t r)
{
  const float *x = row_of(&c->x, r);
  float *y = out_of(&c->y, r);
  const double cap = c->op->p.scale.x;
  for (int64_t i = 0; i < c->x.cols; i++) {
    y[i] = c->f32 ? tnk_order_softcap(x[i], (float)cap) : (float)tnk_ref_softcap(x[i], cap);
  }
}

static void merge_row(const ref_call *c, int64_t r)
{
  const uint32_t parts = c->op->p.merge.parts, heads = c->op->p.merge.n_heads;
  const int64_t d = c->y.cols / heads;
  for (uint32_t h = 0; h < heads; h++) {
    (c->f32 ? tnk_order_merge : tnk_ref_merge)(row_of(&c->x, r) + h * d, c->y.cols, row_of(&c->x2, r) + h, heads, parts,
                                               d, out_of(&c->y, r) + h * d, c->y2.p ? out_of(&c->y2, r) + h : NULL);
  }
}

static void tap_row(const ref_call *c, int64_t r)
{
  const tn_tensor *t = &c->p->taps[c->op->p.tap.index];
  memcpy(t->buf->data + t->offset + r * t->nb[1], row_of(&c->x, r), (size_t)c->x.cols * sizeof(float));
}

static void embed_row(const ref_call *c, int64_t r)
{
  float *y = out_of(&c->y, r);
  tn_ref_weight_row(c->w, c->token[r], y);
  const double s = c->op->p.embed.scale;
  for (int64_t i = 0; i < c->y.cols; i++) y[i] = c->f32 ? y[i] * (float)s : (float)(y[i] * s);
}

/* ---------------------------------------------------------------- all rows, on all workers */

typedef struct all_rows {
  const ref_call *c;
  void (*row)(const ref_call *, int64_t);
} all_rows;

static void rows_of_worker(void *arg, uint32_t worker, uint32_t n_workers)
{
  const all_rows *a = arg;
  int64_t first, last;
  tn_ref_share(a->c->n, worker, n_workers, &first, &last);
  for (int64_t r = first; r < last; r++) a->row(a->c, r);
}

static tn_status each_row(ref_call *c, void (*row)(const ref_call *, int64_t))
{
  all_rows a = {c, row};
  tn_ref_gang(c->in, rows_of_worker, &a, c->n * (c->x.p ? c->x.cols : c->y.cols));
  return TN_OK;
}

tn_status tn_ref_do_embed(ref_call *c)
{
  for (int64_t r = 0; r < c->n; r++) {
    if (c->token[r] < 0 || c->token[r] >= c->w->ne[1]) return TN_E_ARG;
  }
  return each_row(c, embed_row);
}

tn_status tn_ref_do_rope(ref_call *c)
{
  const tn_op_rope *p = &c->op->p.rope;
  const float *const *cos = p->sink ? c->b->sink_cos : c->b->cos, *const *sin = p->sink ? c->b->sink_sin : c->b->sin;
  if (p->table >= c->b->n_tables || !cos || !sin || !cos[p->table] || !sin[p->table]) return TN_E_ARG;
  return each_row(c, rope_row);
}

tn_status tn_ref_do_norm(ref_call *c) { return each_row(c, norm_row); }
tn_status tn_ref_do_add(ref_call *c) { return each_row(c, add_row); }
tn_status tn_ref_do_glu(ref_call *c) { return each_row(c, glu_row); }
tn_status tn_ref_do_pick(ref_call *c) { return each_row(c, pick_row); }
tn_status tn_ref_do_scale(ref_call *c) { return each_row(c, scale_row); }
tn_status tn_ref_do_softcap(ref_call *c) { return each_row(c, softcap_row); }
tn_status tn_ref_do_merge(ref_call *c) { return each_row(c, merge_row); }
tn_status tn_ref_do_tap(ref_call *c) { return each_row(c, tap_row); }

/* ---------------------------------------------------------------- hooks, on the caller's thread */

tn_status tn_ref_do_observe(ref_call *c)
{
  return c->p->hooks.observe(c->p->hooks.ctx, c->op, &c->p->acts[c->op->in[0]], (uint32_t)c->n);
}

tn_status tn_ref_do_collective(ref_call *c)
{
  const tn_tensor *in = c->op->in[0] < 0 ? NULL : &c->p->acts[c->op->in[0]];
  const tn_tensor *out = c->op->out[0] < 0 ? NULL : &c->p->acts[c->op->out[0]];
  return c->p->hooks.collective(c->p->hooks.ctx, c->op, in, out, (uint32_t)c->n);
}
