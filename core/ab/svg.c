/* svg: see svg.h. */
#include "ab/svg.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 760, LEFT = 190, RIGHT = 20, LINE = 30 };

typedef struct axis { /* from a value to a place */
  double lo, hi, from, to;
} axis;

static double place(const axis *a, double x)
{
  double at = a->from + (x - a->lo) / (a->hi - a->lo) * (a->to - a->from), low = fmin(a->from, a->to),
         high = fmax(a->from, a->to);
  return at < low ? low : at > high ? high : at;
}

/* A step of 1, 2 or 5 times a power of ten that gives about n of them. */
static double step_of(double range, int n)
{
  double raw = range / n, unit = pow(10, floor(log10(raw))), x = raw / unit;
  return unit * (x <= 1 ? 1 : x <= 2 ? 2 : x <= 5 ? 5 : 10);
}

void tn_ab_escape(tn_text *t, const char *s)
{
  for (; *s; s++) {
    const char *out = *s == '<' ? "&lt;" : *s == '>' ? "&gt;" : *s == '&' ? "&amp;" : *s == '"' ? "&quot;" : NULL;
    if (out)
      tn_text_addf(t, "%s", out);
    else
      tn_text_add(t, s, 1);
  }
}

static void open_plot(tn_text *t, int height, const char *label)
{
  tn_text_addf(t, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n", WIDTH, height, label);
}

/* Lines across the plot, from one side to the other, and numbers, for percent with a sign; about n of them. */
static void grid(tn_text *t, const axis *a, int n, bool along_x, double from, double to, bool percent)
{
  double step = step_of(a->hi - a->lo, n), first = ceil(a->lo / step);
  int last = (int)floor(a->hi / step - first + 1e-6);
  for (int i = 0; i <= last; i++) {
    double v = (first + i) * step, at = place(a, v);
    bool zero = fabs(v) < step / 1e6;
    tn_text_addf(t, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>",
                 percent && zero ? "zero" : "grid", along_x ? at : from, along_x ? from : at, along_x ? at : to,
                 along_x ? to : at);
    tn_text_addf(t,
                 percent ? "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">%+.4g</text>\n"
                         : "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">%.4g</text>\n",
                 along_x ? "tick" : "label", along_x ? at : from - 8, along_x ? to + 16 : at + 4, zero ? 0.0 : v);
  }
}

static void x_axis(tn_text *t, const axis *x, double top, double bottom, bool percent, const char *title)
{
  grid(t, x, 6, true, top, bottom, percent);
  tn_text_addf(t, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", (x->from + x->to) / 2, bottom + 34, title);
}

static void y_axis(tn_text *t, const axis *y, double left, double right, bool percent)
{
  grid(t, y, 5, false, left, right, percent);
}

/* Shown in the plot: differences in percent with an interval. */
static bool plotted(tn_ab_metric m, const tn_ab_result *x)
{
  return tn_ab_metric_of(m)->ratio && x->verdict != TN_AB_NOT_MEASURED && isfinite(x->s.est);
}

static const char *colour(const tn_ab_result *x)
{
  return x->verdict == TN_AB_BETTER ? "better" : x->verdict == TN_AB_WORSE ? "worse" : "same";
}

static void interval(tn_text *t, tn_ab_metric m, const tn_ab_result *x, const axis *a, double y)
{
  double est = tn_ab_shown(m, x->s.est);
  bool wide = isfinite(x->s.lo) && x->s.hi > x->s.lo;
  tn_text_addf(t, "<text class=\"label\" x=\"%d\" y=\"%.1f\">%s</text>", LEFT - 12, y + 4, tn_ab_metric_of(m)->title);
  if (wide)
    tn_text_addf(t, "<line class=\"bar %s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", colour(x),
                 place(a, tn_ab_shown(m, x->s.lo)), y, place(a, tn_ab_shown(m, x->s.hi)), y);
  tn_text_addf(t, "<circle class=\"dot %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"5\"><title>%s: %+.2f %%", colour(x),
               place(a, est), y, tn_ab_metric_of(m)->title, est);
  if (wide) tn_text_addf(t, " (%+.2f .. %+.2f)", tn_ab_shown(m, x->s.lo), tn_ab_shown(m, x->s.hi));
  tn_text_addf(t, "</title></circle>\n");
}

void tn_ab_svg_intervals(tn_text *t, const tn_ab_results *r, uint32_t v)
{
  axis a = {-1, 1, LEFT, WIDTH - RIGHT};
  int lines = 0;
  for (uint32_t m = 0; m < TN_AB_N_METRICS; m++) {
    const tn_ab_result *x = &r->at[v][m];
    if (!plotted((tn_ab_metric)m, x)) continue;
    double lo = isfinite(x->s.lo) ? x->s.lo : x->s.est, hi = isfinite(x->s.hi) ? x->s.hi : x->s.est;
    a.lo = fmin(a.lo, tn_ab_shown((tn_ab_metric)m, lo));
    a.hi = fmax(a.hi, tn_ab_shown((tn_ab_metric)m, hi));
    lines++;
  }
  a.hi = fmin(a.hi, 400); /* what reaches further ends at the edge */
  double room = 0.04 * (a.hi - a.lo);
  a.lo -= room, a.hi += room;
  double bottom = 10 + lines * LINE, y = 10 + LINE / 2.0;
  open_plot(t, (int)bottom + 42, "differences with their intervals");
  x_axis(t, &a, 6, bottom, true, "difference, percent");
  for (uint32_t m = 0; m < TN_AB_N_METRICS; m++) {
    if (!plotted((tn_ab_metric)m, &r->at[v][m])) continue;
    interval(t, (tn_ab_metric)m, &r->at[v][m], &a, y);
    y += LINE;
  }
  tn_text_addf(t, "</svg>\n");
}

static double pair(const tn_ab_exp *e, uint32_t b, uint32_t v)
{
  double x = tn_ab_sample_at(e, b, 0)->x[TN_AB_DECODE_TPS], y = tn_ab_sample_at(e, b, v)->x[TN_AB_DECODE_TPS];
  return x > 0 && y > 0 ? 100 * (y / x - 1) : NAN;
}

void tn_ab_svg_strip(tn_text *t, const tn_ab_exp *e, uint32_t v)
{
  axis y = {-1, 1, 200, 10}, x = {-0.5, (double)e->n_prompts - 0.5, 60, WIDTH - RIGHT};
  for (uint32_t b = 0; b < e->n_blocks; b++) {
    y.lo = fmin(y.lo, pair(e, b, v));
    y.hi = fmax(y.hi, pair(e, b, v));
  }
  double room = 0.05 * (y.hi - y.lo);
  y.lo -= room, y.hi += room;
  open_plot(t, 240, "decode speed of every pair, prompt by prompt");
  y_axis(t, &y, x.from, x.to, true);
  uint32_t every = e->n_prompts / 24 + 1;
  for (uint32_t p = 0; p < e->n_prompts; p += every)
    tn_text_addf(t, "<text class=\"tick\" x=\"%.1f\" y=\"216\">%u</text>\n", place(&x, p), p + 1);
  for (uint32_t b = 0; b < e->n_blocks; b++)
    if (isfinite(pair(e, b, v)))
      tn_text_addf(t,
                   "<circle class=\"pair\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"><title>pair %u, prompt %u: %+.2f "
                   "%%</title></circle>\n",
                   place(&x, e->block_prompt[b]), place(&y, pair(e, b, v)), b + 1, e->block_prompt[b] + 1,
                   pair(e, b, v));
  tn_text_addf(t, "<text class=\"tick\" x=\"%.1f\" y=\"234\">prompt</text></svg>\n", (x.from + x.to) / 2);
}

/* From a little under the least to a little over the most. */
static axis around(const tn_ab_exp *e, const tn_ab_results *r, tn_ab_metric m, double from, double to)
{
  double scale = tn_ab_metric_of(m)->scale;
  axis a = {INFINITY, -INFINITY, from, to};
  for (uint32_t v = 0; v < e->n_variants; v++) {
    a.lo = fmin(a.lo, r->at[v][m].b * scale);
    a.hi = fmax(a.hi, r->at[v][m].b * scale);
  }
  double room = a.hi > a.lo ? 0.1 * (a.hi - a.lo) : fabs(a.hi) * 0.1 + 1e-3;
  a.lo -= room, a.hi += room;
  return a;
}

void tn_ab_svg_pareto(tn_text *t, const tn_ab_exp *e, const tn_ab_results *r)
{
  axis x = around(e, r, TN_AB_KV_BYTES, 70, WIDTH - 40), y = around(e, r, TN_AB_DECODE_TPS, 300, 14);
  if (!isfinite(x.lo) || !isfinite(y.lo)) return;
  open_plot(t, 342, "decode speed over KV cache");
  x_axis(t, &x, 10, 300, false, "KV cache, peak, MiB (less is better); up: decode speed, tokens a second");
  y_axis(t, &y, x.from, x.to, false);
  for (uint32_t v = 0; v < e->n_variants; v++) {
    const tn_ab_variant *a = &e->variant[v];
    double kv = r->at[v][TN_AB_KV_BYTES].b * tn_ab_metric_of(TN_AB_KV_BYTES)->scale,
           speed = r->at[v][TN_AB_DECODE_TPS].b;
    if (!isfinite(kv) || !isfinite(speed)) continue;
    tn_text_addf(t, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"6\"><title>%s ", a->pareto ? "front" : "behind",
                 place(&x, kv), place(&y, speed), a->name);
    tn_ab_escape(t, a->title);
    tn_text_addf(t, ": %.1f t/s, %.2f MiB", speed, kv);
    if (isfinite(r->at[v][TN_AB_KLD].b)) tn_text_addf(t, ", KLD %.4g", r->at[v][TN_AB_KLD].b);
    tn_text_addf(t, "</title></circle><text class=\"name\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", place(&x, kv) + 10,
                 place(&y, speed) - 6, a->name);
  }
  tn_text_addf(t, "</svg>\n");
}
