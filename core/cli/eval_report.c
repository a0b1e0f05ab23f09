/* eval_report: the lines of llama-perplexity's report, and the same for programs. See eval.h. */
#include <math.h>

#include "cli/eval.h"

static void line(const char *name, tn_measured m) { printf("%-30s: %10.6f ± %10.6f\n", name, m.value, m.error); }

/* "99.9%   KLD", "Median  KLD" */
static void name_quantile(double fraction, char out[8])
{
  if (fraction == 0.5)
    snprintf(out, 8, "Median");
  else
    snprintf(out, 8, "%4.1f%%", 100 * fraction);
}

static void print_token_stats(const tn_kld_stats *s)
{
  char name[8];
  printf("\n====== Token probability statistics ======\n");
  printf("Mean    Δp: %6.3f ± %5.3f %%\n", 100 * s->dp.value, 100 * s->dp.error);
  printf("Maximum Δp: %6.3f%%\n", 100 * s->dp_max);
  for (size_t i = 0; i < TN_DP_QUANTILES; i++) {
    name_quantile(tn_dp_fractions[i], name);
    printf("%-7s Δp: %6.3f%%\n", name, 100 * s->dp_at[i]);
  }
  printf("Minimum Δp: %6.3f%%\n", 100 * s->dp_min);
  printf("RMS Δp    : %6.3f ± %5.3f %%\n", 100 * s->dp_rms.value, 100 * s->dp_rms.error);
  printf("Same top p: %6.3f ± %5.3f %%\n", 100 * s->same_top.value, 100 * s->same_top.error);
}

void tn_eval_print_stats(const tn_kld_stats *s)
{
  char name[8];
  printf("====== Perplexity statistics ======\n");
  line("Mean PPL(Q)", s->ppl);
  line("Mean PPL(base)", s->ppl_base);
  printf("Cor(ln(PPL(Q)), ln(PPL(base))): %6.2f%%\n", 100 * s->cor);
  line("Mean ln(PPL(Q)/PPL(base))", s->ln_ratio);
  line("Mean PPL(Q)/PPL(base)", s->ratio);
  line("Mean PPL(Q)-PPL(base)", s->diff);
  printf("\n====== KL divergence statistics ======\n");
  printf("Mean    KLD: %10.6f ± %10.6f\n", s->kld.value, s->kld.error);
  printf("Maximum KLD: %10.6f\n", s->kld_max);
  for (size_t i = 0; i < TN_KLD_QUANTILES; i++) {
    name_quantile(tn_kld_fractions[i], name);
    printf("%-7s KLD: %10.6f\n", name, s->kld_at[i]);
  }
  printf("Minimum KLD: %10.6f\n", s->kld_min);
  if (s->unseen > 0) printf("Mean KLD left out by the compact base (estimate): %10.6f\n", s->unseen);
  print_token_stats(s);
}

/* JSON has no NaN. */
static json_t *number(double x) { return isfinite(x) ? json_real(x) : json_null(); }

static json_t *measured(tn_measured m)
{
  return json_pack("{s:o, s:o}", "value", number(m.value), "error", number(m.error));
}

static json_t *quantiles(const double *fractions, const double *at, size_t n, double min, double max)
{
  char name[16];
  json_t *j = json_object();
  json_object_set_new(j, "max", number(max));
  for (size_t i = 0; i < n; i++) {
    snprintf(name, sizeof name, "%.1f%%", 100 * fractions[i]);
    json_object_set_new(j, name, number(at[i]));
  }
  json_object_set_new(j, "min", number(min));
  return j;
}

json_t *tn_eval_stats_json(const tn_kld_stats *s)
{
  json_t *j = json_pack("{s:I, s:o}", "n_scored", (json_int_t)s->n, "ppl", s->n ? measured(s->ppl) : json_null());
  if (!j || !s->based || s->n == 0) return j;
  json_t *more =
      json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "ppl_base", measured(s->ppl_base),
                "cor_ln_ppl", number(s->cor), "ln_ppl_ratio", measured(s->ln_ratio), "ppl_ratio", measured(s->ratio),
                "ppl_diff", measured(s->diff), "kld", measured(s->kld), "kld_quantiles",
                quantiles(tn_kld_fractions, s->kld_at, TN_KLD_QUANTILES, s->kld_min, s->kld_max), "kld_left_out",
                number(s->unseen), "dp", measured(s->dp), "dp_quantiles",
                quantiles(tn_dp_fractions, s->dp_at, TN_DP_QUANTILES, s->dp_min, s->dp_max), "dp_rms",
                measured(s->dp_rms), "same_top", measured(s->same_top));
  if (more && json_object_update(j, more) == 0) {
    json_decref(more);
    return j;
  }
  json_decref(j);
  json_decref(more);
  return NULL;
}

/* Text positions [from, to) of bucket i; rows n_prompt .. n_ctx - 2 are scored. */
static void bucket(const tn_chunks *c, uint32_t n_buckets, uint32_t i, int64_t *from, int64_t *to)
{
  int64_t rows = c->n_ctx - 1 - c->n_prompt;
  *from = c->n_prompt + rows * i / n_buckets;
  *to = c->n_prompt + rows * (i + 1) / n_buckets;
}

tn_status tn_eval_print_buckets(const tn_quality *q, const tn_chunks *c, uint32_t n_buckets, tn_err *err)
{
  tn_status st = TN_OK;
  if (n_buckets)
    printf("\n%17s %9s %21s%s\n", "positions", "tokens", "PPL(Q)", q->based ? "  PPL(base)   Mean KLD" : "");
  for (uint32_t i = 0; st == TN_OK && i < n_buckets; i++) {
    int64_t from, to;
    tn_kld_stats s;
    bucket(c, n_buckets, i, &from, &to);
    st = tn_kld_stats_between(q->tokens, q->n, q->based, from, to, &s, err);
    if (st != TN_OK || s.n == 0) continue;
    printf("%8lld-%-8lld %9lld %10.4f ± %8.4f", (long long)from, (long long)to - 1, (long long)s.n, s.ppl.value,
           s.ppl.error);
    if (q->based) printf(" %10.4f %10.6f", s.ppl_base.value, s.kld.value);
    printf("\n");
  }
  return st;
}

json_t *tn_eval_buckets_json(const tn_quality *q, const tn_chunks *c, uint32_t n_buckets)
{
  json_t *list = json_array();
  for (uint32_t i = 0; i < n_buckets; i++) {
    int64_t from, to;
    tn_kld_stats s;
    bucket(c, n_buckets, i, &from, &to);
    if (tn_kld_stats_between(q->tokens, q->n, q->based, from, to, &s, NULL) != TN_OK) continue;
    json_t *j = tn_eval_stats_json(&s);
    if (j) json_object_set_new(j, "from", json_integer(from));
    if (j) json_object_set_new(j, "to", json_integer(to));
    json_array_append_new(list, j);
  }
  return list;
}
