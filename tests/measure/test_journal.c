/* State of a measurement on file. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "measure/journal.h"

static char path[64];

static void setup(void) { snprintf(path, sizeof path, "/tmp/tenon-journal-%d", (int)getpid()); }
static void teardown(void) { (void)unlink(path); }
TestSuite(measure_journal, .init = setup, .fini = teardown, .timeout = 30);

static tn_status open_it(int n, tn_journal **j, tn_err *err)
{
  return tn_journal_open(path, json_pack("{s:s, s:i}", "measures", "x", "n", n), j, err);
}

Test(measure_journal, goes_on_behind_whole_lines)
{
  tn_journal *j;
  tn_err err = tn_err_init();
  cr_assert(eq(int, open_it(3, &j, &err), TN_OK), "%s", err.msg);
  cr_expect(tn_journal_at(j, 0) == NULL);
  cr_expect(eq(int, tn_journal_add(j, json_pack("{s:f}", "v", 0.1), &err), TN_OK));
  cr_expect(eq(int, tn_journal_add(j, NULL, &err), TN_E_NOMEM));
  tn_journal_close(j);
  FILE *f = fopen(path, "a");
  cr_assert(f != NULL && fputs("{\"v\": 0.", f) >= 0 && fclose(f) == 0);
  cr_assert(eq(int, open_it(3, &j, &err), TN_OK), "%s", err.msg);
  cr_expect(eq(dbl, json_number_value(json_object_get(tn_journal_at(j, 0), "v")), 0.1));
  cr_expect(tn_journal_at(j, 1) == NULL, "the line that was cut short is gone");
  cr_expect(eq(int, tn_journal_add(j, json_pack("{s:i}", "v", 2), &err), TN_OK));
  tn_journal_close(j);
  cr_assert(eq(int, open_it(3, &j, &err), TN_OK), "%s", err.msg);
  cr_expect(eq(int, (int)json_integer_value(json_object_get(tn_journal_at(j, 1), "v")), 2));
  tn_journal_close(j);
}

Test(measure_journal, another_measurement_is_refused)
{
  tn_journal *j;
  tn_err err = tn_err_init();
  cr_assert(eq(int, open_it(3, &j, &err), TN_OK));
  tn_journal_close(j);
  cr_expect(eq(int, open_it(4, &j, &err), TN_E_ARG));
  cr_expect(strstr(err.msg, "n is 3 there and 4 here") != NULL, "%s", err.msg);
  FILE *f = fopen(path, "w");
  cr_assert(f != NULL && fputs("a diary\n", f) >= 0 && fclose(f) == 0);
  cr_expect(eq(int, open_it(3, &j, &err), TN_E_IO));
  cr_expect(strstr(err.msg, ":1: is no line of JSON") != NULL, "%s", err.msg);
}
