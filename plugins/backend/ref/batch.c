/* batch: a step's indices, checked so that no record reads or writes outside its arrays. */
#include "ref.h"

int64_t tn_ref_same_seq(const tn_batch *b, int64_t first)
{
  int64_t last = first + 1;
  while (last < b->n_rows && b->seq[last] == b->seq[first]) last++;
  return last;
}

int64_t tn_ref_slot_at(const tn_batch *b, int64_t row, int64_t o)
{
  if (o == b->ord[row]) return b->slot[row];
  return b->path_off[row] < 0 ? o : b->path[b->path_off[row] + o];
}

static bool row_ok(const tn_prepared *p, const tn_batch *b, uint32_t r)
{
  if (b->signal && b->signal[r] >= 0 && (uint32_t)b->signal[r] >= b->n_signals) return false;
  if (!p->kv) return true;
  if (b->seq[r] < 0 || (uint32_t)b->seq[r] >= b->n_seqs || b->ord[r] < 0 || b->slot[r] < 0 || b->text_pos[r] < 0) {
    return false;
  }
  const int64_t off = b->path_off[r];
  return off < 0 ? b->slot[r] == b->ord[r] : off + b->ord[r] <= (int64_t)b->n_path;
}

tn_status tn_ref_batch_check(const tn_prepared *p, const tn_batch *b)
{
  if (b->n_rows > p->max_rows || b->n_out > p->max_out) return TN_E_ARG;
  for (uint32_t r = 0; r < b->n_rows; r++) {
    if (!row_ok(p, b, r)) return TN_E_ARG;
  }
  for (uint32_t i = 0; i < b->n_out; i++) {
    if (b->out_row[i] < 0 || (uint32_t)b->out_row[i] >= b->n_rows) return TN_E_ARG;
  }
  return TN_OK;
}

/* ---------------------------------------------------------------- pages */

/* Page `at` of a view is a page of its layout's pool. */
static bool page_ok(const tn_kv *kv, const ref_group *g, const tn_kv_view *v, int64_t at, bool may_be_freed)
{
  const uint32_t layout = v->layout ? v->layout[at] : 0;
  if (at >= (int64_t)v->n_pages || layout >= g->n_layouts) return false;
  if (v->page[at] < 0) return may_be_freed;
  return (uint32_t)v->page[at] < kv->pools[g->pools[layout]].n_pages;
}

bool tn_ref_view_ok(const tn_kv *kv, const ref_group *g, const tn_kv_view *v)
{
  if (!v || v->n < 0) return false;
  const int64_t pages = (v->n + kv->page_tokens - 1) / kv->page_tokens;
  if (pages > (int64_t)v->n_pages) return false;
  for (int64_t at = 0; at < pages; at++) {
    if (!page_ok(kv, g, v, at, true)) return false;
  }
  if (g->kind != TN_KV_STATE) return true;
  return v->state >= 0 && (uint32_t)v->state < kv->pools[g->state_pool].n_pages && v->folded >= 0 &&
         v->folded % g->fold == 0 && v->folded <= v->n;
}

/* The row's own entry, and with `ancestors` those it sees, lie in pages; new entries are in layout 0. */
static bool entries_ok(const tn_kv *kv, const ref_group *g, const tn_kv_view *v, const tn_batch *b, int64_t row,
                       bool ancestors)
{
  for (int64_t o = ancestors && b->path_off[row] >= 0 ? 0 : b->ord[row]; o <= b->ord[row]; o++) {
    const int64_t slot = tn_ref_slot_at(b, row, o), at = (v->n + slot) / kv->page_tokens;
    if (slot < 0 || !page_ok(kv, g, v, at, false) || (v->layout && v->layout[at] != 0)) return false;
  }
  if (!ancestors || b->path_off[row] >= 0) return true;
  for (int64_t at = v->n / kv->page_tokens; at <= (v->n + b->ord[row]) / kv->page_tokens; at++) {
    if (!page_ok(kv, g, v, at, false)) return false;
  }
  return true;
}

tn_status tn_ref_view_check(const ref_call *c)
{
  const tn_kv *kv = c->p->kv;
  const tn_batch *b = c->b;
  for (uint32_t h = 0; h < c->op->p.attend.n_kv_heads; h++) {
    const uint32_t group = c->heads[h].group;
    const ref_group *g = &kv->groups[group];
    if (h && group == c->heads[h - 1].group) continue;
    for (int64_t first = 0, last; first < b->n_rows; first = last) {
      last = tn_ref_same_seq(b, first);
      const tn_seq_view *s = b->seqs[b->seq[first]];
      if (group >= s->n_groups || !tn_ref_view_ok(kv, g, s->kv[group])) return TN_E_ARG;
      for (int64_t r = first; r < last; r++) {
        if (!entries_ok(kv, g, s->kv[group], b, r, c->op->kind != TN_OP_KV_WRITE)) return TN_E_ARG;
      }
      if (c->op->kind == TN_OP_ATTEND && g->keys == TN_KEYS_RAW && (!s->kv[group]->cos || !s->kv[group]->sin)) {
        return TN_E_ARG;
      }
    }
  }
  return TN_OK;
}
