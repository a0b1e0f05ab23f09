/* gguf_bytes: GGUF files byte by byte, for tests of the reader that need files which lie. (For sound files there is
 * tests/support/gguf_writer.h.) A lack of memory ends the test. */
#ifndef TN_TESTS_GGUF_BYTES_H
#define TN_TESTS_GGUF_BYTES_H

#include "model/gguf.h"

typedef struct gguf_bytes {
  uint8_t *p; /* [n], owned */
  size_t n;
} gguf_bytes;

void gb_raw(gguf_bytes *b, const void *p, size_t n); /* p NULL: zeros */
void gb_u8(gguf_bytes *b, uint8_t v);
void gb_u32(gguf_bytes *b, uint32_t v);
void gb_u64(gguf_bytes *b, uint64_t v);
void gb_f32(gguf_bytes *b, float v);
void gb_str(gguf_bytes *b, const char *s); /* length and bytes */
void gb_align(gguf_bytes *b, size_t to);   /* zeros up to a multiple of to */

/* Magic, version 3, counts. */
void gb_head(gguf_bytes *b, uint64_t n_tensors, uint64_t n_kv);

/* Key and type word; the value follows. */
void gb_key(gguf_bytes *b, const char *key, uint32_t type);

/* Type and count of an array; the elements follow. */
void gb_array(gguf_bytes *b, uint32_t type, uint64_t n);

/* An entry of the tensor table. */
void gb_tensor(gguf_bytes *b, const char *name, uint32_t n_dims, const uint64_t *ne, uint32_t dtype, uint64_t offset);

/* Writes the bytes to path. */
void gb_save(const gguf_bytes *b, const char *path);

void gb_free(gguf_bytes *b);

/* Opens exactly these bytes, in a block of their own so that a sanitizer sees a read beyond them. *copy must be freed
 * after the reader is closed. */
tn_status gb_open(const gguf_bytes *b, tn_gguf **out, void **copy, tn_err *err);

/* True when the bytes are refused with that code and all the words (separated by '|') are in the message; else says on
 * stderr what came instead. Frees b. */
bool gb_refused(gguf_bytes *b, tn_status code, const char *words);

/* True when the bytes open. Frees b. */
bool gb_opens(gguf_bytes *b);

#endif
