/* kld: how far the laws of a tested composition are from those of a reference, token by token, and the statistics of it
 * with the names and the error bars of llama-perplexity's report (llama.cpp tools/perplexity/perplexity.cpp).
 *
 *   nll = -ln p(next)      KLD = sum over the vocabulary of p_base (ln p_base - ln p)      dp = p(next) - p_base(next)
 *
 * All in f64. Equal rows give a KLD of exactly 0. Thread rule: any; nothing here has state of its own. */
#ifndef TN_CORE_MEASURE_KLD_H
#define TN_CORE_MEASURE_KLD_H

#include "base.h"

typedef struct tn_kld_token { /* one scored token */
  double nll, nll_base;       /* of the token that follows, in nats; the second only with a reference */
  double kld;                 /* >= 0 but for rounding */
  double unseen;              /* estimate of what kld leaves out, where the reference is a compact record; else 0 */
  int64_t pos;                /* text position of the row in its chunk */
  bool same_top;              /* both laws have the same most probable token (ties: the lowest id) */
} tn_kld_token;

/* Rows of logits [n_vocab]; next is the token that followed. out->pos stays. TN_E_INTERNAL when a row holds a value that
 * is not finite. The first is for a tested row without a reference. */
tn_status tn_nll_row(const float *row, uint32_t n_vocab, int32_t next, tn_kld_token *out, tn_err *err);
tn_status tn_kld_rows(const float *base, const float *row, uint32_t n_vocab, int32_t next, tn_kld_token *out,
                      tn_err *err);

typedef struct tn_measured {
  double value, error; /* error: one standard error; 0 where too few tokens tell one */
} tn_measured;

enum { TN_KLD_QUANTILES = 9, TN_DP_QUANTILES = 11 };
/* 99.9 % first; the middle one is the median. */
extern const double tn_kld_fractions[TN_KLD_QUANTILES];
extern const double tn_dp_fractions[TN_DP_QUANTILES];

typedef struct tn_kld_stats {
  int64_t n;            /* tokens */
  bool based;           /* there is a reference: all that follows ppl holds */
  tn_measured ppl;      /* PPL(Q), of the tested composition */
  tn_measured ppl_base; /* PPL(base) */
  double cor;           /* correlation of ln PPL(Q) and ln PPL(base), -1 .. 1; NaN where one of them does not vary */
  tn_measured ln_ratio, ratio, diff; /* of PPL(Q) to PPL(base) */
  tn_measured kld;
  double kld_max, kld_min, kld_at[TN_KLD_QUANTILES];
  double unseen;                    /* mean */
  tn_measured dp, dp_rms, same_top; /* parts of 1, not percent */
  double dp_max, dp_min, dp_at[TN_DP_QUANTILES];
} tn_kld_stats;

/* tokens [n], n >= 1. based: they carry a reference. TN_E_ARG when n is 0, TN_E_NOMEM. */
tn_status tn_kld_stats_of(const tn_kld_token *tokens, int64_t n, bool based, tn_kld_stats *out, tn_err *err);

/* The same for the tokens at positions [from, to) of their chunks; out->n is 0 when there is none (no error). */
tn_status tn_kld_stats_between(const tn_kld_token *tokens, int64_t n, bool based, int64_t from, int64_t to,
                               tn_kld_stats *out, tn_err *err);

#endif
