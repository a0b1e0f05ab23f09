/* The INI reader: what it takes, and the sentence for everything that it refuses. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "config/ini.h"

typedef struct noted {
  char text[8192];
} noted;

static tn_status note(void *ctx, const tn_ini_item *item, tn_err *err)
{
  noted *l = ctx;
  size_t n = strlen(l->text);
  snprintf(l->text + n, sizeof l->text - n, "%u[%s]%s=%s|", item->line, item->section, item->key, item->value);
  if (!strcmp(item->value, "stop")) return tn_fail(err, TN_E_STATE, "stopped");
  return TN_OK;
}

/* The entries of a text, or the message of its refusal. */
static const char *read_n(const char *text, size_t n)
{
  static noted l;
  static tn_err err;
  l.text[0] = '\0';
  err = tn_err_init();
  tn_status st = tn_ini_parse("a.ini", text, n, note, &l, &err);
  cr_assert(eq(int, st, err.code));
  return st ? err.msg : l.text;
}

static const char *read(const char *text) { return read_n(text, strlen(text)); }

Test(ini, sections_keys_and_lines)
{
  cr_assert(eq(str, (char *)read("a = 1\n\n[s]\nb=2\n[t.u@v]\n\tc\t=\t3"), "1[]a=1|4[s]b=2|6[t.u@v]c=3|"));
  cr_assert(eq(str, (char *)read(""), ""));
  cr_assert(eq(str, (char *)read("[s]\r\na = 1\r\n"), "2[s]a=1|"));
  cr_assert(eq(str, (char *)read("\xEF\xBB\xBF[s]\na = \xC3\xA4\n"), "2[s]a=\xC3\xA4|"));
}

Test(ini, values_and_comments)
{
  cr_assert(eq(str, (char *)read("# c\n; c\n  ; c\n[s] ; c\na = 1 ; c\n"), "5[s]a=1|"));
  cr_assert(
      eq(str, (char *)read("[s]\na = x;y # z\nb = :=\nc =\nd = ; none\n"), "2[s]a=x;y # z|3[s]b=:=|4[s]c=|5[s]d=|"));
  cr_assert(eq(str, (char *)read("[s]\na=;x\n"), "2[s]a=;x|"));
}

Test(ini, indented_lines)
{
  cr_assert(eq(str, (char *)read("[s]\n  a = 1\n  b = 2\n"), "2[s]a=1|3[s]b=2|"), "an indented key is a key");
  cr_assert(eq(str, (char *)read("[s]\na = 1,\n  2, ; two\n\n# c\n\t3\nb = 4\n"), "2[s]a=1, 2, 3|7[s]b=4|"));
  cr_assert(eq(str, (char *)read("[s]\na =\n  1\n"), "2[s]a=1|"));
  cr_assert(eq(str, (char *)read("[s]\n  1\n"), "a.ini:2: '1' is neither 'key = value' nor a [section]"));
  cr_assert(eq(str, (char *)read("[s]\na = 1\n[t]\n  2\n"), "a.ini:4: '2' is neither 'key = value' nor a [section]"));
}

Test(ini, refusals)
{
  cr_assert(eq(str, (char *)read("[s]\nabc\n"), "a.ini:2: 'abc' is neither 'key = value' nor a [section]"));
  cr_assert(eq(str, (char *)read("[s]\na: b\n"), "a.ini:2: 'a: b' is neither 'key = value' nor a [section]"));
  cr_assert(eq(str, (char *)read("[s] x\n"), "a.ini:1: ' x' stands behind the section's ']'"));
  cr_assert(eq(str, (char *)read("[s\n"), "a.ini:1: the section's closing ']' is missing"));
  cr_assert(eq(str, (char *)read("[]\n"), "a.ini:1: the section has no name"));
  cr_assert(eq(str, (char *)read("[s]\n= 1\n"), "a.ini:2: the key has no name"));
  cr_assert(
      eq(str, (char *)read("[s]\na b = 1\n"), "a.ini:2: key name 'a b': only letters, digits, _ . @ - are allowed"));
  cr_assert(eq(str, (char *)read("[s]\n\na = \x01\n"), "a.ini:3: control character 0x01 in column 5"));
  cr_assert(eq(str, (char *)read("[s]\na = \xC3(\n"), "a.ini:2: byte 0xc3 in column 5 is not UTF-8"));
  cr_assert(eq(str, (char *)read_n("[s]\na = \0x\n", 11), "a.ini:2: NUL byte in column 5: this is no text file"));
}

Test(ini, limits)
{
  char text[9000];
  char *name49 = "abcdefghijabcdefghijabcdefghijabcdefghijabcdefghi";
  snprintf(text, sizeof text, "[%s]\n%s = 1\n", name49, name49);
  char want[200];
  snprintf(want, sizeof want, "2[%s]%s=1|", name49, name49);
  cr_assert(eq(str, (char *)read(text), want));
  snprintf(text, sizeof text, "[%sx]\n", name49);
  cr_assert(eq(str, (char *)read(text),
               "a.ini:1: section name 'abcdefghijabcdefghij...' has 50 bytes, at most 49 are allowed"));
  snprintf(text, sizeof text, "[s]\n%sx = 1\n", name49);
  cr_assert(
      eq(str, (char *)read(text), "a.ini:2: key name 'abcdefghijabcdefghij...' has 50 bytes, at most 49 are allowed"));
  snprintf(text, sizeof text, "[s]\na=%0196d\n", 0);
  cr_assert(eq(sz, strlen(read(text)), strlen("2[s]a=|") + 196));
  snprintf(text, sizeof text, "[s]\na=%0197d\n", 0);
  cr_assert(eq(str, (char *)read(text),
               "a.ini:2: the line has 199 bytes, at most 198 are allowed; a long value may go "
               "on in the next lines, indented"));
  snprintf(text, sizeof text, "[s]\na=1 ; %0500d\n", 0);
  cr_assert(eq(str, (char *)read(text), "2[s]a=1|"), "a comment may be longer");
  strcpy(text, "[s]\na=\n");
  for (int i = 0; i < 21; i++) snprintf(text + strlen(text), 220, " %0196d\n", 0);
  cr_assert(eq(str, (char *)read(text), "a.ini:23: the value of 'a' has over 4096 bytes"));
}

Test(ini, callback_ends_the_parse) { cr_assert(eq(str, (char *)read("[s]\na = stop\nb = 1\n"), "stopped")); }
