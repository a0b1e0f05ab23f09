/* html: the report as one page. See report.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ab/report.h"
#include "ab/svg.h"

static const char style[] =
    ":root{--bg:#fff;--fg:#1c1c1a;--dim:#6b6a66;--line:#dedcd5;--better:#1a7f4b;--worse:#c0392b;--same:#7a7974;--mark:#"
    "2a5db0}\n"
    "@media(prefers-color-scheme:dark){:root{--bg:#191918;--fg:#e8e6e0;--dim:#a09e97;--line:#3a3935;--better:#4cc38a;"
    "--worse:#ff8172;--same:#a09e97;--mark:#7fb0ff}}\n"
    "@media "
    "print{:root{--bg:#fff;--fg:#000;--dim:#444;--line:#bbb;--better:#1a7f4b;--worse:#c0392b;--same:#666;--mark:#"
    "2a5db0}"
    "section,figure{break-inside:avoid}details{display:block}body{font-size:9pt;margin:0}td,th{padding:.2em "
    ".4em}.scroll{overflow:visible}}\n"
    "body{background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif;max-width:1120px;margin:2em "
    "auto;padding:0 1em}\n"
    "h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}.scroll{overflow-x:auto}\n"
    "table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\n"
    "th,td{text-align:right;padding:.25em .6em;border-bottom:1px solid var(--line);white-space:nowrap}\n"
    "th:first-child,td:first-child,th:nth-child(2),td:nth-child(2),.text td,.text th{text-align:left}"
    "td:nth-child(2),.text td{white-space:normal}td:nth-child(2){min-width:9em}\n"
    "th{color:var(--dim);font-weight:600}.dim,figcaption{color:var(--dim)}.better{color:var(--better)}.worse{color:var("
    "--worse)}\n"
    "figure{margin:1.2em 0}svg{width:100%;height:auto;max-width:800px}svg text{fill:var(--fg);font-size:12px}\n"
    ".tick{text-anchor:middle;fill:var(--dim)!important}.label{text-anchor:end}.name{font-weight:600}\n"
    ".grid{stroke:var(--line)}.zero{stroke:var(--fg)}.bar{stroke-width:3}line.better{stroke:var(--better)}"
    "line.worse{stroke:var(--worse)}line.same{stroke:var(--same)}\n"
    "circle.better{fill:var(--better)}circle.worse{fill:var(--worse)}circle.same{fill:var(--same)}"
    "circle.pair{fill:var(--mark);fill-opacity:.55}\n"
    "circle.front{fill:var(--mark)}circle.behind{fill:var(--bg);stroke:var(--dim);stroke-width:2}pre{white-space:pre-"
    "wrap}\n";

static void cell(tn_text *t, double x, const char *format)
{
  tn_text_addf(t, "<td>");
  if (isfinite(x))
    tn_text_addf(t, format, x); /* NOLINT(clang-diagnostic-format-nonliteral) */
  else
    tn_text_addf(t, "-");
  tn_text_addf(t, "</td>");
}

static void chance(tn_text *t, double p)
{
  if (p < 0.0001)
    tn_text_addf(t, "<td>&lt;0.0001</td>");
  else
    cell(t, p, "%.4f");
}

/* Three digits with a sign, whole numbers above a thousand. */
static void rounded(double x, char out[32])
{
  snprintf(out, 32, fabs(x) >= 1000 && fabs(x) < 1e6 ? "%+.0f" : "%+.3g", x);
}

static void metric_row(tn_text *t, tn_ab_metric m, const tn_ab_result *x)
{
  const tn_ab_metric_info *i = tn_ab_metric_of(m);
  const char *unit = i->ratio ? "%" : i->unit, *colour = "dim";
  char verdict[160];
  if (x->verdict == TN_AB_NOT_MEASURED) return;
  if (x->verdict == TN_AB_BETTER) colour = "better";
  if (x->verdict == TN_AB_WORSE) colour = "worse";
  tn_text_addf(t, "<tr><td>%s%s%s</td><td class=\"%s\">%s</td>", i->title, *i->unit ? ", " : "", i->unit, colour,
               tn_ab_verdict(m, x, verdict));
  cell(t, x->a * i->scale, "%.5g");
  cell(t, x->b * i->scale, "%.5g");
  char est[32], lo[32], hi[32];
  rounded(tn_ab_shown(m, x->s.est), est);
  rounded(tn_ab_shown(m, x->s.lo), lo);
  rounded(tn_ab_shown(m, x->s.hi), hi);
  tn_text_addf(t, "<td>%s %s</td>", est, unit);
  if (isfinite(x->s.lo) && i->kind != TN_AB_COUNTED)
    tn_text_addf(t, "<td>%s .. %s</td>", lo, hi);
  else
    tn_text_addf(t, "<td>-</td>");
  chance(t, x->s.p);
  chance(t, x->p_holm);
  cell(t, fabs(tn_ab_shown(m, x->seen)), "%.2g");
  tn_text_addf(t, "</tr>\n");
}

static void comparison(tn_text *t, const tn_ab_exp *e, const tn_ab_results *r, uint32_t v)
{
  const tn_ab_variant *a = &e->variant[0], *b = &e->variant[v];
  tn_text_addf(t, "<section><h2>%s against %s: ", b->name, a->name);
  tn_ab_escape(t, b->title);
  tn_text_addf(
      t,
      "</h2>\n<div "
      "class=\"scroll\"><table><tr><th>metric</th><th>verdict</th><th>%s</th><th>%s</th><th>difference</th><th>%.0f %% "
      "interval"
      "</th><th>p</th><th>p (Holm)</th><th>could see</th></tr>\n",
      a->name, b->name, 100 * e->level);
  for (uint32_t m = 0; m < TN_AB_N_METRICS; m++) metric_row(t, (tn_ab_metric)m, &r->at[v][m]);
  tn_text_addf(t, "</table></div>\n");
  if (b->idle) {
    tn_text_addf(t, "<p class=\"worse\">Not engaged: ");
    tn_ab_escape(t, b->idle);
    tn_text_addf(t, "</p>\n");
  }
  tn_text_addf(t, "<figure>");
  tn_ab_svg_intervals(t, r, v);
  tn_text_addf(t, "<figcaption>Differences of %s to %s with their intervals.</figcaption></figure>\n<figure>", b->name,
               a->name);
  tn_ab_svg_strip(t, e, v);
  tn_text_addf(t, "<figcaption>Decode speed: every pair, prompt by prompt, percent.</figcaption></figure></section>\n");
}

static void variants(tn_text *t, const tn_ab_exp *e, const tn_ab_results *r)
{
  tn_text_addf(t,
               "<section><h2>Variants</h2><div class=\"scroll\"><table class=\"text\"><tr><th></th><th>composition</th>"
               "<th>fingerprint</th><th>decode t/s</th><th>KV MiB</th><th>front</th></tr>\n");
  for (uint32_t v = 0; v < e->n_variants; v++) {
    tn_text_addf(t, "<tr><td>%s</td><td>", e->variant[v].name);
    tn_ab_escape(t, e->variant[v].title);
    tn_text_addf(t, "%s</td><td>", v ? "" : " (reference)");
    tn_ab_escape(t, e->variant[v].fingerprint);
    tn_text_addf(t, "</td>");
    cell(t, r->at[v][TN_AB_DECODE_TPS].b, "%.4g");
    cell(t, r->at[v][TN_AB_KV_BYTES].b / 1048576, "%.4g");
    tn_text_addf(t, "<td>%s</td></tr>\n", e->variant[v].pareto ? "yes" : "");
  }
  tn_text_addf(t, "</table></div>\n<figure>");
  tn_ab_svg_pareto(t, e, r);
  tn_text_addf(
      t, "<figcaption>Filled: the Pareto front of decode speed, KV cache and quality. Open: another variant is as "
         "good in all three and better in one.</figcaption></figure></section>\n");
  if (e->n_refused == 0) return;
  tn_text_addf(
      t, "<section><h2>Refused combinations</h2><table class=\"text\"><tr><th>combination</th><th>reason</th></tr>\n");
  for (uint32_t i = 0; i < e->n_refused; i++) {
    tn_text_addf(t, "<tr><td>");
    tn_ab_escape(t, e->refused[i].title);
    tn_text_addf(t, "</td><td>");
    tn_ab_escape(t, e->refused[i].reason);
    tn_text_addf(t, "</td></tr>\n");
  }
  tn_text_addf(t, "</table></section>\n");
}

static void json_block(tn_text *t, const char *title, const json_t *j)
{
  tn_text text = {0};
  if (!j || json_is_null(j)) return;
  tn_ab_json_text(&text, j, JSON_INDENT(2));
  if (text.failed) t->failed = true;
  tn_text_addf(t, "<details><summary>");
  tn_ab_escape(t, title);
  tn_text_addf(t, "</summary><pre>");
  tn_ab_escape(t, tn_text_str(&text));
  tn_text_addf(t, "</pre></details>\n");
  tn_text_release(&text);
}

static void details(tn_text *t, const tn_ab_exp *e, const tn_ab_results *r)
{
  const tn_ab_metric start = tn_ab_start_metric(r);
  char turns[64] = "whole runs";
  if (e->slice > 0) snprintf(turns, sizeof turns, "by turns of %lld tokens", (long long)e->slice);
  tn_text_addf(
      t,
      "<section><h2>How it was measured</h2><p>%u pairs over %u prompts, %lld tokens each, %s in random "
      "order, seed %llu, %.0f s. %u tests, corrected for by Holm's procedure at %.2f. A variant's column: trimmed mean "
      "over "
      "its runs, a fifth left out at either end; difference: the same of the paired differences, so not the difference "
      "of "
      "the columns. Both are of logarithms where it is in percent; nothing is left out where something is counted, and "
      "over chunks. Interval: symmetric studentized bootstrap. p: sign-flip permutation test. Could see: the smallest "
      "true "
      "difference that a run of this noise finds 4 times in 5.</p>\n",
      e->n_blocks, e->n_prompts, (long long)e->n_gen, turns, (unsigned long long)e->seed, e->seconds, r->family,
      e->alpha);
  if (isfinite(r->noise[TN_AB_DECODE_TPS]))
    tn_text_addf(t,
                 "<p>Noise of the machine (A/A): a run of %s repeated with the same prompt varies by %.1f %% in %s "
                 "and %.1f %% in decode speed.</p>\n",
                 e->variant[0].name, 100 * r->noise[start], tn_ab_metric_of(start)->title,
                 100 * r->noise[TN_AB_DECODE_TPS]);
  json_block(t, "Machine", e->machine);
  for (uint32_t v = 0; v < e->n_variants; v++) {
    char title[64];
    snprintf(title, sizeof title, "%s: composition", e->variant[v].name);
    json_block(t, title, e->variant[v].composition);
    snprintf(title, sizeof title, "%s: engagement counters", e->variant[v].name);
    json_block(t, title, e->variant[v].counters);
  }
  tn_text_addf(t, "</section>\n");
}

tn_status tn_ab_html(const tn_ab_exp *e, const tn_ab_results *r, char **out, tn_err *err)
{
  tn_text t = {0};
  tn_text_addf(&t,
               "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
               "content=\"width=device-width,initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\">\n"
               "<title>tenon ab</title><style>\n%s</style></head><body>\n<h1>tenon ab: %u variants, %u "
               "pairs%s</h1>\n<p class=\"dim\">",
               style, e->n_variants, e->n_blocks, e->partial ? " (partial)" : "");
  tn_ab_escape(&t, e->model ? e->model : "");
  tn_text_addf(&t, ", %s</p>\n", e->started ? e->started : "");
  for (uint32_t i = 0; i < e->n_warnings; i++) {
    tn_text_addf(&t, "<p class=\"worse\">");
    tn_ab_escape(&t, e->warning[i]);
    tn_text_addf(&t, "</p>\n");
  }
  variants(&t, e, r);
  for (uint32_t v = 1; v < e->n_variants; v++) comparison(&t, e, r, v);
  details(&t, e, r);
  tn_text_addf(&t, "</body></html>\n");
  *out = t.failed ? NULL : tn_strdup(tn_text_str(&t));
  tn_text_release(&t);
  return *out ? TN_OK : tn_fail(err, TN_E_NOMEM, "no memory for the report");
}
