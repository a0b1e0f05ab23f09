/* memory/probe on the engine: where pages lie, when they are refused and how large they are changes no bit. */
#include <criterion/criterion.h>
#include <string.h>

#include "probe_rig.h"

enum { SEQS = 6 };

static void submit_all(rig *r)
{
  static int32_t prompts[SEQS][96];
  for (uint32_t i = 0; i < SEQS; i++) {
    rig_tokens(i + 1, r->n_vocab, prompts[i], 96);
    rig_generate(r, prompts[i], 5 + 13 * (int64_t)i, 24);
    rig_score(r, prompts[i], 90 - 12 * (int64_t)i);
  }
}

static rig *run(const char *model, const char *const *a, const char *const *b)
{
  probe_sets s;
  probe_base(&s);
  probe_set(&s, "engine.max_rows=50");
  for (; a && *a; a++) probe_set(&s, "%s", *a);
  for (; b && *b; b++) probe_set(&s, "%s", *b);
  rig *r = probe_open(rig_tiny(model), &s);
  submit_all(r);
  rig_run(r, 1);
  return r;
}

static probe_memory *record_of(const rig *r) { return probe_record(&r->s.engine->memory); }

/* All pages are back, every sequence was let go, and nothing was asked that the contract rules out. */
static void clean(const rig *r)
{
  tn_kv_prefix_clear(r->s.engine->kv);
  const probe_memory *seen = record_of(r);
  cr_assert_eq(seen->held, 0, "%llu pages are still held", (unsigned long long)seen->held);
  cr_assert_eq(seen->in, 0);
  cr_assert_eq(seen->bad, 0);
  cr_assert_eq(seen->configures, 1);
}

static void any_pages(const char *model, const char *const *both)
{
  static const char *const variants[][8] = {{"compose.memory=probe", NULL},
                                            {"compose.memory=probe", "memory.probe.page_tokens=64", NULL},
                                            {"compose.memory=probe", "memory.probe.full=30", NULL},
                                            {"compose.memory=probe", "memory.probe.shy=1", "memory.probe.full=15",
                                             "compose.scheduler=probe", "scheduler.probe.preempt=8", NULL}};
  rig *plain = run(model, both, NULL);
  for (size_t v = 0; v < TN_ARRAY_LEN(variants); v++) {
    rig *r = run(model, both, variants[v]);
    probe_equal(variants[v][TN_ARRAY_LEN(variants[v]) > 1 && variants[v][1] ? 1 : 0], plain, r);
    clean(r);
    cr_assert(v == 1 || record_of(r)->jumps > 10, "%llu pages apart", (unsigned long long)record_of(r)->jumps);
    cr_assert(v == 1 || record_of(r)->near > 0);
    cr_assert(v < 2 || (record_of(r)->refused > 5 && tn_engine_stat(r->s.engine).n_preempted > 0));
    rig_close(r);
  }
  rig_close(plain);
}

#define PAGES(name_, model_, ...)                          \
  Test(probe_memory, name_)                                \
  {                                                        \
    static const char *const both[] = {__VA_ARGS__, NULL}; \
    any_pages(model_, both);                               \
  }
PAGES(plain, "llama", "engine.max_seqs=5")
PAGES(windows, "gemma3", "engine.max_seqs=5")
PAGES(trees, "llama", "compose.draft=probe")
PAGES(states, "llama", "compose.attention=probe", "attention.probe.kind=halves")
PAGES(eviction, "gemma3", "compose.eviction=probe", "eviction.probe.gran=head")
PAGES(demotion, "llama", "compose.eviction=probe", "eviction.probe.verdict=demote_even", "compose.demote=int8")
PAGES(streaming, "llama", "compose.eviction=streaming_llm", "eviction.streaming_llm.window=20")

/* ---------------------------------------------------------------- refusals */

/* A sequence past the quota can never run; its neighbours do. */
Test(probe_memory, quota)
{
  static const char *const sets[] = {"compose.memory=probe", "memory.probe.quota=5", NULL};
  rig *plain = run("llama", NULL, NULL), *r = run("llama", NULL, sets);
  uint32_t refused = 0;
  for (uint32_t i = 0; i < r->n; i++) {
    if (r->r[i].why == TN_FINISH_ERROR) {
      cr_assert(strstr(r->r[i].msg, "the KV cache cannot hold it"), "%s", r->r[i].msg);
      refused++;
    } else {
      cr_assert(rig_same(plain, i, r, i));
    }
  }
  cr_assert(refused > 0 && refused < r->n, "%u of %u refused", refused, r->n);
  clean(r);
  rig_close(plain);
  rig_close(r);
}

/* Admits nobody, although nothing is in: an end with an error, not a wait for ever. */
Test(probe_memory, admits_nobody)
{
  static const char *const sets[] = {"compose.memory=probe", "memory.probe.fault=admit", NULL};
  rig *r = run("llama", NULL, sets);
  for (uint32_t i = 0; i < r->n; i++) {
    cr_assert_eq(r->r[i].why, TN_FINISH_ERROR);
    cr_assert(strstr(r->r[i].msg, "the sequence cannot start"), "%s", r->r[i].msg);
  }
  cr_assert_eq(record_of(r)->held, 0);
  rig_close(r);
}

/* Pages that somebody has, or that are not there: the sequence ends with an error that names the plugin. */
static void bad_pages(const char *fault)
{
  char text[64];
  const char *const sets[] = {"compose.memory=probe", text, NULL};
  snprintf(text, sizeof text, "memory.probe.fault=%s", fault);
  rig *r = run("llama", NULL, sets);
  uint32_t errors = 0;
  for (uint32_t i = 0; i < r->n; i++) {
    if (r->r[i].why != TN_FINISH_ERROR) continue;
    cr_assert(strstr(r->r[i].msg, "memory/probe"), "%s", r->r[i].msg);
    errors++;
  }
  cr_assert_gt(errors, 0);
  cr_assert_eq(record_of(r)->in, 0);
  rig_close(r);
}
Test(probe_memory, a_page_twice) { bad_pages("twice"); }
Test(probe_memory, a_page_that_is_not_there) { bad_pages("range"); }
Test(probe_memory, a_negative_page) { bad_pages("negative"); }
