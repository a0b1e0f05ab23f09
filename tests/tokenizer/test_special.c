/* Named ids, tokens that end generation, types that names correct. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "open_vocab.h"

/* Byte-level vocabulary whose first tokens are the given texts, without types. */
static vocab with_tokens(const char *const *names, size_t n, const int32_t *types, const char *model_name)
{
  static const char *tokens[40];
  static int32_t all_types[40];
  static const char *const merges[] = {"x y"};
  for (size_t i = 0; i < n; i++) {
    tokens[i] = names[i];
    all_types[i] = types ? types[i] : TN_TOKEN_NORMAL;
  }
  tokens[n] = "x";
  tokens[n + 1] = "y";
  tokens[n + 2] = "xy";
  for (size_t i = n; i < n + 3; i++) all_types[i] = TN_TOKEN_NORMAL;
  vocab_spec s = {.model = "gpt2",
                  .pre = "gpt-2",
                  .tokens = tokens,
                  .n_tokens = n + 3,
                  .types = all_types,
                  .merges = merges,
                  .n_merges = 1,
                  .name = model_name};
  return vocab_make(&s);
}

Test(special, ids_come_from_the_file)
{
  vocab v = vocab_open("deepseek-coder.gguf");
  cr_expect(tn_tokenizer_bos(v.t) == 32013 && tn_tokenizer_eos(v.t) == 32014 && tn_tokenizer_pad(v.t) == 32014);
  cr_expect(tn_tokenizer_unk(v.t) == TN_TOKEN_NONE);
  cr_expect(tn_tokenizer_adds_bos(v.t) && !tn_tokenizer_adds_eos(v.t));
  cr_expect(tn_token_is_eog(v.t, 32014) && !tn_token_is_eog(v.t, 32013) && !tn_token_is_eog(v.t, -1));
  cr_expect(tn_token_is_eog(v.t, 32256) == false);
  vocab_close(&v);
  v = vocab_open("llama-spm.gguf");
  cr_expect(tn_tokenizer_bos(v.t) == 1 && tn_tokenizer_eos(v.t) == 2 && tn_tokenizer_unk(v.t) == 0);
  cr_expect(tn_tokenizer_eot(v.t) == TN_TOKEN_NONE && tn_tokenizer_pad(v.t) == TN_TOKEN_NONE);
  vocab_close(&v);
}

Test(special, real_models_end_where_they_should)
{
  vocab v = vocab_open_model("smollm2-135m-instruct-q4_1.gguf");
  cr_expect(tn_tokenizer_eos(v.t) == 2 && tn_tokenizer_eot(v.t) == 2 && tn_tokenizer_bos(v.t) == 1);
  cr_expect(tn_token_is_eog(v.t, 0) && tn_token_is_eog(v.t, 2) && !tn_token_is_eog(v.t, 1));
  cr_expect(tn_tokenizer_adds_bos(v.t) == false);
  vocab_close(&v);
  v = vocab_open_model("gemma-3-270m-q4_k_m.gguf");
  cr_expect(tn_tokenizer_eos(v.t) == 1 && tn_tokenizer_eot(v.t) == 106 && tn_tokenizer_bos(v.t) == 2);
  cr_expect(tn_token_is_eog(v.t, 1) && tn_token_is_eog(v.t, 106));
  cr_expect(tn_token_is_eog(v.t, 212) == false, "</s> is markup in this vocabulary");
  cr_expect(tn_tokenizer_adds_bos(v.t));
  vocab_close(&v);
}

Test(special, names_tell_what_ends_generation)
{
  static const char *const names[] = {"<|endoftext|>", "<|im_end|>", "<|eom_id|>", "</s>", "<|im_start|>"};
  vocab v = with_tokens(names, 5, NULL, NULL);
  cr_expect(tn_tokenizer_eot(v.t) == 1, "the end of a turn goes before the end of a text");
  cr_expect(tn_token_is_eog(v.t, 0) && tn_token_is_eog(v.t, 1) && tn_token_is_eog(v.t, 2));
  cr_expect(tn_token_is_eog(v.t, 3) == false && !tn_token_is_eog(v.t, 4));
  cr_expect(tn_token_type(v.t, 1) == TN_TOKEN_CONTROL && tn_token_type(v.t, 3) == TN_TOKEN_NORMAL);
  vocab_close(&v);
  static const int32_t control[] = {3, 3, 3, 3, 3};
  v = with_tokens(names, 5, control, NULL);
  cr_expect(tn_token_is_eog(v.t, 3) && !tn_token_is_eog(v.t, 4));
  vocab_close(&v);
}

Test(special, in_harmony_an_end_of_part_goes_on)
{
  static const char *const names[] = {"<|end|>", "<|return|>", "<|call|>", "<|channel|>"};
  static const int32_t control[] = {3, 3, 3, 3};
  vocab v = with_tokens(names, 4, control, NULL);
  cr_expect(tn_token_is_eog(v.t, 0) == false && tn_token_is_eog(v.t, 1) && tn_token_is_eog(v.t, 2));
  cr_expect(tn_token_type(v.t, 0) == TN_TOKEN_USER_DEFINED && tn_token_type(v.t, 3) == TN_TOKEN_USER_DEFINED);
  cr_expect(tn_tokenizer_eot(v.t) == TN_TOKEN_NONE);
  vocab_close(&v);
  v = with_tokens(names, 2, control, NULL); /* no <|call|>: an ordinary chat model */
  cr_expect(tn_token_is_eog(v.t, 0) && tn_tokenizer_eot(v.t) == 0);
  vocab_close(&v);
}

Test(special, phi3_tokens_swallow_the_space_after_them)
{
  static const char *const names[] = {"<|user|>", "<s>"};
  static const int32_t control[] = {3, 3};
  vocab v = with_tokens(names, 2, control, "Phi-3 Mini");
  vocab_expect(v.t, "<|user|> \n xy", TN_TOKENIZE_PARSE_SPECIAL, "0 4");
  char *got = vocab_ids(v.t, "<s> xy", 6, TN_TOKENIZE_PARSE_SPECIAL);
  cr_expect(strstr(got, "error") == got, "the space stays, and this vocabulary has none: %s", got);
  free(got);
  vocab_close(&v);
  v = with_tokens(names, 2, control, "Other");
  got = vocab_ids(v.t, "<|user|> xy", 11, TN_TOKENIZE_PARSE_SPECIAL);
  cr_expect(strstr(got, "error") == got, "%s", got);
  free(got);
  vocab_close(&v);
}

static tn_status numbers(struct vocab_number a, struct vocab_number b, vocab *v, tn_err *err)
{
  static const char *const tokens[] = {"<unk>", "<s>", "</s>", "a"};
  static const int32_t types[] = {2, 3, 3, 1};
  static const float scores[] = {0, 0, 0, -1};
  vocab_spec s = {.model = "llama", .tokens = tokens, .n_tokens = 4, .types = types, .scores = scores};
  s.numbers[0] = a;
  s.numbers[1] = b;
  if (!v) return vocab_refused(&s, err);
  *v = vocab_make(&s);
  return TN_OK;
}

Test(special, faulty_ids_are_refused)
{
  const struct {
    struct vocab_number a, b;
    const char *words;
  } cases[] = {
      {{"tokenizer.ggml.eos_token_id", 4, VOCAB_U32},
       {0},
       "tokenizer.ggml.eos_token_id is 4, the vocabulary has 4 tokens"},
      {{"tokenizer.ggml.bos_token_id", (uint32_t)-2, VOCAB_I32}, {0}, "tokenizer.ggml.bos_token_id is no token id"},
      {{"tokenizer.ggml.add_eos_token", 1, VOCAB_U32}, {0}, "tokenizer.ggml.add_eos_token is no bool"},
      {{"tokenizer.ggml.add_bos_token", 1, VOCAB_BOOL},
       {"tokenizer.ggml.bos_token_id", UINT32_MAX, VOCAB_U32},
       "tokenizer.ggml.add_bos_token is true, but the file names no such token"},
      {{"tokenizer.ggml.add_space_prefix", 1, VOCAB_U32}, {0}, "tokenizer.ggml.add_space_prefix is no bool"},
  };
  for (size_t i = 0; i < TN_ARRAY_LEN(cases); i++) {
    tn_err err;
    cr_expect(eq(int, numbers(cases[i].a, cases[i].b, NULL, &err), TN_E_ARG));
    cr_expect(strstr(err.msg, cases[i].words) != NULL, "'%s' does not say '%s'", err.msg, cases[i].words);
  }
}

Test(special, minus_one_is_none)
{
  vocab v;
  numbers((struct vocab_number){"tokenizer.ggml.padding_token_id", UINT32_MAX, VOCAB_U32},
          (struct vocab_number){"tokenizer.ggml.bos_token_id", UINT32_MAX, VOCAB_I32}, &v, NULL);
  cr_expect(tn_tokenizer_pad(v.t) == TN_TOKEN_NONE && tn_tokenizer_bos(v.t) == TN_TOKEN_NONE);
  cr_expect(tn_tokenizer_adds_bos(v.t) == false, "the default has no token to add");
  vocab_close(&v);
}
