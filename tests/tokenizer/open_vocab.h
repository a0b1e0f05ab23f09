/* open_vocab: opens a vocabulary for a test, and reads the golden files of tests/data/tokenizer. */
#ifndef TN_TESTS_OPEN_VOCAB_H
#define TN_TESTS_OPEN_VOCAB_H

#include "tokenizer/tok_int.h"
#include "vocab_file.h"

typedef struct vocab {
  void *bytes; /* the file, when it was made in memory */
  tn_gguf *g;
  tn_tokenizer *t;
} vocab;

/* A file under tests/data/tokenizer. Fails the test when it does not load. */
vocab vocab_open(const char *name);

/* A model under models/, or skips the test with a word when it is not there. */
vocab vocab_open_model(const char *name);

/* A made file. Fails the test when it does not load. */
vocab vocab_make(const vocab_spec *s);

/* Status of loading a made file, which must fail; the message goes to *err. */
tn_status vocab_refused(const vocab_spec *s, tn_err *err);

void vocab_close(vocab *v);

/* Ids of text[0, n) as "1 2 3"; "error: ..." when it fails. The caller frees it. */
char *vocab_ids(const tn_tokenizer *t, const char *text, size_t n, uint32_t flags);

/* Asserts that text (a C string) gives the ids. */
void vocab_expect(const tn_tokenizer *t, const char *text, uint32_t flags, const char *ids);

/* Asserts that detokenize gives back text[0, n). */
void vocab_round_trip(const tn_tokenizer *t, const char *text, size_t n);

/* Calls each with the three columns of every line: key, the text's bytes, the ids. Returns the lines. */
typedef void (*golden_fn)(void *ctx, const char *key, const char *text, size_t n, const char *ids);
size_t golden_each(const char *name, golden_fn each, void *ctx);

/* Asserts the ids of every line of a golden file whose key is the flags. */
void golden_expect(const tn_tokenizer *t, const char *name);

/* A whole file under tests/data, NUL-terminated. The caller frees it. */
char *data_read(const char *name, size_t *n);

/* Asserts the ids of <name>.inp against the lines of <name>.out. */
void vectors_expect(const tn_tokenizer *t, const char *name);

#endif
