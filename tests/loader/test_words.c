/* Spelling of names, ids, versions and tokens. */
#include "loader/words.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "base.h"

static void expect(bool (*is)(const char *), const char *const *good, const char *const *bad)
{
  for (; *good; good++) cr_expect(is(*good), "'%s' was refused", *good);
  for (; *bad; bad++) cr_expect(not(is(*bad)), "'%s' was taken", *bad);
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

Test(words, names)
{
  expect(
      tn_is_name, LIST("h2o", "a", "int8", "streaming_llm", "abcdefghijklmnopqrstuvwxyzabcde"),
      LIST("", "8bit", "_a", "A", "aB", "a-b", "a.b", "a b", "a\n", "caf\xc3\xa9", "abcdefghijklmnopqrstuvwxyzabcdef"));
}

Test(words, ids)
{
  expect(tn_is_id, LIST("org.tenon.h2o", "a.b", "com.1and1.x", "org.x-y.a_b"),
         LIST("", "org", "org.", ".org", "org..a", "Org.a", "1org.a", "org.a ", "org.a/1", "org._a",
              "org.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
}

Test(words, versions)
{
  expect(tn_is_version, LIST("0.0.0", "1.0.0", "1.22.333", "1.0.0-rc.1", "1.0.0+abc", "1.0.0-a-b+c.d", "999999999.0.0"),
         LIST("", "1", "1.0", "1.0.0.0", "v1.0.0", "01.0.0", "1.0.0-", "1.0.0+", "1.0.0-a..b", "1.0.0 ", "1.-1.0",
              "9999999999.0.0", "1.0.0-\xc3\xa9"));
}

Test(words, tokens)
{
  expect(tn_is_token, LIST("kv.token_drop/1", "observe/1", "act.int8/1", "a/999999999"),
         LIST("", "kv.token_drop", "kv.token_drop/", "kv.token_drop/0", "kv.token_drop/01", "kv.token_drop/1x", "/1",
              "kv./1", "Kv/1", "kv-x/1", "kv/1/2", "kv/-1"));
}

Test(words, least_versions)
{
  expect(tn_is_min_version, LIST("1", "1.2", "1.2.3", "0"), LIST("", "1.", "1.2.3.4", "1.2.3-rc", "x", " 1", "1 "));
}

Test(words, order_of_versions)
{
  static const struct {
    const char *version, *min;
    int sign;
  } rows[] = {
      {"1.2.3", "1.2.3", 0},     {"1.2.3", "1.2", 1},    {"1.2.0", "1.2", 0},        {"1.2.0", "1", 1},
      {"0.9.9", "1", -1},        {"1.2.3", "1.2.4", -1}, {"1.10.0", "1.9", 1},       {"2.0.0", "1.9.9", 1},
      {"1.2.0-rc.1", "1.2", -1}, {"1.2.0+b", "1.2", 0},  {"1.2.1-rc.1", "1.2.0", 1},
  };
  for (size_t i = 0; i < TN_ARRAY_LEN(rows); i++) {
    int got = tn_version_compare(rows[i].version, rows[i].min);
    int sign = (got > 0) - (got < 0);
    cr_expect(sign == rows[i].sign, "%s against %s gave %d", rows[i].version, rows[i].min, got);
  }
}
