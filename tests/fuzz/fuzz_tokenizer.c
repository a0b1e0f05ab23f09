/* Tokenizers under arbitrary bytes. The first byte chooses:
 *   0..5  the rest is text for a small byte-level BPE, SentencePiece or unigram vocabulary (% 3), plain or with special
 *         tokens parsed (/ 3)
 *   6..   the rest is a GGUF file: loading its vocabulary works or is refused, and what works tokenizes
 * Checked: ids lie in the vocabulary; the text comes back, where no normaliser changes it; streams never split a
 * character. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tokenizer/vocab_file.h"
#include "tokenizer/tokenizer.h"
#include "utf8.h"

#define MUST(x)        \
  do {                 \
    if (!(x)) abort(); \
  } while (0)

enum { BPE, SPM, UNIGRAM };

static vocab_bytes file_of(int kind)
{
  static const char *tokens[300];
  static int32_t types[300];
  static float scores[300];
  static char names[256][3], hex[256][7];
  static const char *const merges[] = {"h e", "l l", "he ll", "hell o", "\xC4\xA0 w", "o r", "\xC3\xA3 \xC4\xA3",
                                       "1 2", "a a", "aa aa"};
  static const char *const more[] = {"<unk>", "<s>",   "</s>", "<|x|>", "[u]", "he",  "ll",
                                     "hell",  "hello", "or",   "12",    "aa",  "aaaa"};
  static const char *const marked[] = {
      "\xE2\x96\x81", "\xE2\x96\x81w", "\xE2\x96\x81\xE2\x96\x81", "o\xE2\x96\x81w", "h", "e", "l", "o", "a"};
  if (kind == BPE)
    vocab_byte_tokens(names, tokens);
  else
    vocab_hex_tokens(hex, tokens);
  size_t n = 256;
  for (size_t i = 0; i < 256; i++) types[i] = kind == BPE ? 1 : 6;
  for (size_t i = 0; i < 13; i++) {
    types[n] = i == 0 ? 2 : i < 4 ? 3 : i == 4 ? 4 : 1;
    scores[n] = -(float)i;
    tokens[n++] = more[i];
  }
  for (size_t i = 0; kind != BPE && i < 9; i++) {
    types[n] = 1;
    scores[n] = -20 - (float)i;
    tokens[n++] = marked[i];
  }
  static const char *const bpe_more[] = {"\xC4\xA0w", "\xC3\xA3\xC4\xA3"};
  for (size_t i = 0; kind == BPE && i < 2; i++) {
    types[n] = 1;
    tokens[n++] = bpe_more[i];
  }
  static const char *const models[] = {"gpt2", "llama", "t5"};
  vocab_spec s = {.model = models[kind], .tokens = tokens, .n_tokens = n, .types = types, .scores = scores};
  s.numbers[0] = (struct vocab_number){"tokenizer.ggml.bos_token_id", 257, VOCAB_U32};
  s.numbers[1] = (struct vocab_number){"tokenizer.ggml.eos_token_id", 258, VOCAB_U32};
  s.numbers[2] = (struct vocab_number){"tokenizer.ggml.unknown_token_id", 256, VOCAB_U32};
  if (kind == BPE) {
    s.pre = "llama-bpe";
    s.merges = merges;
    s.n_merges = 10;
  }
  return vocab_file(&s);
}

/* Whatever the ids and the text: a stream of pieces, and of the text, gives whole characters only. */
static void check_stream(const tn_tokenizer *t, const int32_t *ids, size_t n, const char *text, size_t n_text)
{
  tn_utf8_stream s = {0};
  size_t max = tn_token_piece_max(t);
  char *piece = malloc(max + 1), *out = malloc(TN_UTF8_FEED_MAX(max + n_text));
  MUST(piece && out);
  for (size_t i = 0; i < n; i++) {
    size_t len = tn_token_piece(t, ids[i], TN_PIECE_SPECIAL, piece, max);
    MUST(len <= max);
    size_t got = tn_utf8_feed(&s, piece, len, out);
    MUST(tn_utf8_valid(out, got) == got);
  }
  MUST(tn_utf8_flush(&s, out) <= 3);
  tn_utf8_stream whole = {0};
  size_t got = tn_utf8_feed(&whole, text, n_text, out);
  MUST(got <= TN_UTF8_FEED_MAX(n_text) && tn_utf8_valid(out, got) == got);
  free(piece);
  free(out);
}

/* exact: what went in must come out. */
static void check_text(const tn_tokenizer *t, const char *text, size_t n, uint32_t flags, bool exact)
{
  int32_t *ids;
  char *back;
  size_t n_ids, n_back;
  if (tn_tokenize(t, text, n, flags, &ids, &n_ids, NULL) != TN_OK) {
    MUST(!exact);
    return;
  }
  for (size_t i = 0; i < n_ids; i++) MUST(ids[i] >= 0 && ids[i] < tn_tokenizer_n_vocab(t));
  MUST(tn_detokenize(t, ids, n_ids, TN_PIECE_SPECIAL, &back, &n_back, NULL) == TN_OK);
  if (exact) MUST(n_back == n && memcmp(back, text, n) == 0);
  check_stream(t, ids, n_ids, back, n_back);
  free(back);
  free(ids);
}

static bool has_mark(const char *p, size_t n)
{
  for (size_t i = 0; i + 3 <= n; i++) {
    if (memcmp(p + i, "\xE2\x96\x81", 3) == 0) return true;
  }
  return false;
}

/* Loading a file works or is refused with a word; what works must take a text. */
static void check_file(const void *bytes, size_t n)
{
  static const char sample[] = "Hello <s> world's 123\n\n\xC3\xA9\xFF ok";
  tn_gguf *g;
  tn_tokenizer *t;
  tn_err err = tn_err_init();
  if (tn_gguf_open_mem(bytes, n, "fuzz.gguf", &g, &err) != TN_OK) return;
  tn_status st = tn_tokenizer_load(g, &t, &err);
  MUST(st == TN_OK ? t != NULL : t == NULL && err.msg[0] != '\0');
  uint32_t flags = TN_TOKENIZE_ADD_SPECIAL | TN_TOKENIZE_PARSE_SPECIAL;
  if (st == TN_OK) check_text(t, sample, sizeof sample - 1, flags, false);
  tn_tokenizer_free(t);
  tn_gguf_close(g);
}

/* The tokenizer of a kind, made once. */
static const tn_tokenizer *small(int kind)
{
  static vocab_bytes bytes[3];
  static tn_gguf *g[3];
  static tn_tokenizer *t[3];
  if (t[kind]) return t[kind];
  bytes[kind] = file_of(kind);
  MUST(tn_gguf_open_mem(bytes[kind].p, bytes[kind].n, "small.gguf", &g[kind], NULL) == TN_OK);
  MUST(tn_tokenizer_load(g[kind], &t[kind], NULL) == TN_OK);
  return t[kind];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (size == 0) return 0;
  const char *rest = (const char *)data + 1;
  if (data[0] >= 6) {
    check_file(rest, size - 1);
    return 0;
  }
  int kind = data[0] % 3;
  bool exact = kind == BPE || !has_mark(rest, size - 1); /* the mark is read back as a space */
  check_text(small(kind), rest, size - 1, data[0] < 3 ? 0 : TN_TOKENIZE_PARSE_SPECIAL, exact);
  return 0;
}
