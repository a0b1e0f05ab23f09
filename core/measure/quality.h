/* quality: perplexity of a composed engine on a text, and how far its laws are from those of a reference: another
 * composition that runs beside it, or a recorded base.
 *
 * The text is cut into chunks of n_ctx tokens; what is left over is not used. Each chunk is a sequence of its own; where
 * the tokenizer adds BOS, its first token is replaced by it. Rows n_prompt .. n_ctx - 2 of a chunk are scored, each by the
 * token that follows. Eviction policies take the chunk's first n_prompt tokens for the prompt, so a budget that is a share
 * of the prompt is a share of n_prompt. With n_prompt = n_ctx / 2 this is llama-perplexity's procedure.
 *   PPL = exp(mean of -ln p);  errors by the delta method, see kld.h
 *
 * Tested and reference engine take turns, so that no more rows wait than one step of an engine gives. Thread rule: the
 * engines'. */
#ifndef TN_CORE_MEASURE_QUALITY_H
#define TN_CORE_MEASURE_QUALITY_H

#include "measure/base_file.h"
#include "measure/scorer.h"

typedef struct tn_subject { /* an engine to be measured, and the scorer that its events go to; borrowed */
  tn_setup *setup;          /* NULL: there is none */
  tn_scorer *scorer;
  bool decode; /* scored tokens run one at a time, see tn_score; needed where drafts are to be engaged */
} tn_subject;

/* Tokens of a text as they are cut, and what all its chunks share. */
typedef struct tn_chunks {
  int32_t *tokens;   /* [n_tokens] owned; as the tokenizer gives them */
  int64_t n_tokens;  /* of the whole text */
  int64_t n_ctx;     /* tokens of a chunk */
  int64_t n_prompt;  /* of them before the first scored row */
  uint32_t n_chunks; /* to score */
  int32_t bos;       /* what replaces a chunk's first token, -1: nothing */
} tn_chunks;

typedef struct tn_quality {
  tn_kld_token *tokens; /* [n] owned, chunk after chunk */
  int64_t n;
  uint32_t n_chunks, n_done; /* n_done < n_chunks: a partial result, of whole chunks in order */
  bool based;
} tn_quality;

typedef struct tn_quality_args {
  tn_subject tested, reference;
  tn_base *base;        /* a recorded reference in place of one that runs, or NULL; chunks are of tn_chunks_of_base */
  tn_base_writer *save; /* where the rows of the reference that runs go, or without one the tested ones; or NULL */
  const tn_chunks *chunks;
  /* After each chunk; false ends early. May be NULL. The chunk's tokens are the last of so_far. */
  bool (*chunk)(void *ctx, const tn_quality *so_far);
  /* After each step of an engine; false ends early, without the chunk that runs. May be NULL. */
  bool (*on)(void *ctx);
  void *ctx;
} tn_quality_args;

/* Cuts a text. n_prompt 0: half of n_ctx; max_chunks 0: all. Errors: TN_E_ARG (a text shorter than two chunks, n_ctx odd
 * where n_prompt is 0, or below 4, n_prompt not in 1 .. n_ctx - 2), the tokenizer's, TN_E_NOMEM. */
tn_status tn_chunks_cut(const tn_tokenizer *t, const char *text, size_t n_text, int64_t n_ctx, int64_t n_prompt,
                        uint32_t max_chunks, tn_chunks *out, tn_err *err);
/* The chunks that a base was recorded for, at most max_chunks (0: all). TN_E_ARG where the model has another vocabulary,
 * TN_E_NOMEM. */
tn_status tn_chunks_of_base(const tn_base *b, const tn_setup *tested, uint32_t max_chunks, tn_chunks *out, tn_err *err);
void tn_chunks_free(tn_chunks *c);

/* TN_E_ARG when the reference has another vocabulary, or cuts the text otherwise. */
tn_status tn_chunks_check(const tn_chunks *c, const tn_setup *tested, const tn_setup *reference, const char *text,
                          size_t n_text, tn_err *err);

/* Measures all chunks behind those that *q already holds (zeroed: from the start). After a failure *q keeps the chunks that
 * were done. Errors: the engines', TN_E_INTERNAL for logits that are not finite, TN_E_NOMEM. */
tn_status tn_quality_measure(const tn_quality_args *a, tn_quality *q, tn_err *err);
void tn_quality_free(tn_quality *q);

/* Adds tokens of a chunk that was measured before. TN_E_NOMEM. */
tn_status tn_quality_add(tn_quality *q, const tn_kld_token *tokens, int64_t n, tn_err *err);

#endif
