/* check: the order of the tests, and what a test may call. See check.h. */
#include "check/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "check/check_int.h"
#include "loader/loader_int.h"

const tn_check_test *tn_check_test_at(size_t i)
{
  static const tn_check_test *const levels[] = {tn_check_level0, tn_check_level1, tn_check_level2};
  for (size_t l = 0; l < TN_ARRAY_LEN(levels); l++)
    for (const tn_check_test *t = levels[l]; t->id; t++)
      if (i-- == 0) return t;
  return NULL;
}

const char *tn_check_verdict_name(uint32_t verdict)
{
  static const char *const names[] = {"PASS", "SKIP", "WARN", "FAIL", "CRASH", "TIMEOUT"};
  return verdict < TN_ARRAY_LEN(names) ? names[verdict] : "?";
}

void tn_check_say(tn_check *c, uint32_t verdict, const char *fmt, ...)
{
  char line[1024];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(line, sizeof line, fmt, ap);
  va_end(ap);
  tn_text_addf(&c->text, "%s%s", c->text.n ? "\n" : "", line);
  if (verdict > c->verdict) c->verdict = verdict;
}

/* Keeps what the host itself logs as misbehaviour. */
static void keep_errors(void *ctx, int32_t level, const char *msg)
{
  tn_check *c = ctx;
  if (level >= TN_LOG_ERROR) tn_text_addf(&c->log, "%s%s", c->log.n ? "\n" : "", msg);
}

bool tn_check_enter(tn_check *c)
{
  tn_err err = tn_err_init();
  if (tn_file_enter(c->path, keep_errors, c, &c->module, &err) == TN_OK) return true;
  tn_check_say(c, TN_CHECK_SKIP, "does not load, see TN-L1-01");
  return false;
}

bool tn_check_notes(tn_check *c, tn_notes *out)
{
  tn_inspected in;
  tn_err err = tn_err_init();
  if (tn_file_inspect(c->path, TN_ISA_AVX512, &in, &err) != TN_OK) {
    tn_check_say(c, TN_CHECK_SKIP, "its notes cannot be used, see TN-L0-02");
    return false;
  }
  *out = in.notes;
  return true;
}
