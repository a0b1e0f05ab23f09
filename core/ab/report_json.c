/* report_json: see report.h. */
#include <math.h>

#include "ab/report.h"

static json_t *number(double x) { return isfinite(x) ? json_real(x) : json_null(); }

static json_t *comparison(const tn_ab_exp *e, const tn_ab_results *r, uint32_t v, tn_ab_metric m)
{
  static const char *const verdicts[] = {"not measured", "better",      "worse",  "no difference seen",
                                         "equal",        "one reading", "too few"};
  const tn_ab_result *x = &r->at[v][m];
  const tn_ab_metric_info *i = tn_ab_metric_of(m);
  char words[160];
  json_t *j = json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:b}", "variant", e->variant[v].name, "metric", i->key,
                        "verdict", verdicts[x->verdict], "words", tn_ab_words(m, x, words), "unit",
                        i->ratio ? "%" : i->unit, "pairs", (int)x->s.n, "exact", (int)x->s.exact);
  if (!j) return NULL;
  json_object_set_new(j, "reference", number(x->a));
  json_object_set_new(j, "value", number(x->b));
  json_object_set_new(j, "difference", number(tn_ab_shown(m, x->s.est)));
  json_object_set_new(j, "low", number(tn_ab_shown(m, x->s.lo)));
  json_object_set_new(j, "high", number(tn_ab_shown(m, x->s.hi)));
  json_object_set_new(j, "p", number(x->s.p));
  json_object_set_new(j, "p_holm", number(x->p_holm));
  json_object_set_new(j, "smallest_seen", number(tn_ab_shown(m, x->seen)));
  if (x->needed) json_object_set_new(j, "pairs_needed", json_integer((json_int_t)x->needed));
  return j;
}

static json_t *variant(const tn_ab_exp *e, const tn_ab_results *r, uint32_t v)
{
  const tn_ab_variant *x = &e->variant[v];
  json_t *values = json_object();
  json_t *j = json_pack("{s:s, s:s, s:s, s:O?, s:O?, s:s?, s:b}", "name", x->name, "title", x->title, "fingerprint",
                        x->fingerprint, "composition", x->composition, "counters", x->counters, "not_engaged", x->idle,
                        "pareto", (int)x->pareto);
  for (uint32_t m = 0; m < TN_AB_N_METRICS; m++)
    json_object_set_new(values, tn_ab_metric_of((tn_ab_metric)m)->key, number(r->at[v][m].b));
  if (!j || json_object_set_new(j, "values", values) != 0) {
    json_decref(j);
    return NULL;
  }
  return j;
}

json_t *tn_ab_json(const tn_ab_exp *e, const tn_ab_results *r)
{
  json_t *variants = json_array(), *comparisons = json_array(), *refused = json_array(), *warnings = json_array();
  for (uint32_t v = 0; v < e->n_variants; v++) json_array_append_new(variants, variant(e, r, v));
  for (uint32_t v = 1; v < e->n_variants; v++)
    for (uint32_t m = 0; m < TN_AB_N_METRICS; m++)
      if (r->at[v][m].verdict != TN_AB_NOT_MEASURED)
        json_array_append_new(comparisons, comparison(e, r, v, (tn_ab_metric)m));
  for (uint32_t i = 0; i < e->n_refused; i++)
    json_array_append_new(refused,
                          json_pack("{s:s, s:s}", "title", e->refused[i].title, "reason", e->refused[i].reason));
  for (uint32_t i = 0; i < e->n_warnings; i++) json_array_append_new(warnings, json_string(e->warning[i]));
  json_t *noise = json_object();
  for (uint32_t m = 0; m < TN_AB_N_METRICS; m++)
    if (tn_ab_metric_of((tn_ab_metric)m)->kind == TN_AB_TIMED)
      json_object_set_new(noise, tn_ab_metric_of((tn_ab_metric)m)->key, number(r->noise[m]));
  return json_pack(
      "{s:s?, s:s?, s:s?, s:I, s:f, s:f, s:b, s:i, s:i, s:I, s:I, s:i, s:f, s:o, s:o, s:o, s:o, s:o, s:O?}", "started",
      e->started, "model", e->model, "model_identity", e->model_id, "seed", (json_int_t)e->seed, "alpha", e->alpha,
      "level", e->level, "partial", (int)e->partial, "pairs", (int)e->n_blocks, "prompts", (int)e->n_prompts, "n_gen",
      (json_int_t)e->n_gen, "slice", (json_int_t)e->slice, "tests", (int)r->family, "seconds", e->seconds, "noise",
      noise, "variants", variants, "comparisons", comparisons, "refused", refused, "warnings", warnings, "machine",
      e->machine);
}

static int add(const char *bytes, size_t n, void *ctx)
{
  tn_text *t = ctx;
  tn_text_add(t, bytes, n);
  return t->failed ? -1 : 0;
}

void tn_ab_json_text(tn_text *t, const json_t *j, size_t flags)
{
  if (!j || json_dump_callback(j, add, t, flags) != 0) t->failed = true;
}
