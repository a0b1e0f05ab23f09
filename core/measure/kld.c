/* kld: two rows of logits to one token's figures. See kld.h. */
#include "kld.h"

#include <math.h>

/* Largest logit; its place (the lowest on ties) into *at. */
static float top_of(const float *row, uint32_t n, uint32_t *at)
{
  *at = 0;
  for (uint32_t i = 1; i < n; i++)
    if (row[i] > row[*at]) *at = i;
  return row[*at];
}

static tn_status not_finite(tn_err *err, const char *whose)
{
  return tn_fail(err, TN_E_INTERNAL, "the %s composition gave a logit that is not finite", whose);
}

tn_status tn_nll_row(const float *row, uint32_t n_vocab, int32_t next, tn_kld_token *out, tn_err *err)
{
  uint32_t at;
  double top = (double)top_of(row, n_vocab, &at), sum = 0;
  for (uint32_t i = 0; i < n_vocab; i++) sum += exp((double)row[i] - top);
  out->nll = top + log(sum) - (double)row[next];
  return isfinite(out->nll) ? TN_OK : not_finite(err, "tested");
}

/* sum p_base (b - q) - lse_b + lse_q: where the rows are equal, each term of the sum is 0 and so is what follows. */
tn_status tn_kld_rows(const float *base, const float *row, uint32_t n_vocab, int32_t next, tn_kld_token *out,
                      tn_err *err)
{
  uint32_t at_b, at_q;
  double top_b = (double)top_of(base, n_vocab, &at_b), top_q = (double)top_of(row, n_vocab, &at_q);
  double sum_b = 0, sum_q = 0, cross = 0;
  for (uint32_t i = 0; i < n_vocab; i++) {
    double b = (double)base[i], q = (double)row[i], p = exp(b - top_b);
    sum_b += p;
    sum_q += exp(q - top_q);
    cross += p * (b - q);
  }
  double lse_b = top_b + log(sum_b), lse_q = top_q + log(sum_q);
  out->nll = lse_q - (double)row[next];
  out->nll_base = lse_b - (double)base[next];
  out->kld = cross / sum_b - (lse_b - lse_q);
  out->unseen = 0;
  out->same_top = at_b == at_q;
  if (!isfinite(out->nll)) return not_finite(err, "tested");
  return isfinite(out->nll_base) && isfinite(out->kld) ? TN_OK : not_finite(err, "reference");
}
