/* position/probe on the engine: tables and regimes reach every key and query, and a sequence keeps its regime. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "probe_rig.h"
#include "support/naive.h"

enum { T = 60 };
#define SLOW 4.0
#define SCALE 1.25

static const tn_model *model_of_oracle; /* of the test that runs; each test is a process of its own */

static double slow_frequency(void *ctx, uint32_t cls, uint32_t pair)
{
  (void)ctx;
  const tn_rope_query *q = &model_of_oracle->rope[cls];
  return pow(q->base, -2.0 * pair / q->dims) / SLOW;
}

/* Scaled cosines and sines of query and key: scores times SCALE squared, which is what a scaled key does alone. */
static void scaled_key(void *ctx, uint32_t layer, uint32_t head, int64_t i, int64_t j, float *k, float *v)
{
  (void)ctx, (void)layer, (void)head, (void)i, (void)j, (void)v;
  for (uint32_t c = 0; c < model_of_oracle->shape.d_head; c++) k[c] *= (float)(SCALE * SCALE);
}

static rig *open(const char *model, const char *a, const char *b)
{
  probe_sets s;
  probe_base_f32(&s);
  probe_set(&s, "compose.position=probe");
  if (a) probe_set(&s, "%s", a);
  if (b) probe_set(&s, "%s", b);
  return probe_open(rig_tiny(model), &s);
}

static void against_oracle(const char *model, bool is_long)
{
  int32_t text[T];
  rig *r = open(model, is_long ? "position.probe.long_from=50" : "position.probe.long_from=61", NULL);
  model_of_oracle = r->s.model;
  rig_tokens(5, r->n_vocab, text, T);
  rig_score(r, text, T);
  rig_run(r, 0);
  naive_hooks hooks = {.frequency = slow_frequency, .stored = scaled_key};
  naive *x = naive_open(r->s.model, is_long ? &hooks : NULL, T);
  for (int64_t i = 0; i < T; i++) {
    naive_push(x, text[i]);
    double e = naive_error(x, r->r[0].rows + (size_t)i * r->n_vocab);
    cr_assert(e < 1e-4, "row %lld is off by %g", (long long)i, e);
  }
  const probe_position *seen = probe_record(&r->s.engine->position);
  cr_assert_eq(seen->regime[0], is_long);
  cr_assert_eq(seen->bad, 0);
  naive_close(x);
  rig_close(r);
}
Test(probe_position, short_regime) { against_oracle("llama", false); }
Test(probe_position, long_regime) { against_oracle("llama", true); }
Test(probe_position, long_regime_two_classes) { against_oracle("gemma3", true); }

/* The regime follows from the length that a sequence may reach, and holds from its first token to its last, whatever
 * else is in the batch and however often it is preempted. */
Test(probe_position, regime_is_fixed_at_admission)
{
  static const char *const settings[][2] = {{NULL, NULL},
                                            {"engine.max_rows=9", NULL},
                                            {"compose.scheduler=probe", "scheduler.probe.preempt=15"},
                                            {"compose.draft=probe", NULL}};
  int32_t text[64];
  rig *first = NULL;
  for (size_t v = 0; v < TN_ARRAY_LEN(settings); v++) {
    probe_sets s;
    probe_base(&s);
    probe_set(&s, "compose.position=probe");
    probe_set(&s, "position.probe.long_from=40");
    for (int i = 0; i < 2; i++)
      if (settings[v][i]) probe_set(&s, "%s", settings[v][i]);
    rig *r = probe_open(rig_tiny("gemma3"), &s);
    rig_tokens(9, r->n_vocab, text, 64);
    rig_generate(r, text, 10, 20); /* short */
    rig_generate(r, text, 10, 50); /* the same prompt, long */
    rig_generate(r, text, 30, 10); /* long by one */
    rig_generate(r, text, 30, 9);
    rig_run(r, 0);
    const probe_position *seen = probe_record(&r->s.engine->position);
    static const int64_t want[] = {0, 1, 1, 0}; /* newest first */
    for (int i = 0; i < 4; i++) cr_assert_eq(seen->regime[i], want[i], "sequence %d", 3 - i);
    cr_assert_eq(seen->bad, 0);
    cr_assert_neq(r->r[0].logprobs[0], r->r[1].logprobs[0], "one prompt in two regimes");
    if (first) probe_equal("regimes", first, r);
    if (first)
      rig_close(r);
    else
      first = r;
  }
  rig_close(first);
}

/* ---------------------------------------------------------------- against the contract */

static void refused(const char *fault, const char *says)
{
  char text[64];
  const char *const sets[] = {"compose.backend=ref", "compose.position=probe", text, NULL};
  rig *r;
  tn_err err = tn_err_init();
  snprintf(text, sizeof text, "position.probe.fault=%s", fault);
  cr_assert(rig_try(rig_tiny("llama"), sets, &r, &err) != TN_OK);
  cr_assert(strstr(err.msg, "position/probe") && strstr(err.msg, says), "%s", err.msg);
}
Test(probe_position, a_table_that_fails) { refused("error", "no table on Sundays"); }
Test(probe_position, a_frequency_that_is_no_number) { refused("nan", "frequency 1 of class 0 is nan"); }
Test(probe_position, a_frequency_that_is_too_high) { refused("fast", "frequency 0 of class 0 is 1e+09"); }
