/* level2: what the two files of level 2 share. */
#ifndef TN_CORE_CHECK_LEVEL2_H
#define TN_CORE_CHECK_LEVEL2_H

#include "check/check_int.h"
#include "check/walk.h"
#include "loader/validate.h"

/* Loads the plugin, and every pointer of its module can be read; else false, and SKIP said. */
bool tn_check_readable(tn_check *c);

/* The same, and each rule before `rule` holds for every descriptor, so that the rule may be applied. */
bool tn_check_before_rule(tn_check *c, tn_status (*rule)(const tn_desc *, tn_err *));

void tn_check_repeat(tn_check *c);
void tn_check_threads(tn_check *c);
void tn_check_extensions(tn_check *c);

#endif
