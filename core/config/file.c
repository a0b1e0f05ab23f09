/* file: whole small files and relative paths; see config.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"

char *tn_path_from(const char *dir, const char *path)
{
  while (!strncmp(path, "./", 2)) path += 2;
  if (!dir || path[0] == '/' || !strcmp(dir, ".")) return tn_strdup(path);
  return tn_asprintf("%s%s%s", dir, dir[strlen(dir) - 1] == '/' ? "" : "/", path);
}

/* Up to n bytes from fd; *got less than n only at the end of the file. */
static tn_status read_all(int fd, const char *path, char *buf, size_t n, size_t *got, tn_err *err)
{
  *got = 0;
  while (*got < n) {
    ssize_t k = read(fd, buf + *got, n - *got);
    if (k < 0 && errno == EINTR) continue;
    if (k < 0) return tn_fail(err, TN_E_IO, "%s: cannot be read: %s", path, strerror(errno));
    if (k == 0) break;
    *got += (size_t)k;
  }
  return TN_OK;
}

tn_status tn_file_read(const char *path, size_t max, char **bytes, size_t *n, tn_err *err)
{
  *bytes = NULL;
  struct stat s;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return tn_fail(err, TN_E_IO, "%s: cannot be opened: %s", path, strerror(errno));
  char *buf = NULL;
  tn_status st = TN_OK;
  if (fstat(fd, &s) != 0)
    st = tn_fail(err, TN_E_IO, "%s: cannot be read: %s", path, strerror(errno));
  else if (!S_ISREG(s.st_mode))
    st = tn_fail(err, TN_E_ARG, "%s: is no regular file", path);
  else if ((uint64_t)s.st_size > max)
    st = tn_fail(err, TN_E_ARG, "%s: has %lld bytes, at most %zu are allowed", path, (long long)s.st_size, max);
  else if (!(buf = malloc((size_t)s.st_size + 1)))
    st = tn_fail(err, TN_E_NOMEM, "%s: no memory for %lld bytes", path, (long long)s.st_size);
  else
    st = read_all(fd, path, buf, (size_t)s.st_size, n, err);
  close(fd);
  if (st) {
    free(buf);
    return st;
  }
  buf[*n] = '\0';
  *bytes = buf;
  return TN_OK;
}
