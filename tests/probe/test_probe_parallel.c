/* parallel/probe on the engine: uneven shares and pipeline stages give the bits of one rank. */
#include <criterion/criterion.h>
#include <string.h>

#include "probe_rig.h"

enum { SEQS = 3 };

/* Three KV heads, three parts of every divided sum. */
static const tiny_spec three = {
    .layers = 4, .d = 96, .heads = 6, .kv_heads = 3, .dh = 32, .ff = 192, .vocab = 300, .head = true};

static rig *run(const tiny_spec *spec, const char *model, const char *const *sets)
{
  static int32_t prompts[SEQS][90];
  probe_sets s;
  probe_base(&s);
  for (; sets && *sets; sets++) probe_set(&s, "%s", *sets);
  rig *r = spec ? probe_open_spec(spec, &s) : probe_open(rig_tiny(model), &s);
  for (uint32_t i = 0; i < SEQS; i++) {
    rig_tokens(i + 1, r->n_vocab, prompts[i], 90);
    rig_generate(r, prompts[i], 4 + 21 * (int64_t)i, 12);
    rig_score(r, prompts[i], 80 - 20 * (int64_t)i);
  }
  rig_run(r, 3);
  return r;
}

/* The settings of a split beside those that one rank gets as well. */
static void equal(const tiny_spec *spec, const char *model, const char *const *both, const char *const *split)
{
  const char *all[24];
  size_t n = 0;
  for (size_t i = 0; both && both[i]; i++) all[n++] = both[i];
  all[n++] = "compose.parallel=probe";
  for (size_t i = 0; split[i]; i++) all[n++] = split[i];
  all[n] = NULL;
  rig *one = run(spec, model, both), *many = run(spec, model, all);
  probe_equal(split[0], one, many);
  cr_assert_gt(rig_counter(many, "parallel", 0), 1, "all ranks were planned");
  rig_close(one);
  rig_close(many);
}

#define SPLIT(name_, spec_, model_, ...)                    \
  Test(probe_parallel, name_)                               \
  {                                                         \
    static const char *const split[] = {__VA_ARGS__, NULL}; \
    equal(spec_, model_, NULL, split);                      \
  }
SPLIT(heads, NULL, "llama", "parallel.probe.heads=1, 1", "parallel.probe.segments=1, 1")
SPLIT(logits, NULL, "llama", "parallel.probe.logits=100, 188")
SPLIT(all_at_once, NULL, "llama", "parallel.probe.heads=1, 1", "parallel.probe.segments=1, 1",
      "parallel.probe.logits=287, 1")
SPLIT(windows, NULL, "gemma3", "parallel.probe.heads=1, 1", "parallel.probe.segments=1, 1")
SPLIT(uneven_heads, &three, NULL, "parallel.probe.heads=1, 2")
SPLIT(uneven_heads_and_channels, &three, NULL, "parallel.probe.heads=2, 1", "parallel.probe.segments=1, 2")
SPLIT(three_ranks, &three, NULL, "parallel.probe.world=3", "parallel.probe.heads=1, 1, 1",
      "parallel.probe.segments=1, 1, 1", "parallel.probe.logits=7, 200, 93")
SPLIT(two_stages, NULL, "llama", "parallel.probe.layers=2, 1")
SPLIT(stages_of_one_layer, NULL, "llama", "parallel.probe.world=3", "parallel.probe.layers=1, 1, 1")
SPLIT(stages_with_windows, NULL, "gemma3", "parallel.probe.world=3", "parallel.probe.layers=1, 4, 1")
SPLIT(stages_of_three_heads, &three, NULL, "parallel.probe.layers=3, 1")
SPLIT(small_steps, NULL, "llama", "parallel.probe.layers=1, 2", "engine.max_rows=5", "engine.threads=4")

#define BESIDE(name_, spec_, model_, split0_, split1_, ...)      \
  Test(probe_parallel, name_)                                    \
  {                                                              \
    static const char *const split[] = {split0_, split1_, NULL}; \
    static const char *const both[] = {__VA_ARGS__, NULL};       \
    equal(spec_, model_, both, split);                           \
  }
BESIDE(stages_and_trees, NULL, "llama", "parallel.probe.layers=1, 2", NULL, "compose.draft=probe")
BESIDE(stages_and_int8_cache, NULL, "llama", "parallel.probe.layers=1, 2", NULL, "compose.kv=int8")
BESIDE(stages_and_preemption, NULL, "llama", "parallel.probe.layers=1, 2", NULL, "compose.scheduler=probe",
       "scheduler.probe.preempt=12", "engine.max_rows=31")
BESIDE(heads_and_codes, &three, NULL, "parallel.probe.heads=1, 2", "parallel.probe.segments=2, 1",
       "compose.weights=probe", "quantizer.probe@weights.layout=affine_int")
BESIDE(heads_and_exotic_codes, &three, NULL, "parallel.probe.heads=1, 2", "parallel.probe.segments=2, 1",
       "compose.weights=probe", "quantizer.probe@weights.layout=exotic")
BESIDE(heads_and_streaming, &three, NULL, "parallel.probe.heads=1, 2", NULL, "compose.eviction=streaming_llm",
       "eviction.streaming_llm.window=20")

/* ---------------------------------------------------------------- plans that cannot be */

static void refused(const char *a, const char *b, const char *says)
{
  const char *const sets[] = {"compose.backend=ref", "compose.parallel=probe", a, b, NULL};
  rig *r;
  tn_err err = tn_err_init();
  cr_assert(rig_try(rig_tiny("llama"), sets, &r, &err) != TN_OK, "%s", a);
  cr_assert(strstr(err.msg, says), "%s", err.msg);
}
Test(probe_parallel, a_list_for_other_ranks)
{
  refused("parallel.probe.layers=1, 1, 1", NULL, "a list wants as many numbers as ranks");
}
Test(probe_parallel, layers_that_nobody_has)
{
  refused("parallel.probe.layers=1, 2", "parallel.probe.gap=1", "rank 1, the last one: its layers end at 2 of 3");
}
Test(probe_parallel, heads_that_nobody_has) { refused("parallel.probe.heads=1, 1", "parallel.probe.gap=1", "heads"); }
Test(probe_parallel, logits_that_nobody_has)
{
  refused("parallel.probe.logits=100, 188", "parallel.probe.gap=1",
          "rank 1, the last one: its logits end at 287 of 288");
}
Test(probe_parallel, layers_that_two_have) { refused("parallel.probe.layers=2, 2", NULL, "layers"); }
Test(probe_parallel, stages_out_of_order) { refused("parallel.probe.layers=0, 3", NULL, "layers"); }
