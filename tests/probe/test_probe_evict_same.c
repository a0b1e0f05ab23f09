/* eviction/probe on the engine: what must not change the outcome. A budget that is never passed, batches, chunks, threads,
 * drafts, pages, preemption, forks and saved sessions. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "evict_rule.h"

enum { SEQS = 3, N_PROMPT = 60, N_NEW = 50 };

static void submit_all(rig *r)
{
  static int32_t prompts[SEQS][130];
  for (uint32_t i = 0; i < SEQS; i++) {
    rig_tokens(i + 30, r->n_vocab, prompts[i], 130);
    rig_generate(r, prompts[i], 20 + 37 * (int64_t)i, 30);
    rig_score(r, prompts[i], 130 - 25 * (int64_t)i);
  }
}

static rig *run(const char *model, const probe_sets *base, const char *const *more)
{
  probe_sets s = *base;
  for (; more && *more; more++) probe_set(&s, "%s", *more);
  rig *r = probe_open(rig_tiny(model), &s);
  submit_all(r);
  rig_run(r, 2);
  return r;
}

/* ---------------------------------------------------------------- nothing to evict */

static void like_full(const char *model, evict_rule rule, bool f32)
{
  probe_sets s;
  if (f32)
    probe_base_f32(&s);
  else
    probe_base(&s);
  rig *full = run(model, &s, NULL);
  rule.every = 8;
  evict_rule_set(&s, &rule);
  if (rule.verdict >= SIM_DEMOTE_EVEN) probe_set(&s, "compose.demote=probe");
  if (rule.verdict >= SIM_DEMOTE_EVEN) probe_set(&s, "quantizer.probe@demote.kv=f32");
  rig *r = run(model, &s, NULL);
  probe_equal(model, full, r);
  const probe_eviction *seen = probe_record(&r->s.engine->eviction);
  cr_assert(seen->scores > 20 || rule.policy == SIM_SNAP);
  cr_assert_eq(seen->bad, 0);
  for (uint32_t i = 0; i < r->n; i++) cr_assert_eq(r->r[i].n_dropped, 0);
  if (rule.verdict == SIM_DEMOTE_ALL) cr_assert_gt(r->r[0].n_demoted, 50);
  rig_close(full);
  rig_close(r);
}

#define FULL(name_, model_, f32_, ...) \
  Test(probe_evict_same, name_) { like_full(model_, (evict_rule){.budget = 500, .window = 8, __VA_ARGS__}, f32_); }
FULL(budget_all, "llama", false, .gran = SIM_GRAN_ALL)
FULL(budget_layer, "llama", false, .policy = SIM_KNORM, .gran = SIM_GRAN_LAYER)
FULL(budget_head, "llama", false, .policy = SIM_ALL, .gran = SIM_GRAN_HEAD)
FULL(budget_snap, "llama", false, .policy = SIM_SNAP, .gran = SIM_GRAN_HEAD)
FULL(budget_windows, "gemma3", false, .gran = SIM_GRAN_HEAD)
FULL(budget_windows_all, "gemma3", false, .policy = SIM_ALL, .gran = SIM_GRAN_ALL)
FULL(budget_rank_rope, "llama", true, .gran = SIM_GRAN_HEAD, .rank_rope = true)
FULL(demotes_none, "llama", false, .verdict = SIM_DEMOTE_NONE, .gran = SIM_GRAN_HEAD)
/* f16 entries in a layout of f32 are the same numbers; all of them in order, so are the sums. */
FULL(demotes_all_without_loss, "llama", false, .verdict = SIM_DEMOTE_ALL, .gran = SIM_GRAN_HEAD)
FULL(demotes_all_without_loss_windows, "gemma3", false, .verdict = SIM_DEMOTE_ALL, .gran = SIM_GRAN_LAYER)

/* ---------------------------------------------------------------- how it is run */

static void invariant(const char *model, evict_rule rule)
{
  const char *const tight =
      rule.verdict >= SIM_DEMOTE_EVEN || !strcmp(model, "gemma3") ? "engine.kv_budget=240K" : "engine.kv_budget=125K";
  const char *const variants[][5] = {
      {"engine.max_rows=1", NULL},
      {"engine.max_rows=7", NULL},
      {"engine.max_rows=64", "memory.paged.page_tokens=64", NULL},
      {"engine.max_seqs=1", "engine.threads=3", NULL},
      {"compose.draft=probe", "draft.probe.nodes=15", NULL},
      {"compose.draft=probe", "engine.max_rows=33", "compose.memory=probe", "memory.probe.full=20", NULL},
      {"compose.memory=contiguous", NULL},
      {"engine.ctx=200", tight, "compose.scheduler=probe", NULL},
  };
  probe_sets s;
  probe_base(&s);
  rule.every = 16;
  rule.budget = 24;
  rule.recent = 6;
  evict_rule_set(&s, &rule);
  if (rule.verdict >= SIM_DEMOTE_EVEN) probe_set(&s, "compose.demote=int8");
  rig *whole = run(model, &s, NULL);
  for (uint32_t i = 0; i < whole->n; i++) cr_assert(whole->r[i].n_dropped > 0 || rule.policy == SIM_SNAP);
  for (size_t v = 0; v < TN_ARRAY_LEN(variants); v++) {
    rig *r = run(model, &s, variants[v]);
    probe_equal(variants[v][0], whole, r);
    cr_assert_eq(((probe_eviction *)probe_record(&r->s.engine->eviction))->bad, 0);
    cr_assert(variants[v][1] != tight || tn_engine_stat(r->s.engine).n_preempted > 0, "there was room enough");
    rig_close(r);
  }
  rig_close(whole);
}

#define SAME(name_, model_, ...) \
  Test(probe_evict_same, name_) { invariant(model_, (evict_rule){.window = 8, __VA_ARGS__}); }
SAME(h2o, "llama", .gran = SIM_GRAN_HEAD, .stateful = true)
SAME(snap, "llama", .policy = SIM_SNAP, .gran = SIM_GRAN_HEAD)
SAME(every_signal_windows, "gemma3", .policy = SIM_ALL, .gran = SIM_GRAN_HEAD)
SAME(rank_rope_windows, "gemma3", .gran = SIM_GRAN_LAYER, .rank_rope = true)
SAME(drops, "llama", .gran = SIM_GRAN_LAYER, .verdict = SIM_DROP)
SAME(demotes, "llama", .gran = SIM_GRAN_HEAD, .verdict = SIM_DEMOTE_EVEN)

/* ---------------------------------------------------------------- fork, save, restore */

/* The rest of a request from what is committed now: the text behind it, and the tokens still to come. */
static tn_request rest_of(const tn_seq *s, uint32_t user)
{
  int64_t given = s->n_done < s->n_prompt ? s->n_prompt : s->n_tok;
  return (tn_request){.prompt = s->tokens + s->n_done,
                      .n_prompt = given - s->n_done,
                      .max_new = s->max_len - given,
                      .sampling = tn_sampling_default(),
                      .n_logprobs = 1,
                      .ignore_eog = 1,
                      .user = (void *)(uintptr_t)(user + 1)};
}

/* The last n tokens of both. */
static void same_end(const char *what, const rig *a, uint32_t i, const rig *b, uint32_t k)
{
  const rig_result *x = &a->r[i], *y = &b->r[k];
  cr_assert(y->n > 5 && y->n <= x->n && y->why == x->why, "%s: %u and %u tokens, %s", what, x->n, y->n, y->msg);
  uint32_t skip = x->n - y->n;
  cr_assert(memcmp(x->tokens + skip, y->tokens, y->n * sizeof *y->tokens) == 0, "%s: another text", what);
  cr_assert(memcmp(x->logprobs + skip, y->logprobs, y->n * sizeof *y->logprobs) == 0, "%s: other logprobs", what);
}

/* Forks and saves when `at` tokens are committed; original, child, and what two engines restore go on alike. */
static void branches(const char *model, const probe_sets *base, int64_t at)
{
  probe_sets s = *base;
  int32_t prompt[N_PROMPT];
  tn_err err = tn_err_init();
  uint8_t *bytes;
  size_t n;
  rig *r = probe_open(rig_tiny(model), &s), *other = probe_open(rig_tiny(model), &s);
  const uint8_t *mark = tn_composition_fingerprint(r->s.composition);
  rig_tokens(17, r->n_vocab, prompt, N_PROMPT);
  rig_generate(r, prompt, N_PROMPT, N_NEW);
  while (r->s.engine->first->n_done < at) probe_step(r);
  const tn_seq *p = r->s.engine->first;
  cr_assert(p->kv && p->n_done < N_PROMPT + N_NEW - 8);
  tn_request child = rest_of(p, 1), again = rest_of(p, 2), there = rest_of(p, 0);
  r->n = 3;
  other->n = 1;
  cr_assert(tn_engine_save(r->s.engine, p->id, mark, &bytes, &n, &err) == TN_OK, "%s", err.msg);
  cr_assert(tn_engine_fork(r->s.engine, p->id, &child, &r->r[1].seq, &err) == TN_OK, "%s", err.msg);
  cr_assert(tn_engine_restore(r->s.engine, bytes, n, mark, &again, &r->r[2].seq, &err) == TN_OK, "%s", err.msg);
  cr_assert(tn_engine_restore(other->s.engine, bytes, n, mark, &there, &other->r[0].seq, &err) == TN_OK, "%s", err.msg);
  free(bytes);
  rig_run(r, 1);
  rig_run(other, 1);
  same_end("fork", r, 0, r, 1);
  same_end("restored", r, 0, r, 2);
  same_end("restored elsewhere", r, 0, other, 0);
  if (r->s.engine->eviction.desc && r->s.engine->ev.scores) {
    const probe_eviction *seen = probe_record(&r->s.engine->eviction);
    cr_assert(seen->lives.begins == 3 && seen->lives.ends == 3 && seen->lives.forks == 1 && seen->lives.saves == 1 &&
              seen->lives.loads == 1 && seen->lives.strays == 0 && seen->bad == 0);
    cr_assert_eq(r->r[0].n_dropped > 0, true);
  }
  rig_close(r);
  rig_close(other);
}

static void branches_everywhere(const char *model, const evict_rule *rule, const char *const *more)
{
  static const int64_t at[] = {7, 33, 60, 61, 75, 96};
  probe_sets s;
  probe_base(&s);
  probe_set(&s, "engine.max_rows=13");
  if (rule) evict_rule_set(&s, rule);
  for (; more && *more; more++) probe_set(&s, "%s", *more);
  for (size_t i = 0; i < TN_ARRAY_LEN(at); i++) branches(model, &s, at[i]);
}

#define BRANCH(name_, model_, ...)                                                                               \
  Test(probe_evict_same, name_)                                                                                  \
  {                                                                                                              \
    evict_rule rule = {.budget = 24, .every = 16, .recent = 6, .window = 8, .gran = SIM_GRAN_HEAD, __VA_ARGS__}; \
    static const char *const demote[] = {"compose.demote=int8", NULL};                                           \
    branches_everywhere(model_, &rule, rule.verdict >= SIM_DEMOTE_EVEN ? demote : NULL);                         \
  }
BRANCH(branch_h2o, "llama", .stateful = true)
BRANCH(branch_every_signal, "gemma3", .policy = SIM_ALL)
BRANCH(branch_snap, "llama", .policy = SIM_SNAP)
BRANCH(branch_rank_rope, "llama", .rank_rope = true)
BRANCH(branch_demotes, "llama", .verdict = SIM_DEMOTE_EVEN)

#define BRANCH_OF(name_, model_, ...)                      \
  Test(probe_evict_same, name_)                            \
  {                                                        \
    static const char *const more[] = {__VA_ARGS__, NULL}; \
    branches_everywhere(model_, NULL, more);               \
  }
BRANCH_OF(branch_without_eviction, "gemma3", "engine.threads=1")
BRANCH_OF(branch_states, "llama", "compose.attention=probe", "attention.probe.kind=halves")
BRANCH_OF(branch_trees, "llama", "compose.draft=probe", "draft.probe.taps=1")
BRANCH_OF(branch_streaming, "llama", "compose.eviction=streaming_llm", "eviction.streaming_llm.window=20")
BRANCH_OF(branch_ranks, "llama", "compose.parallel=tensor")
BRANCH_OF(branch_stages, "llama", "compose.parallel=probe", "parallel.probe.layers=1, 2")
BRANCH_OF(branch_regimes, "llama", "compose.position=probe", "position.probe.long_from=100")
