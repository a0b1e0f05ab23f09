/* linear: LINEAR splits its outputs over the workers; a weight row is decoded once and multiplied with every row. In double;
 * order_linear.c has the f32 form. */
#include "ref.h"
#include "ref/int8.h"
#include "ref/linear.h"

/* Decodes outputs [o, o + 4) of w into w4 [4][k]; outputs past the last one become zero. */
static void decode4(const ref_call *c, int64_t o, float *row, double *w4)
{
  const int64_t k = c->op->p.linear.k;
  for (int64_t j = 0; j < TNK_REF_OUTPUTS; j++) {
    const bool there = o + j < c->op->p.linear.n;
    if (there) tn_ref_weight_row(c->w, o + j, row);
    for (int64_t i = 0; i < k; i++) w4[j * k + i] = there ? (double)row[i] : 0.0;
  }
}

/* Writes outputs [o, o + 4) of row r from their parts. */
static void store4(const ref_call *c, int64_t r, int64_t o, const float *part)
{
  const tn_op_linear *l = &c->op->p.linear;
  const float *bias = c->w2 ? tn_ref_weight_vector(c->w2, l->n) : NULL;
  float *y = c->y.p + r * c->y.stride;
  for (int64_t j = 0; j < TNK_REF_OUTPUTS && o + j < l->n; j++) {
    if (c->op->flags & TN_OPF_PARTS) {
      for (uint32_t s = 0; s < l->segments; s++) y[s * l->n + o + j] = part[s * TNK_REF_OUTPUTS + j];
    } else {
      y[o + j] = tnk_ref_segsum(part + j, l->segments, TNK_REF_OUTPUTS) + (bias ? bias[o + j] : 0.0f);
    }
  }
}

static void outputs_of_worker(void *arg, uint32_t worker, uint32_t n_workers)
{
  const ref_call *c = arg;
  const tn_op_linear *l = &c->op->p.linear;
  float part[REF_MAX_SEGMENTS * TNK_REF_OUTPUTS], *row = c->in->row_f32 + worker * c->in->max_k;
  double *w4 = c->in->row_f64 + worker * TNK_REF_OUTPUTS * c->in->max_k;
  int64_t first, last;
  tn_ref_share((l->n + TNK_REF_OUTPUTS - 1) / TNK_REF_OUTPUTS, worker, n_workers, &first, &last);
  for (int64_t o = first * TNK_REF_OUTPUTS; o < last * TNK_REF_OUTPUTS; o += TNK_REF_OUTPUTS) {
    decode4(c, o, row, w4);
    for (int64_t r = 0; r < c->n; r++) {
      tnk_ref_linear(w4, c->x.p + r * c->x.stride, l->k, l->segments, part);
      store4(c, r, o, part);
    }
  }
}

tn_status tn_ref_do_linear(ref_call *c)
{
  const tn_op_linear *l = &c->op->p.linear;
  if (c->f32) return tn_ref_order_linear(c);
  if (c->p && c->p->int8) {
    const ref_rows q = {c->p->int8, l->k, l->k, c->n};
    for (int64_t r = 0; r < c->n; r++) tnk_ref_int8(c->x.p + r * c->x.stride, l->k, q.p + r * l->k);
    c->x = q;
  }
  tn_ref_gang(c->in, outputs_of_worker, c, (c->n + 1) * l->n * l->k);
  return TN_OK;
}

tn_status tn_ref_do_segsum(ref_call *c)
{
  const float *bias = c->w2 ? tn_ref_weight_vector(c->w2, c->y.cols) : NULL;
  for (int64_t r = 0; r < c->n; r++) {
    float *y = c->y.p + r * c->y.stride;
    for (int64_t i = 0; i < c->y.cols; i++) {
      y[i] = tnk_ref_segsum(c->x.p + r * c->x.stride + i, c->op->p.linear.segments, c->y.cols);
      if (bias) y[i] += bias[i];
    }
  }
  return TN_OK;
}
