/* ab_out: the verdict on a terminal. See ab_int.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ab/report.h"
#include "cli/ab_int.h"

static void signed_number(double x, char out[32])
{
  if (!isfinite(x))
    snprintf(out, 32, isinf(x) ? "%cinf" : "-", x < 0 ? '-' : '+');
  else
    snprintf(out, 32, fabs(x) >= 1e5 ? "%+.1g" : fabs(x) >= 100 ? "%+.0f" : fabs(x) >= 10 ? "%+.1f" : "%+.2f", x);
}

static void figure(double x, char out[32])
{
  if (!isfinite(x))
    snprintf(out, 32, "-");
  else
    snprintf(out, 32, fabs(x) >= 1000 ? "%.0f" : fabs(x) >= 10 ? "%.2f" : "%.4g", x);
}

static void chance(double p, char out[32])
{
  if (isnan(p))
    snprintf(out, 32, "-");
  else
    snprintf(out, 32, p < 0.0001 ? "<0.0001" : "%.4f", p);
}

static void row(tn_ab_metric m, const tn_ab_result *x, bool colour)
{
  const tn_ab_metric_info *i = tn_ab_metric_of(m);
  char a[32], b[32], d[32], lo[32], hi[32], p[32], ph[32], seen[32], bound[80] = "-", verdict[160];
  const char *on = "", *off = "";
  if (x->verdict == TN_AB_NOT_MEASURED) return;
  figure(x->a * i->scale, a);
  figure(x->b * i->scale, b);
  signed_number(tn_ab_shown(m, x->s.est), d);
  if (isfinite(x->s.lo) && i->kind != TN_AB_COUNTED) {
    signed_number(tn_ab_shown(m, x->s.lo), lo);
    signed_number(tn_ab_shown(m, x->s.hi), hi);
    snprintf(bound, sizeof bound, "%s .. %s", lo, hi);
  }
  figure(fabs(tn_ab_shown(m, x->seen)), seen);
  chance(x->s.p, p);
  chance(x->p_holm, ph);
  if (colour && x->verdict == TN_AB_BETTER) on = "\033[32m", off = "\033[0m";
  if (colour && x->verdict == TN_AB_WORSE) on = "\033[31m", off = "\033[0m";
  printf("  %-26s %9s %9s %-4s %7s %-4s %-16s %8s %8s %8s  %s%s%s\n", i->title, a, b, i->unit, d,
         i->ratio ? "%" : i->unit, bound, p, ph, seen, on, tn_ab_verdict(m, x, verdict), off);
}

static void variant(const tn_ab_exp *e, const tn_ab_results *r, uint32_t v, bool colour)
{
  const tn_ab_variant *a = &e->variant[0], *b = &e->variant[v];
  printf("\n%s (%s) against %s (%s)\n", b->name, b->title, a->name, a->title);
  printf("  %-26s %9s %9s %-4s %7s %-4s %-16s %8s %8s %8s  %s\n", "", a->name, b->name, "", "diff", "", "95 % interval",
         "p", "p (Holm)", "seen", "verdict");
  for (uint32_t m = 0; m < TN_AB_N_METRICS; m++) row((tn_ab_metric)m, &r->at[v][m], colour);
  if (b->idle) printf("  not engaged: %s\n", b->idle);
}

static void table(const tn_ab_exp *e, const tn_ab_results *r)
{
  bool colour = tn_cli_colour(stdout);
  const tn_ab_metric start = tn_ab_start_metric(r);
  printf("%u pairs, %u prompts, %lld tokens each, seed %llu%s\n", e->n_blocks, e->n_prompts, (long long)e->n_gen,
         (unsigned long long)e->seed, e->partial ? " (partial: ended early)" : "");
  if (e->n_chunks) printf("perplexity on %s: %u chunks\n", e->text, e->n_chunks);
  for (uint32_t v = 0; v < e->n_variants; v++)
    printf("%s = %s%s%s%s\n", e->variant[v].name, e->variant[v].title,
           *e->variant[v].fingerprint ? ", composition " : "", e->variant[v].fingerprint,
           v == 0 ? ", the reference" : "");
  for (uint32_t v = 1; v < e->n_variants; v++) variant(e, r, v, colour);
  printf("\n%s, %s...: trimmed means over the runs, a fifth left out at either end. diff: the same of the paired "
         "differences,\nso not the difference of the two columns. Both are of logarithms where diff is in percent; "
         "nothing is "
         "left out where\nsomething is counted, and over chunks.\n"
         "%u tests, p (Holm) corrected for them; significance %.2f. Interval: studentized bootstrap; p: sign-flip "
         "permutation,\nexact up to %d pairs, else %d random assignments.\n"
         "seen: the smallest true difference that this run would have found 4 times in 5.\n",
         e->variant[0].name, e->variant[1].name, r->family, e->alpha, TN_STAT_EXACT, TN_STAT_FLIPS);
  if (!isnan(r->noise[TN_AB_DECODE_TPS]))
    printf("Noise of this machine (A/A): a run of %s repeated with the same prompt varies by %.1f %% in %s, %.1f %% in "
           "decode speed.\n",
           e->variant[0].name, 100 * r->noise[start], tn_ab_metric_of(start)->title, 100 * r->noise[TN_AB_DECODE_TPS]);
  for (uint32_t i = 0; i < e->n_refused; i++) printf("refused: %s: %s\n", e->refused[i].title, e->refused[i].reason);
  if (e->n_variants > 2) {
    printf("Pareto front of decode speed, KV cache and quality:");
    for (uint32_t v = 0; v < e->n_variants; v++)
      if (e->variant[v].pareto) printf(" %s", e->variant[v].name);
    printf("\n");
  }
}

int ab_print(const ab_args *a, const tn_ab_exp *e, const tn_ab_results *r)
{
  if (a->engine.json) return tn_cli_json("ab", tn_ab_json(e, r));
  table(e, r);
  return tn_cli_done("ab", TN_EXIT_OK);
}
