/* tiny_model: small model files of every architecture, made in memory, with weights from a fixed sequence.
 *
 * They have the shape of real ones and nothing else (no tokenizer): for tests of whatever needs a model to open, build or
 * run. tests/data/tiny holds models with golden logits. */
#ifndef TN_TESTS_TINY_MODEL_H
#define TN_TESTS_TINY_MODEL_H

#include "gguf_writer.h"
#include "model/model.h"

typedef struct tiny_spec {
  const char *arch;                                           /* NULL: "llama" */
  uint32_t layers, d, heads, kv_heads, dh, ff, vocab, window; /* 0: 3, 64, 4, 2, 16, 128, 96, none */
  bool head;                                                  /* an output.weight of its own; else tied */
  bool biases;                                                /* on every projection */
  uint32_t dtype; /* of matrices: TN_DT_F32, TN_DT_Q8_0 or TN_DT_Q4_0 (d, ff multiples of 32) */
} tiny_spec;

/* The complete file, still open for changes. */
gguf_writer *tiny_writer(const tiny_spec *spec);

/* Opens the writer's file; the writer is freed. *bytes must be kept until the model is closed, then freed.
 * NULL and *err on failure (*bytes is to be freed all the same). */
tn_model *tiny_open_writer(gguf_writer *w, void **bytes, tn_err *err);

/* Both, for a spec that must open: ends the test otherwise. */
tn_model *tiny_open(const tiny_spec *spec, void **bytes);

/* A SentencePiece vocabulary for a file that an engine opens by its path: three control tokens, the bytes, and pieces that
 * nobody would write. n: as many as the model's, at least 259. */
void tiny_put_tokenizer(gguf_writer *w, uint32_t n);

/* Writes the file under a name of its own in /tmp, for the caller to unlink; the writer is freed. */
enum { TINY_PATH = 40 };
void tiny_write(gguf_writer *w, char path[TINY_PATH]);

/* One KV group for each class of layers, ROTATED, entries of dtype (TN_DT_F16 in an engine), of KV heads
 * [kv_head0, kv_head0 + n_kv_heads); group c uses pool c: what the engine makes when nothing is evicted. *n groups; free
 * with tiny_groups_free. */
tn_kv_group **tiny_groups(const tn_model *m, uint32_t kv_head0, uint32_t n_kv_heads, uint32_t dtype, uint32_t *n);
void tiny_groups_free(tn_kv_group **groups, uint32_t n);

#endif
