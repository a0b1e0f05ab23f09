/* rows: records that treat each row on its own, without weight matrices: a worker's share of the rows. */
#include <string.h>

#include "cpu.h"

_Static_assert((int)TNK_SILU == (int)TN_ACT_SILU && (int)TNK_GELU == (int)TN_ACT_GELU_TANH &&
                   (int)TNK_PLAIN == (int)TN_ACT_NONE,
               "kernels and plugin API number activations alike");

static float *row_of(const cpu_rows *m, int64_t r) { return m->p + r * m->stride; }

/* ---------------------------------------------------------------- one row of each record */

static void embed_row(const cpu_call *c, int64_t r)
{
  tnk_panel_row(&c->rec->w, c->token[r], row_of(&c->y, r));
  c->in->vec->scale(row_of(&c->y, r), (float)c->op->p.embed.scale, c->y.cols, row_of(&c->y, r));
}

void tn_cpu_head_norm(const cpu_call *c, int64_t row, int64_t head)
{
  const tn_op_norm *o = &c->op->p.norm;
  const int64_t at = head * o->span;
  c->in->vec->norm(row_of(&c->x, row) + at, c->rec->vec, o->span, o->span, (float)o->eps, row_of(&c->y, row) + at);
}

static void norm_row(const cpu_call *c, int64_t r)
{
  const tn_op_norm *o = &c->op->p.norm;
  c->in->vec->norm(row_of(&c->x, r), c->rec->vec, c->x.cols, o->span, (float)o->eps, row_of(&c->y, r));
}

static void add_row(const cpu_call *c, int64_t r)
{
  c->in->vec->add(row_of(&c->x, r), row_of(&c->x2, r), c->x.cols, row_of(&c->y, r));
}

static void glu_row(const cpu_call *c, int64_t r)
{
  c->in->vec->glu(c->op->p.glu.act, row_of(&c->x, r), row_of(&c->x2, r), c->x.cols, row_of(&c->y, r));
}

void tn_cpu_head_rope(const cpu_call *c, int64_t row, int64_t head)
{
  const tn_op_rope *p = &c->op->p.rope;
  const float *cos = (p->sink ? c->b->sink_cos : c->b->cos)[p->table] + row * (p->dims / 2);
  const float *sin = (p->sink ? c->b->sink_sin : c->b->sin)[p->table] + row * (p->dims / 2);
  const float *x = row_of(&c->x, row) + head * p->d_head;
  float *y = row_of(&c->y, row) + head * p->d_head;
  if (p->style == TN_ROPE_INTERLEAVED)
    c->in->vec->rope_pairs(x, cos, sin, p->dims, p->d_head, y);
  else
    c->in->vec->rope_halves(x, cos, sin, p->dims, p->d_head, y);
}

static void rope_row(const cpu_call *c, int64_t r)
{
  for (uint32_t h = 0; h < c->op->p.rope.n_heads; h++) tn_cpu_head_rope(c, r, h);
}

static void pick_row(const cpu_call *c, int64_t r)
{
  memcpy(row_of(&c->y, r), row_of(&c->x, c->b->out_row[r]), (size_t)c->x.cols * sizeof(float));
}

static void scale_row(const cpu_call *c, int64_t r)
{
  c->in->vec->scale(row_of(&c->x, r), (float)c->op->p.scale.x, c->x.cols, row_of(&c->y, r));
}

static void softcap_row(const cpu_call *c, int64_t r)
{
  c->in->vec->softcap(row_of(&c->x, r), (float)c->op->p.scale.x, c->x.cols, row_of(&c->y, r));
}

static void merge_row(const cpu_call *c, int64_t r)
{
  const uint32_t parts = c->op->p.merge.parts, heads = c->op->p.merge.n_heads;
  const int64_t d = c->y.cols / heads;
  for (uint32_t h = 0; h < heads; h++) {
    const float lse = c->in->attend->merge(parts, row_of(&c->x, r) + h * d, c->y.cols, row_of(&c->x2, r) + h, heads, d,
                                           row_of(&c->y, r) + h * d);
    if (c->y2.p) row_of(&c->y2, r)[h] = lse;
  }
}

static void tap_row(const cpu_call *c, int64_t r)
{
  const tn_tensor *t = &c->p->taps[c->op->p.tap.index];
  memcpy(t->buf->data + t->offset + r * t->nb[1], row_of(&c->x, r), (size_t)c->x.cols * sizeof(float));
}

static void segsum_row(const cpu_call *c, int64_t r)
{
  const float *x = row_of(&c->x, r), *bias = c->rec->vec;
  float *y = row_of(&c->y, r);
  memcpy(y, x, (size_t)c->y.cols * sizeof *y);
  for (uint32_t s = 1; s < c->op->p.linear.segments; s++) c->in->vec->add(y, x + s * c->y.cols, c->y.cols, y);
  if (bias) c->in->vec->add(y, bias, c->y.cols, y);
}

/* ---------------------------------------------------------------- a worker's rows */

static void each_row(const cpu_call *c, void (*row)(const cpu_call *, int64_t))
{
  int64_t first, last;
  tn_cpu_share(c->n, c->worker, c->n_workers, &first, &last);
  for (int64_t r = first; r < last; r++) row(c, r);
}

void tn_cpu_do_embed(const cpu_call *c) { each_row(c, embed_row); }
void tn_cpu_do_norm(const cpu_call *c) { each_row(c, norm_row); }
void tn_cpu_do_add(const cpu_call *c) { each_row(c, add_row); }
void tn_cpu_do_glu(const cpu_call *c) { each_row(c, glu_row); }
void tn_cpu_do_rope(const cpu_call *c) { each_row(c, rope_row); }
void tn_cpu_do_pick(const cpu_call *c) { each_row(c, pick_row); }
void tn_cpu_do_scale(const cpu_call *c) { each_row(c, scale_row); }
void tn_cpu_do_softcap(const cpu_call *c) { each_row(c, softcap_row); }
void tn_cpu_do_merge(const cpu_call *c) { each_row(c, merge_row); }
void tn_cpu_do_tap(const cpu_call *c) { each_row(c, tap_row); }
void tn_cpu_do_segsum(const cpu_call *c) { each_row(c, segsum_row); }
