/* remote: see remote.h. */
#include "ab/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ab/stats.h"

tn_status tn_ab_remote_open(tn_ab_remote *r, const char *url, int64_t n_gen, tn_err *err)
{
  const tn_client_cfg cfg = {.url = url};
  tn_err none = tn_err_init(); /* another server has no such route */
  *r = (tn_ab_remote){.n_gen = n_gen};
  tn_status st = tn_client_open(&cfg, &r->client, err);
  if (st == TN_OK) st = tn_client_model(r->client, &r->model, err);
  if (st == TN_OK && !(r->url = tn_strdup(url))) st = tn_fail(err, TN_E_NOMEM, "no memory for a server's name");
  if (st == TN_OK) (void)tn_client_get(r->client, "/v1/plan", &r->plan, &none);
  if (!json_is_string(json_object_get(r->plan, "fingerprint"))) {
    json_decref(r->plan);
    r->plan = NULL;
  }
  return none.code == TN_E_NOMEM && st == TN_OK ? tn_fail(err, TN_E_NOMEM, "%s", none.msg) : st;
}

void tn_ab_remote_release(tn_ab_remote *r)
{
  tn_client_close(r->client);
  json_decref(r->plan);
  free(r->url);
  free(r->model);
  free(r->text);
  free(r->gap);
  *r = (tn_ab_remote){0};
}

const char *tn_ab_remote_fingerprint(const tn_ab_remote *r)
{
  const char *print = json_string_value(json_object_get(r->plan, "fingerprint"));
  return print ? print : "";
}

static tn_status ask(tn_ab_remote *r, const char *prompt, uint64_t salt, bool (*stop)(void), tn_client_answer **a,
                     tn_err *err)
{
  char unique[48];
  snprintf(unique, sizeof unique, "tenon-ab-%llx-%llu", (unsigned long long)salt, (unsigned long long)r->n_runs++);
  json_t *more = r->plain ? NULL : json_pack("{s:b, s:s}", "cache_prompt", 0, "cache_salt", unique);
  if (!r->plain && !more) return tn_fail(err, TN_E_NOMEM, "%s: no memory for a request", r->url);
  const tn_client_request q = {
      .model = r->model, .prompt = prompt, .ignore_eos = !r->plain, .max_tokens = r->n_gen, .seed = -1, .more = more};
  tn_status st = tn_client_ask(r->client, &q, stop, a, err);
  json_decref(more);
  return st;
}

/* Text, tokens and times of an answer; pieces of one moment are one. Takes the text out of it. */
static tn_status keep(tn_ab_remote *r, tn_client_answer *a, tn_err *err)
{
  const uint64_t *at = a->chunk_ns;
  free(r->text);
  free(r->gap);
  r->text = a->text;
  r->n_text = a->n_text;
  a->text = NULL;
  r->n_gaps = 0;
  r->gap = tn_zalloc((size_t)a->n_chunks + 1, sizeof *r->gap);
  if (!r->gap) return tn_fail(err, TN_E_NOMEM, "%s: no memory for %u gaps", r->url, a->n_chunks);
  for (uint32_t i = 1; i < a->n_chunks; i++)
    if (at[i] > at[i - 1]) r->gap[r->n_gaps++] = (double)(at[i] - at[i - 1]) / 1e9;
  r->n_prompt = a->n_prompt;
  r->n_new = a->n_new >= 0 ? a->n_new : (int64_t)a->n_chunks;
  r->n_cached += a->n_cached > 0 ? (uint64_t)a->n_cached : 0;
  r->uneven |= r->n_new != r->n_gen;
  if (a->n_chunks == 0) return tn_fail(err, TN_E_IO, "%s: an answer without text", r->url);
  qsort(r->gap, r->n_gaps, sizeof *r->gap, tn_stat_by_value);
  r->ttft_s = (double)(at[0] - a->sent_ns) / 1e9;
  r->decode_s = (double)(at[a->n_chunks - 1] - at[0]) / 1e9;
  return TN_OK;
}

tn_status tn_ab_remote_run(tn_ab_remote *r, const char *prompt, uint64_t salt, bool (*stop)(void), tn_err *err)
{
  tn_client_answer *a = NULL;
  tn_status st = ask(r, prompt, salt, stop, &a, err);
  if (st == TN_OK && !r->plain && (a->status == 400 || a->status == 422)) { /* perhaps for the fields beyond OpenAI's */
    tn_client_answer *first = a;
    a = NULL;
    r->plain = true;
    st = ask(r, prompt, salt, stop, &a, err);
    if (st == TN_OK && !a->ok) { /* no: what was said first counts */
      tn_client_answer_free(a);
      a = first;
      first = NULL;
      r->plain = false;
    }
    tn_client_answer_free(first);
  }
  if (st == TN_OK && !a->ok) st = tn_fail(err, a->err.code, "%s", a->err.msg);
  if (st == TN_OK) st = keep(r, a, err);
  tn_client_answer_free(a);
  return st;
}

void tn_ab_remote_figures(const tn_ab_remote *r, const tn_ab_remote *ref, double x[TN_AB_N_METRICS])
{
  x[TN_AB_TTFT] = r->ttft_s;
  x[TN_AB_MATCH] = r->n_text == ref->n_text && memcmp(r->text, ref->text, r->n_text) == 0;
  if (r->n_gaps == 0) return;
  x[TN_AB_DECODE_TPS] = (double)(r->n_new - 1) / r->decode_s;
  x[TN_AB_GAP_P50] = tn_stat_quantile(r->gap, r->n_gaps, 0.5);
  x[TN_AB_GAP_P99] = tn_stat_quantile(r->gap, r->n_gaps, 0.99);
}
