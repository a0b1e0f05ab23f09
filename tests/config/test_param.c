/* Options from text and back, in any locale. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/param.h"

static const char *const choices[] = {"tiled", "naive"};

#define ROW(type_, ...) \
  (tn_param) { .struct_size = sizeof(tn_param), .type = TN_T_##type_, .key = "k", __VA_ARGS__ }
static const tn_param *row(tn_param p)
{
  static tn_param kept;
  kept = p;
  return &kept;
}
#define ANY_I64 row(ROW(I64, .imin = INT64_MIN, .imax = INT64_MAX))
#define ANY_F64 row(ROW(F64, .fmin = -DBL_MAX_, .fmax = DBL_MAX_))
#define DBL_MAX_ 1.7976931348623157e308

/* The rendering of a parsed text, or the refusal. */
static char *trip_from(const tn_param *p, const char *base, const char *text)
{
  static char buf[600];
  tn_value v;
  tn_err err = tn_err_init();
  tn_status st = tn_param_parse(p, text, base, &v, &err);
  cr_assert(eq(int, st, err.code));
  if (st) {
    snprintf(buf, sizeof buf, "%s", err.msg);
    return buf;
  }
  cr_assert(eq(u32, v.type, p->type));
  char *s = tn_param_render(p, &v);
  snprintf(buf, sizeof buf, "%s", s);
  tn_value again;
  cr_assert(zero(int, tn_param_parse(p, s, base, &again, &err)), "%s", err.msg);
  if (p->type == TN_T_F64) cr_assert(eq(dbl, again.v.f, v.v.f));
  if (p->type == TN_T_I64 || p->type == TN_T_BYTES) cr_assert(eq(i64, again.v.i, v.v.i));
  free(s);
  tn_value_free(&v);
  tn_value_free(&again);
  return buf;
}

static char *trip(const tn_param *p, const char *text) { return trip_from(p, NULL, text); }

Test(param, boolean)
{
  const tn_param *p = row(ROW(BOOL, .def = NULL));
  const char *yes[] = {"true", "yes", "on", "1"}, *no[] = {"false", "no", "off", "0"};
  for (int i = 0; i < 4; i++) {
    cr_assert(eq(str, trip(p, yes[i]), "true"));
    cr_assert(eq(str, trip(p, no[i]), "false"));
  }
  cr_assert(eq(str, trip(p, "ture"), "k = ture: did you mean 'true'? Want true or false"));
  cr_assert(eq(str, trip(p, "2222"), "k = 2222: want true or false"));
}

Test(param, whole_numbers)
{
  cr_assert(eq(str, trip(ANY_I64, "0"), "0"));
  cr_assert(eq(str, trip(ANY_I64, "+7"), "7"));
  cr_assert(eq(str, trip(ANY_I64, "-0012"), "-12"));
  cr_assert(eq(str, trip(ANY_I64, "9223372036854775807"), "9223372036854775807"));
  cr_assert(eq(str, trip(ANY_I64, "-9223372036854775808"), "-9223372036854775808"));
  const tn_param *p = row(ROW(I64, .imin = 1, .imax = 64, .unit = "tokens"));
  const char *bad[] = {"0", "65", "", "x", "1x", "1.0", "0x10", "--1", "+", "1 2", "9223372036854775808"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char want[128];
    snprintf(want, sizeof want, "k = %s: want a whole number of tokens from 1 to 64", bad[i]);
    cr_assert(eq(str, trip(p, bad[i]), want));
  }
  cr_assert(eq(str, trip(p, "1"), "1"));
  cr_assert(eq(str, trip(p, "64"), "64"));
}

Test(param, sizes)
{
  const tn_param *p = row(ROW(BYTES, .imax = INT64_MAX));
  cr_assert(eq(str, trip(p, "0"), "0"));
  cr_assert(eq(str, trip(p, "1000"), "1000"));
  cr_assert(eq(str, trip(p, "1024"), "1K"));
  cr_assert(eq(str, trip(p, "512M"), "512M"));
  cr_assert(eq(str, trip(p, "512 MiB"), "512M"));
  cr_assert(eq(str, trip(p, "2048k"), "2M"));
  cr_assert(eq(str, trip(p, "3GB"), "3G"));
  cr_assert(eq(str, trip(p, "4096T"), "4096T"));
  const char *bad[] = {"-1", "1.5G", "M", "1Mi", "1X", "1MM", "9000000000G", ""};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    cr_assert(strstr(trip(p, bad[i]), "want a size from 0 to ") != NULL, "%s: %s", bad[i], trip(p, bad[i]));
  cr_assert(eq(str, trip(row(ROW(BYTES, .imin = 1 << 20, .imax = 1 << 30)), "1K"),
               "k = 1K: want a size from 1M to 1G, such as 512M"));
}

Test(param, numbers)
{
  cr_assert(eq(str, trip(ANY_F64, "0.1"), "0.1"));
  cr_assert(eq(str, trip(ANY_F64, "-1e-3"), "-0.001"));
  cr_assert(eq(str, trip(ANY_F64, "3"), "3"));
  cr_assert(eq(str, trip(ANY_F64, "0.30000000000000004"), "0.30000000000000004"));
  cr_assert(eq(str, trip(ANY_F64, "1.7976931348623157e308"), "1.7976931348623157e+308"));
  const tn_param *p = row(ROW(F64, .fmin = 0, .fmax = 1));
  const char *bad[] = {"nan", "inf", "1e999", "0,5", "", ".", "1e", "0x1p-1", "1.1", "-0.1", "1 "};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char want[128];
    snprintf(want, sizeof want, "k = %s: want a number from 0 to 1", bad[i]);
    cr_assert(eq(str, trip(p, bad[i]), want));
  }
}

Test(param, lists)
{
  const tn_param *p = row(ROW(F64_LIST, .fmin = 0, .fmax = 10));
  cr_assert(eq(str, trip(p, "1.0, 1.5,2"), "1, 1.5, 2"));
  cr_assert(eq(str, trip(p, "4"), "4"));
  cr_assert(eq(str, trip(p, ""), ""));
  cr_assert(eq(str, trip(p, "1, 11"), "k = 11: want numbers with commas between, from 0 to 10"));
  cr_assert(strstr(trip(p, "1,,2"), "want numbers") != NULL);
  cr_assert(strstr(trip(p, "1,"), "want numbers") != NULL);
}

Test(param, choice_text_path)
{
  const tn_param *p = row(ROW(ENUM, .choices = choices, .n_choices = 2));
  cr_assert(eq(str, trip(p, "naive"), "naive"));
  cr_assert(eq(str, trip(p, "niave"), "k = niave: did you mean 'naive'? Want one of tiled, naive"));
  cr_assert(eq(str, trip(p, ""), "k = : want one of tiled, naive"));
  static const char *const sizes[] = {"16", "32", "64"};
  const tn_param *q = row(ROW(ENUM, .choices = sizes, .n_choices = 3));
  cr_assert(eq(str, trip(q, "17"), "k = 17: want one of 16, 32, 64"), "no number is nearer to what was meant");
  p = row(ROW(ENUM, .choices = choices, .n_choices = 2));
  cr_assert(eq(str, trip(row(ROW(STR, .def = NULL)), "a b"), "a b"));
  p = row(ROW(PATH, .def = NULL));
  cr_assert(eq(str, trip_from(p, NULL, "m.gguf"), "m.gguf"));
  cr_assert(eq(str, trip_from(p, "/x", "/m.gguf"), "/m.gguf"));
  tn_value v;
  cr_assert(zero(int, tn_param_parse(p, "m.gguf", "x/y", &v, NULL)));
  cr_assert(eq(str, (char *)v.v.s, "x/y/m.gguf"));
  tn_value_free(&v);
  cr_assert(zero(int, tn_param_parse(p, "", "x/y", &v, NULL)));
  cr_assert(eq(str, (char *)v.v.s, ""), "no path stays no path");
  tn_value_free(&v);
}

Test(param, defaults)
{
  tn_value v;
  tn_err err = tn_err_init();
  cr_assert(zero(int, tn_param_default(row(ROW(I64, .def = "5", .imax = 9)), &v, &err)));
  cr_assert(eq(i64, v.v.i, 5));
  cr_assert(eq(int, tn_param_default(row(ROW(I64, .flags = TN_P_REQUIRED)), &v, &err), TN_E_ARG));
  cr_assert(eq(str, err.msg, "option 'k' has no default"));
}

/* Sets a locale with a decimal comma: an installed one, or one made for the purpose. false: the machine can do neither. */
static bool comma_locale(char *dir)
{
  const char *names[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8", "fr_FR.utf8"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (setlocale(LC_ALL, names[i])) return true;
  char command[160];
  if (!mkdtemp(dir)) return false;
  snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1", dir);
  if (system(command) != 0) return false;
  setenv("LOCPATH", dir, 1);
  return setlocale(LC_ALL, "de_DE.UTF-8") != NULL;
}

Test(param, any_locale)
{
  char dir[] = "/tmp/tn_locale_XXXXXX", command[64], buf[8];
  bool found = comma_locale(dir);
  snprintf(command, sizeof command, "rm -rf %s", dir);
  if (dir[sizeof dir - 2] != 'X' && system(command) != 0) cr_log_warn("%s is left behind", dir);
  if (!found) cr_skip_test("no locale with a decimal comma is installed, and localedef cannot make one");
  snprintf(buf, sizeof buf, "%.1f", 0.5);
  cr_assert(eq(str, buf, "0,5"), "the locale has a decimal comma");
  cr_assert(eq(str, trip(ANY_F64, "0.25"), "0.25"));
  cr_assert(strstr(trip(ANY_F64, "0,25"), "want a number") != NULL);
  cr_assert(eq(str, trip(row(ROW(F64_LIST, .fmin = 0, .fmax = 10)), "1.5,2.5"), "1.5, 2.5"));
  snprintf(buf, sizeof buf, "%.1f", 0.5);
  cr_assert(eq(str, buf, "0,5"), "and still has it");
}
