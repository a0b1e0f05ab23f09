/* write: KV_WRITE: a row's keys and values into the cache, in layout 0 of each head's page group. */
#include <math.h>

#include "ref.h"

/* |k|_2 in units of 2^-16, added to the row's signal. */
static void key_norm(const ref_call *c, int64_t row, const ref_head *at, const float *k, int64_t entry)
{
  const tn_batch *b = c->b;
  if (!(c->op->flags & TN_OPF_KNORM) || !b->signal || b->signal[row] < 0) return;
  const tn_signal *s = b->signals[b->signal[row]];
  if (!s->knorm || at->group >= s->n_groups || !s->knorm[at->group]) return;
  double sum = 0;
  for (uint32_t i = 0; i < c->op->p.attend.d_head; i++) sum += (double)k[i] * (double)k[i];
  __atomic_fetch_add(&s->knorm[at->group][entry], llrint(ldexp(sqrt(sum), 16)), __ATOMIC_RELAXED);
}

static void write_row(const ref_call *c, int64_t row)
{
  const tn_op_attend *a = &c->op->p.attend;
  const tn_kv *kv = c->p->kv;
  for (uint32_t h = 0; h < a->n_kv_heads; h++) {
    const ref_head *at = &c->heads[h];
    const ref_group *g = &kv->groups[at->group];
    const tn_kv_view *view = c->b->seqs[c->b->seq[row]]->kv[at->group];
    const int64_t entry = view->n + c->b->slot[row];
    const float *k = c->x.p + row * c->x.stride + (int64_t)h * a->d_head;
    const float *v = c->x2.p + row * c->x2.stride + (int64_t)h * a->d_v;
    uint8_t *p =
        tn_ref_kv_entry(kv, g, 0, view->page[entry / kv->page_tokens], entry % kv->page_tokens, at->layer, at->head);
    tnk_ref_entry_encode(&g->k_lay[0], k, g->d_k, p);
    tnk_ref_entry_encode(&g->v_lay[0], v, g->d_v, p + g->k_bytes[0]);
    key_norm(c, row, at, k, entry);
  }
}

static void rows_of_worker(void *arg, uint32_t worker, uint32_t n_workers)
{
  const ref_call *c = arg;
  int64_t first, last;
  tn_ref_share(c->n, worker, n_workers, &first, &last);
  for (int64_t r = first; r < last; r++) write_row(c, r);
}

tn_status tn_ref_do_kv_write(ref_call *c)
{
  tn_status st = tn_ref_view_check(c);
  if (!st) tn_ref_gang(c->in, rows_of_worker, c, c->n * (c->x.cols + c->x2.cols));
  return st;
}
