/* journal: what a long measurement has done, on file, so that it can go on after an end. One line of JSON says what is
 * measured, then one line for each finished piece. A last line that was cut short is taken away.
 *
 * Thread rule: one call at a time. */
#ifndef TN_CORE_MEASURE_JOURNAL_H
#define TN_CORE_MEASURE_JOURNAL_H

#include <jansson.h>

#include "base.h"

typedef struct tn_journal tn_journal;

/* Opens the file, or begins it where there is none. about is taken over; the file's must be equal, else TN_E_ARG names the
 * first member that differs with both values. TN_E_IO, TN_E_NOMEM. */
tn_status tn_journal_open(const char *path, json_t *about, tn_journal **out, tn_err *err);
void tn_journal_close(tn_journal *j); /* accepts NULL */

/* Pieces that were there when it was opened; borrowed until close. NULL past the end. */
const json_t *tn_journal_at(const tn_journal *j, size_t i);

/* Appends a piece, which is taken over, also after a failure. TN_E_IO, TN_E_NOMEM (piece NULL). */
tn_status tn_journal_add(tn_journal *j, json_t *piece, tn_err *err);

#endif
