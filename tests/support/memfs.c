/* memfs: see memfs.h. */
#include "support/memfs.h"

#include <stdlib.h>
#include <string.h>

static tn_status memfs_read(void *ctx, const char *path, char **id, char **bytes, size_t *n, tn_err *err)
{
  const memfs *m = ctx;
  while (!strncmp(path, "./", 2)) path += 2;
  for (size_t i = 0; i < m->n; i++) {
    if (strcmp(m->files[i].path, path) != 0) continue;
    *id = tn_strdup(path);
    *n = strlen(m->files[i].text);
    *bytes = tn_strdup(m->files[i].text);
    if (*id && *bytes) return TN_OK;
    free(*id);
    free(*bytes);
    *id = *bytes = NULL;
    return tn_fail(err, TN_E_NOMEM, "%s: no memory", path);
  }
  return tn_fail(err, TN_E_IO, "%s: cannot be opened: No such file or directory", path);
}

tn_config_fs memfs_fs(const memfs *m) { return (tn_config_fs){(void *)m, memfs_read}; }
