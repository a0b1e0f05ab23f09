/* store: writes an experiment. See store.h. */
#include "ab/store.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ab/report.h"

static json_t *number(double x) { return isfinite(x) ? json_real(x) : json_null(); }

tn_status tn_ab_write(const char *dir, const char *name, const char *text, size_t n, tn_err *err)
{
  char *path = dir ? tn_asprintf("%s/%s", dir, name) : tn_strdup(name);
  if (!path) return tn_fail(err, TN_E_NOMEM, "no memory for the path of %s", name);
  FILE *f = fopen(path, "we");
  bool ok = f && fwrite(text, 1, n, f) == n;
  int why = errno;
  if (f && fclose(f) != 0) ok = false, why = errno;
  tn_status st = ok ? TN_OK : tn_fail(err, TN_E_IO, "%s: cannot be written: %s", path, strerror(why));
  free(path);
  return st;
}

/* Takes over j. */
static tn_status write_json(const char *dir, const char *name, json_t *j, tn_err *err)
{
  tn_text t = {0};
  tn_ab_json_text(&t, j, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
  json_decref(j);
  tn_status st = t.failed ? tn_fail(err, TN_E_NOMEM, "no memory for %s/%s", dir, name)
                          : tn_ab_write(dir, name, tn_text_str(&t), t.n, err);
  tn_text_release(&t);
  return st;
}

static json_t *chunk_list(const double *x, const tn_ab_exp *e, uint32_t v)
{
  json_t *j = json_array();
  for (uint32_t c = 0; x && c < e->n_chunks; c++) json_array_append_new(j, number(x[(size_t)v * e->n_chunks + c]));
  return j;
}

static json_t *variants(const tn_ab_exp *e)
{
  json_t *all = json_array();
  for (uint32_t v = 0; v < e->n_variants; v++) {
    const tn_ab_variant *x = &e->variant[v];
    json_array_append_new(all,
                          json_pack("{s:s, s:s, s:s, s:O?, s:O?, s:s?, s:o, s:f, s:o, s:o}", "name", x->name, "title",
                                    x->title, "fingerprint", x->fingerprint, "composition", x->composition, "counters",
                                    x->counters, "not_engaged", x->idle, "rss_bytes", number(x->rss_bytes), "load_s",
                                    x->load_s, "nll", chunk_list(e->nll, e, v), "kld", chunk_list(e->kld, e, v)));
  }
  return all;
}

static json_t *head(const tn_ab_exp *e)
{
  json_t *prompts = json_array(), *refused = json_array(), *warnings = json_array();
  for (uint32_t i = 0; i < e->n_prompts; i++)
    json_array_append_new(
        prompts, json_pack("{s:s, s:I}", "text", e->prompt[i].text, "n_tokens", (json_int_t)e->prompt[i].n_tokens));
  for (uint32_t i = 0; i < e->n_refused; i++)
    json_array_append_new(refused,
                          json_pack("{s:s, s:s}", "title", e->refused[i].title, "reason", e->refused[i].reason));
  for (uint32_t i = 0; i < e->n_warnings; i++) json_array_append_new(warnings, json_string(e->warning[i]));
  return json_pack(
      "{s:i, s:s?, s:s?, s:s?, s:I, s:f, s:f, s:I, s:I, s:b, s:f, s:i, s:s?, s:i, s:O?, s:o, s:o, s:o, s:o}", "format",
      TN_AB_FORMAT, "started", e->started, "model", e->model, "model_identity", e->model_id, "seed",
      (json_int_t)e->seed, "alpha", e->alpha, "level", e->level, "n_gen", (json_int_t)e->n_gen, "slice",
      (json_int_t)e->slice, "partial", (int)e->partial, "seconds", e->seconds, "n_blocks", (int)e->n_blocks, "text",
      e->text, "n_chunks", (int)e->n_chunks, "machine", e->machine, "prompts", prompts, "variants", variants(e),
      "refused", refused, "warnings", warnings);
}

static tn_status samples(const tn_ab_exp *e, const char *dir, tn_err *err)
{
  tn_text t = {0};
  for (uint32_t b = 0; b < e->n_blocks; b++)
    for (uint32_t v = 0; v < e->n_variants; v++) {
      const tn_ab_sample *s = tn_ab_sample_at(e, b, v);
      json_t *j = json_pack("{s:i, s:i, s:s, s:i}", "block", (int)b, "prompt", (int)e->block_prompt[b], "variant",
                            e->variant[v].name, "place", (int)s->place);
      for (uint32_t m = 0; j && m < TN_AB_N_METRICS; m++)
        if (isfinite(s->x[m])) json_object_set_new(j, tn_ab_metric_of((tn_ab_metric)m)->key, json_real(s->x[m]));
      tn_ab_json_text(&t, j, JSON_COMPACT | JSON_REAL_PRECISION(17));
      tn_text_add(&t, "\n", 1);
      json_decref(j);
    }
  tn_status st = t.failed ? tn_fail(err, TN_E_NOMEM, "no memory for %s/samples.jsonl", dir)
                          : tn_ab_write(dir, "samples.jsonl", tn_text_str(&t), t.n, err);
  tn_text_release(&t);
  return st;
}

tn_status tn_ab_store(const tn_ab_exp *e, const char *dir, tn_err *err)
{
  tn_status st = write_json(dir, "experiment.json", head(e), err);
  return st == TN_OK ? samples(e, dir, err) : st;
}
