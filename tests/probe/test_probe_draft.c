/* draft/probe on the engine: whatever is drafted, the text is that of plain decoding, and drafters are told the truth. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "probe_rig.h"
#include "support/naive.h"

enum { N_PROMPT = 37, N_NEW = 61 };

static probe_draft *record_of(const rig *r) { return probe_record(&r->s.engine->draft); }

/* The text of plain decoding, prompt included; logprobs stay in the rig. */
static rig *plain(const char *model, int32_t text[N_PROMPT + N_NEW])
{
  probe_sets s;
  probe_base(&s);
  rig *r = probe_open(rig_tiny(model), &s);
  rig_tokens(3, r->n_vocab, text, N_PROMPT);
  rig_generate(r, text, N_PROMPT, N_NEW);
  rig_run(r, 0);
  memcpy(text + N_PROMPT, r->r[0].tokens, N_NEW * sizeof *text);
  return r;
}

/* The same request with a drafter; `more` is one further setting or NULL. */
static rig *drafted(const char *model, const char *mode, int nodes, int depth, const int32_t *text, const char *more)
{
  probe_sets s;
  probe_base(&s);
  probe_set(&s, "compose.draft=probe");
  probe_set(&s, "draft.probe.mode=%s", mode);
  probe_set(&s, "draft.probe.nodes=%d", nodes);
  probe_set(&s, "draft.probe.depth=%d", depth);
  if (more) probe_set(&s, "%s", more);
  rig *r = probe_open(rig_tiny(model), &s);
  record_of(r)->script = text;
  record_of(r)->n_script = N_PROMPT + N_NEW;
  rig_generate(r, text, N_PROMPT, N_NEW);
  rig_run(r, 1);
  return r;
}

/* Always wrong: one token a pass, exactly, and the same text. */
Test(probe_draft, wrong_drafts_cost_nothing_but_rows)
{
  int32_t text[N_PROMPT + N_NEW];
  rig *a = plain("llama", text), *b = drafted("llama", "wrong", 4, 4, text, NULL);
  const probe_draft *seen = record_of(b);
  probe_equal("wrong", a, b);
  cr_assert_eq(tn_engine_stat(b->s.engine).steps, tn_engine_stat(a->s.engine).steps);
  cr_assert_eq(b->r[0].n_accepted, 0);
  cr_assert_gt(b->r[0].n_drafted, 200);
  cr_assert_eq(seen->accepted, 0);
  cr_assert_eq(seen->bad, 0);
  rig_close(a);
  rig_close(b);
}

/* Always right: k + 1 tokens a pass, exactly. The first token comes with the prompt. */
Test(probe_draft, right_drafts_are_all_taken)
{
  int32_t text[N_PROMPT + N_NEW];
  rig *a = plain("llama", text), *b = drafted("llama", "script", 4, 4, text, NULL);
  const probe_draft *seen = record_of(b);
  uint64_t passes = (N_NEW - 1) / 5;
  cr_assert_eq((N_NEW - 1) % 5, 0);
  probe_equal("right", a, b);
  cr_assert_eq(tn_engine_stat(b->s.engine).steps, 1 + passes);
  cr_assert_eq(b->r[0].n_accepted, 4 * passes);
  cr_assert_eq(seen->accepted, 4 * passes);
  cr_assert_eq(seen->proposes, passes);
  cr_assert_eq(seen->bad, 0);
  rig_close(a);
  rig_close(b);
}

static void trees(const char *model, const char *mode, int nodes, int depth, const char *more)
{
  int32_t text[N_PROMPT + N_NEW];
  rig *a = plain(model, text), *b = drafted(model, mode, nodes, depth, text, more);
  const probe_draft *seen = record_of(b);
  probe_equal(mode, a, b);
  cr_assert_eq(seen->bad, 0, "%llu calls were not consistent", (unsigned long long)seen->bad);
  cr_assert_gt(seen->accepted, 0);
  cr_assert_lt(seen->accepted, seen->nodes);
  cr_assert_eq(seen->lives.begins, 1);
  cr_assert_eq(seen->lives.ends, 1);
  /* The rows of the run are those of a prefill of its text: logprobs of the generated tokens come out the same. */
  rig_clear(a);
  rig_score(a, text, N_PROMPT + N_NEW);
  rig_run(a, 0);
  for (int i = 0; i < N_NEW; i++) {
    const float *row = a->r[0].rows + (size_t)(N_PROMPT - 1 + i) * a->n_vocab;
    double lp = (double)row[text[N_PROMPT + i]] - tn_log_sum_exp(row, a->n_vocab);
    cr_assert(lp == b->r[0].logprobs[i], "token %d: %.17g drafted, %.17g in a prefill", i, b->r[0].logprobs[i], lp);
  }
  rig_close(a);
  rig_close(b);
}

Test(probe_draft, random_trees) { trees("llama", "random", 24, 6, NULL); }
Test(probe_draft, random_trees_windows) { trees("gemma3", "random", 24, 6, NULL); }
Test(probe_draft, random_trees_two_ranks) { trees("llama", "random", 12, 5, "compose.parallel=tensor"); }
Test(probe_draft, steps_of_eight_rows) { trees("llama", "random", 7, 3, "engine.max_rows=8"); }
Test(probe_draft, narrow_steps) { trees("llama", "random", 40, 6, "engine.max_rows=5"); }
/* Deeper than declared: the host cuts branches, and what it reports counts nodes as they were proposed. */
Test(probe_draft, cut_trees) { trees("llama", "deep", 24, 1, NULL); }
Test(probe_draft, cut_trees_deeper) { trees("llama", "deep", 24, 2, NULL); }

/* ---------------------------------------------------------------- taps */

/* Rows of every text position, of the prompt and of verified drafts, against a forward pass over the same text. */
static void taps(const char *model, const char *mode, const char *more)
{
  int32_t text[N_PROMPT + N_NEW];
  probe_sets s;
  rig_close(plain(model, text));
  probe_base_f32(&s);
  probe_set(&s, "compose.draft=probe");
  probe_set(&s, "draft.probe.mode=%s", mode);
  probe_set(&s, "draft.probe.taps=1");
  if (more) probe_set(&s, "%s", more);
  rig *r = probe_open(rig_tiny(model), &s);
  uint32_t d = r->s.model->shape.d_model, last = r->s.model->shape.n_layers - 1;
  probe_draft *seen = record_of(r);
  seen->script = text;
  seen->n_script = N_PROMPT + N_NEW;
  seen->cap = N_PROMPT + N_NEW;
  seen->taps = calloc(3 * (size_t)seen->cap * d, sizeof *seen->taps);
  rig_generate(r, text, N_PROMPT, N_NEW);
  rig_run(r, 0);
  cr_assert_eq(seen->bad, 0);
  cr_assert_geq(seen->n_tapped, N_PROMPT + N_NEW - 8);
  naive *x = naive_open(r->s.model, NULL, N_PROMPT + N_NEW);
  for (int64_t i = 0; i < seen->n_tapped; i++) {
    naive_push(x, i < N_PROMPT ? text[i] : r->r[0].tokens[i - N_PROMPT]);
    const double *want[3] = {x->normed, x->hidden, x->hidden + (size_t)last * d};
    for (uint32_t k = 0; k < 3; k++)
      for (uint32_t c = 0; c < d; c++) {
        double got = (double)seen->taps[((int64_t)k * seen->cap + i) * d + c];
        cr_assert(fabs(got - want[k][c]) < 2e-5 * fmax(1, fabs(want[k][c])),
                  "tap %u, position %lld, column %u: %g, want %g", k, (long long)i, c, got, want[k][c]);
      }
  }
  naive_close(x);
  free(seen->taps);
  rig_close(r);
}
Test(probe_draft, taps_of_chains) { taps("llama", "script", NULL); }
Test(probe_draft, taps_of_trees) { taps("llama", "random", "engine.max_rows=9"); }
Test(probe_draft, taps_of_trees_gemma3) { taps("gemma3", "random", NULL); }
Test(probe_draft, taps_of_cut_trees) { taps("llama", "deep", "draft.probe.depth=2"); }

/* ---------------------------------------------------------------- drafters that break the contract */

static void refused(const char *fault, const char *says)
{
  probe_sets s;
  int32_t prompt[8];
  tn_err err = tn_err_init();
  probe_base(&s);
  probe_set(&s, "compose.draft=probe");
  probe_set(&s, "draft.probe.mode=broken");
  probe_set(&s, "draft.probe.fault=%s", fault);
  rig *r = probe_open(rig_tiny("llama"), &s);
  rig_tokens(1, r->n_vocab, prompt, 8);
  for (int round = 0; round < 2; round++) { /* the second one finds a working engine */
    rig_clear(r);
    rig_generate(r, prompt, 8, 4);
    tn_status st = TN_OK;
    while (st == TN_OK && !tn_engine_idle(r->s.engine)) st = tn_engine_step(r->s.engine, &err);
    cr_assert(st != TN_OK && strstr(err.msg, says), "%s: %s", fault, err.msg);
    cr_assert(strstr(err.msg, "draft/probe"), "%s", err.msg);
    cr_assert_eq(r->r[0].why, TN_FINISH_ERROR);
    cr_assert_eq(r->r[0].n, 1, "the token of the prompt came before");
    cr_assert(tn_engine_check(r->s.engine, &err), "%s", err.msg);
  }
  rig_close(r);
}
Test(probe_draft, a_node_before_its_parent_is_refused) { refused("parent", "comes before its parent"); }
Test(probe_draft, a_token_outside_the_vocabulary_is_refused) { refused("token", "is not in the vocabulary"); }
Test(probe_draft, a_node_without_its_law_is_refused) { refused("law", "has no law"); }
Test(probe_draft, a_branch_where_chains_were_declared_is_refused) { refused("branch", "branches"); }
Test(probe_draft, more_nodes_than_asked_for_are_refused) { refused("many", "is more than was asked for"); }
Test(probe_draft, a_failure_is_passed_on) { refused("status", "TN_E_DEVICE"); }

Test(probe_draft, a_drafter_of_no_nodes_is_refused)
{
  static const char *const sets[] = {"compose.backend=ref", "compose.draft=probe", "draft.probe.mode=broken",
                                     "draft.probe.fault=describe", NULL};
  rig *r;
  tn_err err = tn_err_init();
  cr_assert(rig_try(rig_tiny("llama"), sets, &r, &err) != TN_OK);
  cr_assert(strstr(err.msg, "draft/probe: describe: max_nodes = 0"), "%s", err.msg);
}
