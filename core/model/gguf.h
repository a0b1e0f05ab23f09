/* gguf: reader of GGUF v3 files (v2 accepted), memory-mapped, single or split (-00001-of-0000N.gguf).
 *
 * Format: github.com/ggml-org/ggml docs/gguf.md. Every count, length, type, offset and alignment in the file is
 * checked before use; a file that lies is refused with a message naming the file, the field and both values.
 * The reader is immutable after open: any thread may read it. Everything returned is borrowed until tn_gguf_close. */
#ifndef TN_CORE_MODEL_GGUF_H
#define TN_CORE_MODEL_GGUF_H

#include "../base.h"

typedef struct tn_gguf tn_gguf;

/* Metadata value types, numbered as in the file. */
enum {
  TN_GGUF_U8 = 0,
  TN_GGUF_I8,
  TN_GGUF_U16,
  TN_GGUF_I16,
  TN_GGUF_U32,
  TN_GGUF_I32,
  TN_GGUF_F32,
  TN_GGUF_BOOL,
  TN_GGUF_STR,
  TN_GGUF_ARR,
  TN_GGUF_U64,
  TN_GGUF_I64,
  TN_GGUF_F64,
  TN_GGUF_N_TYPES
};

/* One metadata array. Elements are read by the accessors below, never through data. */
typedef struct tn_gguf_arr {
  uint32_t type;         /* element type; arrays of arrays are refused at open */
  uint64_t n;            /* elements */
  const uint8_t *data;   /* first element in the file */
  const uint64_t *index; /* strings only: [n] byte offset of each element's length field from data; else NULL */
} tn_gguf_arr;

/* One tensor. ne[0] is the contiguous dimension; unused dimensions are 1. */
typedef struct tn_gguf_tensor {
  tn_str name;
  uint32_t dtype;      /* TN_DT_*, as numbered in the file */
  uint32_t n_dims;     /* 1..4 */
  int64_t ne[4];       /* elements, each >= 1 */
  const uint8_t *data; /* inside the mapping, general.alignment (a power of two >= 8) from the start of its file */
  uint64_t bytes;
} tn_gguf_tensor;

/* Called while hashing, done in [0,1]; returning false cancels with TN_E_STATE. May be NULL. */
typedef bool (*tn_progress_fn)(void *ctx, double done);

/* Maps path (and its sister parts, if it is one part of a split: any of them opens all). The files must not shrink
 * while they are open. On failure *out is NULL and *err (which may be NULL) is filled:
 * TN_E_IO  cannot be opened or mapped, or is shorter than its header says      TN_E_VERSION  not version 2 or 3
 * TN_E_ARG  malformed      TN_E_UNSUPPORTED  big-endian, or a tensor type without support      TN_E_NOMEM  no memory
 * Whether the metadata makes sense for a model (block_count and the like) is not looked at here. */
tn_status tn_gguf_open(const char *path, tn_gguf **out, tn_err *err);

/* The same over bytes the caller keeps alive (tests, fuzzing). name is used in messages. A part of a split is refused,
 * for its sisters cannot be found. */
tn_status tn_gguf_open_mem(const void *bytes, size_t n, const char *name, tn_gguf **out, tn_err *err);

/* Accepts NULL. */
void tn_gguf_close(tn_gguf *g);

/* As given to open; name for a memory image. */
const char *tn_gguf_path(const tn_gguf *g);

/* Typed look-ups: true when key is there with a type that converts without loss (any integer type to u64 if >= 0,
 * any integer or float to f64; bool only as bool); false otherwise, *out untouched. The f64 of a float may be an
 * infinity or NaN. The metadata of a split is that of its first part. */
bool tn_gguf_has(const tn_gguf *g, const char *key);
bool tn_gguf_u64(const tn_gguf *g, const char *key, uint64_t *out);
bool tn_gguf_f64(const tn_gguf *g, const char *key, double *out);
bool tn_gguf_bool(const tn_gguf *g, const char *key, bool *out);
bool tn_gguf_string(const tn_gguf *g, const char *key, tn_str *out);
bool tn_gguf_array(const tn_gguf *g, const char *key, tn_gguf_arr *out);

/* Element i of an array, with the conversions of the scalar look-ups; false also where i >= a->n. */
bool tn_gguf_arr_u64(const tn_gguf_arr *a, uint64_t i, uint64_t *out);
bool tn_gguf_arr_f64(const tn_gguf_arr *a, uint64_t i, double *out);
bool tn_gguf_arr_bool(const tn_gguf_arr *a, uint64_t i, bool *out);
bool tn_gguf_arr_str(const tn_gguf_arr *a, uint64_t i, tn_str *out);

/* Walks metadata in file order: key and a one-line rendering of the value for people (`tenon model info`), long
 * strings and arrays shortened, control characters escaped, cut to buf's n bytes with the NUL. */
uint64_t tn_gguf_n_kv(const tn_gguf *g);
tn_str tn_gguf_kv_key(const tn_gguf *g, uint64_t i);
void tn_gguf_kv_render(const tn_gguf *g, uint64_t i, char *buf, size_t n);

/* Tensors in file order, those of a split part after part; find returns NULL when there is none of that name, at where
 * i is beyond the end. */
uint64_t tn_gguf_n_tensors(const tn_gguf *g);
const tn_gguf_tensor *tn_gguf_tensor_at(const tn_gguf *g, uint64_t i);
const tn_gguf_tensor *tn_gguf_tensor_find(const tn_gguf *g, const char *name);

/* Identity for fingerprints: SHA-256 over the header, the tensor table and a sample of every tensor
 * (first, middle and last 64 bytes), so that start-up does not pay for hashing the whole file. */
void tn_gguf_identity(const tn_gguf *g, uint8_t out[32]);

/* SHA-256 over what the file system says of each part: device, inode, size and time of the last change. The same files,
 * not touched since, have the same. false: a memory image. */
bool tn_gguf_files(const tn_gguf *g, uint8_t out[32]);

/* Bytes of the mapping need not stay in memory: they are read from the file again when they are looked at. Whole pages
 * only. Any thread. */
void tn_gguf_forget(const tn_gguf *g, const uint8_t *p, uint64_t bytes);

/* SHA-256 over all bytes of all parts in order: of a single file, what sha256sum prints. Reads the whole model;
 * TN_E_STATE when progress cancels. */
tn_status tn_gguf_sha256(const tn_gguf *g, tn_progress_fn progress, void *ctx, uint8_t out[32], tn_err *err);

#endif
