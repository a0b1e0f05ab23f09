/* tok_int: what the files of the tokenizer share. Private to core/tokenizer and its tests. */
#ifndef TN_CORE_TOKENIZER_TOK_INT_H
#define TN_CORE_TOKENIZER_TOK_INT_H

#include "pretok.h"
#include "tokenizer.h"
#include "trie.h"

enum { TN_TOK_BPE, TN_TOK_SPM, TN_TOK_UNIGRAM };

/* Marks of a token besides its type. */
enum {
  TN_MARK_EOG = 1u << 0,   /* ends generation */
  TN_MARK_RSTRIP = 1u << 1 /* swallows the white space after it */
};

/* Hash from text to id, open addressing over texts that the file keeps. Half full at most. */
typedef struct tn_vocab_index {
  struct tn_vocab_slot {
    uint32_t tag; /* upper half of the hash */
    int32_t id;   /* TN_TOKEN_NONE: free */
  } * slot;       /* [mask + 1], owned */
  size_t mask;
} tn_vocab_index;

/* Byte pair merges: rank r joins tokens left and right to made. Hash from a pair to its rank. */
typedef struct tn_merges {
  struct tn_merge {
    int32_t left, right, made;
  } * at;         /* [n], owned, by rank */
  uint32_t *slot; /* [mask + 1], owned; rank, or TN_NO_MERGE: free */
  size_t n, mask;
} tn_merges;
#define TN_NO_MERGE UINT32_MAX

/* Normaliser table of SentencePiece: a double array over byte strings, whose leaves give offsets of replacements. */
typedef struct tn_charsmap {
  uint32_t *unit; /* [n_units], owned */
  char *text;     /* [text_n], owned; NUL-terminated replacements */
  size_t n_units, text_n;
} tn_charsmap;

struct tn_tokenizer {
  int model;            /* TN_TOK_* */
  const tn_pretok *pre; /* BPE: row of the table; else NULL */
  tn_pretok_code code;  /* BPE: its compiled patterns */
  int32_t n_vocab;
  tn_str *text;    /* [n_vocab], owned array of borrowed texts */
  uint8_t *type;   /* [n_vocab] TN_TOKEN_* */
  uint8_t *mark;   /* [n_vocab] TN_MARK_* */
  float *score;    /* [n_vocab], finite; NULL for BPE */
  size_t max_text; /* longest text, bytes */
  tn_vocab_index index;
  int32_t byte_id[256]; /* token of a byte, or TN_TOKEN_NONE */
  int32_t bos, eos, eot, eom, unk, pad;
  bool add_bos, add_eos;
  bool space_prefix; /* SentencePiece: a space before the first word and after special tokens */
  bool trim_spaces;  /* SentencePiece: outer spaces go, inner runs become one */
  bool has_user_defined;
  tn_trie special;        /* control, user-defined and unknown tokens, by text */
  tn_merges merges;       /* BPE */
  int32_t replacement[3]; /* BPE: [n_replacement] tokens of U+FFFD */
  size_t n_replacement;
  bool
      space_after[256]; /* SPM: true where some token has a space mark right after a character that ends in this byte */
  tn_trie pieces;       /* unigram: what the search may use */
  double unknown_score; /* unigram: cost of a character that no piece covers */
  tn_charsmap charsmap; /* may be empty */
};

/* The mark that SentencePiece writes for a space, U+2581. */
#define TN_SPACE_MARK "\xE2\x96\x81"
#define TN_SPACE_MARK_N ((size_t)3)

/* One symbol of a word under merging: a run of the word's bytes. Linked, as merging removes symbols. */
typedef struct tn_tok_sym {
  uint32_t off, n;     /* bytes of the word; n == 0: merged away */
  uint32_t prev, next; /* TN_SYM_END at the ends */
  int32_t id;          /* its token, TN_TOKEN_NONE while not known */
} tn_tok_sym;
#define TN_SYM_END UINT32_MAX

/* A merge that waits: lowest key first. */
typedef struct tn_tok_cand {
  uint64_t key; /* rank or turned-round score in the upper half, position in the lower: of equals, the leftmost */
  uint32_t n;   /* SPM: bytes of the joined symbol */
  int32_t id;   /* SPM: token of the joined symbol; BPE: rank */
} tn_tok_cand;

/* Unigram search: the best way to the byte position that the entry stands for. */
typedef struct tn_tok_best {
  double score;
  uint32_t from, to; /* where its last piece begins; where the best way through here goes on */
  int32_t id;        /* its last piece, TN_TOKEN_NONE: a character that no piece covers */
} tn_tok_best;

/* One tokenize call. */
typedef struct tn_tok_job {
  const tn_tokenizer *t;
  tn_err *err;
  int32_t *ids; /* [n_ids] result so far, owned */
  size_t n_ids, ids_cap;
  bool in_unknown; /* the last token stands for characters that no piece covers */
  char *text;      /* [text_n] normalised text, owned */
  size_t text_n, text_cap;
  tn_tok_sym *sym;
  size_t sym_cap;
  tn_tok_cand *heap; /* [heap_n] binary heap */
  size_t heap_n, heap_cap;
  tn_tok_best *best; /* unigram search, one a byte of the text and one for its end */
  size_t best_cap;
  tn_pretok_scratch match;
} tn_tok_job;

/* tokenizer.c: a string of the file fit for a message: cut to size, with '?' for what does not print. Returns buf. */
enum { TN_SHOWN = 64 };
char *tn_tok_show(tn_str s, char buf[TN_SHOWN]);

/* vocab.c: reads texts, types and scores, and builds the index. */
tn_status tn_vocab_read(tn_tokenizer *t, const tn_gguf *g, tn_err *err);
void tn_vocab_clear(tn_tokenizer *t);
int32_t tn_vocab_find(const tn_tokenizer *t, const char *p, size_t n);
uint64_t tn_hash_bytes(const char *p, size_t n);

/* Room in slots for n entries at half load; false when it overflows. Longest walk that a table may need. */
bool tn_hash_room(size_t n, size_t *slots);
enum { TN_PROBE_MAX = 1024 };

/* special.c: named ids, end-of-generation marks, and the trie of special tokens. */
tn_status tn_special_read(tn_tokenizer *t, const tn_gguf *g, tn_err *err);

/* bytes.c: the alphabet of byte-level BPE, where every byte is a printable character. */
uint32_t tn_byte_char(uint8_t byte);
int tn_char_byte(uint32_t cp); /* -1 for a character outside the alphabet */

/* merges.c */
tn_status tn_merges_read(tn_tokenizer *t, const tn_gguf *g, tn_err *err);
void tn_merges_clear(tn_merges *m);
uint32_t tn_merges_find(const tn_merges *m, int32_t left, int32_t right);

/* charsmap.c: reads tokenizer.ggml.precompiled_charsmap, leaving *c empty when the file has none. */
tn_status tn_charsmap_read(tn_charsmap *c, const tn_gguf *g, tn_err *err);
void tn_charsmap_clear(tn_charsmap *c);
/* Longest entry that begins p[0, n): its length, and the replacement in *out; 0 when none does. */
size_t tn_charsmap_match(const tn_charsmap *c, const char *p, size_t n, tn_str *out);

/* bpe.c, spm.c, unigram.c: what a model needs beyond the vocabulary, and the encoding of text without special tokens.
 * first: the text begins the sequence or follows a special token. */
tn_status tn_bpe_read(tn_tokenizer *t, const tn_gguf *g, tn_err *err);
tn_status tn_bpe_word(tn_tok_job *job, const char *p, size_t n);
tn_status tn_bpe_text(tn_tok_job *job, const char *p, size_t n);
tn_status tn_spm_read(tn_tokenizer *t, const tn_gguf *g, tn_err *err);
tn_status tn_spm_text(tn_tok_job *job, const char *p, size_t n);
tn_status tn_unigram_read(tn_tokenizer *t, const tn_gguf *g, tn_err *err);
tn_status tn_unigram_text(tn_tok_job *job, const char *p, size_t n);

/* normalise.c: p[0, n) as SentencePiece writes it, into job->text. */
tn_status tn_normalise(tn_tok_job *job, const char *p, size_t n);

/* encode.c: appends to the result; TN_E_NOMEM. */
tn_status tn_job_push(tn_tok_job *job, int32_t id);
/* The tokens of bytes that no piece covers: their byte tokens; else U+FFFD's where the model is byte-level; else the
 * unknown token, one for a run of them; else TN_E_UNSUPPORTED. */
tn_status tn_job_push_bytes(tn_tok_job *job, const char *p, size_t n);
/* a, grown to hold need elements of the given size, or NULL (a stays valid). cap is the room it has. */
void *tn_job_grow(void *a, size_t *cap, size_t need, size_t size);
tn_status tn_job_nomem(tn_tok_job *job);
void tn_job_clear(tn_tok_job *job); /* frees the scratch, not the result */

/* heap.c: candidates by key. Room for them is reserved beforehand: a word of n symbols never queues over 3 n. */
void tn_heap_push(tn_tok_job *job, tn_tok_cand c);
tn_tok_cand tn_heap_pop(tn_tok_job *job);

#endif
