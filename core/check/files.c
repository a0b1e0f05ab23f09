/* files: see files.h. */
#include "check/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool copy(int in, int out)
{
  char buf[65536];
  for (;;) {
    ssize_t n = read(in, buf, sizeof buf);
    if (n == 0) return true;
    if (n < 0 && errno != EINTR) return false;
    for (ssize_t done = 0; done < n;) {
      ssize_t k = write(out, buf + done, (size_t)(n - done));
      if (k < 0 && errno != EINTR) return false;
      if (k > 0) done += k;
    }
  }
}

bool tn_check_copy(tn_check *c, const char *folder, const char *name, char out[PATH_MAX])
{
  int n = snprintf(out, PATH_MAX, "%s/%s", c->tmp, folder);
  bool ok = n > 0 && n < PATH_MAX - 64 && (mkdir(out, 0700) == 0 || errno == EEXIST);
  if (ok) snprintf(out + n, (size_t)(PATH_MAX - n), "/%s", name);
  int from = ok ? open(c->path, O_RDONLY | O_CLOEXEC) : -1;
  int to = from >= 0 ? open(out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700) : -1;
  ok = to >= 0 && copy(from, to);
  int why = errno;
  if (from >= 0) close(from);
  if (to >= 0 && close(to) != 0) ok = false;
  if (!ok) tn_check_say(c, TN_CHECK_SKIP, "cannot copy the plugin to %s: %s", c->tmp, strerror(why));
  return ok;
}
