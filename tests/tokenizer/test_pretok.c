/* Pre-tokenizers: golden ids of one name for each pattern, hand-made cuts, every row on all kinds of text. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>

#include "open_vocab.h"

/* Words of a text joined by '|'. */
typedef struct cuts {
  char text[512];
  size_t n;
} cuts;

static tn_status note(void *ctx, const char *p, size_t n)
{
  cuts *c = ctx;
  cr_assert(n > 0 && c->n + n + 1 < sizeof c->text);
  if (c->n) c->text[c->n++] = '|';
  memcpy(c->text + c->n, p, n);
  c->n += n;
  return TN_OK;
}

static const tn_pretok *row(const char *name)
{
  const char *nearest;
  const tn_pretok *p = tn_pretok_find((tn_str){name, strlen(name)}, &nearest);
  cr_assert(p != NULL, "%s", name);
  return p;
}

static void expect_cuts(const char *name, const char *text, const char *want)
{
  tn_pretok_code code;
  tn_pretok_scratch s = {0};
  cuts c = {.n = 0};
  tn_err err = tn_err_init();
  cr_assert(eq(int, tn_pretok_compile(row(name), &code, &err), TN_OK), "%s", err.msg);
  cr_expect(tn_pretok_split(&code, &s, text, strlen(text), note, &c, &err) == TN_OK);
  c.text[c.n] = '\0';
  cr_expect(eq(str, c.text, (char *)want), "%s", name);
  tn_pretok_scratch_clear(&s);
  tn_pretok_clear(&code);
}

Test(pretok, cuts_by_hand)
{
  expect_cuts("gpt-2", "Hello  world it's 123!\n\nx", "Hello| | world| it|'s| 123|!|\n|\n|x");
  expect_cuts("gpt-2", "a   ", "a|   ");
  expect_cuts("smollm", "in 1999  it", "in| |1|9|9|9| | it");
  expect_cuts("llama-bpe", "DON'T 12345 x=1;\n\n", "DON|'T| |123|45| x|=|1|;\n\n");
  expect_cuts("qwen2", "a 2024 b", "a| |2|0|2|4| b");
  expect_cuts("gpt-4o", "HTTPServer fooBar's", "HTTPServer| foo|Bar's");
  expect_cuts("tiny_aya", "1234567 12345x", "1|234|567| |123|45|x");
  expect_cuts("superbpe", "a1234567890", "a|1|234|567|890");
  expect_cuts("deepseek-llm", "a b  ", "a| b|  ");
  expect_cuts("deepseek-v3", "x.foo 1234", "x|.foo| |123|4");
  expect_cuts("bloom", "a b,c", "a| b|,|c");
  expect_cuts("falcon", "12345 (x)", "123|45| |(|x|)");
}

Test(pretok, the_long_s_is_an_s_in_contractions_only_where_case_is_ignored)
{
  expect_cuts("llama-bpe", "it'\xC5\xBFx", "it|'\xC5\xBF|x");
  expect_cuts("gpt-2", "it'\xC5\xBFx", "it|'|\xC5\xBFx");
}

Test(pretok, mongolian_vowel_separator_is_no_space)
{
  expect_cuts("gpt-2", "\xE1\xA0\xAC\xE1\xA0\x8E\xE1\xA0\xA0", "\xE1\xA0\xAC|\xE1\xA0\x8E|\xE1\xA0\xA0");
  expect_cuts("gpt-2", "! \xE1\xA0\x8E", "!| \xE1\xA0\x8E");
}

typedef struct gpt2 {
  vocab v;
  const tn_pretok *at;
} gpt2;

/* Swaps the vocabulary's patterns for those of the line's name. */
static void expect_line(void *ctx, const char *key, const char *text, size_t n, const char *ids)
{
  gpt2 *g = ctx;
  if (!g->at || strcmp(g->at->name, key) != 0) {
    g->at = row(key);
    tn_pretok_clear(&g->v.t->code);
    g->v.t->pre = g->at;
    cr_assert(tn_pretok_compile(g->at, &g->v.t->code, NULL) == TN_OK);
  }
  char *got = vocab_ids(g->v.t, text, n, 0);
  cr_expect(strcmp(got, ids) == 0, "%s '%.*s': %s, want %s", key, (int)n, text, got, ids);
  free(got);
}

Test(pretok, golden_ids)
{
  gpt2 g = {.v = vocab_open("gpt-2.gguf")};
  cr_expect(golden_each("pretok.golden", expect_line, &g) >= 300);
  vocab_close(&g.v);
}

static tn_status cover(void *ctx, const char *p, size_t n)
{
  const char **at = ctx;
  cr_assert(p == *at && n > 0);
  *at += n;
  return TN_OK;
}

Test(pretok, every_row_compiles_and_its_words_cover_the_text)
{
  size_t n_wiki, rows = 0;
  char *wiki = data_read("wikitext-2-valid-60k.txt", &n_wiki);
  size_t n_golden;
  char *golden = data_read("tokenizer/deepseek-coder.gguf.inp", &n_golden);
  for (const tn_pretok *p; (p = tn_pretok_at(rows)) != NULL; rows++) {
    tn_pretok_code code;
    tn_pretok_scratch s = {0};
    tn_err err = tn_err_init();
    cr_assert(eq(int, tn_pretok_compile(p, &code, &err), TN_OK), "%s: %s", p->name, err.msg);
    const char *at = wiki;
    cr_expect(tn_pretok_split(&code, &s, wiki, n_wiki, cover, &at, &err) == TN_OK && at == wiki + n_wiki, "%s",
              p->name);
    at = golden;
    cr_expect(tn_pretok_split(&code, &s, golden, n_golden, cover, &at, &err) == TN_OK && at == golden + n_golden);
    tn_pretok_scratch_clear(&s);
    tn_pretok_clear(&code);
  }
  cr_expect(rows > 80);
  free(wiki);
  free(golden);
}

static tn_status count(void *ctx, const char *p, size_t n)
{
  (void)p;
  *(size_t *)ctx += n;
  return TN_OK;
}

/* Texts on which a pattern that backtracks, or searches anew at every place, takes minutes. */
Test(pretok, long_runs_take_linear_time)
{
  static const char *const units[][2] = {{" ", "x"},  {" ", "\xE4\xB8\xAD"}, {"a", "x"}, {"A", "x"},
                                         {"1", "x"},  {"\n", "x"},           {"!", "x"}, {"\xCC\x81", "x"},
                                         {"aA", "x"}, {"  \n", "x"},         {"1a", "x"}};
  enum { N = 1 << 17 };
  char *text = malloc(N + 4);
  cr_assert(text != NULL);
  for (size_t u = 0; u < TN_ARRAY_LEN(units); u++) {
    size_t unit = strlen(units[u][0]), n = 0;
    for (; n + unit <= N; n += unit) memcpy(text + n, units[u][0], unit);
    for (const char *tail = units[u][1]; *tail; tail++) text[n++] = *tail;
    for (size_t r = 0; tn_pretok_at(r); r++) {
      tn_pretok_code code;
      tn_pretok_scratch s = {0};
      size_t seen = 0;
      cr_assert(tn_pretok_compile(tn_pretok_at(r), &code, NULL) == TN_OK);
      uint64_t t0 = tn_now_ns();
      cr_expect(tn_pretok_split(&code, &s, text, n, count, &seen, NULL) == TN_OK && seen == n);
      double seconds = (double)(tn_now_ns() - t0) / 1e9;
      cr_expect(seconds < 2, "%s on runs of '%s': %.1f s", tn_pretok_at(r)->name, units[u][0], seconds);
      tn_pretok_scratch_clear(&s);
      tn_pretok_clear(&code);
    }
  }
  free(text);
}

static tn_status stop_at_b(void *ctx, const char *p, size_t n)
{
  ++*(int *)ctx;
  return n == 2 && p[1] == 'b' ? TN_E_FULL : TN_OK;
}

Test(pretok, a_status_of_the_callback_ends_the_split)
{
  tn_pretok_code code;
  tn_pretok_scratch s = {0};
  int calls = 0;
  cr_assert(tn_pretok_compile(row("gpt-2"), &code, NULL) == TN_OK);
  cr_expect(tn_pretok_split(&code, &s, "a b c", 5, stop_at_b, &calls, NULL) == TN_E_FULL && calls == 2);
  tn_pretok_scratch_clear(&s);
  tn_pretok_clear(&code);
}

Test(pretok, unknown_names_get_the_nearest)
{
  const char *nearest = "";
  cr_expect(tn_pretok_find((tn_str){"lama-bpe", 8}, &nearest) == NULL);
  cr_expect(eq(str, (char *)nearest, "llama-bpe"));
  cr_expect(tn_pretok_find((tn_str){"completely-else", 15}, &nearest) == NULL && nearest == NULL);
  cr_expect(tn_pretok_find((tn_str){"", 0}, &nearest) == NULL);
}
