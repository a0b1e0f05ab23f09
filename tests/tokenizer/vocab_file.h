/* vocab_file: small GGUF files that hold a vocabulary and nothing else, for tests and fuzzing. Header only, so that a
 * fuzz target can use it. A lack of memory ends the program. */
#ifndef TN_TESTS_VOCAB_FILE_H
#define TN_TESTS_VOCAB_FILE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What the file says. A NULL or zero member leaves its key out; n_x overrides the count that a list is written with. */
typedef struct vocab_spec {
  const char *model, *pre, *name;
  const char *const *tokens; /* [n_tokens] */
  size_t n_tokens;
  const int32_t *types; /* [n_types], n_tokens by default */
  size_t n_types;
  const float *scores; /* [n_scores], n_tokens by default */
  size_t n_scores;
  const char *const *merges; /* [n_merges] */
  size_t n_merges;
  const uint8_t *charsmap; /* [n_charsmap] */
  size_t n_charsmap;
  struct vocab_number {
    const char *key;
    uint32_t value;
    enum { VOCAB_U32, VOCAB_I32, VOCAB_BOOL, VOCAB_U8_SCORES } type; /* U8_SCORES: scores as uint8 0, 1, 2, ... */
  } numbers[8];
} vocab_spec;

typedef struct vocab_bytes {
  uint8_t *p;
  size_t n;
} vocab_bytes;

static inline void vocab_put(vocab_bytes *b, const void *p, size_t n)
{
  b->p = realloc(b->p, b->n + n + 1);
  if (!b->p) abort();
  if (n) memcpy(b->p + b->n, p, n);
  b->n += n;
}

static inline void vocab_put_u32(vocab_bytes *b, uint32_t v) { vocab_put(b, &v, sizeof v); }
static inline void vocab_put_u64(vocab_bytes *b, uint64_t v) { vocab_put(b, &v, sizeof v); }

static inline void vocab_put_text(vocab_bytes *b, const char *s)
{
  vocab_put_u64(b, strlen(s));
  vocab_put(b, s, strlen(s));
}

/* Begins an entry and counts it in the header. */
static inline void vocab_key(vocab_bytes *b, const char *key, uint32_t type)
{
  uint64_t n;
  memcpy(&n, b->p + 16, sizeof n);
  n++;
  memcpy(b->p + 16, &n, sizeof n);
  vocab_put_text(b, key);
  vocab_put_u32(b, type);
}

static inline void vocab_string(vocab_bytes *b, const char *key, const char *s)
{
  if (!s) return;
  vocab_key(b, key, 8);
  vocab_put_text(b, s);
}

static inline void vocab_list(vocab_bytes *b, const char *key, uint32_t type, size_t n)
{
  vocab_key(b, key, 9);
  vocab_put_u32(b, type);
  vocab_put_u64(b, n);
}

static inline void vocab_strings(vocab_bytes *b, const char *key, const char *const *s, size_t n)
{
  if (!s) return;
  vocab_list(b, key, 8, n);
  for (size_t i = 0; i < n; i++) vocab_put_text(b, s[i]);
}

static inline void vocab_number_out(vocab_bytes *b, const struct vocab_number *x, size_t n_tokens)
{
  uint8_t byte = (uint8_t)x->value;
  switch (x->type) {
    case VOCAB_BOOL:
      vocab_key(b, x->key, 7);
      vocab_put(b, &byte, 1);
      break;
    case VOCAB_U8_SCORES:
      vocab_list(b, x->key, 0, n_tokens);
      for (size_t i = 0; i < n_tokens; i++) {
        byte = (uint8_t)i;
        vocab_put(b, &byte, 1);
      }
      break;
    default:
      vocab_key(b, x->key, x->type == VOCAB_I32 ? 5 : 4);
      vocab_put_u32(b, x->value);
      break;
  }
}

/* The file. The caller frees p. */
static inline vocab_bytes vocab_file(const vocab_spec *s)
{
  vocab_bytes b = {NULL, 0};
  vocab_put(&b, "GGUF", 4);
  vocab_put_u32(&b, 3);
  vocab_put_u64(&b, 0); /* tensors */
  vocab_put_u64(&b, 0); /* entries, counted by vocab_key */
  vocab_string(&b, "general.name", s->name);
  vocab_string(&b, "tokenizer.ggml.model", s->model);
  vocab_string(&b, "tokenizer.ggml.pre", s->pre);
  vocab_strings(&b, "tokenizer.ggml.tokens", s->tokens, s->n_tokens);
  if (s->types) {
    size_t n = s->n_types ? s->n_types : s->n_tokens;
    vocab_list(&b, "tokenizer.ggml.token_type", 5, n);
    vocab_put(&b, s->types, n * sizeof *s->types);
  }
  if (s->scores) {
    size_t n = s->n_scores ? s->n_scores : s->n_tokens;
    vocab_list(&b, "tokenizer.ggml.scores", 6, n);
    vocab_put(&b, s->scores, n * sizeof *s->scores);
  }
  vocab_strings(&b, "tokenizer.ggml.merges", s->merges, s->n_merges);
  if (s->charsmap) {
    vocab_list(&b, "tokenizer.ggml.precompiled_charsmap", 0, s->n_charsmap);
    vocab_put(&b, s->charsmap, s->n_charsmap);
  }
  for (size_t i = 0; i < sizeof s->numbers / sizeof *s->numbers && s->numbers[i].key; i++) {
    vocab_number_out(&b, &s->numbers[i], s->n_tokens);
  }
  return b;
}

/* The 256 tokens of a byte-level vocabulary, in the order of the bytes, into tokens[256], spelled in store. */
static inline void vocab_byte_tokens(char store[256][3], const char **tokens)
{
  unsigned next = 0x100;
  for (unsigned b = 0; b < 256; b++) {
    int prints = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    unsigned cp = prints ? b : next++;
    store[b][0] = (char)(cp < 0x80 ? cp : 0xC0u | cp >> 6);
    store[b][1] = (char)(cp < 0x80 ? 0 : 0x80u | (cp & 0x3Fu));
    store[b][2] = 0;
    tokens[b] = store[b];
  }
}

/* The 256 byte tokens of SentencePiece, <0x00> to <0xFF>, likewise. */
static inline void vocab_hex_tokens(char store[256][7], const char **tokens)
{
  static const char hex[] = "0123456789ABCDEF";
  for (unsigned b = 0; b < 256; b++) {
    char text[7] = {'<', '0', 'x', hex[b >> 4], hex[b & 15], '>', 0};
    memcpy(store[b], text, sizeof text);
    tokens[b] = store[b];
  }
}

#endif
