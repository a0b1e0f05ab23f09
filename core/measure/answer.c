/* answer: see answer.h. */
#include "answer.h"

#include <stdlib.h>

typedef struct reading {
  const int32_t *tokens;
  uint32_t n_vocab;
  tn_answer *out;
} reading;

static tn_status on_row(void *ctx, int64_t pos, const float *row, tn_err *err)
{
  reading *r = ctx;
  tn_kld_token t;
  int32_t next = r->tokens[pos + 1];
  tn_status st = tn_nll_row(row, r->n_vocab, next, &t, err);
  r->out->loglik -= t.nll;
  r->out->n++;
  r->out->n_top += tn_argmax(row, r->n_vocab) == next;
  return st;
}

tn_status tn_answer_score(const tn_subject *s, const int32_t *tokens, int64_t n, int64_t n_prompt, tn_answer *out,
                          tn_err *err)
{
  *out = (tn_answer){0};
  if (n_prompt < 1 || n_prompt >= n)
    return tn_fail(err, TN_E_ARG, "a prompt of %lld tokens in a text of %lld: nothing to score", (long long)n_prompt,
                   (long long)n);
  reading r = {tokens, s->setup->model->shape.n_vocab, out};
  tn_score t = {.tokens = tokens, .n = n, .first = n_prompt - 1, .row = on_row, .ctx = &r};
  t.decode = s->decode && t.first > 0;
  tn_status st = tn_scorer_run(s->scorer, s->setup->engine, &t, err);
  out->exact = out->n_top == out->n;
  return st;
}

tn_status tn_match_greedy(const tn_subject *tested, const tn_subject *reference, const int32_t *prompt,
                          int64_t n_prompt, int64_t max_new, tn_match *out, tn_err *err)
{
  *out = (tn_match){0};
  int32_t *a = tn_zalloc((size_t)max_new + 1, sizeof *a), *b = tn_zalloc((size_t)max_new + 1, sizeof *b);
  tn_status st = a && b ? TN_OK : tn_fail(err, TN_E_NOMEM, "no memory for %lld tokens", (long long)max_new);
  if (st == TN_OK)
    st = tn_scorer_generate(tested->scorer, tested->setup->engine, prompt, n_prompt, max_new, a, &out->n, err);
  if (st == TN_OK)
    st = tn_scorer_generate(reference->scorer, reference->setup->engine, prompt, n_prompt, max_new, b,
                            &out->n_reference, err);
  int64_t least = out->n < out->n_reference ? out->n : out->n_reference;
  while (st == TN_OK && out->n_same < least && a[out->n_same] == b[out->n_same]) out->n_same++;
  out->exact = out->n_same == out->n && out->n == out->n_reference;
  free(a);
  free(b);
  return st;
}
