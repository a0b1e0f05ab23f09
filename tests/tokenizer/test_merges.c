/* The merge list: ids and ranks against a search of the file's own strings; faulty lists. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "open_vocab.h"

Test(merges, every_pair_of_a_real_list_has_its_rank)
{
  vocab v = vocab_open("deepseek-coder.gguf");
  tn_gguf_arr a;
  cr_assert(tn_gguf_array(v.g, "tokenizer.ggml.merges", &a) && a.n == v.t->merges.n && a.n == 31757);
  for (uint64_t r = 0; r < a.n; r++) {
    tn_str text;
    char joined[256];
    cr_assert(tn_gguf_arr_str(&a, r, &text) && text.n < sizeof joined);
    struct tn_merge m = v.t->merges.at[r];
    tn_str left = tn_token_text(v.t, m.left), right = tn_token_text(v.t, m.right), made = tn_token_text(v.t, m.made);
    cr_assert(left.n + 1 + right.n == text.n && memcmp(left.p, text.p, left.n) == 0 && text.p[left.n] == ' ' &&
              memcmp(right.p, text.p + left.n + 1, right.n) == 0);
    memcpy(joined, left.p, left.n);
    memcpy(joined + left.n, right.p, right.n);
    cr_assert(made.n == left.n + right.n && memcmp(made.p, joined, made.n) == 0);
    cr_assert(tn_merges_find(&v.t->merges, m.left, m.right) == r);
  }
  cr_expect(tn_merges_find(&v.t->merges, TN_TOKEN_NONE, 5) == TN_NO_MERGE);
  cr_expect(tn_merges_find(&v.t->merges, 31757, 31757) == TN_NO_MERGE);
  vocab_close(&v);
}

static const char *const tokens[] = {"a", "b", "c", "ab", "abc", "x\xC4\xA0"};

static vocab_spec spec_of(const char *const *merges, size_t n)
{
  return (vocab_spec){
      .model = "gpt2", .pre = "gpt-2", .tokens = tokens, .n_tokens = 6, .merges = merges, .n_merges = n};
}

Test(merges, of_equal_pairs_the_first_counts)
{
  static const char *const merges[] = {"ab c", "a b", "a b"};
  vocab_spec s = spec_of(merges, 3);
  vocab v = vocab_make(&s);
  cr_expect(tn_merges_find(&v.t->merges, 0, 1) == 1 && tn_merges_find(&v.t->merges, 3, 2) == 0);
  vocab_close(&v);
}

Test(merges, faulty_lists_are_refused)
{
  static const char *const no_space[] = {"a b", "ab"}, *const no_right[] = {"a "}, *const no_left[] = {"q b"};
  static const char *const no_piece[] = {"a q"}, *const no_result[] = {"b c"}, *const dirty[] = {"\x01\xFF b"};
  const struct {
    const char *const *merges;
    size_t n;
    const char *words;
  } cases[] = {
      {NULL, 0, "tokenizer.ggml.merges is missing"},
      {no_space, 2, "tokenizer.ggml.merges[1] 'ab' is no pair"},
      {no_right, 1, "tokenizer.ggml.merges[0] 'a ' is no pair"},
      {no_left, 1, "tokenizer.ggml.merges[0] 'q b': its left piece is no token"},
      {no_piece, 1, "'a q': its right piece is no token"},
      {no_result, 1, "'b c': its result is no token"},
      {dirty, 1, "'?? b': its left piece is no token"},
  };
  for (size_t i = 0; i < TN_ARRAY_LEN(cases); i++) {
    vocab_spec s = spec_of(cases[i].merges, cases[i].n);
    tn_err err;
    cr_expect(eq(int, vocab_refused(&s, &err), TN_E_ARG));
    cr_expect(strstr(err.msg, cases[i].words) != NULL, "'%s' does not say '%s'", err.msg, cases[i].words);
  }
}
