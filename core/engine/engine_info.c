/* engine_info: figures, counters and run-time options of an engine. See engine.h. */
#include <string.h>

#include "engine_int.h"

/* The scarcest pool decides how many entries and how many sequences of full length there is room for. */
static void pool_limits(const tn_engine *e, tn_engine_info *i)
{
  i->kv_tokens = UINT64_MAX;
  i->concurrency = e->cfg.max_seqs;
  for (uint32_t p = 0; p < e->groups.n_pools; p++) {
    uint64_t groups = 0;
    for (uint32_t g = 0; g < e->n_groups; g++) groups += e->groups.g[g].desc.pools[0] == p;
    double sequences = (double)e->groups.pool_pages[p] / (double)e->groups.pages_per_seq[p];
    if (sequences < i->concurrency) i->concurrency = sequences;
    uint64_t tokens = groups ? e->groups.pool_pages[p] / groups * e->groups.page_tokens : UINT64_MAX;
    if (tokens < i->kv_tokens) i->kv_tokens = tokens;
  }
}

static void count_seqs(const tn_engine *e, tn_engine_info *i)
{
  tn_prefix_stat p = tn_kv_prefix_stat(e->kv);
  i->kv_bytes_idle = p.idle_bytes;
  i->prefix_asked = p.asked, i->prefix_found = p.found, i->prefix_reclaimed = p.reclaimed;
  for (const tn_seq *s = e->first; s; s = s->next) {
    i->n_running += s->kv != NULL;
    i->n_swapped += s->swapped != NULL;
    i->n_waiting += !s->kv && !s->swapped;
  }
}

tn_engine_info tn_engine_stat(const tn_engine *e)
{
  tn_engine_info i = {.world = e->exec->world,
                      .threads = e->cfg.threads,
                      .max_rows = e->cfg.max_rows,
                      .max_seqs = e->cfg.max_seqs,
                      .n_groups = e->n_groups,
                      .page_tokens = e->groups.page_tokens,
                      .ctx = e->cfg.ctx,
                      .kv_bytes_total = tn_kv_bytes_total(e->kv),
                      .kv_bytes_used = tn_kv_bytes_used(e->kv),
                      .steps = e->step,
                      .rows = e->rows,
                      .n_preempted = e->n_preempted,
                      .device = "",
                      .prefix_cache = e->prefix_cache,
                      .n_submitted = e->n_submitted,
                      .n_finished = e->n_finished,
                      .n_swapped_out = e->n_swapped_out,
                      .n_prompt_tokens = e->n_prompt_tokens,
                      .n_new_tokens = e->n_new_tokens,
                      .n_drafted = e->n_drafted,
                      .n_accepted = e->n_accepted};
  pool_limits(e, &i);
  count_seqs(e, &i);
  for (uint32_t r = 0; r < e->exec->world; r++) {
    tn_weights_stats w = tn_weights_stat(e->exec->ranks[r].weights);
    i.weights_bytes += w.file_bytes;
    i.weights_kept += w.n_kept;
  }
  tn_backend_info b = {.struct_size = sizeof b};
  const tn_rank *r0 = &e->exec->ranks[0];
  if (r0->b->info(r0->backend.inst, &b) == TN_OK && b.device) i.device = b.device;
  return i;
}

uint32_t tn_engine_counters(const tn_engine *e, tn_counter *out, uint32_t n)
{
  const char *key;
  const tn_instance *in;
  uint32_t have = 0;
  for (uint32_t i = 0; tn_engine_instance(e, i, &key, &in); i++) {
    if (!in->desc || !in->desc->counters) continue;
    for (uint32_t k = 0; in->desc->counters[k]; k++, have++)
      if (have < n) out[have] = (tn_counter){key, in->desc->name, in->desc->counters[k], tn_instance_count(in, k)};
  }
  return have;
}

tn_status tn_engine_set(tn_engine *e, uint32_t slot, const char *name, const char *key, const tn_value *value,
                        tn_err *err)
{
  const char *at;
  const tn_instance *in;
  bool found = false;
  for (uint32_t i = 0; tn_engine_instance(e, i, &at, &in); i++) {
    if (!in->desc || in->desc->slot != slot || strcmp(in->desc->name, name) != 0) continue;
    uint32_t k = 0;
    while (in->desc->params && in->desc->params[k] && strcmp(in->desc->params[k]->key, key) != 0) k++;
    const tn_param *p = in->desc->params ? in->desc->params[k] : NULL;
    if (!p) return tn_fail(err, TN_E_ARG, "%s has no option %s", name, key);
    if (!(p->flags & TN_P_RUNTIME) || !in->desc->set)
      return tn_fail(err, TN_E_UNSUPPORTED, "%s.%s cannot be changed while the engine runs", name, key);
    tn_status st = in->desc->set(in->inst, k, value, err);
    if (st != TN_OK) return st;
    found = true;
    e->options++;
  }
  return found ? TN_OK : tn_fail(err, TN_E_ARG, "the composition has no %s", name);
}

bool tn_engine_check(const tn_engine *e, tn_err *err)
{
  const tn_kv_seq *held[TN_MAX_SEQS];
  uint32_t n = 0;
  for (const tn_seq *s = e->first; s; s = s->next)
    if (s->kv && n < TN_MAX_SEQS) held[n++] = s->kv;
  if (n != e->n_resident) {
    tn_fail(err, TN_E_INTERNAL, "%u sequences hold KV, %u are counted", n, e->n_resident);
    return false;
  }
  return tn_kv_check(e->kv, held, n, err);
}
