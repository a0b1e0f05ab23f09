/* Figures of one token and statistics of many, against values computed by hand and in another order of sums. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>

#include "measure/kld.h"

#define V 5

static const float base[V] = {1.0f, 2.0f, 0.5f, -1.0f, 2.0f}, row[V] = {1.5f, 1.0f, 0.5f, -2.0f, 2.5f};

/* KLD by its definition, from probabilities. */
static double naive_kld(const float *b, const float *q, int n)
{
  long double zb = 0, zq = 0, sum = 0;
  for (int i = 0; i < n; i++) zb += expl(b[i]), zq += expl(q[i]);
  for (int i = 0; i < n; i++) sum += expl(b[i]) / zb * logl(expl(b[i]) / zb / (expl(q[i]) / zq));
  return (double)sum;
}

Test(measure_kld, rows_against_the_definition)
{
  tn_kld_token t;
  tn_err err = tn_err_init();
  cr_assert(eq(int, tn_kld_rows(base, row, V, 3, &t, &err), TN_OK));
  cr_expect(epsilon_eq(dbl, t.kld, naive_kld(base, row, V), 1e-15), "%.17g", t.kld);
  double zb = 0, zq = 0;
  for (int i = 0; i < V; i++) zb += exp((double)base[i]), zq += exp((double)row[i]);
  cr_expect(epsilon_eq(dbl, t.nll, log(zq) + 2, 1e-14));
  cr_expect(epsilon_eq(dbl, t.nll_base, log(zb) + 1, 1e-14));
  cr_expect(not(t.same_top), "the reference's two tops tie: the lower id counts");
  tn_kld_token alone;
  cr_assert(eq(int, tn_nll_row(row, V, 3, &alone, &err), TN_OK));
  cr_expect(eq(dbl, alone.nll, t.nll));
}

Test(measure_kld, equal_rows_are_exactly_0)
{
  tn_kld_token t;
  tn_err err = tn_err_init();
  float a[1000];
  for (int i = 0; i < 1000; i++) a[i] = (float)sin(i * 0.7) * 20;
  cr_assert(eq(int, tn_kld_rows(a, a, 1000, 17, &t, &err), TN_OK));
  cr_expect(eq(dbl, t.kld, 0.0));
  cr_expect(t.same_top);
}

Test(measure_kld, what_is_not_finite_is_an_error)
{
  tn_kld_token t;
  tn_err err = tn_err_init();
  float bad[V] = {1, NAN, 0, 0, 0};
  cr_expect(eq(int, tn_kld_rows(base, bad, V, 0, &t, &err), TN_E_INTERNAL));
  cr_expect(eq(str, err.msg, "the tested composition gave a logit that is not finite"));
  cr_expect(eq(int, tn_kld_rows(bad, row, V, 0, &t, &err), TN_E_INTERNAL));
  cr_expect(eq(str, err.msg, "the reference composition gave a logit that is not finite"));
  cr_expect(eq(int, tn_nll_row(bad, V, 0, &t, &err), TN_E_INTERNAL));
}

/* Twelve tokens: nll 1, 2, .. 12 against a reference of 1.5 everywhere and 3 for the last. */
Test(measure_kld, statistics)
{
  tn_kld_token t[12];
  tn_err err = tn_err_init();
  tn_kld_stats s;
  for (int i = 0; i < 12; i++)
    t[i] = (tn_kld_token){
        .nll = i + 1, .nll_base = i == 11 ? 3 : 1.5, .kld = 0.1 * (i * 5 % 12), .pos = i, .same_top = i % 4 != 0};
  cr_assert(eq(int, tn_kld_stats_of(t, 12, true, &s, &err), TN_OK));
  double error = sqrt(143.0 / 12 / 11); /* of 1 .. 12: variance (n^2 - 1) / 12 */
  cr_expect(epsilon_eq(dbl, s.ppl.value, exp(6.5), 1e-9));
  cr_expect(epsilon_eq(dbl, s.ppl.error, exp(6.5) * error, 1e-9));
  cr_expect(epsilon_eq(dbl, s.ppl_base.value, exp(1.625), 1e-12));
  cr_expect(epsilon_eq(dbl, s.ln_ratio.value, 4.875, 1e-12));
  cr_expect(epsilon_eq(dbl, s.cor, 5.5 * 1.5 / 12 / sqrt(143.0 / 12 * 0.171875), 1e-9), "%g", s.cor);
  cr_expect(epsilon_eq(dbl, s.kld.value, 0.55, 1e-12));
  cr_expect(epsilon_eq(dbl, s.kld_max, 1.1, 1e-12));
  cr_expect(eq(dbl, s.kld_min, 0.0));
  cr_expect(epsilon_eq(dbl, s.kld_at[4], 0.55, 1e-12), "median %g", s.kld_at[4]);
  cr_expect(epsilon_eq(dbl, s.kld_at[3], 0.99, 1e-12), "90 %% %g", s.kld_at[3]);
  cr_expect(epsilon_eq(dbl, s.same_top.value, 0.75, 1e-12));
  cr_expect(epsilon_eq(dbl, s.same_top.error, sqrt(0.75 * 0.25 / 11), 1e-12));
  double dp = 0, square = 0;
  for (int i = 0; i < 12; i++) {
    double d = exp(-t[i].nll) - exp(-t[i].nll_base);
    dp += d / 12, square += d * d / 12;
  }
  cr_expect(epsilon_eq(dbl, s.dp.value, dp, 1e-15));
  cr_expect(epsilon_eq(dbl, s.dp_rms.value, sqrt(square), 1e-15));
  cr_assert(eq(int, tn_kld_stats_between(t, 12, true, 4, 6, &s, &err), TN_OK));
  cr_expect(eq(i64, s.n, 2));
  cr_expect(epsilon_eq(dbl, s.ppl.value, exp(5.5), 1e-9));
  cr_expect(eq(dbl, s.ppl.error, 0.0), "two tokens tell no error");
  cr_assert(eq(int, tn_kld_stats_between(t, 12, true, 12, 20, &s, &err), TN_OK));
  cr_expect(eq(i64, s.n, 0));
  cr_expect(eq(int, tn_kld_stats_of(t, 0, true, &s, &err), TN_E_ARG));
}
