/* chunks: a text cut for scoring. See quality.h. */
#include <stdlib.h>
#include <string.h>

#include "quality.h"

static tn_status check_sizes(int64_t n_ctx, int64_t n_prompt, tn_err *err)
{
  if (n_ctx < 4) return tn_fail(err, TN_E_ARG, "a chunk of %lld tokens: at least 4", (long long)n_ctx);
  if (n_prompt == 0 && n_ctx % 2)
    return tn_fail(err, TN_E_ARG, "a chunk of %lld tokens: must be even, since its second half is scored",
                   (long long)n_ctx);
  if (n_prompt < 0 || n_prompt > n_ctx - 2)
    return tn_fail(err, TN_E_ARG, "a prompt of %lld tokens in chunks of %lld: must be from 1 to %lld",
                   (long long)n_prompt, (long long)n_ctx, (long long)n_ctx - 2);
  return TN_OK;
}

tn_status tn_chunks_cut(const tn_tokenizer *t, const char *text, size_t n_text, int64_t n_ctx, int64_t n_prompt,
                        uint32_t max_chunks, tn_chunks *out, tn_err *err)
{
  *out = (tn_chunks){.n_ctx = n_ctx, .n_prompt = n_prompt ? n_prompt : n_ctx / 2};
  tn_status st = check_sizes(n_ctx, n_prompt, err);
  size_t n = 0;
  if (st == TN_OK) st = tn_tokenize(t, text, n_text, TN_TOKENIZE_ADD_SPECIAL, &out->tokens, &n, err);
  if (st != TN_OK) return st;
  out->n_tokens = (int64_t)n;
  out->bos = tn_tokenizer_adds_bos(t) ? tn_tokenizer_bos(t) : -1;
  out->n_chunks = (uint32_t)(out->n_tokens / n_ctx);
  if (out->n_chunks < 2) {
    tn_chunks_free(out);
    return tn_fail(err, TN_E_ARG, "the text has %zu tokens: perplexity wants at least %lld, two chunks of %lld", n,
                   2 * (long long)n_ctx, (long long)n_ctx);
  }
  if (max_chunks && max_chunks < out->n_chunks) out->n_chunks = max_chunks;
  return TN_OK;
}

tn_status tn_chunks_of_base(const tn_base *b, const tn_setup *tested, uint32_t max_chunks, tn_chunks *out, tn_err *err)
{
  const tn_base_info *i = tn_base_about(b);
  const tn_tokenizer *t = tested->tokenizer;
  uint32_t n_vocab = tested->model->shape.n_vocab;
  *out = (tn_chunks){.n_tokens = (int64_t)i->n_ctx * i->n_chunks, .n_ctx = i->n_ctx, .n_prompt = i->n_prompt};
  if (i->n_vocab != n_vocab)
    return tn_fail(err, TN_E_ARG, "the base was recorded with a vocabulary of %u tokens, the tested model has %u",
                   i->n_vocab, n_vocab);
  out->n_chunks = max_chunks && max_chunks < i->n_chunks ? max_chunks : i->n_chunks;
  out->bos = tn_tokenizer_adds_bos(t) ? tn_tokenizer_bos(t) : -1;
  out->tokens = tn_zalloc((size_t)out->n_tokens, sizeof *out->tokens);
  if (!out->tokens) return tn_fail(err, TN_E_NOMEM, "no memory for the base's tokens");
  memcpy(out->tokens, i->tokens, (size_t)out->n_tokens * sizeof *out->tokens);
  return TN_OK;
}

void tn_chunks_free(tn_chunks *c)
{
  free(c->tokens);
  *c = (tn_chunks){0};
}

tn_status tn_chunks_check(const tn_chunks *c, const tn_setup *tested, const tn_setup *reference, const char *text,
                          size_t n_text, tn_err *err)
{
  uint32_t a = tested->model->shape.n_vocab, b = reference->model->shape.n_vocab;
  if (a != b)
    return tn_fail(err, TN_E_ARG,
                   "the tested model has a vocabulary of %u tokens and the reference one of %u: their "
                   "laws cannot be compared",
                   a, b);
  int32_t *tokens;
  size_t n;
  tn_status st = tn_tokenize(reference->tokenizer, text, n_text, TN_TOKENIZE_ADD_SPECIAL, &tokens, &n, err);
  if (st != TN_OK) return st;
  if ((int64_t)n != c->n_tokens)
    st = tn_fail(err, TN_E_ARG,
                 "the text has %lld tokens for the tested model and %zu for the reference: they have "
                 "different tokenizers",
                 (long long)c->n_tokens, n);
  for (size_t i = 0; st == TN_OK && i < n; i++)
    if (tokens[i] != c->tokens[i])
      st = tn_fail(err, TN_E_ARG,
                   "token %zu of the text is %d for the tested model and %d for the reference: they have "
                   "different tokenizers",
                   i, c->tokens[i], tokens[i]);
  free(tokens);
  return st;
}
