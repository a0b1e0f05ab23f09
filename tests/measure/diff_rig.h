/* diff_rig: `tenon diff a.ini b.ini` in a folder of its own, for tests. The command finds the test plugins. */
#ifndef TN_TESTS_DIFF_RIG_H
#define TN_TESTS_DIFF_RIG_H

#include <jansson.h>

/* Skips the test when the command is not built. */
void diff_setup(void);
void diff_teardown(void);

/* The folder, and what the last command printed. */
extern char diff_dir[32], diff_out[1 << 18];

/* Writes an INI file that includes default.ini. */
void diff_ini(const char *name, const char *text);

/* The report of a.ini against b.ini on a model; NULL when the command printed no JSON. *status: its exit code. */
json_t *diff_run(const char *model, const char *more, int *status);

/* An integer member. */
json_int_t diff_number(const json_t *j, const char *key);

/* One scale of layer 17's up projection is the next float in b.ini: the report, with the dumps in <folder>/tensors, names
 * that record, that element, and nothing in front of it. The report is the caller's. */
json_t *diff_planted(const char *model);

#endif
