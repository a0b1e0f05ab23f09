/* files: copies of the plugin in the run's own folder. */
#ifndef TN_CORE_CHECK_FILES_H
#define TN_CORE_CHECK_FILES_H

#include <limits.h>

#include "check/check_int.h"

/* Copies the plugin to <tmp>/<folder>/<name>, whose path goes into out. false, and SKIP said, on failure. */
bool tn_check_copy(tn_check *c, const char *folder, const char *name, char out[PATH_MAX]);

#endif
