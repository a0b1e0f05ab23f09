/* pretok: cuts text into the words that byte-level BPE works on, by the patterns that tokenizer.ggml.pre names.
 *
 * Steps are applied one after the other: each cuts every word that the steps before it left, and the text between two
 * matches stays a word of its own. A word is matched as a text of its own, so that look-ahead sees its end. */
#ifndef TN_CORE_TOKENIZER_PRETOK_H
#define TN_CORE_TOKENIZER_PRETOK_H

#include "../base.h"

enum { TN_PRETOK_STEPS = 6 };

typedef struct tn_pretok {
  const char *name;                  /* value of tokenizer.ggml.pre */
  const char *step[TN_PRETOK_STEPS]; /* regular expressions, ended by NULL. One that begins with TN_PRETOK_THREES cuts
                                        each of its matches into threes from the right */
  bool ignore_merges;                /* a word that is a token as it stands is not merged */
  bool add_bos;                      /* default of tokenizer.ggml.add_bos_token */
  bool clean_spaces;                 /* see TN_PIECE_CLEAN_SPACES */
} tn_pretok;
#define TN_PRETOK_THREES '\1'

/* The row of that name, or NULL with *nearest the name most like it (NULL when none is near). Static storage. */
const tn_pretok *tn_pretok_find(tn_str name, const char **nearest);

/* Rows of the table, for tests; NULL at the end. */
const tn_pretok *tn_pretok_at(size_t i);

/* Compiled steps of one row. Immutable: any thread may match with it. */
typedef struct tn_pretok_code {
  struct tn_pretok_step {
    void *re; /* pcre2_code */
    bool threes;
  } step[TN_PRETOK_STEPS];
  size_t n;
  void *limits; /* pcre2_match_context */
} tn_pretok_code;

/* TN_E_NOMEM, or TN_E_INTERNAL for a pattern that the library does not take. Free with tn_pretok_clear. */
tn_status tn_pretok_compile(const tn_pretok *p, tn_pretok_code *code, tn_err *err);

/* Accepts an empty one. */
void tn_pretok_clear(tn_pretok_code *code);

/* What one call matches with; zero-initialised, cleared after use. */
typedef struct tn_pretok_scratch {
  void *match; /* pcre2_match_data */
} tn_pretok_scratch;
void tn_pretok_scratch_clear(tn_pretok_scratch *s);

/* Calls word for every word of text[0, n), left to right; they cover the text. The text must be valid UTF-8. Stops at
 * the first status that is not TN_OK and returns it. TN_E_NOMEM; TN_E_UNSUPPORTED when a pattern gives up on the text. */
typedef tn_status (*tn_pretok_word)(void *ctx, const char *p, size_t n);
tn_status tn_pretok_split(const tn_pretok_code *code, tn_pretok_scratch *s, const char *text, size_t n,
                          tn_pretok_word word, void *ctx, tn_err *err);

#endif
