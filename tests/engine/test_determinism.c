/* The same bits whatever the batch, the chunks and the threads: NUMERICS.md, on every backend and policy that claims it.
 * Each case scores prompts (all logits compared) and generates (tokens and logprobs compared). */
#include <criterion/criterion.h>

#include "same_bits.h"

#define CASE(name_, model_, ...)                           \
  Test(engine_determinism, name_)                          \
  {                                                        \
    static const char *const base[] = {__VA_ARGS__, NULL}; \
    same_bits_check(rig_tiny(model_), base, SAME_FEW);     \
  }

CASE(ref_gemma3, "gemma3", "compose.backend=ref")
CASE(ref_f32, "llama-tied", "compose.backend=ref", "engine.activations=f32")
CASE(ref_streaming_speculation, "llama-tied", "compose.backend=ref", "compose.draft=ngram",
     "compose.eviction=streaming_llm", "eviction.streaming_llm.window=28")
CASE(ref_kv_int8, "llama-tied", "compose.backend=ref", "compose.kv=int8", "quantizer.int8@kv.group=16")
CASE(ref_static_batch, "llama-tied", "compose.backend=ref", "compose.scheduler=static_batch")
CASE(ref_tensor, "llama-tied", "compose.backend=ref", "compose.parallel=tensor")
CASE(cpu_llama, "llama", "compose.backend=cpu")
CASE(cpu_qwen2, "qwen2", "compose.backend=cpu")
CASE(cpu_qwen3, "qwen3", "compose.backend=cpu")
CASE(cpu_gemma3, "gemma3", "compose.backend=cpu")
CASE(cpu_f32, "llama", "compose.backend=cpu", "engine.activations=f32")
CASE(cpu_streaming, "llama", "compose.backend=cpu", "compose.eviction=streaming_llm",
     "eviction.streaming_llm.window=28")
CASE(cpu_sliding, "gemma3", "compose.backend=cpu", "compose.attention=sliding_window",
     "attention.sliding_window.window=24")
CASE(cpu_kv_int8, "llama", "compose.backend=cpu", "compose.kv=int8", "quantizer.int8@kv.group=32")
CASE(cpu_weights_int8, "llama", "compose.backend=cpu", "compose.weights=int8")
CASE(cpu_contiguous, "llama", "compose.backend=cpu", "compose.memory=contiguous")
CASE(cpu_static_paged, "llama", "compose.backend=cpu", "compose.memory=static_paged")
CASE(cpu_chunked, "llama", "compose.backend=cpu", "compose.scheduler=chunked", "scheduler.chunked.budget=9",
     "scheduler.chunked.prompt=3")
CASE(cpu_speculation, "llama", "compose.backend=cpu", "compose.draft=ngram")
CASE(cpu_tensor, "llama", "compose.backend=cpu", "compose.parallel=tensor")

/* Policies that only place and order must not change what another choice gives. */
#define EQUAL(name_, model_, setting_)                                                          \
  Test(engine_determinism, name_)                                                               \
  {                                                                                             \
    static const char *const a[] = {"compose.backend=ref", "engine.threads=1", NULL};           \
    static const char *const b[] = {"compose.backend=ref", "engine.threads=1", setting_, NULL}; \
    same_bits_equal(rig_tiny(model_), a, b, SAME_ALL);                                          \
  }
EQUAL(contiguous_equals_paged, "llama-tied", "compose.memory=contiguous")
EQUAL(static_paged_equals_paged, "llama-tied", "compose.memory=static_paged")
EQUAL(static_batch_equals_continuous, "llama-tied", "compose.scheduler=static_batch")
EQUAL(chunked_equals_continuous, "llama-tied", "compose.scheduler=chunked")
EQUAL(speculation_equals_plain, "llama-tied", "compose.draft=ngram")
EQUAL(speculation_equals_plain_gemma3, "gemma3", "compose.draft=ngram")
EQUAL(two_ranks_equal_one, "llama-tied", "compose.parallel=tensor")
EQUAL(unfused_equals_fused, "llama-tied", "engine.unfused=1")
EQUAL(wide_window_equals_full, "llama-tied", "compose.attention=sliding_window")
EQUAL(wide_streaming_equals_full, "llama-tied", "compose.eviction=streaming_llm")
EQUAL(page_size_changes_nothing, "llama-tied", "memory.paged.page_tokens=64")
EQUAL(tight_memory_changes_nothing, "llama-tied", "engine.kv_budget=150K")

/* And one that must differ: else the comparison compares nothing. */
Test(engine_determinism, a_narrow_window_differs)
{
  static const char *const a[] = {"compose.backend=ref", NULL};
  static const char *const b[] = {"compose.backend=ref", "compose.attention=sliding_window",
                                  "attention.sliding_window.window=8", NULL};
  rig_pair p = rig_score_both(rig_tiny("llama"), a, b, 5, 100);
  cr_assert_not(rig_same(p.a, 0, p.b, 0));
  rig_close_both(p);
}
