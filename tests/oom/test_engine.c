/* Whole engines with each allocation failing in turn: the usual composition on both backends. See engine_sweep.h. */
#include <criterion/criterion.h>

#include "engine_sweep.h"

#define USUAL \
  "compose.memory=paged", "compose.eviction=streaming_llm", "eviction.streaming_llm.window=16", "compose.draft=ngram"

SWEEP(ref, "llama", "compose.backend=ref", USUAL)
SWEEP(cpu, "llama", "compose.backend=cpu", USUAL)
SWEEP(cpu_windows, "gemma3", "compose.backend=cpu", USUAL, "compose.kv=int8")
SWEEP(cpu_quantized, "llama-yarn", "compose.backend=cpu", "compose.weights=int4", "compose.kv=int4")
