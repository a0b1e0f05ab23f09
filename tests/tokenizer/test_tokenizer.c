/* Loading: what names a tokenizer, and how fast a vocabulary is there. */
#include "tokenizer/tokenizer.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "open_vocab.h"

static vocab_spec good(void)
{
  static const char *const tokens[] = {"a", "b", "ab"}, *const merges[] = {"a b"};
  return (vocab_spec){
      .model = "gpt2", .pre = "gpt-2", .tokens = tokens, .n_tokens = 3, .merges = merges, .n_merges = 1};
}

Test(tokenizer, says_what_it_loaded)
{
  vocab_spec s = good();
  vocab v = vocab_make(&s);
  cr_expect(eq(str, (char *)tn_tokenizer_model(v.t), "gpt2"));
  cr_expect(eq(str, (char *)tn_tokenizer_pre(v.t), "gpt-2"));
  cr_expect(tn_tokenizer_n_vocab(v.t) == 3 && tn_tokenizer_bos(v.t) == TN_TOKEN_NONE);
  vocab_expect(v.t, "aab", 0, "0 2");
  vocab_close(&v);
  tn_tokenizer_free(NULL);
}

Test(tokenizer, unknown_names_are_refused_with_the_nearest)
{
  vocab_spec no_model = good(), model = good(), no_pre = good(), pre = good(), dirty = good();
  no_model.model = NULL;
  model.model = "gpt3";
  no_pre.pre = NULL;
  pre.pre = "qwen-2";
  dirty.pre = "\x1B[31m\xC3(\n";
  const struct {
    const vocab_spec *spec;
    tn_status st;
    const char *words;
  } cases[] = {
      {&no_model, TN_E_ARG, "tokenizer.ggml.model is missing or no string: the file has no tokenizer"},
      {&model, TN_E_UNSUPPORTED, "tokenizer.ggml.model is 'gpt3', the tokenizers are gpt2, llama and t5"},
      {&no_pre, TN_E_ARG, "tokenizer.ggml.pre is missing or no string"},
      {&pre, TN_E_UNSUPPORTED, "tokenizer.ggml.pre is 'qwen-2', which is not known; the nearest known name is 'qwen2'"},
      {&dirty, TN_E_UNSUPPORTED, "tokenizer.ggml.pre is '?[31m?(?', which is not known"},
  };
  for (size_t i = 0; i < TN_ARRAY_LEN(cases); i++) {
    tn_err err;
    cr_expect(eq(int, vocab_refused(cases[i].spec, &err), cases[i].st));
    cr_expect(strstr(err.msg, cases[i].words) != NULL, "'%s' does not say '%s'", err.msg, cases[i].words);
  }
}

Test(tokenizer, strings_for_messages_are_cut_at_characters)
{
  char buf[TN_SHOWN], text[200];
  for (size_t i = 0; i + 2 <= sizeof text; i += 2) memcpy(text + i, "\xC3\xA9", 2);
  tn_tok_show((tn_str){text, sizeof text}, buf);
  cr_expect(strlen(buf) < TN_SHOWN && strlen(buf) % 2 == 0 && strlen(buf) > TN_SHOWN - 8);
  cr_expect(eq(str, tn_tok_show((tn_str){"a\0b\x7F", 4}, buf), "a?b?"));
}

/* A guard against work that grows faster than the vocabulary, not a benchmark: ten times what it takes. Best of five. */
static void expect_load_under(const char *model, double limit_ms)
{
  vocab v = vocab_open_model(model);
  double best = 1e9;
  for (int i = 0; i < 5; i++) {
    tn_tokenizer *t;
    uint64_t t0 = tn_now_ns();
    cr_assert(tn_tokenizer_load(v.g, &t, NULL) == TN_OK);
    double ms = (double)(tn_now_ns() - t0) / 1e6;
    if (ms < best) best = ms;
    tn_tokenizer_free(t);
  }
  const char *instrumented = getenv("TN_INSTRUMENTED");
  if (instrumented && instrumented[0] == '1') limit_ms *= 20;
  cr_expect(best < limit_ms, "%s: %.1f ms, the limit is %.0f", model, best, limit_ms);
  vocab_close(&v);
}

Test(tokenizer, smollm2_loads_in_a_moment) { expect_load_under("smollm2-135m-instruct-q4_1.gguf", 450); }
Test(tokenizer, gemma_loads_in_a_moment) { expect_load_under("gemma-3-270m-q4_k_m.gguf", 1800); }
