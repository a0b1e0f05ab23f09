/* experiment: the store of what was measured. See experiment.h. */
#include "ab/experiment.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tn_ab_exp_init(tn_ab_exp *e)
{
  memset(e, 0, sizeof *e);
  e->alpha = 0.05;
  e->level = 0.95;
  for (uint32_t v = 0; v < TN_AB_MAX_VARIANTS; v++) {
    e->variant[v].rss_bytes = NAN;
    e->variant[v].kld = NAN;
  }
}

void tn_ab_exp_free(tn_ab_exp *e)
{
  for (uint32_t v = 0; v < TN_AB_MAX_VARIANTS; v++) {
    tn_ab_variant *x = &e->variant[v];
    free(x->name);
    free(x->title);
    free(x->fingerprint);
    free(x->idle);
    json_decref(x->composition);
    json_decref(x->counters);
  }
  for (uint32_t i = 0; i < TN_AB_MAX_PROMPTS; i++) free(e->prompt[i].text);
  for (uint32_t i = 0; i < TN_AB_MAX_REFUSED; i++) {
    free(e->refused[i].title);
    free(e->refused[i].reason);
  }
  for (uint32_t i = 0; i < e->n_warnings; i++) free(e->warning[i]);
  json_decref(e->machine);
  free(e->model);
  free(e->model_id);
  free(e->started);
  free(e->text);
  free(e->block_prompt);
  free(e->sample);
  free(e->nll);
  free(e->kld);
  tn_ab_exp_init(e);
}

static bool room(tn_ab_exp *e)
{
  if (e->n_blocks < e->cap_blocks) return true;
  uint32_t cap = e->cap_blocks ? 2 * e->cap_blocks : 32;
  uint32_t *p = realloc(e->block_prompt, cap * sizeof *p);
  if (p) e->block_prompt = p;
  tn_ab_sample *s = p ? realloc(e->sample, (size_t)cap * e->n_variants * sizeof *s) : NULL;
  if (!s) return false;
  e->sample = s;
  e->cap_blocks = cap;
  return true;
}

tn_status tn_ab_exp_block(tn_ab_exp *e, uint32_t prompt, tn_ab_sample **row)
{
  if (!room(e)) return TN_E_NOMEM;
  e->block_prompt[e->n_blocks] = prompt;
  *row = &e->sample[(size_t)e->n_blocks++ * e->n_variants];
  for (uint32_t v = 0; v < e->n_variants; v++) {
    (*row)[v] = (tn_ab_sample){0};
    for (uint32_t m = 0; m < TN_AB_N_METRICS; m++) (*row)[v].x[m] = NAN;
  }
  return TN_OK;
}

void tn_ab_exp_drop(tn_ab_exp *e) { e->n_blocks -= e->n_blocks > 0; }

void tn_ab_exp_warn(tn_ab_exp *e, const char *fmt, ...)
{
  char text[1024];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  char *copy = e->n_warnings < TN_ARRAY_LEN(e->warning) ? tn_strdup(text) : NULL;
  if (copy) e->warning[e->n_warnings++] = copy;
}
