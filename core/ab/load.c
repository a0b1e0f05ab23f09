/* load: reads a stored experiment. See store.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ab/store.h"
#include "config/config.h"

static char *copy(const json_t *j, const char *key)
{
  const char *s = json_string_value(json_object_get(j, key));
  return s ? tn_strdup(s) : NULL;
}

/* A text that could not be copied: it is not there, or there is no memory. */
static tn_status no_text(const json_t *j, const char *key, const char *dir, const char *what, tn_err *err)
{
  if (json_is_string(json_object_get(j, key))) return tn_fail(err, TN_E_NOMEM, "no memory for %s", what);
  return tn_fail(err, TN_E_ARG, "%s/experiment.json: %s is missing or not as it was written", dir, what);
}

static double real_of(const json_t *j, const char *key)
{
  const json_t *x = json_object_get(j, key);
  return json_is_number(x) ? json_number_value(x) : NAN;
}

static tn_status bad(const char *dir, const char *what, tn_err *err)
{
  return tn_fail(err, TN_E_ARG, "%s/experiment.json: %s is missing or not as it was written", dir, what);
}

/* An array under key with at most max entries. */
static const json_t *list(const json_t *j, const char *key, size_t max)
{
  const json_t *a = json_object_get(j, key);
  return json_is_array(a) && json_array_size(a) <= max ? a : NULL;
}

static bool chunks(tn_ab_exp *e, uint32_t v, const json_t *j, const char *key, double **all)
{
  const json_t *a = list(j, key, e->n_chunks);
  if (!a || json_array_size(a) == 0) return a != NULL;
  if (json_array_size(a) != e->n_chunks) return false;
  if (!*all) *all = tn_zalloc((size_t)e->n_variants * e->n_chunks, sizeof **all);
  for (uint32_t c = 0; *all && c < e->n_chunks; c++) {
    if (!json_is_number(json_array_get(a, c))) return false;
    (*all)[(size_t)v * e->n_chunks + c] = json_number_value(json_array_get(a, c));
  }
  return *all != NULL;
}

static tn_status variants(tn_ab_exp *e, const json_t *j, const char *dir, tn_err *err)
{
  const json_t *a = list(j, "variants", TN_AB_MAX_VARIANTS);
  if (!a || json_array_size(a) < 2) return bad(dir, "variants", err);
  e->n_variants = (uint32_t)json_array_size(a);
  for (uint32_t v = 0; v < e->n_variants; v++) {
    const json_t *x = json_array_get(a, v);
    tn_ab_variant *out = &e->variant[v];
    out->name = copy(x, "name");
    out->title = copy(x, "title");
    out->fingerprint = copy(x, "fingerprint");
    out->idle = copy(x, "not_engaged");
    out->composition = json_incref(json_object_get(x, "composition"));
    out->counters = json_incref(json_object_get(x, "counters"));
    out->rss_bytes = real_of(x, "rss_bytes");
    out->load_s = real_of(x, "load_s");
    if (!out->name) return no_text(x, "name", dir, "a variant's name", err);
    if (!out->title) return no_text(x, "title", dir, "a variant's title", err);
    if (!out->fingerprint) return no_text(x, "fingerprint", dir, "a variant's fingerprint", err);
    if (!chunks(e, v, x, "nll", &e->nll) || !chunks(e, v, x, "kld", &e->kld))
      return bad(dir, "a variant's nll or kld", err);
  }
  return TN_OK;
}

static tn_status lists(tn_ab_exp *e, const json_t *j, const char *dir, tn_err *err)
{
  const json_t *p = list(j, "prompts", TN_AB_MAX_PROMPTS), *r = list(j, "refused", TN_AB_MAX_REFUSED),
               *w = list(j, "warnings", TN_ARRAY_LEN(e->warning)), *x;
  size_t i;
  if (!p || !r || !w || json_array_size(p) == 0) return bad(dir, "prompts, refused or warnings", err);
  json_array_foreach((json_t *)(uintptr_t)p, i, x)
  {
    e->prompt[e->n_prompts++] = (tn_ab_prompt){copy(x, "text"), json_integer_value(json_object_get(x, "n_tokens"))};
    if (!e->prompt[i].text) return no_text(x, "text", dir, "a prompt's text", err);
  }
  json_array_foreach((json_t *)(uintptr_t)r, i, x)
  {
    e->refused[e->n_refused++] = (tn_ab_refused){copy(x, "title"), copy(x, "reason")};
    if (!e->refused[i].title) return no_text(x, "title", dir, "a refused combination", err);
    if (!e->refused[i].reason) return no_text(x, "reason", dir, "a refusal's reason", err);
  }
  json_array_foreach((json_t *)(uintptr_t)w, i, x) if (json_is_string(x)) tn_ab_exp_warn(e, "%s", json_string_value(x));
  return TN_OK;
}

static tn_status head(tn_ab_exp *e, const json_t *j, const char *dir, tn_err *err)
{
  json_int_t format = json_integer_value(json_object_get(j, "format")),
             n_chunks = json_integer_value(json_object_get(j, "n_chunks"));
  if (format != TN_AB_FORMAT)
    return tn_fail(err, TN_E_ARG, "%s/experiment.json: format %lld, this version reads %d", dir, (long long)format,
                   TN_AB_FORMAT);
  if (n_chunks < 0 || n_chunks > TN_STAT_MAX) return bad(dir, "n_chunks", err);
  e->n_chunks = (uint32_t)n_chunks;
  e->started = copy(j, "started");
  e->model = copy(j, "model");
  e->model_id = copy(j, "model_identity");
  e->text = copy(j, "text");
  e->seed = (uint64_t)json_integer_value(json_object_get(j, "seed"));
  e->alpha = real_of(j, "alpha");
  e->level = real_of(j, "level");
  e->n_gen = json_integer_value(json_object_get(j, "n_gen"));
  e->slice = json_integer_value(json_object_get(j, "slice"));
  e->partial = json_is_true(json_object_get(j, "partial"));
  e->seconds = real_of(j, "seconds");
  e->machine = json_incref(json_object_get(j, "machine"));
  if (!(e->alpha > 0 && e->alpha < 1) || !(e->level > 0 && e->level < 1)) return bad(dir, "alpha or level", err);
  tn_status st = lists(e, j, dir, err);
  return st == TN_OK ? variants(e, j, dir, err) : st;
}

/* One line into its place; lines come in the order they were written. */
static tn_status sample(tn_ab_exp *e, const json_t *j, uint32_t line, tn_ab_sample **row, tn_err *err)
{
  uint32_t v = line % e->n_variants;
  json_int_t block = json_integer_value(json_object_get(j, "block")),
             prompt = json_integer_value(json_object_get(j, "prompt"));
  const char *name = json_string_value(json_object_get(j, "variant"));
  if (block != line / e->n_variants || !name || strcmp(name, e->variant[v].name) != 0 || prompt < 0 ||
      prompt >= e->n_prompts)
    return tn_fail(err, TN_E_ARG, "samples.jsonl:%u: want block %u, variant %s and a known prompt", line + 1,
                   line / e->n_variants, e->variant[v].name);
  if (v == 0 && e->n_blocks >= TN_STAT_MAX) return tn_fail(err, TN_E_ARG, "samples.jsonl: over %d blocks", TN_STAT_MAX);
  if (v == 0 && tn_ab_exp_block(e, (uint32_t)prompt, row) != TN_OK)
    return tn_fail(err, TN_E_NOMEM, "no memory for samples");
  (*row)[v].done = true;
  (*row)[v].place = (uint32_t)json_integer_value(json_object_get(j, "place"));
  for (uint32_t m = 0; m < TN_AB_N_METRICS; m++) (*row)[v].x[m] = real_of(j, tn_ab_metric_of((tn_ab_metric)m)->key);
  return TN_OK;
}

static tn_status samples(tn_ab_exp *e, const char *text, size_t n, tn_err *err)
{
  tn_ab_sample *row = NULL;
  uint32_t line = 0;
  tn_status st = TN_OK;
  for (const char *p = text, *end = text + n; st == TN_OK && p < end; line++) {
    const char *nl = memchr(p, '\n', (size_t)(end - p));
    size_t len = nl ? (size_t)(nl - p) : (size_t)(end - p);
    json_error_t why;
    json_t *j = json_loadb(p, len, 0, &why);
    st = j ? sample(e, j, line, &row, err) : tn_fail(err, TN_E_ARG, "samples.jsonl:%u: %s", line + 1, why.text);
    json_decref(j);
    p += len + 1;
  }
  if (st == TN_OK && line % e->n_variants) st = tn_fail(err, TN_E_ARG, "samples.jsonl ends within a block");
  return st;
}

tn_status tn_ab_load(tn_ab_exp *e, const char *dir, tn_err *err)
{
  char *head_path = tn_asprintf("%s/experiment.json", dir), *sample_path = tn_asprintf("%s/samples.jsonl", dir),
       *text = NULL;
  size_t n;
  json_error_t why;
  json_t *j = NULL;
  tn_status st = head_path && sample_path ? TN_OK : tn_fail(err, TN_E_NOMEM, "no memory for a path");
  if (st == TN_OK) st = tn_file_read(head_path, (size_t)1 << 28, &text, &n, err);
  if (st == TN_OK && !(j = json_loadb(text, n, 0, &why)))
    st = tn_fail(err, TN_E_ARG, "%s:%d: %s", head_path, why.line, why.text);
  free(text);
  text = NULL;
  if (st == TN_OK) st = head(e, j, dir, err);
  if (st == TN_OK) st = tn_file_read(sample_path, (size_t)1 << 30, &text, &n, err);
  if (st == TN_OK && (st = samples(e, text, n, err)) != TN_OK) tn_err_prefix(err, "%s", dir);
  if (st == TN_OK && e->n_blocks != (uint32_t)json_integer_value(json_object_get(j, "n_blocks")))
    st = tn_fail(err, TN_E_ARG, "%s: samples.jsonl has %u blocks, experiment.json says %lld", dir, e->n_blocks,
                 (long long)json_integer_value(json_object_get(j, "n_blocks")));
  json_decref(j);
  free(text);
  free(head_path);
  free(sample_path);
  return st;
}
