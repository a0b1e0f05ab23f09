/* gguf_part: one file of a model, from its path to its parsed header. */
#include "gguf_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  VERSION_MIN = 2,
  VERSION_MAX = 3,
  MIN_KV_BYTES = 8 + 1 + 4 + 1,            /* key of one byte, type, value of one byte */
  MIN_TENSOR_BYTES = 8 + 1 + 4 + 8 + 4 + 8 /* name of one byte, n_dims, one dimension, type, offset */
};

static tn_status check_magic(tn_gguf_part *part, tn_gguf_cursor *c)
{
  const uint8_t *magic;
  tn_status st = tn_gguf_take(c, 4, "the magic number", &magic);
  if (st == TN_OK && memcmp(magic, "GGUF", 4) != 0) {
    return tn_gguf_fail(part, c->err, TN_E_ARG, "not a GGUF file: it begins with %02x %02x %02x %02x, not with 'GGUF'",
                        magic[0], magic[1], magic[2], magic[3]);
  }
  if (st == TN_OK) st = tn_gguf_take_u32(c, "the version", &part->version);
  if (st != TN_OK) return st;
  if ((part->version & 0xFFFFu) == 0 && part->version != 0) {
    return tn_gguf_fail(part, c->err, TN_E_UNSUPPORTED, "big-endian GGUF (version word %08x) is not supported",
                        part->version);
  }
  if (part->version < VERSION_MIN || part->version > VERSION_MAX) {
    return tn_gguf_fail(part, c->err, TN_E_VERSION, "GGUF version %u is not supported, only %d and %d", part->version,
                        VERSION_MIN, VERSION_MAX);
  }
  return TN_OK;
}

/* Reads n and refuses one that the rest of the file could not hold, at least bytes each. */
static tn_status read_count(tn_gguf_cursor *c, const char *what, uint64_t least, uint64_t *n)
{
  tn_status st = tn_gguf_take_u64(c, what, n);
  uint64_t left = c->part->size - c->pos;
  if (st == TN_OK && *n > left / least) {
    return tn_gguf_fail(c->part, c->err, TN_E_IO, "%s is %llu, but only %llu bytes follow in the file", what,
                        (unsigned long long)*n, (unsigned long long)left);
  }
  return st;
}

tn_status tn_gguf_part_parse(tn_gguf_part *part, tn_err *err)
{
  tn_gguf_cursor c = {.part = part, .err = err};
  uint64_t n_kv = 0, n_tensors = 0;
  tn_status st = check_magic(part, &c);
  if (st == TN_OK) st = read_count(&c, "the tensor count", MIN_TENSOR_BYTES, &n_tensors);
  if (st == TN_OK) st = read_count(&c, "the metadata count", MIN_KV_BYTES, &n_kv);
  if (st != TN_OK) return st;
  part->n_kv = n_kv;
  part->n_tensors = n_tensors;
  st = tn_gguf_read_kv(part, &c);
  return st == TN_OK ? tn_gguf_read_tensors(part, &c) : st;
}

/* Maps the file. It must not shrink while it is mapped. */
static tn_status map_file(tn_gguf_part *part, const char *path, tn_err *err)
{
  tn_status st = TN_OK;
  struct stat sb;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return tn_gguf_fail(part, err, TN_E_IO, "cannot open: %s", strerror(errno));
  if (fstat(fd, &sb) != 0) {
    st = tn_gguf_fail(part, err, TN_E_IO, "cannot stat: %s", strerror(errno));
  } else if (!S_ISREG(sb.st_mode)) {
    st = tn_gguf_fail(part, err, TN_E_IO, "not a regular file");
  } else if (sb.st_size < 4) {
    st = tn_gguf_fail(part, err, TN_E_IO, "not a GGUF file: it has only %lld bytes", (long long)sb.st_size);
  } else {
    void *p = mmap(NULL, (size_t)sb.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
      st = tn_gguf_fail(part, err, TN_E_IO, "cannot map: %s", strerror(errno));
    else
      *part = (tn_gguf_part){.name = part->name,
                             .base = p,
                             .size = (size_t)sb.st_size,
                             .mapped = true,
                             .file = {sb.st_dev, sb.st_ino, (uint64_t)sb.st_size, (uint64_t)sb.st_mtim.tv_sec,
                                      (uint64_t)sb.st_mtim.tv_nsec}};
  }
  close(fd);
  return st;
}

tn_status tn_gguf_part_open(tn_gguf_part *part, const char *path, tn_err *err)
{
  *part = (tn_gguf_part){.name = tn_strdup(path)};
  if (!part->name) return tn_fail(err, TN_E_NOMEM, "%s: no memory", path);
  tn_status st = map_file(part, path, err);
  if (st == TN_OK) st = tn_gguf_part_parse(part, err);
  if (st != TN_OK) tn_gguf_part_clear(part);
  return st;
}

void tn_gguf_part_clear(tn_gguf_part *part)
{
  tn_gguf_kv_clear(part);
  free(part->tensors);
  if (part->mapped) munmap((void *)(uintptr_t)part->base, part->size);
  free(part->name);
  *part = (tn_gguf_part){0};
}
