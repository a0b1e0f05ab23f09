/* base_file: a reference's laws on file, so that it need not run again. Two formats, told apart by their first bytes:
 *
 *   llama-perplexity's (--kl-divergence-base; llama.cpp tools/perplexity/perplexity.cpp), little-endian:
 *     "_logits_", u32 n_ctx, i32 n_vocab, i32 n_chunks, i32 tokens[n_chunks][n_ctx], then for each chunk its rows
 *     n_ctx / 2 .. n_ctx - 2: f32 scale, f32 least, u16 v[n_vocab], and where n_vocab is odd a u16 that says nothing;
 *     ln p(i) = scale v[i] + least. What is more than 16 below the largest logit is stored as the least.
 *   compact:
 *     "TNKLDB1\n", u32 k, n_ctx, n_prompt, n_vocab, n_chunks, 0, tokens as above, then for each chunk its rows
 *     n_prompt .. n_ctx - 2: f32 ln p of the next token, f32 rest, u32 id[k], f32 ln p[k]: the k most probable tokens, best
 *     first, and the probability of all others together.
 *
 * A compact record's KLD is that of the laws in which all others are one token: never more than the whole KLD. What it
 * leaves out is rest times the divergence among the others; it is estimated by the divergence among the k/2 least probable
 * tokens of the list (tn_kld_token.unseen).
 *
 * A file that is written has ".part" behind its name until it is whole. Thread rule: one call at a time for each. */
#ifndef TN_CORE_MEASURE_BASE_FILE_H
#define TN_CORE_MEASURE_BASE_FILE_H

#include "measure/kld.h"

typedef struct tn_base_info {
  uint32_t k; /* compact: tokens of a row; 0: llama-perplexity's format */
  uint32_t n_ctx, n_prompt, n_vocab, n_chunks;
  const int32_t
      *tokens; /* [n_chunks * n_ctx] as the tokenizer gave them, without BOS in place of first ones; borrowed */
} tn_base_info;

enum { TN_BASE_MAX_K = 4096 };

typedef struct tn_base tn_base;

/* Errors: TN_E_IO (cannot be read, cut short, is none: the file, the field and both values), TN_E_NOMEM. */
tn_status tn_base_open(const char *path, tn_base **out, tn_err *err);
void tn_base_free(tn_base *b); /* accepts NULL */
const tn_base_info *tn_base_about(const tn_base *b);

/* The next row is the first of that chunk. TN_E_ARG past the end, TN_E_IO. */
tn_status tn_base_chunk(tn_base *b, uint32_t chunk, tn_err *err);

/* Compares the next row with a tested one [n_vocab]. out->pos stays. TN_E_IO, TN_E_INTERNAL (logits not finite). */
tn_status tn_base_compare(tn_base *b, const float *row, int32_t next, tn_kld_token *out, tn_err *err);

typedef struct tn_base_writer tn_base_writer;

/* Info is borrowed until return. TN_E_ARG (k over the vocabulary or TN_BASE_MAX_K; k 0 with n_prompt not half of n_ctx),
 * TN_E_IO, TN_E_NOMEM. */
tn_status tn_base_create(const char *path, const tn_base_info *info, tn_base_writer **out, tn_err *err);
/* The next row; all chunks' rows come in order. */
tn_status tn_base_put(tn_base_writer *w, const float *row, int32_t next, tn_err *err);
/* Frees the writer. The file gets its name when all rows have come; otherwise, and after a failure, it is removed and
 * TN_E_IO or TN_E_STATE returned. Accepts NULL. */
tn_status tn_base_finish(tn_base_writer *w, tn_err *err);

#endif
