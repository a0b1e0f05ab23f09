/* inspect: what can be learnt of a plugin file from its bytes alone. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/loader_int.h"
#include "sha256.h"

/* Opens a regular file for reading. O_NONBLOCK: a FIFO of that name must not hang the host. */
static tn_status open_regular(const char *path, int *fd, struct stat *st, tn_err *err)
{
  *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (*fd < 0) return tn_fail(err, TN_E_IO, "%s: %s", path, strerror(errno));
  if (fstat(*fd, st) == 0 && S_ISREG(st->st_mode)) return TN_OK;
  close(*fd);
  return tn_fail(err, TN_E_IO, "%s: not a regular file", path);
}

tn_status tn_file_inspect(const char *path, uint32_t isa, tn_inspected *out, tn_err *err)
{
  int fd;
  struct stat s;
  tn_status st = open_regular(path, &fd, &s, err);
  if (st != TN_OK) return st;
  *out = (tn_inspected){.dev = (uint64_t)s.st_dev, .ino = (uint64_t)s.st_ino};
  tn_elf elf;
  st = tn_elf_open(&elf, (tn_elf_src){.size = (uint64_t)s.st_size, .fd = fd}, path, err);
  if (st == TN_OK) st = tn_notes_read(&elf, &out->notes, err);
  for (size_t i = 0; st == TN_OK && i < out->notes.n; i++) st = tn_note_check(&out->notes.at[i], path, isa, err);
  tn_elf_close(&elf);
  close(fd);
  return st;
}

tn_status tn_file_sha256(const char *path, char out[65], tn_err *err)
{
  int fd;
  struct stat s;
  tn_status st = open_regular(path, &fd, &s, err);
  if (st != TN_OK) return st;
  tn_sha256 hash;
  tn_sha256_init(&hash);
  char buf[65536];
  ssize_t n;
  while ((n = read(fd, buf, sizeof buf)) != 0) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    tn_sha256_update(&hash, buf, (size_t)n);
  }
  if (n < 0) st = tn_fail(err, TN_E_IO, "%s: %s", path, strerror(errno));
  close(fd);
  uint8_t digest[32];
  tn_sha256_final(&hash, digest);
  tn_sha256_hex(digest, out);
  return st;
}
