/* UTF-8: decoding against the ranges of Unicode's table 3-7, and the stream that holds back unfinished characters. */
#include "utf8.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

Test(utf8, every_code_point_comes_back)
{
  for (uint32_t cp = 0; cp <= 0x10FFFF; cp++) {
    if (cp >= 0xD800 && cp <= 0xDFFF) continue;
    char text[4];
    uint32_t back = 0;
    size_t n = tn_utf8_encode(cp, text);
    size_t want = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    cr_assert(n == want && tn_utf8_decode(text, n, &back) == (int)n && back == cp, "U+%04X", cp);
    for (size_t cut = 1; cut < n; cut++) cr_assert(tn_utf8_decode(text, cut, NULL) == TN_UTF8_CUT, "U+%04X", cp);
  }
}

/* True for one well-formed character of three or fewer bytes, spelled out from the table. */
static bool table_says(const uint8_t *u, size_t n)
{
  if (n == 1) return u[0] < 0x80;
  if (n == 2) return u[0] >= 0xC2 && u[0] <= 0xDF && u[1] >= 0x80 && u[1] <= 0xBF;
  if (u[0] < 0xE0 || u[0] > 0xEF || u[1] < 0x80 || u[1] > 0xBF || u[2] < 0x80 || u[2] > 0xBF) return false;
  return !(u[0] == 0xE0 && u[1] < 0xA0) && !(u[0] == 0xED && u[1] > 0x9F);
}

Test(utf8, no_other_bytes_are_characters)
{
  for (uint32_t v = 0; v < 0x1000000; v += 5) {
    char text[3] = {(char)(v >> 16), (char)(v >> 8), (char)v};
    int len = tn_utf8_decode(text, 3, NULL);
    if (((uint8_t)text[0] & 0xF8) == 0xF0 && len == TN_UTF8_CUT) continue; /* four bytes: next test */
    bool good = false;
    for (size_t n = 1; n <= 3; n++) {
      bool says = table_says((const uint8_t *)text, n);
      cr_assert(says == (len == (int)n), "%06X: %d", v, len);
      good = good || says;
    }
    cr_assert(good || len == TN_UTF8_INVALID, "%06X: %d", v, len);
  }
}

Test(utf8, four_byte_leads_have_their_ranges)
{
  static const struct {
    const char *text;
    int len;
  } cases[] = {{"\xF0\x90\x80\x80", 4}, {"\xF0\x8F\xBF\xBF", 0}, {"\xF4\x8F\xBF\xBF", 4}, {"\xF4\x90\x80\x80", 0},
               {"\xF1\x80\x80\x7F", 0}, {"\xF5\x80\x80\x80", 0}, {"\xF8\x88\x80\x80", 0}, {"\xF3\x80\x80\x80", 4}};
  for (size_t i = 0; i < TN_ARRAY_LEN(cases); i++) {
    cr_expect(eq(int, tn_utf8_decode(cases[i].text, 4, NULL), cases[i].len), "case %zu", i);
  }
}

Test(utf8, valid_prefix_and_bad_length)
{
  static const struct {
    const char *text;
    size_t valid, bad;
  } cases[] = {
      {"plain ASCII that is longer than eight bytes", 43, 0},
      {"caf\xC3\xA9", 5, 0},
      {"12345678\xFF", 8, 1},
      {"1234567\xC3", 7, 1},
      {"\xE2\x82", 0, 2},
      {"\xE2\x82x", 0, 2},
      {"\xE0\x80\x80", 0, 1},
      {"\xF0\x9F\x99x", 0, 3},
      {"\xED\xA0\x80", 0, 1},
      {"a\x80", 1, 1},
  };
  for (size_t i = 0; i < TN_ARRAY_LEN(cases); i++) {
    size_t n = strlen(cases[i].text);
    cr_expect(eq(sz, tn_utf8_valid(cases[i].text, n), cases[i].valid), "case %zu", i);
    if (cases[i].bad) {
      cr_expect(eq(sz, tn_utf8_bad(cases[i].text + cases[i].valid, n - cases[i].valid), cases[i].bad), "case %zu", i);
    }
  }
}

/* Feeds text in pieces of the given size and checks the whole output, and that no piece of it ends in mid-character. */
static void check_stream(const char *text, size_t step, const char *want)
{
  tn_utf8_stream s = {0};
  char out[256];
  size_t o = 0, n = strlen(text);
  for (size_t i = 0; i < n; i += step) {
    size_t part = n - i < step ? n - i : step, got = tn_utf8_feed(&s, text + i, part, out + o);
    cr_assert(got <= TN_UTF8_FEED_MAX(part));
    cr_expect(tn_utf8_valid(out + o, got) == got, "step %zu: half a character of '%s'", step, text);
    o += got;
  }
  o += tn_utf8_flush(&s, out + o);
  out[o] = '\0';
  cr_expect(eq(str, out, (char *)want), "step %zu", step);
  cr_expect(tn_utf8_flush(&s, out) == 0);
}

Test(utf8, stream_gives_whole_characters)
{
  static const struct {
    const char *text, *want;
  } cases[] = {
      {"a\xC3\xA9 \xE4\xBD\xA0 \xF0\x9F\x99\x82!", "a\xC3\xA9 \xE4\xBD\xA0 \xF0\x9F\x99\x82!"},
      {"\xFFx", "\xEF\xBF\xBDx"},
      {"\xE4\xBD", "\xEF\xBF\xBD"},
      {"\xE4\xBDx", "\xEF\xBF\xBDx"},
      {"\xF0\x9F\xC3\xA9", "\xEF\xBF\xBD\xC3\xA9"},
      {"\xE4\xE4\xBD\xA0", "\xEF\xBF\xBD\xE4\xBD\xA0"},
      {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"},
      {"\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD"},
      {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
  };
  for (size_t i = 0; i < TN_ARRAY_LEN(cases); i++) {
    for (size_t step = 1; step < 6; step++) check_stream(cases[i].text, step, cases[i].want);
  }
}
