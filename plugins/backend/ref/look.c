/* look: what rows see of 64 ranks, and their keys and values.
 *
 * Ranks below view.n are committed entries, decoded once for all rows of a task. Rank n + o is, for a row on a path, the
 * entry of its ancestor at order o, decoded for that row alone. */
#include "ref.h"
#include "ref/order_rows.h"
#include "ref/rope.h"

uint64_t tn_ref_look_bytes(const ref_group *g)
{
  const uint64_t sights = REF_TASK_ROWS * sizeof(ref_sight);
  return sights + 2 * REF_STEP * ((uint64_t)g->d_k + g->d_v) * sizeof(float);
}

void tn_ref_look_lay_out(ref_look *t, uint8_t *work)
{
  t->sight = (ref_sight *)(void *)work;
  t->k = (float *)(void *)(t->sight + REF_TASK_ROWS);
  t->v = t->k + REF_STEP * (uint64_t)t->g->d_k;
  t->own_k = t->v + REF_STEP * (uint64_t)t->g->d_v;
  t->own_v = t->own_k + REF_STEP * (uint64_t)t->g->d_k;
}

static void load(const ref_look *t, int64_t entry, float *k, float *v)
{
  const tn_op_attend *a = &t->c->op->p.attend;
  const int64_t half = a->rope_dims / 2;
  tn_ref_kv_load(t->c->p->kv, t->g, t->view, entry, t->at->layer, t->at->head, k, t->with_v ? v : NULL);
  if (t->g->keys != TN_KEYS_RAW) return;
  (t->c->f32 ? tnk_order_rope : tnk_ref_rope)(k, a->d_head, a->rope_dims, a->rope_style == TN_ROPE_INTERLEAVED,
                                              t->view->cos + entry * half, t->view->sin + entry * half, k);
}

/* Text position that the row finds at a rank; -1: nothing there. */
static int64_t pos_at(const ref_look *t, int64_t row, int64_t rank)
{
  if (rank < t->view->n) return tn_ref_kv_pos(t->c->p->kv, t->view, rank);
  return t->c->b->text_pos[row] - (t->view->n + t->c->b->ord[row] - rank);
}

/* Decodes rank 64 step + bit for the row, unless it is at hand, and appends it. */
static void fetch(ref_look *t, int64_t row, int bit, bool sink, ref_seen *s)
{
  const int64_t rank = t->step * REF_STEP + bit, n = t->view->n;
  const int64_t entry = rank < n ? rank : n + tn_ref_slot_at(t->c->b, row, rank - n);
  const bool common = rank < n || t->c->b->path_off[row] < 0;
  float *k = (common ? t->k : t->own_k) + (int64_t)bit * t->g->d_k;
  float *v = (common ? t->v : t->own_v) + (int64_t)bit * t->g->d_v;
  if (!common || !(t->have >> bit & 1)) load(t, entry, k, v);
  if (common) t->have |= 1ull << bit;
  s->k[s->n] = k;
  s->v[s->n] = v;
  s->bit[s->n] = bit;
  s->sink[s->n] = sink;
  s->entry[s->n++] = entry;
}

void tn_ref_look(ref_look *t, int64_t row, ref_seen *s)
{
  const tn_op_attend *a = &t->c->op->p.attend;
  const int64_t own = t->view->n + t->c->b->ord[row];
  s->n = 0;
  for (int bit = 0; bit < REF_STEP && t->step * REF_STEP + bit <= own; bit++) {
    const int64_t pos = pos_at(t, row, t->step * REF_STEP + bit);
    if (pos < 0 || !tn_ref_sees(&t->sight[row - t->row0], pos)) continue;
    fetch(t, row, bit, t->c->x2.p && pos < (int64_t)a->n_sinks, s);
  }
}

int64_t *tn_ref_look_signal(const ref_look *t, int64_t row)
{
  const tn_batch *b = t->c->b;
  if (!(t->c->op->flags & TN_OPF_COLSUM) || !b->signal || b->signal[row] < 0) return NULL;
  const tn_signal *s = b->signals[b->signal[row]];
  return s->attn && t->at->group < s->n_groups ? s->attn[t->at->group] : NULL;
}

int64_t tn_ref_look_steps(const ref_look *t)
{
  int64_t last = 0;
  for (int64_t r = t->row0; r < t->row1; r++) last = t->c->b->ord[r] > last ? t->c->b->ord[r] : last;
  return (t->view->n + last) / REF_STEP + 1;
}

tn_status tn_ref_look_sights(ref_look *t)
{
  tn_status st = TN_OK;
  for (int64_t r = t->row0; !st && r < t->row1; r++) {
    st = tn_ref_sight_of(t->c, r, t->kv_head, &t->sight[r - t->row0]);
  }
  return st;
}
