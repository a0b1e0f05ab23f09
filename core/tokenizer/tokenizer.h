/* tokenizer: text to token ids and back, from a GGUF file's metadata.
 *
 * Three models, as tokenizer.ggml.model names them:
 *   gpt2   byte-level BPE, cut into words first by the patterns that tokenizer.ggml.pre names (pretok_table.c)
 *   llama  SentencePiece BPE by scores, with byte fallback
 *   t5     SentencePiece unigram, with the normaliser of tokenizer.ggml.precompiled_charsmap
 * Any other model or pattern name, and any list that does not fit the vocabulary, is refused at load.
 *
 * Threads: a loaded tokenizer never changes; any number of threads may use it at once, every call allocates its own
 * scratch. Ownership: the tokenizer borrows token texts from the tn_gguf, which must outlive it.
 *
 * Text that is not UTF-8: no call fails for it. Bytes that are no part of a valid character are tokenized apart from
 * the text around them, as their own byte tokens, so that detokenizing gives them back; a byte-level vocabulary that
 * lacks such a byte's token gets U+FFFD in its place. */
#ifndef TN_CORE_TOKENIZER_TOKENIZER_H
#define TN_CORE_TOKENIZER_TOKENIZER_H

#include "../base.h"
#include "../model/gguf.h"

typedef struct tn_tokenizer tn_tokenizer;

#define TN_TOKEN_NONE (-1)
#define TN_TEXT_MAX ((size_t)1 << 29) /* longest text that tokenize takes, bytes */

/* Token types, numbered as in the file. */
enum {
  TN_TOKEN_UNDEFINED = 0,
  TN_TOKEN_NORMAL = 1,
  TN_TOKEN_UNKNOWN = 2,
  TN_TOKEN_CONTROL = 3,
  TN_TOKEN_USER_DEFINED = 4,
  TN_TOKEN_UNUSED = 5,
  TN_TOKEN_BYTE = 6
};

/* Reads the vocabulary. On failure *out is NULL and *err names the file, the key and both values:
 * TN_E_UNSUPPORTED for a model or pre-tokenizer that is not known, TN_E_ARG for a faulty list, TN_E_NOMEM. */
tn_status tn_tokenizer_load(const tn_gguf *g, tn_tokenizer **out, tn_err *err);

/* Accepts NULL. */
void tn_tokenizer_free(tn_tokenizer *t);

enum {
  TN_TOKENIZE_ADD_SPECIAL = 1u << 0,  /* BOS before and EOS after, where the file asks for them */
  TN_TOKENIZE_PARSE_SPECIAL = 1u << 1 /* control tokens spelled in the text become themselves; without it they are
                                         plain text. User-defined tokens are found either way */
};

/* Tokenizes text[0, n). *ids is owned by the caller, free with free(); it is NULL when *n_ids is 0 or on failure.
 * TN_E_ARG for a text over TN_TEXT_MAX, TN_E_UNSUPPORTED for a character that the vocabulary cannot express at all,
 * TN_E_NOMEM. */
tn_status tn_tokenize(const tn_tokenizer *t, const char *text, size_t n, uint32_t flags, int32_t **ids, size_t *n_ids,
                      tn_err *err);

typedef struct tn_span { /* bytes [from, to) of a text */
  size_t from, to;
} tn_span;

/* The same for a text of which parts are not trusted: plain[n_plain], ascending and apart, borrowed until return. A token
 * that stands for structure is parsed only where none of its bytes lies in one of them: control tokens, and user-defined
 * ones that are spelled as markup ("<|start|>"). Without such tokens in the parts, the ids are those of tn_tokenize. */
tn_status tn_tokenize_spans(const tn_tokenizer *t, const char *text, size_t n, uint32_t flags, const tn_span *plain,
                            size_t n_plain, int32_t **ids, size_t *n_ids, tn_err *err);

enum {
  TN_PIECE_SPECIAL = 1u << 0,     /* control and unknown tokens give their text; without it they give nothing */
  TN_PIECE_CLEAN_SPACES = 1u << 1 /* detokenize: close up spaces before punctuation and English contractions, where the
                                     pre-tokenizer is one that asks for it */
};

/* Bytes of one token, as they stand in the text: at most cap of them are written to buf. Returns how many there are,
 * 0 for an id outside the vocabulary. They may end inside a character: see tn_utf8_stream. */
size_t tn_token_piece(const tn_tokenizer *t, int32_t id, uint32_t flags, char *buf, size_t cap);

/* Room that every piece fits in, bytes. */
size_t tn_token_piece_max(const tn_tokenizer *t);

/* Joins pieces, and takes away the space that tokenize put before the first word and after special tokens, where the
 * file asks for that prefix. Inverse of tn_tokenize for text that the vocabulary's normaliser leaves alone.
 * *text is owned by the caller, NUL-terminated, free with free(); NULL on failure. TN_E_ARG for an id outside the
 * vocabulary, TN_E_NOMEM. */
tn_status tn_detokenize(const tn_tokenizer *t, const int32_t *ids, size_t n_ids, uint32_t flags, char **text, size_t *n,
                        tn_err *err);

/* Tokens in the vocabulary. */
int32_t tn_tokenizer_n_vocab(const tn_tokenizer *t);

/* Ids of the named tokens, TN_TOKEN_NONE where the file has none. */
int32_t tn_tokenizer_bos(const tn_tokenizer *t);
int32_t tn_tokenizer_eos(const tn_tokenizer *t);
int32_t tn_tokenizer_eot(const tn_tokenizer *t); /* end of a chat turn */
int32_t tn_tokenizer_unk(const tn_tokenizer *t);
int32_t tn_tokenizer_pad(const tn_tokenizer *t);

/* Whether ADD_SPECIAL puts the token there. */
bool tn_tokenizer_adds_bos(const tn_tokenizer *t);
bool tn_tokenizer_adds_eos(const tn_tokenizer *t);

/* True for a token that ends generation: EOS, end of turn, and the others that the file or their names tell. */
bool tn_token_is_eog(const tn_tokenizer *t, int32_t id);

/* TN_TOKEN_*; UNDEFINED for an id outside the vocabulary. */
int32_t tn_token_type(const tn_tokenizer *t, int32_t id);

/* A token's text as the file spells it (byte-level and SentencePiece spellings included), borrowed from the file;
 * empty for an id outside the vocabulary. */
tn_str tn_token_text(const tn_tokenizer *t, int32_t id);

/* The token spelled so in the file, or TN_TOKEN_NONE. Of two tokens with one text, the lower id. */
int32_t tn_token_find(const tn_tokenizer *t, const char *text, size_t n);

/* "gpt2", "llama" or "t5"; and the pre-tokenizer's name, "" without one. Borrowed until tn_tokenizer_free. */
const char *tn_tokenizer_model(const tn_tokenizer *t);
const char *tn_tokenizer_pre(const tn_tokenizer *t);

#endif
