/* eviction/probe on the engine: what it decides, against brute force on a forward pass of its own (evict_sim). */
#include <criterion/criterion.h>
#include <math.h>

#include "evict_sim.h"
#include "probe_rig.h"

static const char *const policy[] = {"h2o", "snap", "knorm", "all"}, *const gran[] = {"all", "layer", "head"};
static const char *const verdict[] = {"score", "drop", "demote_even", "demote_all", "demote_none"};

static void put_rule(probe_sets *s, const evict_rule *r)
{
  probe_set(s, "compose.eviction=probe");
  probe_set(s, "eviction.probe.policy=%s", policy[r->policy]);
  probe_set(s, "eviction.probe.gran=%s", gran[r->gran]);
  probe_set(s, "eviction.probe.verdict=%s", verdict[r->verdict]);
  probe_set(s, "eviction.probe.budget=%lld", (long long)r->budget);
  probe_set(s, "eviction.probe.every=%lld", (long long)r->every);
  probe_set(s, "eviction.probe.recent=%lld", (long long)r->recent);
  probe_set(s, "eviction.probe.sinks=%lld", (long long)r->sinks);
  probe_set(s, "eviction.probe.window=%lld", (long long)r->window);
  probe_set(s, "eviction.probe.rank_rope=%d", r->rank_rope);
  probe_set(s, "eviction.probe.stateful=%d", r->stateful);
}

/* Every cell of the sequence holds what the simulator holds. */
static void same_sets(const rig *r, const tn_seq *s, const evict_sim *sim)
{
  const tn_engine *e = r->s.engine;
  int64_t have[SIM_MAX_T], want[SIM_MAX_T];
  for (uint32_t g = 0; g < e->n_groups; g++) {
    const tn_kv_group *d = &e->groups.g[g].desc;
    int64_t n = probe_positions(r, s, g, s->n_done, have);
    for (uint32_t l = 0; l < d->n_layers; l++)
      for (uint32_t h = 0; h < d->n_heads; h++) {
        uint32_t cell = (uint32_t)(d->layers[l] * (int32_t)e->model->shape.n_kv_heads + d->heads[h]);
        int64_t m = evict_sim_positions(sim, cell, s->n_done, want);
        cr_assert(n == m, "%lld tokens, cell %u: %lld entries, brute force has %lld", (long long)s->n_done, cell,
                  (long long)n, (long long)m);
        for (int64_t i = 0; i < n; i++)
          cr_assert(have[i] == want[i], "%lld tokens, cell %u: entry %lld is token %lld, brute force has %lld",
                    (long long)s->n_done, cell, (long long)i, (long long)have[i], (long long)want[i]);
      }
  }
}

/* Before anything is dropped each query has given one unit to each query head of the group. */
static void whole_attention(const rig *r, const tn_seq *s)
{
  const tn_engine *e = r->s.engine;
  uint32_t per = e->model->shape.n_heads / e->model->shape.n_kv_heads;
  for (uint32_t g = 0; g < e->n_groups; g++) {
    const tn_kv_group *d = &e->groups.g[g].desc;
    double sum = 0, want = (double)s->n_done * d->n_layers * d->n_heads * per;
    if (!s->signals->attn[g]) continue;
    for (int64_t i = 0; i < s->kv->t[g].n; i++) sum += ldexp((double)s->signals->attn[g][i], -32);
    cr_assert(fabs(sum - want) < 1e-4, "group %u: %lld queries gave %.9g, want %g", g, (long long)s->n_done, sum, want);
  }
}

/* Logits of every row of a scored prompt. */
static void same_logits(rig *r, const evict_rule *rule, const int32_t *prompt, int64_t n)
{
  rig_clear(r);
  rig_score(r, prompt, n);
  rig_run(r, 1);
  cr_assert_eq(r->r[0].n_rows, n);
  evict_sim *sim = evict_sim_open(r->s.model, rule, n);
  for (int64_t i = 0; i < n; i++) {
    evict_sim_push(sim, prompt[i]);
    double e = naive_error(sim->x, r->r[0].rows + (size_t)i * r->n_vocab);
    cr_assert(e < 1e-4, "row %lld is off by %g", (long long)i, e);
  }
  cr_assert(sim->n_dropped > 0);
  evict_sim_close(sim);
}

/* Generates by chunks of max_rows and compares the sets after every step. Returns entries that brute force dropped. */
static uint64_t follow(const char *model, const evict_rule *rule, int64_t n_prompt, int64_t n_new, int chunk)
{
  probe_sets sets;
  int32_t prompt[SIM_MAX_T];
  probe_base_f32(&sets);
  put_rule(&sets, rule);
  if (rule->verdict >= SIM_DEMOTE_EVEN) probe_set(&sets, "compose.demote=int8");
  probe_set(&sets, "engine.max_rows=%d", chunk);
  rig *r = probe_open(rig_tiny(model), &sets);
  rig_tokens(7, r->n_vocab, prompt, n_prompt);
  rig_generate(r, prompt, n_prompt, n_new);
  evict_sim *sim = evict_sim_open(r->s.model, rule, n_prompt);
  while (!tn_engine_idle(r->s.engine)) {
    probe_step(r);
    const tn_seq *s = r->s.engine->first;
    if (!s || !s->kv) continue;
    while (sim->x->n < s->n_done) evict_sim_push(sim, s->tokens[sim->x->n]);
    if (sim->n_dropped == 0 && rule->policy != SIM_ALL) whole_attention(r, s);
    same_sets(r, s, sim);
  }
  const probe_eviction *seen = probe_record(&r->s.engine->eviction);
  cr_assert_eq(seen->bad, 0);
  cr_assert_eq(seen->scores, (uint64_t)sim->decisions);
  cr_assert(sim->tightest > 1e-7, "a score is too near to another for the comparison to mean something");
  uint64_t dropped = sim->n_dropped;
  evict_sim_close(sim);
  if (rule->policy != SIM_SNAP) same_logits(r, rule, prompt, n_prompt);
  rig_close(r);
  return dropped;
}

#define FOLLOW(name_, model_, policy_, gran_, ...)                                                           \
  Test(probe_eviction, name_)                                                                                \
  {                                                                                                          \
    evict_rule rule = {                                                                                      \
        .policy = policy_, .gran = gran_, .budget = 24, .every = 16, .recent = 6, .window = 8, __VA_ARGS__}; \
    cr_assert(follow(model_, &rule, 75, 40, 33) > 0);                                                        \
  }
FOLLOW(h2o_all, "llama", SIM_H2O, SIM_GRAN_ALL, .sinks = 2)
FOLLOW(h2o_layer, "llama", SIM_H2O, SIM_GRAN_LAYER, .sinks = 0)
FOLLOW(h2o_head, "llama", SIM_H2O, SIM_GRAN_HEAD, .sinks = 0)
FOLLOW(snap_head, "llama", SIM_SNAP, SIM_GRAN_HEAD, .sinks = 0)
FOLLOW(knorm_head, "llama", SIM_KNORM, SIM_GRAN_HEAD, .sinks = 2)
FOLLOW(knorm_all, "llama", SIM_KNORM, SIM_GRAN_ALL, .sinks = 2)
FOLLOW(every_signal, "llama", SIM_ALL, SIM_GRAN_LAYER, .sinks = 1)
FOLLOW(drop_verdict, "llama", SIM_H2O, SIM_GRAN_HEAD, .verdict = SIM_DROP)
FOLLOW(rank_rope, "llama", SIM_H2O, SIM_GRAN_HEAD, .rank_rope = true)
FOLLOW(stateful, "llama", SIM_H2O, SIM_GRAN_HEAD, .stateful = true)
FOLLOW(gemma3_h2o_all, "gemma3", SIM_H2O, SIM_GRAN_ALL, .sinks = 0)
FOLLOW(gemma3_h2o_head, "gemma3", SIM_H2O, SIM_GRAN_HEAD, .sinks = 0)
FOLLOW(gemma3_snap_layer, "gemma3", SIM_SNAP, SIM_GRAN_LAYER, .sinks = 0)
FOLLOW(gemma3_knorm_head, "gemma3", SIM_KNORM, SIM_GRAN_HEAD, .sinks = 0)
FOLLOW(gemma3_rank_rope, "gemma3", SIM_KNORM, SIM_GRAN_HEAD, .rank_rope = true)

/* A budget below the window of gemma3's local layers. */
Test(probe_eviction, gemma3_small_budget)
{
  evict_rule rule = {.gran = SIM_GRAN_HEAD, .budget = 5, .every = 4, .recent = 2};
  cr_assert(follow("gemma3", &rule, 75, 40, 33) > 0);
}
