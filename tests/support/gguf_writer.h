/* gguf_writer: GGUF v3 files in memory, for tests that need a model file of a given kind, right or wrong.
 *
 * Metadata and tensors come out in the order of their first put; a second put of a key or name replaces the first, and a
 * drop removes it, so that a test starts from a good file and makes one thing wrong. A lack of memory ends the test. */
#ifndef TN_TESTS_GGUF_WRITER_H
#define TN_TESTS_GGUF_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gguf_writer gguf_writer;

gguf_writer *gguf_writer_new(void);
void gguf_writer_free(gguf_writer *w); /* accepts NULL */

void gguf_put_u32(gguf_writer *w, const char *key, uint32_t v);
void gguf_put_u64(gguf_writer *w, const char *key, uint64_t v);
void gguf_put_i32(gguf_writer *w, const char *key, int32_t v);
void gguf_put_f32(gguf_writer *w, const char *key, float v);
void gguf_put_bool(gguf_writer *w, const char *key, bool v);
void gguf_put_str(gguf_writer *w, const char *key, const char *v);
void gguf_put_bools(gguf_writer *w, const char *key, const bool *v, uint64_t n);       /* array */
void gguf_put_u32s(gguf_writer *w, const char *key, const uint32_t *v, uint64_t n);    /* array */
void gguf_put_i32s(gguf_writer *w, const char *key, const int32_t *v, uint64_t n);     /* array */
void gguf_put_f32s(gguf_writer *w, const char *key, const float *v, uint64_t n);       /* array */
void gguf_put_strs(gguf_writer *w, const char *key, const char *const *v, uint64_t n); /* array */
void gguf_drop(gguf_writer *w, const char *key);

/* A tensor of n_dims dimensions, ne[0] contiguous. data [bytes] is copied; NULL: zeros. */
void gguf_put_tensor(gguf_writer *w, const char *name, uint32_t dtype, uint32_t n_dims, const int64_t *ne,
                     const void *data, size_t bytes);
void gguf_drop_tensor(gguf_writer *w, const char *name);

/* The file's bytes, *n of them, aligned as malloc does. The caller frees them. */
void *gguf_writer_bytes(const gguf_writer *w, size_t *n);

#endif
