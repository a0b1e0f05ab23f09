/* The vocabulary's lists and the hash over its texts. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdio.h>

#include "open_vocab.h"

static const char *const abc[] = {"<unk>", "<s>", "</s>", "a", "b", "ab", "a"};
static const int32_t abc_types[] = {2, 3, 3, 1, 1, 1, 1};
static const float abc_scores[] = {0, 0, 0, -1, -2, -3, -4};

static vocab_spec abc_spec(void)
{
  return (vocab_spec){.model = "llama", .tokens = abc, .n_tokens = 7, .types = abc_types, .scores = abc_scores};
}

Test(vocab, finds_every_text_of_a_real_vocabulary)
{
  vocab v = vocab_open("gpt-2.gguf");
  int32_t n = tn_tokenizer_n_vocab(v.t);
  cr_assert(n == 50257);
  for (int32_t id = 0; id < n; id++) {
    tn_str text = tn_token_text(v.t, id);
    cr_assert(tn_token_find(v.t, text.p, text.n) == id, "token %d", id);
  }
  cr_expect(tn_token_find(v.t, "no such token", 13) == TN_TOKEN_NONE);
  cr_expect(tn_token_find(v.t, "", 0) == TN_TOKEN_NONE);
  vocab_close(&v);
}

Test(vocab, of_equal_texts_the_lower_id_is_found)
{
  vocab_spec s = abc_spec();
  vocab v = vocab_make(&s);
  cr_expect(tn_token_find(v.t, "a", 1) == 3);
  cr_expect(tn_token_find(v.t, "ab", 2) == 5);
  cr_expect(tn_token_text(v.t, 6).n == 1 && tn_token_text(v.t, 7).n == 0 && tn_token_text(v.t, -1).n == 0);
  vocab_close(&v);
}

Test(vocab, scores_of_a_narrow_type_are_read_as_what_they_are)
{
  vocab_spec s = abc_spec();
  s.scores = NULL;
  s.numbers[0] = (struct vocab_number){"tokenizer.ggml.scores", 0, VOCAB_U8_SCORES};
  vocab v = vocab_make(&s);
  for (int32_t id = 0; id < 7; id++) cr_expect(v.t->score[id] == (float)id);
  vocab_close(&v);
}

Test(vocab, without_types_every_token_is_normal)
{
  vocab_spec s = abc_spec();
  s.types = NULL;
  vocab v = vocab_make(&s);
  cr_expect(tn_token_type(v.t, 3) == TN_TOKEN_NORMAL && tn_token_type(v.t, 0) == TN_TOKEN_NORMAL);
  cr_expect(tn_token_type(v.t, 7) == TN_TOKEN_UNDEFINED && tn_token_type(v.t, -1) == TN_TOKEN_UNDEFINED);
  vocab_close(&v);
}

Test(vocab, faulty_lists_are_refused)
{
  static const int32_t wild[] = {2, 3, 3, 1, 1, 1, 9}, negative[] = {2, 3, 3, 1, 1, 1, -1};
  static const float odd[] = {0, 0, 0, -1, NAN, -3, -4}, endless[] = {0, 0, 0, -1, -2, -3, -INFINITY};
  vocab_spec none = abc_spec(), no_tokens = abc_spec(), types = abc_spec(), type9 = abc_spec(), below = abc_spec();
  vocab_spec no_scores = abc_spec(), few = abc_spec(), nan = abc_spec(), inf = abc_spec();
  none.tokens = NULL;
  no_tokens.n_tokens = 0;
  no_tokens.n_types = no_tokens.n_scores = 7;
  types.n_types = 6;
  type9.types = wild;
  below.types = negative;
  no_scores.scores = NULL;
  few.n_scores = 5;
  nan.scores = odd;
  inf.scores = endless;
  const struct {
    const vocab_spec *spec;
    const char *words;
  } cases[] = {
      {&none, "tokenizer.ggml.tokens is missing"},
      {&no_tokens, "tokenizer.ggml.tokens has 0 tokens, not 1 to 2147483647"},
      {&types, "tokenizer.ggml.token_type has 6 elements, tokenizer.ggml.tokens has 7"},
      {&type9, "tokenizer.ggml.token_type[6] is no integer from 0 to 6"},
      {&below, "tokenizer.ggml.token_type[6] is no integer from 0 to 6"},
      {&no_scores, "tokenizer.ggml.scores is missing"},
      {&few, "tokenizer.ggml.scores has 5 elements, tokenizer.ggml.tokens has 7"},
      {&nan, "tokenizer.ggml.scores[4] is no finite number"},
      {&inf, "tokenizer.ggml.scores[6] is no finite number"},
  };
  for (size_t i = 0; i < TN_ARRAY_LEN(cases); i++) {
    tn_err err;
    cr_expect(eq(int, vocab_refused(cases[i].spec, &err), TN_E_ARG));
    cr_expect(strstr(err.msg, cases[i].words) != NULL, "'%s' does not say '%s'", err.msg, cases[i].words);
  }
}

Test(vocab, hash_depends_on_every_byte)
{
  char text[40];
  for (size_t n = 1; n < sizeof text; n++) {
    memset(text, 'x', sizeof text);
    uint64_t h = tn_hash_bytes(text, n);
    cr_expect(tn_hash_bytes(text, n - 1) != h, "length %zu", n);
    for (size_t i = 0; i < n; i++) {
      text[i] ^= 1;
      cr_expect(tn_hash_bytes(text, n) != h, "length %zu byte %zu", n, i);
      text[i] ^= 1;
    }
  }
}

Test(vocab, walks_in_the_hash_stay_short)
{
  static const char *const names[] = {"gpt-2.gguf", "llama-spm.gguf", "deepseek-coder.gguf"};
  for (size_t k = 0; k < TN_ARRAY_LEN(names); k++) {
    vocab v = vocab_open(names[k]);
    size_t longest = 0, run = 0;
    for (size_t i = 0; i <= v.t->index.mask; i++) {
      run = v.t->index.slot[i].id >= 0 ? run + 1 : 0;
      if (run > longest) longest = run;
    }
    cr_expect(longest > 1 && longest < 128, "%s: %zu in a row", names[k], longest);
    vocab_close(&v);
  }
}
