/* batch: a step's indices, checked so that no record reads or writes outside its arrays. */
#include "cpu.h"

int64_t tn_cpu_same_seq(const tn_batch *b, int64_t first)
{
  int64_t last = first + 1;
  while (last < b->n_rows && b->seq[last] == b->seq[first]) last++;
  return last;
}

int64_t tn_cpu_slot_at(const tn_batch *b, int64_t row, int64_t o)
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

/* ---------------------------------------------------------------- pages */

/* Page `at` of a view is a page of its layout's pool. */
static bool page_ok(const tn_kv *kv, const cpu_group *g, const tn_kv_view *v, int64_t at, bool may_be_freed)
{
  const uint32_t layout = v->layout ? v->layout[at] : 0;
  if (at >= (int64_t)v->n_pages || layout >= g->n_layouts) return false;
  if (v->page[at] < 0) return may_be_freed;
  return (uint32_t)v->page[at] < kv->pools[g->pools[layout]].n_pages;
}

/* What a view has committed can be read. */
static bool view_ok(const tn_kv *kv, const cpu_group *g, const tn_kv_view *v)
{
  if (!v || v->n < 0) return false;
  const int64_t pages = (v->n + kv->page_tokens - 1) / kv->page_tokens;
  if (pages > (int64_t)v->n_pages) return false;
  for (int64_t at = 0; at < pages; at++) {
    if (!page_ok(kv, g, v, at, true)) return false;
  }
  return true;
}

/* The row's own entry and those of its ancestors lie in pages; new entries are in layout 0. */
static bool entries_ok(const tn_kv *kv, const cpu_group *g, const tn_kv_view *v, const tn_batch *b, int64_t row)
{
  for (int64_t o = b->path_off[row] >= 0 ? 0 : b->ord[row]; o <= b->ord[row]; o++) {
    const int64_t slot = tn_cpu_slot_at(b, row, o), at = (v->n + slot) / kv->page_tokens;
    if (slot < 0 || !page_ok(kv, g, v, at, false) || (v->layout && v->layout[at] != 0)) return false;
  }
  if (b->path_off[row] >= 0) return true;
  for (int64_t at = v->n / kv->page_tokens; at <= (v->n + b->ord[row]) / kv->page_tokens; at++) {
    if (!page_ok(kv, g, v, at, false)) return false;
  }
  return true;
}

/* Every sequence's view of a group: what is committed, and the entries that the batch's rows write and see. */
static bool group_ok(const tn_kv *kv, uint32_t group, const tn_batch *b)
{
  const cpu_group *g = &kv->groups[group];
  for (int64_t first = 0; first < b->n_rows; first = tn_cpu_same_seq(b, first)) {
    const tn_seq_view *s = b->seqs[b->seq[first]];
    if (group >= s->n_groups || !view_ok(kv, g, s->kv[group])) return false;
    for (int64_t r = first; r < tn_cpu_same_seq(b, first); r++) {
      if (!entries_ok(kv, g, s->kv[group], b, r)) return false;
    }
  }
  return true;
}

/* ---------------------------------------------------------------- the whole batch */

static bool tables_ok(const tn_op_rope *r, const tn_batch *b)
{
  const float *const *cos = r->sink ? b->sink_cos : b->cos, *const *sin = r->sink ? b->sink_sin : b->sin;
  return r->table < b->n_tables && cos && sin && cos[r->table] && sin[r->table];
}

static bool tokens_ok(const cpu_op *rec, const tn_batch *b)
{
  for (uint32_t r = 0; r < b->n_rows; r++) {
    if (b->token[r] < 0 || b->token[r] >= rec->w.n) return false;
  }
  return true;
}

tn_status tn_cpu_batch_check(const tn_prepared *p, uint32_t first, uint32_t last, const tn_batch *b)
{
  if (b->n_rows > p->max_rows || b->n_out > p->max_out) return TN_E_ARG;
  for (uint32_t r = 0; r < b->n_rows; r++) {
    if (!row_ok(p, b, r)) return TN_E_ARG;
  }
  for (uint32_t i = 0; i < b->n_out; i++) {
    if (b->out_row[i] < 0 || (uint32_t)b->out_row[i] >= b->n_rows) return TN_E_ARG;
  }
  bool cache = false;
  for (uint32_t i = first; i < last; i++) {
    const cpu_op *rec = &p->ops[i];
    if (rec->op.kind == TN_OP_EMBED && !tokens_ok(rec, b)) return TN_E_ARG;
    if (rec->op.kind == TN_OP_ROPE && !tables_ok(&rec->op.p.rope, b)) return TN_E_ARG;
    cache = cache || rec->heads;
  }
  for (uint32_t g = 0; cache && g < p->kv->n_groups; g++) {
    if (!group_ok(p->kv, g, b)) return TN_E_ARG;
  }
  return TN_OK;
}
