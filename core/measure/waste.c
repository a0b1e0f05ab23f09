/* waste: see waste.h. */
#include "measure/waste.h"

#include "engine/engine_int.h"

tn_waste_now tn_waste_look(const tn_engine *e, int64_t (*n_end)(void *ctx, const tn_seq *s), void *ctx)
{
  tn_kv_shares k = tn_kv_shares_of(e->kv);
  tn_waste_now now = {.total = k.total, .held = k.held, .idle = k.idle, .free = k.free};
  for (const tn_seq *s = e->first; s; s = s->next) {
    if (!s->kv) continue;
    now.n_seqs++;
    now.empty += tn_kv_empty_bytes(e->kv, s->kv, (int64_t)s->run + s->n_nodes);
    now.to_come += tn_kv_bytes_to_come(e->kv, s->kv, n_end(ctx, s));
  }
  now.n_waiting = e->n_seqs - now.n_seqs;
  return now;
}

void tn_waste_add(tn_waste *w, const tn_waste_now *now, double seconds)
{
  uint64_t taken = now->held + now->idle + now->free;
  uint64_t promised = now->total > taken ? now->total - taken : 0;
  uint64_t temporary = promised < now->to_come ? promised : now->to_come;
  w->seconds += seconds;
  w->total += (double)now->total * seconds;
  w->filled += (double)(now->held - now->empty) * seconds;
  w->internal += (double)now->empty * seconds;
  w->temporary += (double)temporary * seconds;
  w->external += (double)(promised - temporary) * seconds;
  w->free += (double)(now->idle + now->free) * seconds;
  if (now->n_waiting > 0) w->free_waiting += (double)(now->idle + now->free) * seconds;
  w->seqs += now->n_seqs * seconds;
  if (now->n_seqs > w->peak_seqs) w->peak_seqs = now->n_seqs;
  if (now->held > w->peak_held) w->peak_held = now->held;
}

double tn_waste_share(const tn_waste *w, double x)
{
  double occupied = w->filled + w->internal + w->temporary + w->external;
  return occupied > 0 ? x / occupied : 0;
}
