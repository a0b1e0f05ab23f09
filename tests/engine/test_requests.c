/* Requests: what is refused and with which words, how they end, cancelling, seeds, and two engines in one process. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <string.h>

#include "support/engine_rig.h"

static const char *const cpu[] = {"compose.backend=cpu", "engine.threads=1", NULL};

static rig *llama(void) { return rig_open(rig_tiny("llama"), cpu); }

static tn_request greedy(const int32_t *prompt, int64_t n, int64_t max_new)
{
  return (tn_request){.prompt = prompt, .n_prompt = n, .max_new = max_new, .sampling = tn_sampling_default()};
}

/* ---------------------------------------------------------------- refusals */

static void refused(rig *r, const tn_request *q, tn_status st, const char *a, const char *b)
{
  tn_err err = tn_err_init();
  uint64_t seq;
  tn_status is = tn_engine_submit(r->s.engine, q, &seq, &err);
  cr_assert(is == st, "%s (%s), want %s", tn_status_name(is), err.msg, tn_status_name(st));
  cr_assert(strstr(err.msg, a) && strstr(err.msg, b), "'%s' does not say '%s' and '%s'", err.msg, a, b);
  cr_assert(tn_engine_idle(r->s.engine));
}

Test(engine_requests, refusals_name_field_and_values)
{
  static const int32_t prompt[3] = {1, 2, 3}, outside[3] = {1, 288, 3}, negative[2] = {0, -1};
  rig *r = llama();
  tn_request q = greedy(prompt, 0, 1);
  refused(r, &q, TN_E_ARG, "prompt", "empty");
  q = greedy(outside, 3, 1);
  refused(r, &q, TN_E_ARG, "token 1 is 288", "288");
  q = greedy(negative, 2, 1);
  refused(r, &q, TN_E_ARG, "token 1 is -1", "vocabulary");
  q = greedy(prompt, 3, -2);
  refused(r, &q, TN_E_ARG, "max_new", "-2");
  q = greedy(prompt, 3, 254);
  refused(r, &q, TN_E_NEVER, "257 tokens", "256"); /* both numbers */
  q = greedy(prompt, 3, INT64_MAX - 2);
  refused(r, &q, TN_E_NEVER, "9223372036854775808 tokens", "256");
  q = greedy(prompt, 3, 1);
  q.n_logprobs = 21;
  refused(r, &q, TN_E_ARG, "logprobs = 21", "20");
  q = greedy(prompt, 3, 1);
  q.sampling.temperature = -1;
  refused(r, &q, TN_E_ARG, "temperature", "-1");
  q = greedy(prompt, 3, 1);
  q.sampling.top_p = NAN;
  refused(r, &q, TN_E_ARG, "top_p", "nan");
  for (uint32_t i = 0; i < 2; i++) { /* just fits, and as many as fit */
    q = greedy(prompt, 3, i ? TN_UNTIL_FULL : 253);
    q.ignore_eog = 1;
    rig_submit(r, &q);
    rig_run(r, 0);
    cr_expect(eq(u32, r->r[i].n, 253));
  }
  rig_close(r);
}

/* A cache too small for the request, even if it were alone: said at once, with both numbers of pages. */
Test(engine_requests, more_than_the_cache_can_ever_hold)
{
  static const char *const sets[] = {"compose.backend=cpu", "engine.threads=1", "engine.kv_budget=50K", NULL};
  static const char *const slabs[] = {"compose.backend=cpu",
                                      "engine.threads=1",
                                      "engine.kv_budget=50K",
                                      "compose.memory=contiguous",
                                      "memory.contiguous.page_tokens=16",
                                      NULL};
  for (int i = 0; i < 2; i++) {
    rig *r = rig_open(rig_tiny("llama"), i ? slabs : sets);
    static const int32_t prompt[3] = {1, 2, 3};
    tn_request q = greedy(prompt, 3, 100);
    refused(r, &q, TN_E_NEVER, "103 tokens needs 7 pages", "which has 4");
    q = greedy(prompt, 3, 61);
    q.ignore_eog = 1;
    rig_submit(r, &q);
    rig_run(r, 1);
    cr_expect(r->r[0].n == 61 && r->r[0].why == TN_FINISH_LENGTH, "%s", r->r[0].msg);
    rig_close(r);
  }
}

/* ---------------------------------------------------------------- how they end */

Test(engine_requests, no_new_tokens_runs_the_prompt_only)
{
  int32_t prompt[20];
  rig *r = llama();
  rig_tokens(1, r->n_vocab, prompt, 20);
  rig_generate(r, prompt, 20, 0);
  rig_run(r, 1);
  cr_expect(r->r[0].done && r->r[0].n == 0 && r->r[0].why == TN_FINISH_LENGTH);
  cr_expect(eq(u64, tn_engine_stat(r->s.engine).rows, 20));
  rig_close(r);
}

Test(engine_requests, stop_tokens_and_the_ends_of_generation)
{
  int32_t prompt[9];
  rig *r = llama();
  cr_assert(r->s.engine != NULL);
  rig_tokens(1, r->n_vocab, prompt, 9);
  rig_generate(r, prompt, 9, 40);
  rig_run(r, 0);
  for (uint32_t at = 0; at < 40; at += 9) {
    int32_t stop[2] = {-5, r->r[0].tokens[at]}; /* a stop token that cannot come is no error */
    uint32_t first = 0;
    while (r->r[0].tokens[first] != stop[1]) first++;
    tn_request q = greedy(prompt, 9, 40);
    q.stop = stop, q.n_stop = 2, q.ignore_eog = 1;
    uint32_t i = rig_submit(r, &q);
    rig_run(r, 0);
    cr_expect(r->r[i].why == TN_FINISH_STOP && r->r[i].n == first + 1);
    cr_expect(r->r[i].tokens[first] == stop[1], "the stop token itself is told");
  }
  rig_close(r);
}

/* A bias makes the end of generation the likeliest token: it ends the text, unless that is to be ignored. */
Test(engine_requests, ignoring_the_end_of_generation)
{
  int32_t prompt[9];
  rig *r = llama();
  int32_t eog = r->s.eog[0];
  float bias = 100;
  rig_tokens(1, r->n_vocab, prompt, 9);
  for (uint32_t ignore = 0; ignore < 2; ignore++) {
    tn_request q = greedy(prompt, 9, 5);
    q.sampling.n_bias = 1, q.sampling.bias_token = &eog, q.sampling.bias = &bias;
    q.ignore_eog = ignore;
    rig_submit(r, &q);
  }
  rig_run(r, 0);
  cr_expect(r->r[0].n == 1 && r->r[0].tokens[0] == eog && r->r[0].why == TN_FINISH_STOP);
  cr_expect(r->r[1].n == 5 && r->r[1].tokens[4] == eog && r->r[1].why == TN_FINISH_LENGTH);
  rig_close(r);
}

/* ---------------------------------------------------------------- cancelling */

static void cancel_first(void *ctx, const tn_token_event *e)
{
  rig *r = ctx;
  if (r->r[0].n == 7 && e->seq == r->r[0].seq) tn_engine_cancel(r->s.engine, e->seq);
}

Test(engine_requests, cancelled_in_the_middle)
{
  int32_t prompt[30];
  for (int inside = 0; inside < 2; inside++) { /* from a token's event, and between steps */
    rig *r = llama(), *alone = llama();
    rig_tokens(1, r->n_vocab, prompt, 30);
    if (inside) r->on_token = cancel_first, r->on_token_ctx = r;
    rig_generate(r, prompt, 30, 60);
    rig_generate(r, prompt, 20, 40);
    rig_generate(alone, prompt, 20, 40);
    rig_run(alone, 0);
    while (r->r[0].n < 7) cr_assert(tn_engine_step(r->s.engine, NULL) == TN_OK);
    if (!inside) tn_engine_cancel(r->s.engine, r->r[0].seq);
    tn_engine_cancel(r->s.engine, r->r[0].seq);
    tn_engine_cancel(r->s.engine, 12345); /* nobody */
    rig_run(r, 1);
    cr_expect(r->r[0].why == TN_FINISH_CANCELLED && r->r[0].n == 7, "%u tokens", r->r[0].n);
    cr_expect(rig_same(r, 1, alone, 0), "the other one does not notice");
    cr_expect(eq(u64, tn_engine_stat(r->s.engine).kv_bytes_used, 0));
    rig_close(r);
    rig_close(alone);
  }
}

Test(engine_requests, cancelled_while_waiting)
{
  static const char *const one[] = {"compose.backend=cpu", "engine.threads=1", "engine.max_seqs=1", NULL};
  int32_t prompt[30];
  rig *r = rig_open(rig_tiny("llama"), one);
  rig_tokens(1, r->n_vocab, prompt, 30);
  for (int i = 0; i < 3; i++) rig_generate(r, prompt, 30, 5);
  cr_assert(tn_engine_step(r->s.engine, NULL) == TN_OK);
  tn_engine_cancel(r->s.engine, r->r[1].seq);
  rig_run(r, 1);
  cr_expect(r->r[0].n == 5 && r->r[2].n == 5);
  cr_expect(r->r[1].n == 0 && r->r[1].why == TN_FINISH_CANCELLED);
  rig_close(r);
}

/* Closing with work in progress: no event, no leak (AddressSanitizer sees it). */
Test(engine_requests, closed_in_the_middle)
{
  int32_t prompt[30];
  rig *r = llama();
  rig_tokens(1, r->n_vocab, prompt, 30);
  for (int i = 0; i < 12; i++) rig_generate(r, prompt, 30, 50);
  for (int i = 0; i < 9; i++) cr_assert(tn_engine_step(r->s.engine, NULL) == TN_OK);
  tn_engine_close(r->s.engine);
  r->s.engine = NULL;
  for (int i = 0; i < 12; i++) cr_expect(r->r[i].done == false);
  rig_close(r);
}

/* ---------------------------------------------------------------- seeds, and others in the process */

static void submit_mixed(rig *r, uint32_t from, uint32_t to)
{
  int32_t prompt[60];
  for (uint32_t i = from; i < to; i++) {
    rig_tokens(i + 1, r->n_vocab, prompt, 60);
    tn_request q = greedy(prompt, 5 + 5 * (int64_t)i, 30);
    q.sampling.temperature = i % 3 ? 0.8 : 0;
    q.key = 50 + i / 2;
    q.n_logprobs = 2, q.ignore_eog = 1;
    rig_submit(r, &q);
  }
}

Test(engine_requests, a_seed_is_a_text)
{
  int32_t prompt[10];
  rig *r = llama(), *other = llama();
  rig_tokens(1, r->n_vocab, prompt, 10);
  for (uint32_t i = 0; i < 6; i++) {
    tn_request q = greedy(prompt, 10, 30);
    q.sampling.temperature = 0.9, q.key = 5 + i / 2, q.ignore_eog = 1;
    rig_submit(r, &q);
    if (i == 5) rig_submit(other, &q);
  }
  rig_run(r, 0);
  rig_run(other, 0);
  for (uint32_t i = 0; i < 6; i += 2) cr_expect(rig_same(r, i, r, i + 1), "seed %u twice", 5 + i / 2);
  cr_expect(rig_same(r, 0, r, 2) == false && rig_same(r, 2, r, 4) == false && rig_same(r, 0, r, 4) == false);
  cr_expect(rig_same(r, 5, other, 0), "another engine, the same seed");
  rig_close(r);
  rig_close(other);
}

/* Eight equal prompts at temperature 0 in batches of 1, 2, 4 and 8 say the same. */
Test(engine_requests, equal_prompts_say_the_same)
{
  int32_t prompt[33];
  rig *first = llama();
  rig_tokens(8, first->n_vocab, prompt, 33);
  rig_generate(first, prompt, 33, 40);
  rig_run(first, 0);
  for (uint32_t batch = 2; batch <= 8; batch *= 2) {
    rig *r = llama();
    for (uint32_t i = 0; i < batch; i++) rig_generate(r, prompt, 33, 40);
    rig_run(r, 0);
    for (uint32_t i = 0; i < batch; i++) cr_expect(rig_same(first, 0, r, i), "%u of %u", i, batch);
    rig_close(r);
  }
  rig_close(first);
}

/* Two engines, their steps interleaved, say what each says alone. */
Test(engine_requests, two_engines_in_one_process)
{
  static const char *const sets[2][5] = {
      {"compose.backend=cpu", "engine.threads=2", "engine.max_rows=16", "compose.draft=ngram", NULL},
      {"compose.backend=ref", "engine.threads=1", "engine.max_rows=50", "compose.kv=int8", NULL}};
  static const char *const models[2] = {"gemma3", "llama"};
  rig *alone[2], *mixed[2];
  for (int e = 0; e < 2; e++) {
    alone[e] = rig_open(rig_tiny(models[e]), sets[e]);
    submit_mixed(alone[e], 0, 8);
    rig_run(alone[e], 0);
    mixed[e] = rig_open(rig_tiny(models[e]), sets[e]);
    submit_mixed(mixed[e], 0, 8);
  }
  while (!tn_engine_idle(mixed[0]->s.engine) || !tn_engine_idle(mixed[1]->s.engine))
    for (int e = 0; e < 2; e++) cr_assert(tn_engine_step(mixed[e]->s.engine, NULL) == TN_OK);
  for (int e = 0; e < 2; e++) {
    for (uint32_t i = 0; i < 8; i++) cr_expect(rig_same(alone[e], i, mixed[e], i), "engine %d, request %u", e, i);
    rig_close(alone[e]);
    rig_close(mixed[e]);
  }
}

/* Requests that arrive while others run, and an engine that goes on after it was idle. */
Test(engine_requests, arrivals_at_any_time)
{
  rig *all = llama(), *r = llama();
  submit_mixed(all, 0, 10);
  rig_run(all, 0);
  for (uint32_t i = 0; i < 10; i++) {
    submit_mixed(r, i, i + 1);
    for (uint32_t step = 0; step < 3 * (i % 4); step++) cr_assert(tn_engine_step(r->s.engine, NULL) == TN_OK);
    if (i == 6) rig_run(r, 0);
  }
  rig_run(r, 1);
  for (uint32_t i = 0; i < 10; i++) cr_expect(rig_same(all, i, r, i), "request %u", i);
  rig_close(all);
  rig_close(r);
}
