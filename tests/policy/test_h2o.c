/* h2o: what it decides is what brute force decides on attention in double, on both backends; a budget that is never passed
 * changes no bit, nor does the way it is run; without heavy hitters it is a window. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>

#include "evict_rig.h"
#include "support/naive.h"
#include "support/plugin_rig.h"

#define H2O "compose.eviction=h2o", "eviction.h2o.every=16"
#define RULE .policy = ORACLE_H2O, .budget = 24, .recent = 12, .every = 16

#define FOLLOW(name_, backend_, model_, unit_, always_, ...)                                     \
  Test(policy_h2o, name_)                                                                        \
  {                                                                                              \
    static const char *const sets[] = {H2O, "eviction.h2o.budget=24", __VA_ARGS__, NULL};        \
    evict_case c = {backend_, model_, sets, {RULE, .unit = unit_, .always = always_}};           \
    evict_seen seen = evict_follow(&c, 7);                                                       \
    cr_expect(seen.dropped > 100);                                                               \
    cr_expect(eq(int, seen.heads_differ, unit_ == ORACLE_HEAD), "does each head have its own?"); \
    evict_scores(&c, 8);                                                                         \
  }
FOLLOW(brute_force_ref, "ref", "llama", ORACLE_HEAD, false, "eviction.h2o.unit=head")
FOLLOW(brute_force_cpu, "cpu", "llama", ORACLE_HEAD, false, "eviction.h2o.unit=head")
FOLLOW(brute_force_windows_ref, "ref", "gemma3", ORACLE_HEAD, false, "eviction.h2o.unit=head")
FOLLOW(brute_force_windows_cpu, "cpu", "gemma3", ORACLE_HEAD, false, "eviction.h2o.unit=head")
FOLLOW(brute_force_layer, "cpu", "llama", ORACLE_LAYER, false, "eviction.h2o.unit=layer")
FOLLOW(brute_force_all, "cpu", "llama", ORACLE_ALL, false, "eviction.h2o.unit=all")
FOLLOW(brute_force_always, "cpu", "llama", ORACLE_HEAD, true, "eviction.h2o.acts=always")

/* A quarter of 75 tokens, rounded up. */
Test(policy_h2o, budget_as_a_share)
{
  static const char *const sets[] = {H2O, "eviction.h2o.share=0.25", "eviction.h2o.recent=0.25", NULL};
  evict_case c = {"cpu", "llama", sets, {RULE}};
  c.rule.budget = 19;
  c.rule.recent = 4;
  cr_expect(evict_follow(&c, 7).dropped > 100);
}

/* The best 24 in full width, the next 16 in a layout of their own: here one that loses nothing. */
Test(policy_h2o, demotes_the_next_best)
{
  static const char *const sets[] = {
      H2O, "eviction.h2o.budget=24", "eviction.h2o.demoted=16", "compose.demote=probe", "quantizer.probe@demote.kv=f32",
      NULL};
  evict_case c = {"ref", "llama", sets, {RULE, .demoted = 16}};
  evict_seen seen = evict_follow(&c, 7);
  cr_expect(seen.dropped > 100 && seen.narrow > 100);
}

/* No heavy hitters: a decision behind every token leaves the last 24, so a query sees those and itself. */
Test(policy_h2o, recent_alone_is_a_window)
{
  static const char *const sets[] = {"compose.eviction=h2o",  "eviction.h2o.budget=24",   "eviction.h2o.every=1",
                                     "eviction.h2o.recent=1", "eviction.h2o.acts=always", NULL};
  oracle_rule window = {.policy = ORACLE_H2O, .budget = 24, .recent = 24, .every = 1, .always = true};
  evict_case c = {"ref", "llama", sets, window};
  evict_scores(&c, 8);
  static const char *const base[] = {"compose.backend=ref",
                                     "engine.activations=f32",
                                     "compose.eviction=streaming_llm",
                                     "eviction.streaming_llm.sinks=0",
                                     "eviction.streaming_llm.window=25",
                                     NULL};
  static const char *const mine[] = {
      "compose.backend=ref",  "engine.activations=f32", "compose.eviction=h2o",     "eviction.h2o.budget=24",
      "eviction.h2o.every=1", "eviction.h2o.recent=1",  "eviction.h2o.acts=always", NULL};
  rig_pair p = rig_score_both(rig_tiny("llama"), base, mine, 3, 100);
  double worst = 0;
  for (size_t i = 0; i < (size_t)100 * p.a->n_vocab; i++) {
    worst = naive_worse(worst, fabs((double)p.a->r[0].rows[i] - (double)p.b->r[0].rows[i]));
  }
  cr_expect(worst < 1e-4, "off by %g", worst);
  rig_close_both(p);
}

/* ---------------------------------------------------------------- what changes nothing */

#define FULL(name_, backend_, model_, ...)                                                 \
  Test(policy_h2o, name_)                                                                  \
  {                                                                                        \
    static const char *const sets[] = {H2O, "eviction.h2o.budget=500", __VA_ARGS__, NULL}; \
    evict_like_full(backend_, model_, sets);                                               \
  }
FULL(full_budget_ref, "ref", "llama", "eviction.h2o.acts=always")
FULL(full_budget_cpu, "cpu", "llama", "eviction.h2o.acts=always")
FULL(full_budget_windows_cpu, "cpu", "gemma3", "eviction.h2o.acts=after_prompt")

Test(policy_h2o, the_whole_prompt_as_a_share)
{
  static const char *const sets[] = {"compose.eviction=h2o", "eviction.h2o.share=1", "eviction.h2o.every=4096", NULL};
  evict_like_full("cpu", "llama", sets);
}

#define SAME(name_, model_, ...)                                                          \
  Test(policy_h2o, name_)                                                                 \
  {                                                                                       \
    static const char *const sets[] = {H2O, "eviction.h2o.budget=24", __VA_ARGS__, NULL}; \
    evict_invariant("cpu", model_, sets);                                                 \
  }
SAME(same_bits, "llama", "eviction.h2o.unit=head")
SAME(same_bits_windows, "gemma3", "eviction.h2o.unit=head")
SAME(same_bits_always, "llama", "eviction.h2o.acts=always", "eviction.h2o.unit=layer")

Test(policy_h2o, shared_prefixes)
{
  static const char *const sets[] = {H2O, "eviction.h2o.budget=24", NULL};
  static const char *const always[] = {H2O, "eviction.h2o.budget=24", "eviction.h2o.acts=always", NULL};
  evict_shared("cpu", "llama", sets);
  evict_shared("cpu", "llama", always);
}

/* ---------------------------------------------------------------- positions and refusals */

static void when_is(const char *acts, int64_t pos, int64_t next, int64_t keep)
{
  const char *const sets[] = {"budget=100", "every=32", acts, NULL};
  plugin_rig *p = plugin_rig_open(TN_SLOT_EVICTION, "h2o", sets);
  const tn_eviction_v1 *v = p->vtable;
  tn_evict_when w = {.struct_size = sizeof w, .n_prompt = 70, .pos = pos, .next = TN_POS_INF, .keep = -1, .full = -1};
  cr_assert(v->when(p->inst, &w) == TN_OK);
  cr_expect(w.next == next && w.keep == keep && w.full == -1, "%s at %lld: next %lld, keep %lld", acts, (long long)pos,
            (long long)w.next, (long long)w.keep);
  plugin_rig_close(p);
}

Test(policy_h2o, acts_at_positions)
{
  when_is("acts=after_prompt", 0, 70, -1);
  when_is("acts=after_prompt", 64, 70, -1);
  when_is("acts=after_prompt", 70, 96, 100);
  when_is("acts=after_prompt", 95, 96, -1);
  when_is("acts=after_prompt", 96, 128, 100);
  when_is("acts=always", 0, 32, -1);
  when_is("acts=always", 32, 64, 100);
  when_is("acts=always", 70, 96, -1);
}

Test(policy_h2o, refusals)
{
  evict_refused((const char *const[]){"compose.eviction=h2o", "eviction.h2o.demoted=8", NULL},
                "demoted = 8, but demote = names no quantizer");
  evict_refused((const char *const[]){"compose.eviction=h2o", "compose.demote=int8", NULL},
                "demote = int8 would store nothing, since demoted = 0");
  evict_refused((const char *const[]){"compose.eviction=h2o", "eviction.h2o.budget=0", NULL}, "budget");
}
