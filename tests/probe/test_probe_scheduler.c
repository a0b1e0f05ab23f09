/* scheduler/probe on the engine: no legal plan and no preemption changes a bit of the output, and no illegal plan does
 * harm. */
#include <criterion/criterion.h>
#include <string.h>

#include "probe_rig.h"

enum { SEQS = 6 };

static void submit_all(rig *r)
{
  static int32_t prompts[SEQS][96];
  for (uint32_t i = 0; i < SEQS; i++) {
    rig_tokens(i + 1, r->n_vocab, prompts[i], 96);
    rig_generate(r, prompts[i], 5 + 13 * (int64_t)i, 20);
    rig_score(r, prompts[i], 90 - 12 * (int64_t)i);
  }
}

static probe_scheduler *record_of(const rig *r) { return probe_record(&r->s.engine->scheduler); }

/* More settings of a case, NULL-terminated; both sides get them. */
static void sets_of(probe_sets *s, const char *const *more)
{
  probe_base(s);
  for (; more && *more; more++) probe_set(s, "%s", *more);
}

static rig *planned(const char *model, const char *const *more, int seed, const char *how, const char *extra)
{
  probe_sets s;
  sets_of(&s, more);
  probe_set(&s, "compose.scheduler=probe");
  probe_set(&s, "scheduler.probe.seed=%d", seed);
  probe_set(&s, "scheduler.probe.preempt=12");
  probe_set(&s, "scheduler.probe.how=%s", how);
  probe_set(&s, "engine.max_rows=29");
  probe_set(&s, "engine.max_seqs=4");
  if (extra) probe_set(&s, "%s", extra);
  rig *r = probe_open(rig_tiny(model), &s);
  submit_all(r);
  rig_run(r, 1);
  return r;
}

static void any_plan(const char *model, const char *const *more)
{
  static const char *const hows[] = {"recompute", "swap", "either"};
  probe_sets s;
  sets_of(&s, more);
  rig *plain = probe_open(rig_tiny(model), &s);
  submit_all(plain);
  rig_run(plain, 0);
  for (int seed = 0; seed < 3; seed++) {
    rig *r = planned(model, more, seed, hows[seed], NULL);
    probe_equal(hows[seed], plain, r);
    cr_assert_gt(record_of(r)->preempts, 5);
    cr_assert_eq(record_of(r)->bad, 0);
    cr_assert_eq(tn_engine_stat(r->s.engine).n_preempted, record_of(r)->preempts + record_of(r)->victims);
    rig_close(r);
  }
  rig_close(plain);
}

#define PLANS(name_, model_, ...)                          \
  Test(probe_scheduler, name_)                             \
  {                                                        \
    static const char *const more[] = {__VA_ARGS__, NULL}; \
    any_plan(model_, more);                                \
  }
PLANS(random_plans, "llama", "compose.memory=paged")
PLANS(random_plans_windows, "gemma3", "compose.memory=paged")
PLANS(random_plans_streaming, "llama", "compose.eviction=streaming_llm", "eviction.streaming_llm.window=28")
PLANS(random_plans_ngram, "llama", "compose.draft=ngram")
PLANS(random_plans_trees, "llama", "compose.draft=probe", "draft.probe.nodes=11")
PLANS(random_plans_taps, "llama", "compose.draft=probe", "draft.probe.taps=1")
PLANS(random_plans_two_ranks, "llama", "compose.parallel=tensor")
PLANS(random_plans_int8_cache, "llama", "compose.kv=int8")
PLANS(random_plans_eviction, "llama", "compose.eviction=probe", "eviction.probe.gran=head", "eviction.probe.stateful=1")
PLANS(random_plans_eviction_window, "gemma3", "compose.eviction=probe", "eviction.probe.policy=all",
      "eviction.probe.gran=layer")
PLANS(random_plans_eviction_trees, "llama", "compose.eviction=probe", "eviction.probe.gran=head", "compose.draft=probe")
PLANS(random_plans_rank_rope, "llama", "compose.eviction=probe", "eviction.probe.rank_rope=1", "compose.draft=probe")
PLANS(random_plans_demotion, "llama", "compose.eviction=probe", "eviction.probe.verdict=demote_even",
      "eviction.probe.gran=head", "compose.demote=int8")

/* Too few pages for all: victim() is asked, and whatever it answers the output stays. */
Test(probe_scheduler, victims)
{
  static const char *const choices[] = {"any", "blocked", "newest"};
  static const char *const more[] = {"engine.kv_budget=100K", NULL};
  probe_sets s;
  sets_of(&s, NULL);
  rig *plain = probe_open(rig_tiny("llama"), &s);
  submit_all(plain);
  rig_run(plain, 0);
  for (int i = 0; i < 3; i++) {
    char extra[64];
    snprintf(extra, sizeof extra, "scheduler.probe.victims=%s", choices[i]);
    rig *r = planned("llama", more, i, "either", extra);
    probe_equal(choices[i], plain, r);
    cr_assert_gt(record_of(r)->victims, 3);
    cr_assert_eq(record_of(r)->bad, 0);
    rig_close(r);
  }
  rig_close(plain);
}

/* ---------------------------------------------------------------- against the contract */

/* Steps to the end; errors must name the plugin and say the words. Returns how many there were. */
static int run_through(rig *r, const char *says)
{
  int errors = 0;
  tn_err err = tn_err_init();
  for (int step = 0; !tn_engine_idle(r->s.engine); step++) {
    cr_assert_lt(step, 20000);
    if (tn_engine_step(r->s.engine, &err) == TN_OK) continue;
    cr_assert(strstr(err.msg, "scheduler/probe") && strstr(err.msg, says), "%s", err.msg);
    cr_assert(tn_engine_check(r->s.engine, &err), "%s", err.msg);
    errors++;
  }
  return errors;
}

/* A bad plan is an error of its step; the next plan finds everything as it was. */
static void refused(const char *fault, const char *says)
{
  probe_sets s;
  sets_of(&s, NULL);
  rig *plain = probe_open(rig_tiny("llama"), &s);
  submit_all(plain);
  rig_run(plain, 0);
  probe_set(&s, "compose.scheduler=probe");
  probe_set(&s, "scheduler.probe.fault=%s", fault);
  probe_set(&s, "scheduler.probe.times=3");
  probe_set(&s, "engine.max_rows=60");
  probe_set(&s, "engine.max_seqs=4");
  rig *r = probe_open(rig_tiny("llama"), &s);
  submit_all(r);
  cr_assert_eq(run_through(r, says), 3);
  probe_equal(fault, plain, r);
  rig_close(plain);
  rig_close(r);
}
Test(probe_scheduler, too_many_rows) { refused("rows", "passes the step's row limit"); }
Test(probe_scheduler, one_sequence_twice) { refused("twice", "runs a sequence twice"); }
Test(probe_scheduler, a_sequence_that_is_not_there) { refused("range", "runs a sequence that is not there"); }
Test(probe_scheduler, more_tokens_than_there_are) { refused("tokens", "runs more tokens than there are"); }
Test(probe_scheduler, no_tokens) { refused("no_tokens", "runs more tokens than there are, or none"); }
Test(probe_scheduler, more_runs_than_sequences) { refused("many", "is past the end of the view"); }
Test(probe_scheduler, preempts_what_is_not_there) { refused("preempt_range", "preempts a sequence that is not there"); }
Test(probe_scheduler, preempts_twice) { refused("preempt_twice", "preempts a sequence twice"); }
Test(probe_scheduler, preempts_what_holds_nothing)
{
  refused("preempt_waiting", "preempts a sequence that holds nothing");
}
Test(probe_scheduler, preempts_in_no_known_way) { refused("how", "preempts in no known way"); }
Test(probe_scheduler, a_failing_plan) { refused("status", "TN_E_DEVICE"); }

/* A victim that makes no sense: the blocked sequence gives way itself, and the run goes on. */
static void senseless_victim(const char *fault)
{
  probe_sets s;
  sets_of(&s, NULL);
  rig *plain = probe_open(rig_tiny("llama"), &s);
  submit_all(plain);
  rig_run(plain, 0);
  probe_set(&s, "engine.kv_budget=130K");
  probe_set(&s, "compose.scheduler=probe");
  probe_set(&s, "scheduler.probe.fault=%s", fault);
  rig *r = probe_open(rig_tiny("llama"), &s);
  submit_all(r);
  rig_run(r, 1);
  cr_assert_gt(record_of(r)->victims, 0);
  probe_equal(fault, plain, r);
  rig_close(plain);
  rig_close(r);
}
Test(probe_scheduler, a_victim_out_of_range) { senseless_victim("victim_range"); }
Test(probe_scheduler, a_victim_without_answer) { senseless_victim("victim_status"); }
