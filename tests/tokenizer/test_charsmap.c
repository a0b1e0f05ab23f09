/* The normaliser table: NFKC replacements of a real one, and faulty ones. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "open_vocab.h"

static void expect_match(const tn_charsmap *c, const char *text, size_t len, const char *want)
{
  tn_str out = {"", 0};
  cr_expect(eq(sz, tn_charsmap_match(c, text, strlen(text), &out), len), "'%s'", text);
  cr_expect(out.n == strlen(want) && memcmp(out.p, want, out.n) == 0, "'%s': '%.*s'", text, (int)out.n, out.p);
}

Test(charsmap, replaces_as_nfkc_does)
{
  vocab v = vocab_open("unigram.gguf");
  const tn_charsmap *c = &v.t->charsmap;
  cr_assert(c->n_units > 1000);
  expect_match(c, "abc", 0, "");
  expect_match(c, "\xEF\xBC\xA1z", 3, "A");     /* full-width A */
  expect_match(c, "\xEF\xAC\x81", 3, "fi");     /* ligature */
  expect_match(c, "e\xCC\x81z", 3, "\xC3\xA9"); /* e and an acute become one */
  expect_match(c, "\t", 1, " ");
  expect_match(c, "\xE3\x80\x80", 3, " ");          /* wide space */
  expect_match(c, "\xC2\xBD", 2, "1\342\201\2042"); /* one half */
  expect_match(c, "\xE2\x80\x8B", 3, " ");          /* zero-width space */
  vocab_close(&v);
}

static tn_status load(const uint8_t *map, size_t n, tn_err *err)
{
  static const char *const tokens[] = {"<pad>", "</s>", "<unk>", "a"};
  static const int32_t types[] = {3, 3, 2, 1};
  static const float scores[] = {0, 0, 0, -1};
  vocab_spec s = {.model = "t5", .tokens = tokens, .n_tokens = 4, .types = types, .scores = scores};
  s.charsmap = map;
  s.n_charsmap = n;
  return vocab_refused(&s, err);
}

Test(charsmap, faulty_tables_are_refused)
{
  static uint8_t short_array[] = {8, 0, 0, 0, 1, 2, 3}, odd[] = {3, 0, 0, 0, 1, 2, 3, 0}, endless[] = {0, 0, 0, 0, 'x'};
  static uint8_t three[] = {0, 0, 0}, longest[4 + 257] = {0};
  memset(longest + 4, 'x', 256);
  const struct {
    const uint8_t *map;
    size_t n;
    const char *words;
  } cases[] = {
      {short_array, sizeof short_array, "its table has 8 bytes, the array has 7"},
      {odd, sizeof odd, "its table has 3 bytes, the array has 8"},
      {three, sizeof three, "its table has 0 bytes, the array has 3"},
      {endless, sizeof endless, "its last replacement has no end"},
      {longest, sizeof longest, "a replacement has over 255 bytes"},
  };
  for (size_t i = 0; i < TN_ARRAY_LEN(cases); i++) {
    tn_err err;
    cr_expect(eq(int, load(cases[i].map, cases[i].n, &err), TN_E_ARG));
    cr_expect(strstr(err.msg, cases[i].words) != NULL, "'%s' does not say '%s'", err.msg, cases[i].words);
  }
}

/* Offsets that lead out of the table or of the replacements match nothing. */
Test(charsmap, wild_indices_match_nothing)
{
  uint32_t unit[2] = {0x3FFu << 10, 0};
  char text[1] = {0};
  tn_charsmap c = {.unit = unit, .text = text, .n_units = 2, .text_n = 1};
  tn_str out;
  cr_expect(tn_charsmap_match(&c, "a", 1, &out) == 0);
  unit[0] = ('a' ^ 1u) << 10;             /* 'a' leads to unit 1 */
  unit[1] = 'a' | 1u << 8 | 0x3FFu << 10; /* a leaf whose value is far away */
  cr_expect(tn_charsmap_match(&c, "a", 1, &out) == 0);
  unit[1] = 'a' | 1u << 8 | 1u << 10; /* a leaf whose value is unit 0, a wild position */
  cr_expect(tn_charsmap_match(&c, "a", 1, &out) == 0);
}

/* Bit 9 of a unit: its offset counts in steps of 256. */
Test(charsmap, far_offsets)
{
  static uint32_t unit[1024];
  static char text[] = "\0yes";
  tn_charsmap c = {.unit = unit, .text = text, .n_units = 1024, .text_n = sizeof text};
  unit[0] = 2u << 10 | 1u << 9;                         /* children at 512 */
  unit[512 ^ 'a'] = 'a' | 1u << 8 | 1u << 10 | 1u << 9; /* a leaf, its value 256 away */
  unit[(512 ^ 'a') ^ 256] = 1u << 31 | 1;
  expect_match(&c, "ab", 1, "yes");
  expect_match(&c, "b", 0, "");
}
