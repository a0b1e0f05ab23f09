/* The same bits whatever the batch, the chunks and the threads: NUMERICS.md, on every backend and policy that claims it.
 * Each case scores prompts (all logits compared) and generates (tokens and logprobs compared). */
#include <criterion/criterion.h>
#include <stdio.h>

#include "support/engine_rig.h"

#define SEQS 8

/* Up to 12 settings of a case, NULL-terminated. */
typedef struct setting {
  const char *at[13];
} setting;

static setting with(const char *const *base, const char *a, const char *b)
{
  setting s = {{0}};
  int n = 0;
  for (; base[n]; n++) s.at[n] = base[n];
  if (a) s.at[n++] = a;
  if (b) s.at[n++] = b;
  return s;
}

static void submit_all(rig *r, int32_t prompts[SEQS][200], uint32_t from, uint32_t to)
{
  for (uint32_t i = from; i < to; i++) {
    rig_score(r, prompts[i], 40 + 20 * (int64_t)i);
    rig_generate(r, prompts[i], 7 + 11 * (int64_t)i, 12);
  }
}

/* Eight sequences together; then alone; then in chunks; then by other threads. */
static void check(const char *model, const char *const *base)
{
  static int32_t prompts[SEQS][200];
  setting plain = with(base, "engine.threads=1", "engine.max_rows=512");
  rig *together = rig_open(model, plain.at);
  for (uint32_t i = 0; i < SEQS; i++) rig_tokens(i + 1, together->n_vocab, prompts[i], 200);
  submit_all(together, prompts, 0, SEQS);
  rig_run(together, 3);
  rig *alone = rig_open(model, plain.at);
  for (uint32_t i = 0; i < SEQS; i++) {
    rig_clear(alone);
    submit_all(alone, prompts, i, i + 1);
    rig_run(alone, 0);
    cr_assert(rig_same(together, 2 * i, alone, 0), "sequence %u scored alone differs", i);
    cr_assert(rig_same(together, 2 * i + 1, alone, 1), "sequence %u generated alone differs", i);
  }
  rig_close(alone);
  static const char *const variants[][2] = {{"engine.threads=1", "engine.max_rows=1"},
                                            {"engine.threads=1", "engine.max_rows=7"},
                                            {"engine.threads=2", "engine.max_rows=64"},
                                            {"engine.threads=3", "engine.max_rows=512"}};
  for (size_t v = 0; v < TN_ARRAY_LEN(variants); v++) {
    setting other = with(base, variants[v][0], variants[v][1]);
    rig *r = rig_open(model, other.at);
    submit_all(r, prompts, 0, SEQS);
    rig_run(r, 0);
    for (uint32_t i = 0; i < 2 * SEQS; i++)
      cr_assert(rig_same(together, i, r, i), "result %u differs with %s, %s", i, variants[v][0], variants[v][1]);
    rig_close(r);
  }
  rig_close(together);
}

#define CASE(name_, model_, ...)                           \
  Test(engine_determinism, name_)                          \
  {                                                        \
    static const char *const base[] = {__VA_ARGS__, NULL}; \
    check(rig_tiny(model_), base);                         \
  }

CASE(ref_llama, "llama", "compose.backend=ref")
CASE(ref_gemma3, "gemma3", "compose.backend=ref")
CASE(ref_f32, "llama", "compose.backend=ref", "engine.activations=f32")
CASE(ref_streaming, "llama", "compose.backend=ref", "compose.eviction=streaming_llm",
     "eviction.streaming_llm.window=28")
CASE(ref_sliding, "llama", "compose.backend=ref", "compose.attention=sliding_window",
     "attention.sliding_window.window=24")
CASE(ref_kv_int8, "llama", "compose.backend=ref", "compose.kv=int8", "quantizer.int8@kv.group=32")
CASE(ref_contiguous, "llama", "compose.backend=ref", "compose.memory=contiguous")
CASE(ref_static_batch, "llama", "compose.backend=ref", "compose.scheduler=static_batch")
CASE(ref_speculation, "llama", "compose.backend=ref", "compose.draft=ngram")
CASE(ref_streaming_speculation, "gemma3", "compose.backend=ref", "compose.draft=ngram",
     "compose.eviction=streaming_llm", "eviction.streaming_llm.window=28")
CASE(ref_tensor, "llama", "compose.backend=ref", "compose.parallel=tensor")
CASE(cpu_llama, "llama", "compose.backend=cpu")
CASE(cpu_qwen2, "qwen2", "compose.backend=cpu")
CASE(cpu_qwen3, "qwen3", "compose.backend=cpu")
CASE(cpu_gemma3, "gemma3", "compose.backend=cpu")
CASE(cpu_streaming, "llama", "compose.backend=cpu", "compose.eviction=streaming_llm",
     "eviction.streaming_llm.window=28")
CASE(cpu_sliding, "gemma3", "compose.backend=cpu", "compose.attention=sliding_window",
     "attention.sliding_window.window=24")
CASE(cpu_kv_int8, "llama", "compose.backend=cpu", "compose.kv=int8", "quantizer.int8@kv.group=32")
CASE(cpu_weights_int8, "llama", "compose.backend=cpu", "compose.weights=int8")
CASE(cpu_speculation, "llama", "compose.backend=cpu", "compose.draft=ngram")
CASE(cpu_tensor, "llama", "compose.backend=cpu", "compose.parallel=tensor")

/* Policies that only place and order must not change what another choice gives. */
static void equal(const char *model, const char *const *a, const char *const *b)
{
  static int32_t prompts[SEQS][200];
  rig *x = rig_open(model, a), *y = rig_open(model, b);
  for (uint32_t i = 0; i < SEQS; i++) rig_tokens(i + 1, x->n_vocab, prompts[i], 200);
  submit_all(x, prompts, 0, SEQS);
  rig_run(x, 0);
  submit_all(y, prompts, 0, SEQS);
  rig_run(y, 0);
  for (uint32_t i = 0; i < 2 * SEQS; i++) cr_assert(rig_same(x, i, y, i), "result %u differs", i);
  rig_close(x);
  rig_close(y);
}

#define EQUAL(name_, model_, setting_)                                      \
  Test(engine_determinism, name_)                                           \
  {                                                                         \
    static const char *const a[] = {"compose.backend=ref", NULL};           \
    static const char *const b[] = {"compose.backend=ref", setting_, NULL}; \
    equal(rig_tiny(model_), a, b);                                          \
  }
EQUAL(contiguous_equals_paged, "llama", "compose.memory=contiguous")
EQUAL(static_batch_equals_continuous, "llama", "compose.scheduler=static_batch")
EQUAL(speculation_equals_plain, "llama", "compose.draft=ngram")
EQUAL(speculation_equals_plain_gemma3, "gemma3", "compose.draft=ngram")
EQUAL(two_ranks_equal_one, "llama", "compose.parallel=tensor")
EQUAL(unfused_equals_fused, "llama", "engine.unfused=1")
EQUAL(wide_window_equals_full, "llama", "compose.attention=sliding_window")
EQUAL(wide_streaming_equals_full, "llama", "compose.eviction=streaming_llm")
EQUAL(page_size_changes_nothing, "llama", "memory.paged.page_tokens=64")
EQUAL(tight_memory_changes_nothing, "llama", "engine.kv_budget=300K")

/* And one that must differ: else the comparison compares nothing. */
Test(engine_determinism, a_narrow_window_differs)
{
  static const char *const a[] = {"compose.backend=ref", NULL};
  static const char *const b[] = {"compose.backend=ref", "compose.attention=sliding_window",
                                  "attention.sliding_window.window=8", NULL};
  int32_t prompt[100];
  rig *x = rig_open(rig_tiny("llama"), a), *y = rig_open(rig_tiny("llama"), b);
  rig_tokens(5, x->n_vocab, prompt, 100);
  rig_score(x, prompt, 100);
  rig_score(y, prompt, 100);
  rig_run(x, 0);
  rig_run(y, 0);
  cr_assert_not(rig_same(x, 0, y, 0));
  rig_close(x);
  rig_close(y);
}
