/* Whole engines with each allocation failing in turn: ranks, scores, trees, tiles, recurrent states, a probe in every
 * slot. See engine_sweep.h. label: full */
#include <criterion/criterion.h>

#include "engine_sweep.h"

SWEEP(ranks, "gemma3", "compose.backend=cpu", "compose.memory=contiguous", "compose.parallel=tensor",
      "compose.weights=int8", "compose.kv=int8", "compose.attention=sliding_window", "compose.scheduler=static_batch")
/* Per-head pages in two layouts; sequences are swapped out and in. */
SWEEP(scores, "gemma3", "compose.backend=ref", "compose.eviction=probe", "eviction.probe.gran=head",
      "eviction.probe.budget=20", "eviction.probe.verdict=demote_even", "eviction.probe.stateful=1",
      "compose.demote=int8", "compose.draft=probe", "draft.probe.nodes=7", "compose.scheduler=probe",
      "scheduler.probe.preempt=30", "scheduler.probe.how=swap")
SWEEP(tiles, "llama", "compose.backend=ref", "compose.attention=probe", "attention.probe.kind=tiles",
      "compose.scheduler=probe", "compose.memory=probe", "compose.position=probe", "compose.kv=probe",
      "quantizer.probe@kv.kv=f32", "compose.weights=probe")
SWEEP(states, "llama", "compose.backend=ref", "compose.attention=probe", "attention.probe.kind=elu",
      "compose.draft=probe", "draft.probe.taps=1")
