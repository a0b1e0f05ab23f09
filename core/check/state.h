/* state: what a plugin must leave alone in its process, as a text that can be compared. */
#ifndef TN_CORE_CHECK_STATE_H
#define TN_CORE_CHECK_STATE_H

#include "loader/text.h"

/* Appends one line "name: value" for each signal's disposition, the signal mask, locale, working directory, umask,
 * environment variable, resource limit, floating-point mode and standard stream. */
void tn_state_process(tn_text *out);

/* Appends one line for each open file descriptor, thread and child process. */
void tn_state_resources(tn_text *out);

/* Calls say for each line that is in one of the two texts alone: "was" a line of before, "is" a line of after; one of
 * them is NULL where the line has no counterpart of the same name. */
void tn_state_compare(const char *before, const char *after, void *ctx,
                      void (*say)(void *ctx, const char *was, const char *is));

#endif
