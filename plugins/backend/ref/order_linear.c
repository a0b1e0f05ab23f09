/* order_linear: LINEAR in f32, in the order of NUMERICS.md: outputs shared among the workers, a weight row decoded once.
 *
 * With 8-bit activations, weights that the file stores as codes are multiplied as whole numbers where the segments are
 * whole blocks of 32 columns; everything else as f32 numbers. */
#include "ref.h"
#include "ref/linear.h"

typedef struct job {
  const ref_call *c;
  tnk_order_kind kind; /* sums 0: multiplied as numbers */
} job;

/* Segments of a row of 8-bit activations times the blocks of an output. */
static void parts8(const job *j, const tnk_order_block *w, const tnk_order_cell *a, float *part)
{
  const tn_op_linear *l = &j->c->op->p.linear;
  const int64_t n = l->k / 32 / (int64_t)l->segments;
  for (uint32_t s = 0; s < l->segments; s++) part[s] = tnk_order_dot8(j->kind, w + s * n, a + s * n, n);
}

/* The same of numbers. */
static void parts32(const job *j, const float *w, const float *x, float *part)
{
  const tn_op_linear *l = &j->c->op->p.linear;
  const int64_t n = l->k / (int64_t)l->segments;
  for (uint32_t s = 0; s < l->segments; s++) part[s] = tnk_order_dot(w + s * n, x + s * n, n);
}

static void store(const ref_call *c, int64_t r, int64_t o, const float *part)
{
  const tn_op_linear *l = &c->op->p.linear;
  const float *bias = c->w2 ? tn_ref_weight_vector(c->w2, l->n) : NULL;
  float *y = c->y.p + r * c->y.stride + o;
  if (c->op->flags & TN_OPF_PARTS) {
    for (uint32_t s = 0; s < l->segments; s++) y[s * l->n] = part[s];
    return;
  }
  *y = tnk_ref_segsum(part, l->segments, 1);
  if (bias) *y += bias[o];
}

static void outputs_of_worker(void *arg, uint32_t worker, uint32_t n_workers)
{
  const job *j = arg;
  const ref_call *c = j->c;
  const tn_op_linear *l = &c->op->p.linear;
  float part[REF_MAX_SEGMENTS], *row = c->in->row_f32 + worker * c->in->max_k;
  tnk_order_block *blocks = j->kind.sums ? c->p->blocks + worker * c->p->max_blocks : NULL;
  int64_t first, last;
  tn_ref_share(l->n, worker, n_workers, &first, &last);
  for (int64_t o = first; o < last; o++) {
    if (blocks)
      tnk_order_codes(c->w->dtype, c->w->buf->data + c->w->offset + o * c->w->nb[1], l->k / 32, blocks);
    else
      tn_ref_weight_row(c->w, o, row);
    for (int64_t r = 0; r < c->n; r++) {
      if (blocks)
        parts8(j, blocks, c->p->cells + r * c->p->max_blocks, part);
      else
        parts32(j, row, c->x.p + r * c->x.stride, part);
      store(c, r, o, part);
    }
  }
}

tn_status tn_ref_order_linear(ref_call *c)
{
  const tn_op_linear *l = &c->op->p.linear;
  job j = {.c = c};
  if (c->p && c->p->cells) {
    const bool blocks = l->segments == 1 || l->k / (int64_t)l->segments % 32 == 0;
    if (blocks && !c->w->buf->codes) j.kind = tnk_order_kind_of(c->w->dtype);
    const ref_rows rounded = {c->p->int8, l->k, l->k, c->n};
    for (int64_t r = 0; r < c->n; r++) {
      tnk_order_cell *cells = c->p->cells + r * c->p->max_blocks;
      tnk_order_quant(c->x.p + r * c->x.stride, l->k, cells);
      if (!j.kind.sums) tnk_order_dequant(cells, l->k, rounded.p + r * l->k);
    }
    if (!j.kind.sums) c->x = rounded;
  }
  tn_ref_gang(c->in, outputs_of_worker, &j, (c->n + 1) * l->n * l->k);
  return TN_OK;
}
