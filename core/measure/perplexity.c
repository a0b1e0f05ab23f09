/* perplexity: see perplexity.h. */
#include "perplexity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct tn_ppl_run {
  const int32_t *tokens;
  uint32_t n_vocab;
  int64_t n_ctx;
  double nll, nll2;
  int64_t n;
  uint32_t done;
  char failed[256];
};

tn_ppl_run *tn_ppl_new(void) { return tn_zalloc(1, sizeof(tn_ppl_run)); }

void tn_ppl_free(tn_ppl_run *r) { free(r); }

/* user: index of the chunk. The row at pos predicts the token at pos + 1. */
static void on_logits(void *ctx, uint64_t seq, void *user, int64_t pos, const float *row)
{
  (void)seq;
  tn_ppl_run *r = ctx;
  if (pos + 1 >= r->n_ctx) return;
  int32_t next = r->tokens[(int64_t)(uintptr_t)user * r->n_ctx + pos + 1];
  double nll = tn_log_sum_exp(row, r->n_vocab) - (double)row[next];
  r->nll += nll;
  r->nll2 += nll * nll;
  r->n++;
}

static void on_finish(void *ctx, const tn_seq *seq, uint32_t why, const char *msg)
{
  (void)seq;
  tn_ppl_run *r = ctx;
  r->done++;
  if (why == TN_FINISH_ERROR) snprintf(r->failed, sizeof r->failed, "%s", msg ? msg : "a chunk failed");
}

tn_events tn_ppl_events(tn_ppl_run *r) { return (tn_events){.ctx = r, .logits = on_logits, .finish = on_finish}; }

static tn_ppl result(const tn_ppl_run *r, int64_t n_tokens, uint32_t n_chunks)
{
  double n = (double)r->n, mean = r->n ? r->nll / n : 0, var = r->n ? r->nll2 / n - mean * mean : 0;
  double ppl = exp(mean);
  return (tn_ppl){.ppl = ppl,
                  .error = r->n > 1 && var > 0 ? sqrt(var / (n - 1)) * ppl : 0,
                  .n_scored = r->n,
                  .n_tokens = n_tokens,
                  .n_chunks = n_chunks,
                  .n_done = r->done,
                  .partial = r->done < n_chunks};
}

/* One chunk at a time, so that a partial result is that of whole chunks in order. */
static tn_status run_chunk(tn_ppl_run *r, tn_engine *e, int32_t *tokens, uint32_t chunk, int32_t bos, tn_err *err)
{
  int32_t *first = tokens + (int64_t)chunk * r->n_ctx, kept = *first;
  if (bos >= 0) *first = bos;
  tn_request q = {.prompt = first,
                  .n_prompt = r->n_ctx,
                  .sampling = tn_sampling_default(),
                  .score = 1,
                  .score_from = r->n_ctx / 2,
                  .no_prefix = 1,
                  .user = (void *)(uintptr_t)chunk};
  uint64_t seq;
  tn_status st = tn_engine_submit(e, &q, &seq, err);
  *first = kept;
  while (st == TN_OK && !tn_engine_idle(e)) st = tn_engine_step(e, err);
  if (st == TN_OK && r->failed[0]) st = tn_fail(err, TN_E_INTERNAL, "chunk %u: %s", chunk, r->failed);
  return st;
}

tn_status tn_ppl_measure(tn_ppl_run *r, tn_setup *s, const tn_ppl_args *a, tn_ppl *out, tn_err *err)
{
  *out = (tn_ppl){0};
  if (a->n_ctx < 4 || a->n_ctx % 2)
    return tn_fail(err, TN_E_ARG, "a chunk of %lld tokens: must be even and at least 4", (long long)a->n_ctx);
  int32_t *tokens;
  size_t n;
  tn_status st = tn_tokenize(s->tokenizer, a->text, a->n_text, TN_TOKENIZE_ADD_SPECIAL, &tokens, &n, err);
  if (st != TN_OK) return st;
  uint32_t chunks = (uint32_t)((int64_t)n / a->n_ctx);
  if (chunks < 2) {
    free(tokens);
    return tn_fail(err, TN_E_ARG, "the text has %zu tokens: perplexity wants at least %lld, two chunks", n,
                   2 * (long long)a->n_ctx);
  }
  if (a->max_chunks && a->max_chunks < chunks) chunks = a->max_chunks;
  *r = (tn_ppl_run){.tokens = tokens, .n_vocab = s->model->shape.n_vocab, .n_ctx = a->n_ctx};
  int32_t bos = tn_tokenizer_adds_bos(s->tokenizer) ? tn_tokenizer_bos(s->tokenizer) : -1;
  bool on = true;
  for (uint32_t c = 0; st == TN_OK && on && c < chunks; c++) {
    st = run_chunk(r, s->engine, tokens, c, bos, err);
    *out = result(r, (int64_t)n, chunks);
    if (st == TN_OK && a->chunk) on = a->chunk(a->ctx, out);
  }
  r->tokens = NULL;
  free(tokens);
  return st;
}
