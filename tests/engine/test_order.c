/* The whole engine on ref in f32 and on cpu: logits of scored prompts, generated tokens and their logprobs are the same
 * bits, on every architecture and with what changes what is computed. NUMERICS.md is the rule that both follow. */
#include <criterion/criterion.h>

#include "same_bits.h"

#define SAME(name_, model_, ...)                                                 \
  Test(engine_order, name_)                                                      \
  {                                                                              \
    static const char *const ref[] = {"compose.backend=ref", __VA_ARGS__, NULL}; \
    static const char *const cpu[] = {"compose.backend=cpu", __VA_ARGS__, NULL}; \
    same_bits_equal(rig_tiny(model_), ref, cpu, SAME_FEW);                       \
  }
#define INT8 "engine.activations=int8"

SAME(llama, "llama", INT8)
SAME(llama_tied, "llama-tied", INT8)
SAME(llama_yarn, "llama-yarn", INT8)
SAME(qwen2, "qwen2", INT8)
SAME(qwen3, "qwen3", INT8)
SAME(gemma3, "gemma3", INT8)
SAME(streaming_llm, "llama", INT8, "compose.eviction=streaming_llm", "eviction.streaming_llm.window=28")
SAME(streaming_llm_gemma3, "gemma3", INT8, "compose.eviction=streaming_llm", "eviction.streaming_llm.window=28")
SAME(sliding_window, "llama", INT8, "compose.attention=sliding_window", "attention.sliding_window.window=24")
SAME(kv_int8, "llama", INT8, "compose.kv=int8", "quantizer.int8@kv.group=32")
SAME(kv_int4, "llama", INT8, "compose.kv=int4", "quantizer.int4@kv.group=32")
SAME(weights_int8, "llama", INT8, "compose.weights=int8")
SAME(weights_int4, "llama", INT8, "compose.weights=int4")
SAME(speculation, "llama", INT8, "compose.draft=ngram")
SAME(tensor, "llama", INT8, "compose.parallel=tensor")
SAME(unfused, "llama", INT8, "engine.unfused=1", "engine.max_rows=7")

/* Float activations: ref is asked for f32, cpu has no such option. */
#define SAME_F32(name_, model_, ...)                                                                                 \
  Test(engine_order, name_)                                                                                          \
  {                                                                                                                  \
    static const char *const ref[] = {"compose.backend=ref", "backend.ref.accumulate=f32", "engine.activations=f32", \
                                      __VA_ARGS__, NULL};                                                            \
    static const char *const cpu[] = {"compose.backend=cpu", "engine.activations=f32", __VA_ARGS__, NULL};           \
    same_bits_equal(rig_tiny(model_), ref, cpu, SAME_FEW);                                                           \
  }
SAME_F32(f32_llama, "llama", "engine.threads=1")
SAME_F32(f32_llama_tied, "llama-tied", "engine.threads=2")
SAME_F32(f32_llama_yarn, "llama-yarn", "engine.threads=2")
SAME_F32(f32_qwen2, "qwen2", "engine.threads=2")
SAME_F32(f32_qwen3, "qwen3", "engine.threads=2")
SAME_F32(f32_gemma3, "gemma3", "engine.threads=2")
SAME_F32(f32_streaming_llm, "llama", "compose.eviction=streaming_llm", "eviction.streaming_llm.window=28")
SAME_F32(f32_sliding_window, "gemma3", "compose.attention=sliding_window", "attention.sliding_window.window=24")
SAME_F32(f32_kv_int8, "llama", "compose.kv=int8", "quantizer.int8@kv.group=32")
SAME_F32(f32_weights_int8, "llama", "compose.weights=int8")

/* Five tiles of ranks: their tree is no chain. */
Test(engine_order, long_text)
{
  static const char *const ref[] = {"compose.backend=ref", "engine.activations=int8", "engine.ctx=320", NULL};
  static const char *const cpu[] = {"compose.backend=cpu", "engine.activations=int8", "engine.ctx=320", NULL};
  rig_pair p = rig_score_both(rig_tiny("llama"), ref, cpu, 8, 310);
  cr_assert(rig_same(p.a, 0, p.b, 0));
  rig_close_both(p);
}

/* In double the last bits are others: else the comparison compares nothing. */
Test(engine_order, double_differs)
{
  static const char *const sums[] = {"compose.backend=ref", "backend.ref.accumulate=double", INT8, NULL};
  static const char *const cpu[] = {"compose.backend=cpu", INT8, NULL};
  rig_pair p = rig_score_both(rig_tiny("llama"), sums, cpu, 5, 100);
  cr_assert_not(rig_same(p.a, 0, p.b, 0));
  rig_close_both(p);
}
