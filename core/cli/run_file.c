/* run_file: a saved session as a file: what the engine saves, and behind it the tokens that were printed but not yet run,
 * which the next run begins with. Little-endian, as the engine's own part:
 *
 *   the engine's bytes | token i32 [n] | n u32 | "TNRUN1\n" and a NUL */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/run_int.h"
#include "config/config.h"

#define MARK "TNRUN1\n"
enum { TAIL = sizeof(uint32_t) + sizeof MARK, MAX_PENDING = 4096 };

tn_status tn_run_file_check(const char *path, tn_err *err)
{
  if (access(path, W_OK) == 0) return TN_OK;
  if (errno == ENOENT) { /* the folder then */
    char *folder = tn_strdup(path), *slash = folder ? strrchr(folder, '/') : NULL;
    if (!folder) return tn_fail(err, TN_E_NOMEM, "--save %s: no memory for the path", path);
    if (slash) slash[slash == folder] = '\0';
    int rc = access(slash ? folder : ".", W_OK | X_OK), why = errno;
    free(folder);
    if (rc == 0) return TN_OK;
    errno = why;
  }
  return tn_fail(err, TN_E_IO, "--save %s: cannot be opened: %s", path, strerror(errno));
}

tn_status tn_run_file_write(const char *path, const tn_run_file *r, tn_err *err)
{
  FILE *f = fopen(path, "wb");
  if (!f) return tn_fail(err, TN_E_IO, "--save %s: cannot be opened: %s", path, strerror(errno));
  bool ok = fwrite(r->bytes, 1, r->n, f) == r->n &&
            fwrite(r->pending, sizeof *r->pending, r->n_pending, f) == r->n_pending &&
            fwrite(&r->n_pending, sizeof r->n_pending, 1, f) == 1 && fwrite(MARK, 1, sizeof MARK, f) == sizeof MARK;
  int why = errno;
  if (fclose(f) != 0 && ok) {
    ok = false;
    why = errno;
  }
  return ok ? TN_OK : tn_fail(err, TN_E_IO, "--save %s: cannot be written: %s", path, strerror(why));
}

tn_status tn_run_file_read(const char *path, tn_run_file *r, tn_err *err)
{
  char *bytes;
  *r = (tn_run_file){0};
  tn_status st = tn_file_read(path, (size_t)1 << 34, &bytes, &r->n, err);
  if (st != TN_OK) {
    tn_err_prefix(err, "--load");
    return st;
  }
  r->bytes = (uint8_t *)bytes;
  size_t n = r->n;
  bool marked = n >= TAIL && memcmp(bytes + n - sizeof MARK, MARK, sizeof MARK) == 0;
  if (marked) memcpy(&r->n_pending, bytes + n - TAIL, sizeof r->n_pending);
  if (!marked || r->n_pending > MAX_PENDING || r->n_pending > (n - TAIL) / sizeof *r->pending) {
    tn_run_file_free(r);
    return tn_fail(err, TN_E_IO, "--load %s: no session that `tenon run --save` has written, or it is cut short", path);
  }
  r->n = n - TAIL - r->n_pending * sizeof *r->pending;
  r->pending = malloc((r->n_pending + 1) * sizeof *r->pending);
  if (!r->pending) {
    tn_run_file_free(r);
    return tn_fail(err, TN_E_NOMEM, "--load %s: no memory for it", path);
  }
  memcpy(r->pending, bytes + r->n, r->n_pending * sizeof *r->pending);
  return TN_OK;
}

void tn_run_file_free(tn_run_file *r)
{
  free(r->bytes);
  free(r->pending);
  *r = (tn_run_file){0};
}
