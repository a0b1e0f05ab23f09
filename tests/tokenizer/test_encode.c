/* One tokenize call: special tokens in text, BOS and EOS, limits. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "open_vocab.h"

/* SentencePiece vocabulary with special tokens of which some begin alike. */
static const char *const tokens[] = {"<unk>",  "<s>",          "</s>", "<t>", "<t>x", "[u]",
                                     "[u][u]", "\xE2\x96\x81", "a",    "x",   "\n\n", "\n"};
static const int32_t types[] = {2, 3, 3, 3, 3, 4, 4, 1, 1, 1, 4, 4};
static const float scores[] = {0, 0, 0, 0, 0, 0, 0, -3, -1, -2, 0, 0};

static vocab small(bool prefix)
{
  vocab_spec s = {
      .model = "llama", .tokens = tokens, .n_tokens = TN_ARRAY_LEN(tokens), .types = types, .scores = scores};
  s.numbers[0] = (struct vocab_number){"tokenizer.ggml.add_space_prefix", prefix, VOCAB_BOOL};
  s.numbers[1] = (struct vocab_number){"tokenizer.ggml.add_eos_token", 1, VOCAB_BOOL};
  return vocab_make(&s);
}

enum { ADD = TN_TOKENIZE_ADD_SPECIAL, PARSE = TN_TOKENIZE_PARSE_SPECIAL };

Test(encode, the_longest_special_token_is_taken)
{
  vocab v = small(false);
  vocab_expect(v.t, "<t>a", PARSE, "3 8");
  vocab_expect(v.t, "<t>xa", PARSE, "4 8");
  vocab_expect(v.t, "<t><t>x<s>", PARSE, "3 4 1");
  vocab_expect(v.t, "a<t", PARSE, "8 0");
  vocab_close(&v);
}

Test(encode, user_defined_tokens_need_no_flag)
{
  vocab v = small(false);
  vocab_expect(v.t, "a[u]a", 0, "8 5 8");
  vocab_expect(v.t, "[u][u][u]", 0, "6 5");
  vocab_expect(v.t, "\n\n\n\n\n", 0, "10 10 11");
  vocab_expect(v.t, "a<t>a", 0, "8 0 8");
  vocab_close(&v);
}

Test(encode, bos_eos_and_empty_text)
{
  vocab v = small(false);
  vocab_expect(v.t, "a", ADD, "1 8 2");
  vocab_expect(v.t, "", ADD, "1 2");
  vocab_expect(v.t, "", 0, "");
  vocab_expect(v.t, "<s>a", ADD | PARSE, "1 1 8 2");
  int32_t *ids;
  size_t n;
  cr_expect(tn_tokenize(v.t, "", 0, 0, &ids, &n, NULL) == TN_OK && ids == NULL && n == 0);
  cr_expect(tn_tokenize(v.t, NULL, 0, ADD, &ids, &n, NULL) == TN_OK && n == 2);
  free(ids);
  vocab_close(&v);
}

Test(encode, the_space_prefix_follows_special_tokens)
{
  vocab v = small(true);
  vocab_expect(v.t, "a", 0, "7 8");
  vocab_expect(v.t, "a<s>a[u]a", PARSE, "7 8 1 7 8 5 7 8");
  vocab_expect(v.t, "<s>", PARSE, "1");
  vocab_close(&v);
}

Test(encode, texts_over_the_limit_are_refused)
{
  vocab v = small(true);
  int32_t *ids = (int32_t *)&v;
  size_t n = 7;
  tn_err err = tn_err_init();
  cr_expect(eq(int, tn_tokenize(v.t, "", TN_TEXT_MAX + 1, 0, &ids, &n, &err), TN_E_ARG));
  cr_expect(ids == NULL && n == 0);
  cr_expect(strstr(err.msg, "536870913 bytes, the most is 536870912") != NULL, "%s", err.msg);
  vocab_close(&v);
}
