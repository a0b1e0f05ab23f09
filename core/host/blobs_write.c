/* blobs_write: writing. See blobs.h. Bytes go out in large aligned pieces: a file system that keeps large pages of a file
 * in memory does so for a large write. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "blobs_int.h"
#include "sha256.h"

enum { STAGE = 8 << 20 };

struct tn_blobs_out {
  int fd;
  char *path, *tmp; /* final and temporary name */
  uint8_t *stage;   /* [STAGE] bytes from `at` of the file on, not yet written */
  size_t staged;
  uint64_t at;
  tn_blob *index; /* [cap] */
  uint64_t n, cap;
  tn_blobs_head head;
};

static tn_status fail_io(const tn_blobs_out *o, const char *what, tn_err *err)
{
  return tn_fail(err, TN_E_IO, "%s: cannot be %s: %s", o->tmp, what, strerror(errno));
}

tn_status tn_blobs_create(const char *path, const uint8_t key[32], tn_blobs_out **out, tn_err *err)
{
  *out = NULL;
  tn_blobs_out *o = tn_zalloc(1, sizeof *o);
  if (o) {
    o->fd = -1;
    o->path = tn_strdup(path);
    o->tmp = tn_asprintf("%s.XXXXXX", path);
    o->stage = tn_zalloc(1, STAGE);
  }
  if (!o || !o->path || !o->tmp || !o->stage) {
    tn_blobs_discard(o);
    return tn_fail(err, TN_E_NOMEM, "%s: no memory to write it", path);
  }
  o->fd = mkostemp(o->tmp, O_CLOEXEC);
  if (o->fd < 0) {
    tn_status st = fail_io(o, "created", err);
    tn_blobs_discard(o);
    return st;
  }
  memcpy(o->head.magic, TN_BLOBS_MAGIC, sizeof o->head.magic);
  memcpy(o->head.key, key, sizeof o->head.key);
  o->staged = TN_BLOBS_FIRST; /* zeros; the header comes last */
  *out = o;
  return TN_OK;
}

static tn_status put(const tn_blobs_out *o, const void *p, size_t n, uint64_t at, tn_err *err)
{
  for (const uint8_t *b = p; n > 0;) {
    ssize_t k = pwrite(o->fd, b, n, (off_t)at);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) {
      if (k == 0) errno = ENOSPC;
      return fail_io(o, "written", err);
    }
    b += k, n -= (size_t)k, at += (uint64_t)k;
  }
  return TN_OK;
}

static tn_status flush(tn_blobs_out *o, tn_err *err)
{
  tn_status st = put(o, o->stage, o->staged, o->at, err);
  o->at += o->staged;
  o->staged = 0;
  return st;
}

/* p NULL: zeros. */
static tn_status append(tn_blobs_out *o, const uint8_t *p, uint64_t n, tn_err *err)
{
  tn_status st = TN_OK;
  while (n > 0 && st == TN_OK) {
    size_t part = STAGE - o->staged;
    if (part > n) part = (size_t)n;
    if (p)
      memcpy(o->stage + o->staged, p, part);
    else
      memset(o->stage + o->staged, 0, part);
    p = p ? p + part : NULL;
    n -= part;
    o->staged += part;
    if (o->staged == STAGE) st = flush(o, err);
  }
  return st;
}

static tn_status to_line(tn_blobs_out *o, tn_err *err)
{
  return append(o, NULL, (TN_BLOBS_ALIGN - tn_blobs_written(o) % TN_BLOBS_ALIGN) % TN_BLOBS_ALIGN, err);
}

tn_status tn_blobs_add(tn_blobs_out *o, const tn_blob *like, const void *p, tn_err *err)
{
  if (o->n == o->cap) {
    uint64_t cap = o->cap ? 2 * o->cap : 64;
    tn_blob *grown = realloc(o->index, (size_t)cap * sizeof *grown);
    if (!grown) return tn_fail(err, TN_E_NOMEM, "%s: no memory for its index", o->path);
    o->index = grown;
    o->cap = cap;
  }
  tn_status st = to_line(o, err);
  o->index[o->n] = *like;
  o->index[o->n++].offset = tn_blobs_written(o);
  return st == TN_OK ? append(o, p, like->bytes, err) : st;
}

bool tn_blobs_has(const tn_blobs_out *o, const uint8_t id[32])
{
  for (uint64_t i = 0; i < o->n; i++)
    if (memcmp(o->index[i].id, id, sizeof o->index[i].id) == 0) return true;
  return false;
}

uint64_t tn_blobs_written(const tn_blobs_out *o) { return o->at + o->staged; }

tn_status tn_blobs_finish(tn_blobs_out *o, tn_err *err)
{
  tn_sha256 sha;
  size_t bytes = (size_t)o->n * sizeof *o->index;
  tn_status st = to_line(o, err);
  tn_blobs_head *h = &o->head;
  h->n = o->n;
  h->index_at = tn_blobs_written(o);
  h->file_bytes = h->index_at + bytes;
  tn_sha256_init(&sha);
  tn_sha256_update(&sha, o->index, bytes);
  tn_sha256_final(&sha, h->index_sum);
  tn_blobs_seal(h);
  if (st == TN_OK) st = append(o, (const uint8_t *)o->index, bytes, err);
  if (st == TN_OK) st = flush(o, err);
  if (st == TN_OK) st = put(o, h, sizeof *h, 0, err);
  if (st == TN_OK && rename(o->tmp, o->path) != 0) st = fail_io(o, "renamed", err);
  if (st == TN_OK) {
    close(o->fd);
    o->fd = -1;
  }
  tn_blobs_discard(o);
  return st;
}

void tn_blobs_discard(tn_blobs_out *o)
{
  if (!o) return;
  if (o->fd >= 0) {
    close(o->fd);
    unlink(o->tmp);
  }
  free(o->path);
  free(o->tmp);
  free(o->stage);
  free(o->index);
  free(o);
}
