/* memfs: configuration files in memory, for tests. */
#ifndef TN_TESTS_MEMFS_H
#define TN_TESTS_MEMFS_H

#include "config/config.h"

typedef struct memfile {
  const char *path, *text;
} memfile;

/* files[n] as a file system; a path's id is the path without "./". Borrowed. */
typedef struct memfs {
  const memfile *files;
  size_t n;
} memfs;

tn_config_fs memfs_fs(const memfs *m);

#endif
