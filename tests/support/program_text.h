/* program_text: a built program as text, one record a line, for golden files. */
#ifndef TN_TESTS_PROGRAM_TEXT_H
#define TN_TESTS_PROGRAM_TEXT_H

#include "model/builder.h"

/* The listing: records, then masks, activations and weights. The caller frees it. Ends the test without memory. */
char *program_text(const tn_built *b);

/* Compares the listing with tests/model/<name>.golden. With TN_GOLDEN_UPDATE set in the environment it is written there
 * first. Returns NULL when they are equal, else a message that names the first line that differs; the caller frees it. */
char *program_golden(const tn_built *b, const char *name);

#endif
