/* bench: what a test runs, step by step, and what its figures mean. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "measure/bench_rig.h"

static const char *const cpu[] = {"compose.backend=cpu", "engine.max_rows=16", "engine.max_seqs=4", NULL};

/* Runs a test that must succeed. The samples are freed; the rest of the result stays. */
static tn_bench_result run(bench_rig *r, tn_bench_test t)
{
  tn_bench_result out;
  tn_err err = tn_err_init();
  if (!t.n_seqs) t.n_seqs = 1;
  if (!t.reps) t.reps = 2;
  tn_status st = tn_bench_run(r->bench, r->e, &t, &out, &err);
  cr_assert(st == TN_OK, "%s", err.msg);
  cr_assert(eq(u32, out.n, t.reps));
  double tokens = (double)(t.n_prompt + t.n_gen) * t.n_seqs, ns = 0, ts = 0;
  for (uint32_t i = 0; i < out.n; i++) {
    cr_assert(gt(u64, out.ns[i], 0));
    ns += (double)out.ns[i] / out.n;
    ts += tokens * 1e9 / (double)out.ns[i] / out.n;
  }
  cr_expect(fabs(out.avg_ns - ns) < 1 && fabs(out.avg_ts - ts) < 1e-6 * ts);
  cr_expect(out.n > 1 || out.sd_ns == 0.0, "%u samples, deviation %g", out.n, out.sd_ns);
  free(out.ns);
  out.ns = NULL;
  return out;
}

Test(bench, steps_are_one_row_a_sequence)
{
  bench_rig *r = bench_open("llama", cpu);
  cr_expect(eq(u64, run(r, (tn_bench_test){.n_gen = 9}).steps, 9));
  cr_expect(eq(u64, run(r, (tn_bench_test){.n_gen = 9, .n_depth = 33}).steps, 9));
  cr_expect(eq(u64, run(r, (tn_bench_test){.n_gen = 9, .n_depth = 33, .n_seqs = 4, .warm_up = true}).steps, 9));
  cr_expect(eq(u64, run(r, (tn_bench_test){.n_prompt = 40, .reps = 1}).steps, 3), "chunks of 16 rows");
  cr_expect(eq(u64, run(r, (tn_bench_test){.n_prompt = 40, .n_depth = 20}).steps, 3));
  cr_expect(eq(u64, run(r, (tn_bench_test){.n_prompt = 8, .n_seqs = 4}).steps, 2));
  cr_expect(eq(u64, run(r, (tn_bench_test){.n_prompt = 16, .n_gen = 5}).steps, 6), "one for the prompt");
  cr_expect(eq(u64, run(r, (tn_bench_test){.n_prompt = 16, .n_gen = 5, .n_depth = 1}).steps, 6));
  bench_close(r);
}

Test(bench, cost_of_generation)
{
  bench_rig *r = bench_open("llama", cpu);
  double weights = tn_cost_of(r->e, 0, UINT32_MAX, 1, 1).bytes, token = tn_cost_kv_token(r->e, -1);
  tn_cost flat = run(r, (tn_bench_test){.n_gen = 4}).cost,
          deep = run(r, (tn_bench_test){.n_gen = 4, .n_depth = 50}).cost;
  cr_expect(eq(dbl, flat.bytes, 4 * weights + (1 + 2 + 3 + 4) * token));
  cr_expect(eq(dbl, deep.bytes, flat.bytes + 4 * 50 * token));
  weights = tn_cost_of(r->e, 0, UINT32_MAX, 3, 3).bytes;
  tn_cost three = run(r, (tn_bench_test){.n_gen = 2, .n_depth = 10, .n_seqs = 3}).cost;
  cr_expect(eq(dbl, three.bytes, 2 * weights + 3 * (11 + 12) * token), "weights are read once for all");
  bench_close(r);
}

Test(bench, cost_of_a_prompt)
{
  bench_rig *r = bench_open("llama", cpu);
  double token = tn_cost_kv_token(r->e, -1), chunks = 0;
  chunks += 2 * tn_cost_of(r->e, 0, UINT32_MAX, 16, 0).bytes + tn_cost_of(r->e, 0, UINT32_MAX, 8, 1).bytes;
  tn_cost c = run(r, (tn_bench_test){.n_prompt = 40}).cost;
  cr_expect(eq(dbl, c.bytes, chunks + (16 + 32 + 40) * token), "logits of the last row alone");
  bench_close(r);
}

/* Whatever is composed, the time is that of its steps. */
Test(bench, compositions)
{
  static const char *const sets[][5] = {
      {"compose.backend=cpu", "compose.eviction=streaming_llm", "eviction.streaming_llm.window=28", NULL},
      {"compose.backend=cpu", "compose.kv=int8", "compose.weights=int8", NULL},
      {"compose.backend=cpu", "compose.memory=contiguous", "compose.scheduler=static_batch", NULL},
      {"compose.backend=ref", "compose.parallel=tensor", "parallel.tensor.world=2", NULL},
      {"compose.backend=cpu", "compose.attention=sliding_window", "attention.sliding_window.window=24", NULL}};
  for (size_t i = 0; i < TN_ARRAY_LEN(sets); i++) {
    bench_rig *r = bench_open("llama", sets[i]);
    cr_expect(eq(u64, run(r, (tn_bench_test){.n_gen = 6, .n_depth = 70, .n_seqs = 2}).steps, 6), "%s", sets[i][1]);
    cr_expect(eq(u64, run(r, (tn_bench_test){.n_prompt = 30, .n_depth = 70}).steps, 1), "%s", sets[i][1]);
    bench_close(r);
  }
}

static void refused(const char *const *sets, tn_bench_test t, tn_status want, const char *word)
{
  bench_rig *r = bench_open("llama", sets);
  tn_bench_result out;
  tn_err err = tn_err_init();
  cr_expect(eq(int, tn_bench_run(r->bench, r->e, &t, &out, &err), want), "%s", err.msg);
  cr_expect(strstr(err.msg, word) != NULL, "no '%s' in: %s", word, err.msg);
  cr_expect(out.ns == NULL && out.n == 0);
  bench_close(r);
}

Test(bench, refusals)
{
  static const char *const drafted[] = {"compose.backend=cpu", "compose.draft=ngram", NULL};
  static const char *const tight[] = {"compose.backend=cpu", "engine.kv_budget=200K", "engine.max_seqs=8", NULL};
  tn_bench_test good = {.n_gen = 4, .n_seqs = 1, .reps = 1};
  refused(drafted, good, TN_E_UNSUPPORTED, "draft = ngram");
  refused(cpu, (tn_bench_test){.n_gen = 4, .n_seqs = 5, .reps = 1}, TN_E_ARG, "max_seqs = 4");
  refused(cpu, (tn_bench_test){.n_seqs = 1, .reps = 1}, TN_E_ARG, "prompt 0, generate 0");
  refused(cpu, (tn_bench_test){.n_gen = 4, .n_seqs = 1}, TN_E_ARG, "0 repetitions");
  refused(cpu, (tn_bench_test){.n_gen = 4000, .n_seqs = 1, .reps = 1}, TN_E_NEVER, "4001");
  refused(tight, (tn_bench_test){.n_gen = 40, .n_depth = 60, .n_seqs = 8, .reps = 1}, TN_E_STATE, "8 sequences of");
  refused(tight, (tn_bench_test){.n_gen = 90, .n_seqs = 8, .reps = 1}, TN_E_STATE, "8 sequences of");
}

Test(bench, context_that_a_test_needs)
{
  tn_bench_test t = {.n_prompt = 100, .n_gen = 20, .n_depth = 50, .n_seqs = 2, .reps = 1};
  char ctx[64];
  snprintf(ctx, sizeof ctx, "engine.ctx=%lld", (long long)tn_bench_ctx(&t));
  const char *sets[] = {"compose.backend=cpu", "engine.max_seqs=2", ctx, NULL};
  bench_rig *r = bench_open("llama", sets);
  run(r, t);
  bench_close(r);
}
