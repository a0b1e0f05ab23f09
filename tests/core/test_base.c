/* Messages of errors: whole UTF-8 whatever goes in. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"
#include "utf8.h"

Test(core_base, a_text_cut_inside_a_character_stays_utf8)
{
  tn_err err = tn_err_init();
  cr_assert_eq(tn_fail(&err, TN_E_ARG, "%.4s: want more", "abc\xc3\xa9"), TN_E_ARG);
  cr_assert_str_eq(err.msg, "abc?: want more");
  tn_fail(&err, TN_E_ARG, "%s", "caf\xe9.ini \xf0\x9f\x98\x80");
  cr_assert_str_eq(err.msg, "caf?.ini \xf0\x9f\x98\x80");
  tn_fail(&err, TN_E_ARG, "%.6s", "abc \xe2\x82\xac");
  cr_assert_str_eq(err.msg, "abc ");
}

Test(core_base, a_long_text_is_cut_at_a_whole_character)
{
  char text[1000];
  for (size_t shift = 0; shift < 4; shift++) {
    memset(text, 'x', sizeof text);
    for (size_t i = shift; i + 4 < sizeof text; i += 4) memcpy(text + i, "\xf0\x9f\x98\x80", 4);
    text[sizeof text - 1] = '\0';
    tn_err err = tn_err_init();
    tn_fail(&err, TN_E_ARG, "%s", text);
    size_t n = strlen(err.msg);
    cr_assert_eq(tn_utf8_valid(err.msg, n), n);
    cr_assert_eq(n, shift + (sizeof err.msg - 1 - shift) / 4 * 4);
  }
}

Test(core_base, a_prefix_keeps_code_and_text)
{
  tn_err err = tn_err_init();
  tn_fail(&err, TN_E_NOMEM, "no memory");
  tn_err_prefix(&err, "%s:%d", "a.ini", 3);
  cr_assert_eq(err.code, TN_E_NOMEM);
  cr_assert_str_eq(err.msg, "a.ini:3: no memory");
}
