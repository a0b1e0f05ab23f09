/* shell: commands and folders for tests that build plugins the way an outsider does. */
#ifndef TESTS_ABI_SHELL_H
#define TESTS_ABI_SHELL_H

#include <stdbool.h>

#include "base.h"

/* Runs a shell command; its output, both streams, goes into a buffer of the caller's (cut at its end). Returns the exit
 * status. */
int shell(char *out, size_t cap, const char *fmt, ...) TN_PRINTF(3, 4);

/* Is there such a command? */
bool shell_has(const char *command);

/* A fresh folder below /tmp, whose path is valid until shell_rmdir. */
char *shell_mkdir(void);
void shell_rmdir(char *dir);

#endif
