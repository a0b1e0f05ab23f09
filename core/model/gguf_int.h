/* gguf_int: what the files of the GGUF reader share. Private to gguf*.c and their tests. */
#ifndef TN_CORE_MODEL_GGUF_INT_H
#define TN_CORE_MODEL_GGUF_INT_H

#include "gguf.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the reader maps little-endian files as they are");

/* One metadata entry. Everything but arr.index borrows from the mapping. */
typedef struct tn_gguf_kv {
  tn_str key;
  uint32_t type;       /* TN_GGUF_* */
  const uint8_t *data; /* numbers and bool: the value, unaligned */
  tn_str str;          /* TN_GGUF_STR */
  tn_gguf_arr arr;     /* TN_GGUF_ARR; arr.index is owned by the entry */
} tn_gguf_kv;

/* Names sorted by bytes, so that look-up and the search for duplicates cost n log n whatever the file says
 * (a hash table would let a crafted file make them quadratic). */
typedef struct tn_gguf_names {
  struct tn_gguf_name {
    tn_str name; /* borrowed */
    uint64_t i;  /* position in the file */
  } * e;         /* [n], owned */
  size_t n;
} tn_gguf_names;

/* One file of a model: bytes, and what its header says. */
typedef struct tn_gguf_part {
  char *name;          /* owned; path, or the caller's word for a memory image */
  const uint8_t *base; /* [size] */
  size_t size;
  bool mapped;      /* base is ours to unmap */
  uint64_t file[5]; /* mapped: device, inode, size, seconds and nanoseconds of the last change */
  uint32_t version;
  uint64_t n_kv, n_tensors;
  tn_gguf_kv *kv;          /* [n_kv], owned */
  tn_gguf_names keys;      /* over kv */
  tn_gguf_tensor *tensors; /* [n_tensors], owned until moved to tn_gguf */
  size_t meta_bytes;       /* header, metadata and tensor table: base[0, meta_bytes) */
} tn_gguf_part;

struct tn_gguf {
  char *path;          /* owned; as given to open */
  tn_gguf_part *parts; /* [n_parts], in the order of split.no; metadata is that of parts[0] */
  size_t n_parts;
  tn_gguf_tensor *tensors; /* [n_tensors], of all parts in order */
  uint64_t n_tensors;
  tn_gguf_names names; /* over tensors */
};

/* Reading position in the header of one part. */
typedef struct tn_gguf_cursor {
  const tn_gguf_part *part;
  size_t pos; /* <= part->size */
  tn_err *err;
} tn_gguf_cursor;

/* gguf_cursor.c: fails with "name: text"; a long name is shown by its end. */
tn_status tn_gguf_fail(const tn_gguf_part *p, tn_err *err, tn_status code, const char *fmt, ...) TN_PRINTF(4, 5);

/* Name or key fit for a message: at most 64 bytes, anything but printable ASCII shown as '?'. Returns buf. */
const char *tn_gguf_show(tn_str s, char buf[72]);

/* The next n bytes into *p. what names them in the message. TN_E_IO when the file ends before. */
tn_status tn_gguf_take(tn_gguf_cursor *c, uint64_t n, const char *what, const uint8_t **p);
tn_status tn_gguf_take_u32(tn_gguf_cursor *c, const char *what, uint32_t *out);
tn_status tn_gguf_take_u64(tn_gguf_cursor *c, const char *what, uint64_t *out);
tn_status tn_gguf_take_str(tn_gguf_cursor *c, const char *what, tn_str *out);

/* gguf_kv.c: bytes of a number or bool; 0 for strings, arrays and unknown types. */
size_t tn_gguf_type_size(uint32_t type);

/* gguf_kv.c: reads part->n_kv entries into part->kv and part->keys. What was read is freed with the part. */
tn_status tn_gguf_read_kv(tn_gguf_part *part, tn_gguf_cursor *c);
void tn_gguf_kv_clear(tn_gguf_part *part);
const tn_gguf_kv *tn_gguf_kv_find(const tn_gguf_part *part, const char *key);

/* gguf_value.c: the typed look-ups on one entry (which may be NULL). */
bool tn_gguf_kv_u64(const tn_gguf_kv *kv, uint64_t *out);

/* gguf_tensor.c: reads part->n_tensors infos into part->tensors and checks them against the file. */
tn_status tn_gguf_read_tensors(tn_gguf_part *part, tn_gguf_cursor *c);

/* gguf_names.c: takes n names by get(ctx, i). *dup is the position of a name that came before, or UINT64_MAX. */
tn_status tn_gguf_names_build(tn_gguf_names *x, size_t n, tn_str (*get)(const void *ctx, uint64_t i), const void *ctx,
                              uint64_t *dup);
void tn_gguf_names_clear(tn_gguf_names *x);

/* Position of name in the file, or UINT64_MAX. */
uint64_t tn_gguf_names_find(const tn_gguf_names *x, const char *name);

/* gguf_part.c: parses part->base; part is empty but for name, base, size, mapped. */
tn_status tn_gguf_part_parse(tn_gguf_part *part, tn_err *err);

/* gguf_part.c: maps and parses the file. On failure the part is clear. */
tn_status tn_gguf_part_open(tn_gguf_part *part, const char *path, tn_err *err);
void tn_gguf_part_clear(tn_gguf_part *part);

#endif
