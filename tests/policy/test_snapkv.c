/* snapkv: what it keeps of a prompt is what brute force keeps on attention in double, on both backends and however the prompt
 * was cut; a budget that holds the prompt changes no bit. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "evict_rig.h"
#include "support/plugin_rig.h"

#define SNAP "compose.eviction=snapkv", "eviction.snapkv.window=8"
#define RULE .policy = ORACLE_SNAPKV, .budget = 24, .window = 8, .kernel = 5

#define FOLLOW(name_, backend_, model_, unit_, kernel_, ...)                                     \
  Test(policy_snapkv, name_)                                                                     \
  {                                                                                              \
    static const char *const sets[] = {SNAP, "eviction.snapkv.budget=24", __VA_ARGS__, NULL};    \
    evict_case c = {backend_, model_, sets, {RULE, .unit = unit_}};                              \
    c.rule.kernel = kernel_;                                                                     \
    evict_seen seen = evict_follow(&c, 7);                                                       \
    cr_expect(seen.dropped > 50);                                                                \
    cr_expect(eq(int, seen.heads_differ, unit_ == ORACLE_HEAD), "does each head have its own?"); \
    evict_scores(&c, 8);                                                                         \
  }
FOLLOW(brute_force_ref, "ref", "llama", ORACLE_HEAD, 5, "eviction.snapkv.unit=head")
FOLLOW(brute_force_cpu, "cpu", "llama", ORACLE_HEAD, 5, "eviction.snapkv.unit=head")
FOLLOW(brute_force_windows_ref, "ref", "gemma3", ORACLE_HEAD, 5, "eviction.snapkv.unit=head")
FOLLOW(brute_force_windows_cpu, "cpu", "gemma3", ORACLE_HEAD, 5, "eviction.snapkv.unit=head")
FOLLOW(brute_force_kernel_1, "cpu", "llama", ORACLE_HEAD, 1, "eviction.snapkv.kernel=1")
FOLLOW(brute_force_kernel_7, "cpu", "llama", ORACLE_HEAD, 7, "eviction.snapkv.kernel=7")
FOLLOW(brute_force_layer, "cpu", "llama", ORACLE_LAYER, 5, "eviction.snapkv.unit=layer")
FOLLOW(brute_force_all, "cpu", "llama", ORACLE_ALL, 5, "eviction.snapkv.unit=all")

/* 0.4 of 75 tokens; and a share that is smaller than the window keeps the window. */
Test(policy_snapkv, budget_as_a_share)
{
  static const char *const sets[] = {SNAP, "eviction.snapkv.share=0.4", NULL};
  static const char *const few[] = {SNAP, "eviction.snapkv.share=0.01", NULL};
  evict_case c = {"cpu", "llama", sets, {RULE}};
  c.rule.budget = 30;
  cr_expect(evict_follow(&c, 7).dropped > 50);
  c.sets = few;
  c.rule.budget = 8;
  cr_expect(evict_follow(&c, 7).dropped > 50);
}

Test(policy_snapkv, demotes_the_next_best)
{
  static const char *const sets[] = {SNAP,
                                     "eviction.snapkv.budget=24",
                                     "eviction.snapkv.demoted=16",
                                     "compose.demote=probe",
                                     "quantizer.probe@demote.kv=f32",
                                     NULL};
  evict_case c = {"ref", "llama", sets, {RULE, .demoted = 16}};
  evict_seen seen = evict_follow(&c, 7);
  cr_expect(seen.dropped > 50 && seen.narrow > 50);
}

#define FULL(name_, backend_, model_)                                             \
  Test(policy_snapkv, name_)                                                      \
  {                                                                               \
    static const char *const sets[] = {SNAP, "eviction.snapkv.budget=130", NULL}; \
    evict_like_full(backend_, model_, sets);                                      \
  }
FULL(full_budget_ref, "ref", "llama")
FULL(full_budget_cpu, "cpu", "llama")
FULL(full_budget_windows_cpu, "cpu", "gemma3")

#define SAME(name_, model_)                                                      \
  Test(policy_snapkv, name_)                                                     \
  {                                                                              \
    static const char *const sets[] = {SNAP, "eviction.snapkv.budget=24", NULL}; \
    evict_invariant("cpu", model_, sets);                                        \
  }
SAME(same_bits, "llama")
SAME(same_bits_windows, "gemma3")

Test(policy_snapkv, shared_prefixes)
{
  static const char *const sets[] = {SNAP, "eviction.snapkv.budget=24", NULL};
  evict_shared("cpu", "llama", sets);
}

/* ---------------------------------------------------------------- the plugin alone */

/* The window's own keys stay and lend nothing to their neighbours; places are those of the text. */
Test(policy_snapkv, pools_over_the_prefix)
{
  plugin_rig *p = plugin_rig_open(TN_SLOT_EVICTION, "snapkv", (const char *const[]){"window=2", "kernel=3", NULL});
  const tn_eviction_v1 *v = p->vtable;
  static const int64_t pos[] = {0, 1, -1, 5, 6, 7, 8, 9};
  static const int64_t window[] = {8, 1, 100, 2, 4, 16, 1000, 1000};
  float score[8];
  uint8_t verdict[8] = {0};
  tn_evict_unit u = {
      .struct_size = sizeof u, .n = 8, .keep = 4, .pos = pos, .window = window, .score = score, .verdict = verdict};
  const tn_evict_unit *const units[] = {&u};
  cr_assert(v->score(p->inst, 1, 1, units) == TN_OK);
  static const float want[] = {9, 9, 0, 6, 22, 20};
  for (int i = 0; i < 6; i++) cr_expect(i == 2 || score[i] == want[i], "entry %d: %g", i, (double)score[i]);
  cr_expect(score[6] > 1e20f && score[7] > 1e20f);
  plugin_rig_close(p);
}

Test(policy_snapkv, refusals)
{
  evict_refused((const char *const[]){"compose.eviction=snapkv", "eviction.snapkv.kernel=4", NULL},
                "kernel = 4: must be odd");
  evict_refused((const char *const[]){"compose.eviction=snapkv", "eviction.snapkv.budget=32", NULL},
                "budget = 32 leaves nothing beside window = 32");
  evict_refused((const char *const[]){"compose.eviction=snapkv", "compose.demote=int8", NULL},
                "demote = int8 would store nothing, since demoted = 0");
}
