/* Speculation changes nothing but the speed: greedy text and logprobs are those of plain decoding for every k; with a
 * temperature the same seed gives the same text, since a draw belongs to its position. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "support/engine_rig.h"

enum { PROMPTS = 32, LENGTH = 40 };

static rig *open_with(const char *model, const char *draft, const char *option)
{
  const char *sets[] = {"compose.backend=cpu", "engine.threads=1", draft, option, NULL};
  return rig_open(rig_tiny(model), sets);
}

/* 32 prompts; half of them repeat themselves, so that there is something to find. */
static void submit_all(rig *r, double temperature)
{
  int32_t prompt[48];
  for (uint32_t i = 0; i < PROMPTS; i++) {
    rig_tokens(i + 1, r->n_vocab, prompt, 48);
    for (int k = 0; i % 2 && k < 48; k++) prompt[k] = prompt[k % (3 + (int)i % 9)];
    tn_sampling how = tn_sampling_default();
    how.temperature = temperature;
    if (i % 3 == 0) how.top_k = 20;
    if (i % 4 == 0) how.repetition = 1.1;
    tn_request q = {.prompt = prompt,
                    .n_prompt = 4 + i,
                    .max_new = LENGTH,
                    .sampling = how,
                    .key = 1000 + i,
                    .n_logprobs = 5,
                    .ignore_eog = 1};
    rig_submit(r, &q);
  }
}

static void same_for_every_k(const char *model, double temperature)
{
  rig *plain = open_with(model, NULL, NULL);
  submit_all(plain, temperature);
  rig_run(plain, 0);
  for (int k = 1; k <= 8; k++) {
    char option[32];
    snprintf(option, sizeof option, "draft.ngram.k=%d", k);
    rig *r = open_with(model, "compose.draft=ngram", option);
    submit_all(r, temperature);
    rig_run(r, 5);
    uint64_t accepted = 0, drafted = 0;
    for (uint32_t i = 0; i < PROMPTS; i++) {
      cr_assert(r->r[i].n == LENGTH, "prompt %u: %u tokens", i, r->r[i].n);
      cr_assert(rig_same(plain, i, r, i), "%s, k = %d, prompt %u", model, k, i);
      accepted += r->r[i].n_accepted;
      drafted += r->r[i].n_drafted;
      for (uint32_t t = 0; t < LENGTH; t++)
        cr_assert(r->r[i].logprobs[t] < 0, "prompt %u: logprob %u is %g", i, t, r->r[i].logprobs[t]);
    }
    cr_assert(accepted > (temperature > 0 ? 4 : 20), "k = %d: only %llu accepted", k, (unsigned long long)accepted);
    cr_assert(accepted < drafted, "k = %d: nothing was ever refused", k);
    cr_expect(eq(u64, rig_counter(r, "draft", 1), accepted));
    rig_close(r);
  }
  rig_close(plain);
}

Test(engine_speculation, greedy_is_greedy_llama) { same_for_every_k("llama", 0); }
Test(engine_speculation, greedy_is_greedy_gemma3) { same_for_every_k("gemma3", 0); }
Test(engine_speculation, a_seed_gives_one_text_llama) { same_for_every_k("llama", 0.4); }
Test(engine_speculation, a_seed_gives_one_text_gemma3) { same_for_every_k("gemma3", 0.4); }

/* The comparison sees a wrong token: another seed, another text. */
Test(engine_speculation, another_seed_gives_another_text)
{
  rig *r = open_with("llama", NULL, NULL);
  int32_t prompt[8];
  rig_tokens(1, r->n_vocab, prompt, 8);
  for (uint64_t key = 1; key <= 2; key++) {
    tn_request q = {.prompt = prompt, .n_prompt = 8, .max_new = 20, .sampling = tn_sampling_default(), .key = key};
    q.sampling.temperature = 0.7;
    q.ignore_eog = 1;
    rig_submit(r, &q);
  }
  rig_run(r, 0);
  cr_expect(rig_same(r, 0, r, 1) == false);
  rig_close(r);
}

/* Fewer passes: what speculation is for. The text falls into a cycle, and then k + 1 tokens come of each pass. */
Test(engine_speculation, a_text_that_repeats_takes_fewer_steps)
{
  rig *plain = open_with("gemma3", NULL, NULL), *r = open_with("gemma3", "compose.draft=ngram", "draft.ngram.k=6");
  int32_t prompt[6];
  rig_tokens(3, r->n_vocab, prompt, 6);
  rig_generate(plain, prompt, 6, 200);
  rig_generate(r, prompt, 6, 200);
  rig_run(plain, 0);
  rig_run(r, 0);
  uint64_t slow = tn_engine_stat(plain->s.engine).steps, fast = tn_engine_stat(r->s.engine).steps;
  cr_expect(eq(u64, slow, 200));
  cr_expect(fast < 100, "%llu steps", (unsigned long long)fast);
  cr_expect(eq(u64, 200 - fast, r->r[0].n_accepted), "each accepted token saves a step");
  rig_close(plain);
  rig_close(r);
}

/* Stop tokens in the middle of an accepted run end the text there. */
Test(engine_speculation, a_stop_token_inside_an_accepted_run)
{
  rig *plain = open_with("gemma3", NULL, NULL), *r = open_with("gemma3", "compose.draft=ngram", "draft.ngram.k=8");
  int32_t prompt[6];
  rig_tokens(3, r->n_vocab, prompt, 6);
  rig_generate(plain, prompt, 6, 120);
  rig_run(plain, 0);
  for (uint32_t at = 60; at < 110; at += 7) { /* each a token that comes again and again */
    int32_t stop = plain->r[0].tokens[at];
    uint32_t first = 0;
    while (plain->r[0].tokens[first] != stop) first++;
    tn_request q = {.prompt = prompt, .n_prompt = 6, .max_new = 120, .sampling = tn_sampling_default()};
    q.stop = &stop, q.n_stop = 1, q.ignore_eog = 1;
    uint32_t i = rig_submit(r, &q);
    rig_run(r, 1);
    cr_assert(r->r[i].why == TN_FINISH_STOP && r->r[i].n == first + 1, "%u tokens, want %u", r->r[i].n, first + 1);
    cr_assert(memcmp(r->r[i].tokens, plain->r[0].tokens, (first + 1) * sizeof(int32_t)) == 0);
  }
  rig_close(plain);
  rig_close(r);
}

/* Lengths that end inside a draft are kept. */
Test(engine_speculation, never_more_tokens_than_asked_for)
{
  rig *r = open_with("llama", "compose.draft=ngram", "draft.ngram.k=8");
  int32_t prompt[30];
  for (int i = 0; i < 30; i++) prompt[i] = 40 + i % 2;
  for (int64_t n = 0; n < 24; n++) rig_generate(r, prompt, 30, n);
  rig_run(r, 1);
  for (uint32_t n = 0; n < 24; n++) cr_expect(r->r[n].n == n && r->r[n].why == TN_FINISH_LENGTH);
  rig_close(r);
}

/* Prompt logits of a scored request do not depend on what is drafted beside it. */
Test(engine_speculation, scored_chunks_beside_drafts)
{
  static const char *const plain_sets[] = {"compose.backend=cpu", "engine.threads=1", "engine.max_rows=16", NULL};
  static const char *const draft_sets[] = {"compose.backend=cpu", "engine.threads=1", "engine.max_rows=16",
                                           "compose.draft=ngram", NULL};
  rig *both[2] = {rig_open(rig_tiny("llama"), plain_sets), rig_open(rig_tiny("llama"), draft_sets)};
  int32_t prompt[120];
  for (int i = 0; i < 2; i++) {
    rig_tokens(9, both[i]->n_vocab, prompt, 120);
    rig_generate(both[i], prompt, 10, 60);
    rig_score(both[i], prompt, 120); /* eight chunks and more */
    rig_generate(both[i], prompt + 20, 10, 60);
    rig_run(both[i], 0);
  }
  for (uint32_t i = 0; i < 3; i++) cr_expect(rig_same(both[0], i, both[1], i), "result %u", i);
  cr_expect(both[1]->r[0].n_drafted + both[1]->r[2].n_drafted > 0);
  rig_close(both[0]);
  rig_close(both[1]);
}

Test(engine_speculation, greedy_verification_refuses_a_temperature)
{
  rig *r = open_with("llama", "compose.draft=ngram", "engine.verify=greedy");
  static const int32_t prompt[2] = {1, 2};
  tn_request q = {.prompt = prompt, .n_prompt = 2, .max_new = 2, .sampling = tn_sampling_default()};
  q.sampling.temperature = 0.5;
  uint64_t seq;
  tn_err err = tn_err_init();
  cr_expect(tn_engine_submit(r->s.engine, &q, &seq, &err) == TN_E_ARG);
  cr_expect(strstr(err.msg, "temperature") && strstr(err.msg, "verify"), "%s", err.msg);
  rig_close(r);
}
