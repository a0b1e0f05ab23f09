/* A step of decoding asks for no memory: what it needs is there from the start of the engine or of the sequence. */
#include <criterion/criterion.h>

#include "oom.h"
#include "support/engine_rig.h"

enum { N_SEQS = 4, N_PROMPT = 9, BEFORE = 34, COUNTED = 24 };

static uint64_t calls_of_steps(const char *model, const char *const *sets)
{
  rig *r = rig_open(rig_tiny(model), sets);
  for (uint32_t i = 0; i < N_SEQS; i++) {
    int32_t prompt[N_PROMPT];
    rig_tokens(i, r->n_vocab, prompt, N_PROMPT);
    tn_request q = {
        .prompt = prompt, .n_prompt = N_PROMPT, .max_new = 64, .sampling = tn_sampling_default(), .ignore_eog = 1};
    rig_submit(r, &q);
  }
  tn_err err = tn_err_init();
  uint64_t before = 0;
  for (int i = 0; i < BEFORE + COUNTED; i++) {
    if (i == BEFORE) before = oom_calls();
    cr_assert(tn_engine_step(r->s.engine, &err) == TN_OK, "%s", err.msg);
  }
  const uint64_t calls = oom_calls() - before;
  for (uint32_t i = 0; i < N_SEQS; i++) cr_assert(r->r[i].n > BEFORE && !r->r[i].done, "decoding all the time");
  rig_close(r);
  return calls;
}

#define STEP(name_, model_, ...)                                                                   \
  Test(oom_step, name_)                                                                            \
  {                                                                                                \
    static const char *const sets[] = {"engine.threads=2", "engine.ctx=128", __VA_ARGS__, NULL};   \
    const uint64_t calls = calls_of_steps(model_, sets);                                           \
    cr_expect(calls == 0, "%llu calls of malloc in %d steps", (unsigned long long)calls, COUNTED); \
  }

STEP(cpu, "llama", "compose.backend=cpu")
STEP(cpu_windows, "gemma3", "compose.backend=cpu", "compose.kv=int8")
STEP(cpu_streaming, "llama", "compose.backend=cpu", "compose.eviction=streaming_llm",
     "eviction.streaming_llm.window=16")
STEP(ref, "llama", "compose.backend=ref")
