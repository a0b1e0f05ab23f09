/* Pieces and whole texts from ids. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>

#include "open_vocab.h"
#include "utf8.h"

static void expect_text(const tn_tokenizer *t, const int32_t *ids, size_t n, uint32_t flags, const char *want)
{
  char *text;
  size_t len;
  tn_err err = tn_err_init();
  cr_assert(eq(int, tn_detokenize(t, ids, n, flags, &text, &len, &err), TN_OK), "%s", err.msg);
  cr_expect(eq(str, text, (char *)want));
  cr_expect(strlen(want) == len);
  free(text);
}

Test(decode, the_prefix_space_goes_where_tokenize_put_it)
{
  vocab v = vocab_open("llama-spm.gguf");
  static const char *const texts[] = {"hi", " hi", "<s>[INST] hi</s> x", "<s><s>", "a<s> b", "", "  "};
  for (size_t i = 0; i < TN_ARRAY_LEN(texts); i++) {
    int32_t *ids;
    size_t n;
    cr_assert(tn_tokenize(v.t, texts[i], strlen(texts[i]), TN_TOKENIZE_PARSE_SPECIAL, &ids, &n, NULL) == TN_OK);
    expect_text(v.t, ids, n, TN_PIECE_SPECIAL, texts[i]);
    free(ids);
  }
  const int32_t hi[] = {1, 7251};
  expect_text(v.t, hi, 2, 0, "hi");
  expect_text(v.t, hi, 2, TN_PIECE_SPECIAL, "<s>hi");
  vocab_close(&v);
}

Test(decode, pieces_are_the_bytes_of_the_text)
{
  vocab v = vocab_open("llama-spm.gguf");
  char buf[8] = "????????";
  cr_expect(tn_token_piece(v.t, 7251, 0, buf, 8) == 3 && memcmp(buf, " hi?", 4) == 0);
  cr_expect(tn_token_piece(v.t, 7251, 0, buf, 1) == 3 && memcmp(buf, " hi?", 4) == 0, "a short buffer is not overrun");
  cr_expect(tn_token_piece(v.t, 7251, 0, NULL, 0) == 3);
  cr_expect(tn_token_piece(v.t, 3 + 0xE4, 0, buf, 8) == 1 && (uint8_t)buf[0] == 0xE4);
  cr_expect(tn_token_piece(v.t, 1, 0, buf, 8) == 0 && tn_token_piece(v.t, 1, TN_PIECE_SPECIAL, buf, 8) == 3);
  cr_expect(tn_token_piece(v.t, -1, 0, buf, 8) == 0 && tn_token_piece(v.t, 32000, 0, buf, 8) == 0);
  vocab_close(&v);
}

Test(decode, no_piece_is_over_the_maximum_and_all_pieces_stream)
{
  static const char *const names[] = {"gpt-2.gguf", "llama-spm.gguf", "deepseek-coder.gguf", "unigram.gguf"};
  for (size_t k = 0; k < TN_ARRAY_LEN(names); k++) {
    vocab v = vocab_open(names[k]);
    size_t max = tn_token_piece_max(v.t), n_out = 0;
    char *buf = malloc(max + 1), *out = malloc(TN_UTF8_FEED_MAX(max));
    cr_assert(buf && out);
    tn_utf8_stream s = {0};
    for (int32_t id = 0; id < tn_tokenizer_n_vocab(v.t); id++) {
      size_t n = tn_token_piece(v.t, id, TN_PIECE_SPECIAL, buf, max);
      cr_assert(n <= max, "token %d", id);
      size_t got = tn_utf8_feed(&s, buf, n, out);
      cr_assert(tn_utf8_valid(out, got) == got, "token %d", id);
      n_out += got;
    }
    cr_expect(n_out > 1000);
    free(buf);
    free(out);
    vocab_close(&v);
  }
}

Test(decode, odd_spellings_come_out_as_they_are)
{
  static const char *const tokens[] = {
      "<unk>",    "<s>",   "</s>", "<0x4>",           "<0xGG>", "<0x41>", "a\342\226\201\342\226\201b",
      "\xE2\x96", "\xE2x", "",     "tail\xE2\x96\x81"};
  static const int32_t types[] = {2, 3, 3, 6, 6, 6, 1, 1, 1, 1, 1};
  static const float scores[11] = {0};
  vocab_spec s = {.model = "llama", .tokens = tokens, .n_tokens = 11, .types = types, .scores = scores};
  vocab v = vocab_make(&s);
  const int32_t ids[] = {3, 4, 5, 6, 7, 8, 9, 10};
  expect_text(v.t, ids, 8, 0, "<0x4><0xGG>Aa  b\xE2\x96\xE2xtail ");
  vocab_close(&v);
}

Test(decode, byte_level_tokens_outside_the_alphabet_are_themselves)
{
  static const char *const tokens[] = {"\xC4\xA0x", "a b", "\xE4\xBD\xA0", "\xFF", "x", "y", "xy"};
  static const char *const merges[] = {"x y"};
  vocab_spec s = {.model = "gpt2", .pre = "gpt-2", .tokens = tokens, .n_tokens = 7, .merges = merges, .n_merges = 1};
  vocab v = vocab_make(&s);
  const int32_t ids[] = {0, 1, 2, 3, 6};
  expect_text(v.t, ids, 5, 0, " xa b\xE4\xBD\xA0\xFFxy");
  vocab_close(&v);
}

Test(decode, clean_spaces_where_the_pre_tokenizer_asks)
{
  vocab v = vocab_open("gpt-2.gguf");
  static const char text[] = "it 's good , is n't it ? I 've a ' b . end";
  int32_t *ids;
  size_t n;
  cr_assert(tn_tokenize(v.t, text, strlen(text), 0, &ids, &n, NULL) == TN_OK);
  expect_text(v.t, ids, n, 0, text);
  expect_text(v.t, ids, n, TN_PIECE_CLEAN_SPACES, "it's good, isn't it? I've a'b. end");
  free(ids);
  vocab_close(&v);
  v = vocab_open("deepseek-coder.gguf"); /* asks for none */
  cr_assert(tn_tokenize(v.t, text, strlen(text), 0, &ids, &n, NULL) == TN_OK);
  expect_text(v.t, ids, n, TN_PIECE_CLEAN_SPACES, text);
  free(ids);
  vocab_close(&v);
}

Test(decode, ids_outside_the_vocabulary_are_refused)
{
  vocab v = vocab_open("unigram.gguf");
  const int32_t bad[2][2] = {{3, 1200}, {3, -1}};
  for (int i = 0; i < 2; i++) {
    char *text = (char *)&v, want[80];
    size_t n = 1;
    tn_err err = tn_err_init();
    cr_expect(tn_detokenize(v.t, bad[i], 2, 0, &text, &n, &err) == TN_E_ARG && text == NULL && n == 0);
    snprintf(want, sizeof want, "token 1 to detokenize is %d, the vocabulary has 1200", bad[i][1]);
    cr_expect(eq(str, err.msg, want));
  }
  vocab_close(&v);
}
