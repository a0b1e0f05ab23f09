/* check_int: what the tests of a plugin file work with. */
#ifndef TN_CORE_CHECK_CHECK_INT_H
#define TN_CORE_CHECK_CHECK_INT_H

#include "check/check.h"
#include "loader/note.h"
#include "loader/text.h"

struct tn_check {
  const char *path; /* canonical */
  const char *tmp;  /* a folder of the whole run's own */
  uint32_t verdict; /* the gravest so far */
  uint32_t reserved0;
  tn_text text;            /* findings, one a line */
  tn_text log;             /* errors that the host logged during the entry call */
  const tn_module *module; /* after tn_check_enter */
};

/* Adds a finding. */
void tn_check_say(tn_check *c, uint32_t verdict, const char *fmt, ...) TN_PRINTF(3, 4);

/* Loads the plugin and calls its entry; false, and SKIP said, when that fails. */
bool tn_check_enter(tn_check *c);

/* Notes of the file; false, and SKIP said, when they cannot be read. */
bool tn_check_notes(tn_check *c, tn_notes *out);

/* The tables of each level, NULL-terminated by an entry without id. */
extern const tn_check_test tn_check_level0[], tn_check_level1[], tn_check_level2[];

#endif
