/* loader_help: what the loader's tests share. */
#ifndef TESTS_LOADER_HELP_H
#define TESTS_LOADER_HELP_H

#include "loader/loader.h"

/* A loader that searches `path` (and ../lib/tenon beside a folder that is not there), for a machine without vector
 * instruction sets; messages of its log are appended to *log (4096 bytes) when not NULL.
 * Fails the test when there is none. */
tn_loader *help_loader(const char *path, char *log);

/* Path of a test plugin, build/tests/plugins/broken/<name>.so. Static storage, valid until the next call but three. */
const char *help_broken(const char *name);

/* A fresh folder under /tmp; removed with all it holds by help_rmdir. Free with free(). */
char *help_tmpdir(void);
void help_rmdir(char *dir);

/* Copies a file, cut after `bytes` bytes (-1: whole); makes the folders of dst. Fails the test on an error. */
void help_copy(const char *src, const char *dst, long bytes);

/* Overwrites n bytes of a file at an offset. */
void help_patch(const char *path, long offset, const void *bytes, size_t n);

/* msg with every occurrence of path replaced by "FILE". Free with free(). */
char *help_mask(const char *msg, const char *path);

#endif
