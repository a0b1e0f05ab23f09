/* write: KV_WRITE: a row's keys and values into the cache, in layout 0 of each head's page group. */
#include <math.h>

#include "cpu.h"

/* |k|_2 in units of 2^-16, added to the row's signal. */
static void key_norm(const cpu_call *c, int64_t row, const cpu_head *at, const float *k, int64_t entry)
{
  const tn_batch *b = c->b;
  if (!(c->op->flags & TN_OPF_KNORM) || !b->signal || b->signal[row] < 0) return;
  const tn_signal *s = b->signals[b->signal[row]];
  if (!s->knorm || at->group >= s->n_groups || !s->knorm[at->group]) return;
  double sum = 0;
  for (uint32_t i = 0; i < c->op->p.attend.d_head; i++) sum += (double)k[i] * (double)k[i];
  __atomic_fetch_add(&s->knorm[at->group][entry], llrint(ldexp(sqrt(sum), 16)), __ATOMIC_RELAXED);
}

void tn_cpu_head_write(const cpu_call *c, int64_t row, int64_t head)
{
  const tn_op_attend *a = &c->op->p.attend;
  const tn_kv *kv = c->p->kv;
  const cpu_head *at = &c->rec->heads[head];
  const cpu_group *g = &kv->groups[at->group];
  const tn_kv_view *view = c->b->seqs[c->b->seq[row]]->kv[at->group];
  const int64_t entry = view->n + c->b->slot[row];
  const float *k = c->x.p + row * c->x.stride + head * a->d_head;
  const float *v = c->x2.p + row * c->x2.stride + head * a->d_v;
  uint8_t *unit = tn_cpu_kv_unit(kv, g, 0, view->page[entry / kv->page_tokens], at->layer, at->head);
  tn_cpu_kv_store(c->in, kv, g, 0, unit, entry % kv->page_tokens, k, v);
  key_norm(c, row, at, k, entry);
}

void tn_cpu_do_kv_write(const cpu_call *c)
{
  int64_t first, last;
  tn_cpu_share(c->n, c->worker, c->n_workers, &first, &last);
  for (int64_t r = first; r < last; r++) {
    for (uint32_t h = 0; h < c->op->p.attend.n_kv_heads; h++) tn_cpu_head_write(c, r, h);
  }
}
