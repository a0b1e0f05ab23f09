/* Too few pages for all: sequences give way, are run again or swapped back, and nothing of it shows in the output. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/engine_rig.h"

enum { SEQS = 10, PROMPT = 50, NEW = 60 };

typedef struct sets {
  const char *at[12];
} sets;

static rig *open_with(const char *model, const char *const *base, const char *budget)
{
  sets s = {{"engine.threads=1"}};
  int n = 1;
  for (; *base; base++) s.at[n++] = *base;
  s.at[n] = budget;
  return rig_open(rig_tiny(model), s.at);
}

static void submit_all(rig *r)
{
  int32_t prompt[PROMPT];
  for (uint32_t i = 0; i < SEQS; i++) {
    rig_tokens(i + 1, r->n_vocab, prompt, PROMPT);
    if (i == 3 || i == 7)
      rig_score(r, prompt, PROMPT);
    else
      rig_generate(r, prompt, 10 + 4 * (int64_t)i, NEW);
  }
}

/* The same with pages for all and with pages for few; returns how often somebody gave way, and how many rows were run
 * again for it. */
static uint64_t check(const char *model, const char *const *base, const char *budget, uint64_t *again)
{
  rig *roomy = open_with(model, base, NULL), *tight = open_with(model, base, budget);
  submit_all(roomy);
  submit_all(tight);
  rig_run(roomy, 0);
  rig_run(tight, 1);
  uint64_t of_seqs = 0, preempted = tn_engine_stat(tight->s.engine).n_preempted;
  cr_expect(eq(u64, tn_engine_stat(roomy->s.engine).n_preempted, 0));
  for (uint32_t i = 0; i < SEQS; i++) {
    cr_assert(rig_same(roomy, i, tight, i), "%s, %s: result %u differs", model, budget, i);
    cr_assert(tight->r[i].why == TN_FINISH_LENGTH, "result %u: %s", i, tight->r[i].msg);
    of_seqs += tight->r[i].n_preempted;
  }
  cr_expect(eq(u64, of_seqs, preempted));
  cr_expect(eq(u64, tn_engine_stat(tight->s.engine).kv_bytes_used, 0));
  *again = tn_engine_stat(tight->s.engine).rows - tn_engine_stat(roomy->s.engine).rows;
  rig_close(roomy);
  rig_close(tight);
  return preempted;
}

#define CASE(name_, model_, budget_, recomputes_, ...)                                       \
  Test(engine_preemption, name_)                                                             \
  {                                                                                          \
    static const char *const base[] = {__VA_ARGS__, NULL};                                   \
    uint64_t again, n = check(model_, base, budget_, &again);                                \
    cr_expect(n >= 4, "only %llu preemptions", (unsigned long long)n);                       \
    cr_expect(recomputes_ == (again > 0), "%llu rows run again", (unsigned long long)again); \
  }

#define RECOMPUTE "compose.backend=cpu", "engine.max_rows=40", "scheduler.continuous.reserve=0"
#define SWAP "compose.backend=cpu", "compose.scheduler=static_batch"
#define CHUNKED                                                                                            \
  "compose.backend=cpu", "compose.scheduler=chunked", "engine.max_rows=40", "scheduler.chunked.reserve=0", \
      "scheduler.chunked.stretch=100"
CASE(recompute_llama, "llama", "engine.kv_budget=200K", true, RECOMPUTE)
CASE(recompute_gemma3, "gemma3", "engine.kv_budget=400K", true, RECOMPUTE)
CASE(recompute_kv_int8, "llama", "engine.kv_budget=110K", true, RECOMPUTE, "compose.kv=int8",
     "quantizer.int8@kv.group=32")
CASE(recompute_speculation, "llama", "engine.kv_budget=200K", true, RECOMPUTE, "compose.draft=ngram")
CASE(recompute_two_ranks, "llama", "engine.kv_budget=200K", true, RECOMPUTE, "compose.parallel=tensor")
CASE(recompute_chunked, "llama", "engine.kv_budget=200K", true, CHUNKED)
CASE(swap_chunked, "llama", "engine.kv_budget=200K", false, CHUNKED, "scheduler.chunked.preempt=swap")
CASE(swap_llama, "llama", "engine.kv_budget=200K", false, SWAP)
CASE(swap_gemma3, "gemma3", "engine.kv_budget=400K", false, SWAP)
CASE(swap_kv_int8, "llama", "engine.kv_budget=110K", false, SWAP, "compose.kv=int8", "quantizer.int8@kv.group=32")
CASE(swap_two_ranks, "llama", "engine.kv_budget=200K", false, SWAP, "compose.parallel=tensor")
CASE(swap_windows, "llama", "engine.kv_budget=160K", false, SWAP, "compose.eviction=streaming_llm",
     "eviction.streaming_llm.window=28")

/* Drafts are cut before anybody gives way, so how many rows run says nothing here. */
Test(engine_preemption, swap_speculation)
{
  static const char *const base[] = {SWAP, "compose.draft=ngram", NULL};
  uint64_t again;
  cr_expect(check("llama", base, "engine.kv_budget=200K", &again) >= 4);
}

/* On slabs, or with pages that were promised, a sequence has all its pages from the start: others wait, nobody ever gives
 * way. */
static void never_run_out(const char *memory, const char *budget)
{
  const char *const base[] = {"compose.backend=cpu", memory, NULL};
  uint64_t again;
  cr_expect(eq(u64, check("llama", base, budget, &again), 0));
  cr_expect(eq(u64, again, 0));
}
Test(engine_preemption, slabs_never_run_out) { never_run_out("compose.memory=contiguous", "engine.kv_budget=600K"); }
Test(engine_preemption, promised_pages_are_there)
{
  never_run_out("compose.memory=static_paged", "engine.kv_budget=200K");
}

/* One that fits alone, but not beside others, gets its turn; those that came later do not go before it. */
Test(engine_preemption, first_come_first_served)
{
  static const char *const base[] = {RECOMPUTE, NULL};
  rig *r = open_with("llama", base, "engine.kv_budget=200K");
  int32_t prompt[200];
  rig_tokens(1, r->n_vocab, prompt, 200);
  rig_generate(r, prompt, 20, 60);
  rig_generate(r, prompt, 200, 20); /* 220 of some 260 tokens */
  for (int i = 0; i < 8; i++) rig_generate(r, prompt, 20, 10);
  uint64_t first[10] = {0};
  for (uint64_t step = 1; !tn_engine_idle(r->s.engine); step++) {
    cr_assert(step < 3000);
    cr_assert(tn_engine_step(r->s.engine, NULL) == TN_OK);
    for (uint32_t i = 0; i < 10; i++)
      if (first[i] == 0 && r->r[i].n > 0) first[i] = step;
  }
  for (uint32_t i = 0; i < 10; i++)
    cr_assert(first[i] > 0 && r->r[i].why == TN_FINISH_LENGTH, "%u: %s", i, r->r[i].msg);
  for (uint32_t i = 1; i < 10; i++) cr_expect(first[i] >= first[i - 1], "%u came before %u", i, i - 1);
  rig_close(r);
}
