/* The same bits whatever the batch, the chunks and the threads, on the reference backend: more sequences, more models.
 * label: full */
#include <criterion/criterion.h>

#include "same_bits.h"

#define CASE(name_, model_, ...)                                                  \
  Test(engine_determinism_ref, name_)                                             \
  {                                                                               \
    static const char *const base[] = {"compose.backend=ref", __VA_ARGS__, NULL}; \
    same_bits_check(rig_tiny(model_), base, SAME_ALL);                            \
  }

CASE(llama, "llama", "engine.activations=int8")
CASE(qwen2, "qwen2", "engine.activations=int8")
CASE(qwen3, "qwen3", "engine.activations=int8")
CASE(gemma3, "gemma3", "engine.activations=int8")
CASE(f32, "llama", "engine.activations=f32")
CASE(streaming, "llama", "compose.eviction=streaming_llm", "eviction.streaming_llm.window=28")
CASE(sliding, "llama", "compose.attention=sliding_window", "attention.sliding_window.window=24")
CASE(kv_int8, "llama", "compose.kv=int8", "quantizer.int8@kv.group=32")
CASE(weights_int8, "llama", "compose.weights=int8")
CASE(contiguous, "llama", "compose.memory=contiguous")
CASE(static_batch, "llama", "compose.scheduler=static_batch")
CASE(speculation, "llama", "compose.draft=ngram")
CASE(streaming_speculation, "gemma3", "compose.draft=ngram", "compose.eviction=streaming_llm",
     "eviction.streaming_llm.window=28")
CASE(tensor, "llama", "compose.parallel=tensor")
