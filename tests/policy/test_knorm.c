/* knorm: what it keeps is what a sort by norms of its own keeps, on both backends; the norms are those of the keys; a budget
 * that is never passed changes no bit, nor does the way it is run. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "engine/engine_int.h"
#include "evict_rig.h"

#define KNORM "compose.eviction=knorm", "eviction.knorm.every=16", "eviction.knorm.sinks=2", "eviction.knorm.recent=6"
#define RULE .policy = ORACLE_KNORM, .budget = 24, .sinks = 2, .recent = 6, .every = 16

#define FOLLOW(name_, backend_, model_, unit_, skip_, always_, ...)                                             \
  Test(policy_knorm, name_)                                                                                     \
  {                                                                                                             \
    static const char *const sets[] = {KNORM, "eviction.knorm.budget=24", "eviction.knorm.skip_layers=" #skip_, \
                                       __VA_ARGS__, NULL};                                                      \
    evict_case c = {backend_, model_, sets, {RULE, .unit = unit_, .skip_layers = skip_, .always = always_}};    \
    evict_seen seen = evict_follow(&c, 11);                                                                     \
    cr_expect(seen.dropped > 50);                                                                               \
    cr_expect(eq(int, seen.heads_differ, unit_ == ORACLE_HEAD), "does each head have its own?");                \
    evict_scores(&c, 8);                                                                                        \
  }
FOLLOW(brute_force_ref, "ref", "llama", ORACLE_HEAD, 1, false, "eviction.knorm.unit=head")
FOLLOW(brute_force_cpu, "cpu", "llama", ORACLE_HEAD, 1, false, "eviction.knorm.unit=head")
FOLLOW(brute_force_every_layer, "cpu", "llama", ORACLE_HEAD, 0, false, "eviction.knorm.unit=head")
FOLLOW(brute_force_windows_ref, "ref", "gemma3", ORACLE_HEAD, 1, false, "eviction.knorm.unit=head")
FOLLOW(brute_force_windows_cpu, "cpu", "gemma3", ORACLE_HEAD, 1, false, "eviction.knorm.unit=head")
FOLLOW(brute_force_layer, "cpu", "llama", ORACLE_LAYER, 1, false, "eviction.knorm.unit=layer")
FOLLOW(brute_force_all, "cpu", "llama", ORACLE_ALL, 1, false, "eviction.knorm.unit=all")
FOLLOW(brute_force_always, "cpu", "llama", ORACLE_HEAD, 1, true, "eviction.knorm.acts=always")

Test(policy_knorm, budget_as_a_share)
{
  static const char *const sets[] = {KNORM, "eviction.knorm.share=0.25", "eviction.knorm.skip_layers=0", NULL};
  evict_case c = {"cpu", "llama", sets, {RULE}};
  c.rule.budget = 19;
  cr_expect(evict_follow(&c, 11).dropped > 50);
}

Test(policy_knorm, demotes_the_next_best)
{
  static const char *const sets[] = {KNORM,
                                     "eviction.knorm.budget=24",
                                     "eviction.knorm.demoted=16",
                                     "eviction.knorm.skip_layers=1",
                                     "compose.demote=probe",
                                     "quantizer.probe@demote.kv=f32",
                                     NULL};
  evict_case c = {"ref", "llama", sets, {RULE, .demoted = 16, .skip_layers = 1}};
  evict_seen seen = evict_follow(&c, 11);
  cr_expect(seen.dropped > 50 && seen.narrow > 50);
}

#define FULL(name_, backend_, model_)                                                                    \
  Test(policy_knorm, name_)                                                                              \
  {                                                                                                      \
    static const char *const sets[] = {KNORM, "eviction.knorm.budget=500", "eviction.knorm.acts=always", \
                                       "eviction.knorm.skip_layers=1", NULL};                            \
    evict_like_full(backend_, model_, sets);                                                             \
  }
FULL(full_budget_ref, "ref", "llama")
FULL(full_budget_cpu, "cpu", "llama")
FULL(full_budget_windows_cpu, "cpu", "gemma3")

#define SAME(name_, model_, ...)                                                                                       \
  Test(policy_knorm, name_)                                                                                            \
  {                                                                                                                    \
    static const char *const sets[] = {KNORM, "eviction.knorm.budget=24", "eviction.knorm.skip_layers=1", __VA_ARGS__, \
                                       NULL};                                                                          \
    evict_invariant("cpu", model_, sets);                                                                              \
  }
SAME(same_bits, "llama", "eviction.knorm.unit=head")
SAME(same_bits_windows, "gemma3", "eviction.knorm.unit=head")
SAME(same_bits_always, "llama", "eviction.knorm.acts=always")

Test(policy_knorm, shared_prefixes)
{
  static const char *const sets[] = {KNORM, "eviction.knorm.budget=24", "eviction.knorm.skip_layers=1", NULL};
  evict_shared("cpu", "llama", sets);
}

/* A model whose layers are all skipped is left as it is. */
Test(policy_knorm, skipped_layers_keep_everything)
{
  static const char *const sets[] = {"compose.backend=cpu", "compose.eviction=knorm", "eviction.knorm.budget=72",
                                     "eviction.knorm.skip_layers=1024", NULL};
  int32_t prompt[100];
  rig *r = rig_open(rig_tiny("llama"), sets);
  rig_tokens(3, r->n_vocab, prompt, 100);
  rig_generate(r, prompt, 100, 20);
  rig_run(r, 1);
  cr_expect(r->r[0].why == TN_FINISH_LENGTH && r->r[0].n_dropped == 0);
  rig_close(r);
}

Test(policy_knorm, refusals)
{
  evict_refused((const char *const[]){"compose.eviction=knorm", "eviction.knorm.budget=68", NULL},
                "budget = 68 leaves nothing beside sinks + recent = 68");
  evict_refused((const char *const[]){"compose.eviction=knorm", "eviction.knorm.demoted=8", NULL},
                "demoted = 8, but demote = names no quantizer");
}
