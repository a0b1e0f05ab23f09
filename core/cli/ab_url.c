/* ab_url: `tenon ab --url A=http://... --url B=http://...`: the experiment over running servers. See ab_int.h. */
#include <stdlib.h>
#include <string.h>

#include "cli/ab_int.h"

typedef struct servers {
  ab_args *a;
  tn_ab_exp e;
  tn_ab_remote remote[TN_AB_MAX_VARIANTS];
  uint32_t n_open;
} servers;

/* "old=http://host:8080": a name and the server; without a name it is A, B, ... */
static const char *split(const char *text, uint32_t i, char name[32])
{
  const char *eq = strchr(text, '='), *scheme = strstr(text, "://");
  snprintf(name, 32, "%c", (char)('A' + i));
  if (!eq || (scheme && scheme < eq)) return text;
  snprintf(name, 32, "%.*s", (int)(eq - text < 31 ? eq - text : 31), text);
  return eq + 1;
}

static tn_status describe(servers *s, uint32_t i, const char *name, tn_err *err)
{
  tn_ab_variant *v = &s->e.variant[i];
  const tn_ab_remote *r = &s->remote[i];
  v->name = tn_strdup(name);
  v->title = tn_strdup(r->url);
  v->fingerprint = tn_strdup(tn_ab_remote_fingerprint(r));
  v->composition = json_incref(r->plan);
  if (!v->name || !v->title || !v->fingerprint) return tn_fail(err, TN_E_NOMEM, "no memory for a variant");
  for (uint32_t k = 0; k < i; k++) {
    const tn_ab_variant *w = &s->e.variant[k];
    if (strcmp(w->name, name) == 0) return tn_fail(err, TN_E_ARG, "--url: two servers are called %s", name);
    if (*v->fingerprint && strcmp(v->fingerprint, w->fingerprint) == 0)
      tn_ab_exp_warn(&s->e,
                     "%s (%s) and %s (%s) compute the same (fingerprint %s): unless they run on different machines, "
                     "this is an A/A run, and shows noise",
                     w->name, w->title, v->name, v->title, v->fingerprint);
  }
  return TN_OK;
}

/* One model for all, by the name that servers give it. */
static tn_status same_model(servers *s, uint32_t i, tn_err *err)
{
  const tn_ab_remote *first = &s->remote[0], *r = &s->remote[i];
  if (i == 0) {
    s->e.model = tn_strdup(r->model);
    return s->e.model ? TN_OK : tn_fail(err, TN_E_NOMEM, "no memory for the model's name");
  }
  if (strcmp(first->model, r->model) == 0) return TN_OK;
  if (!s->a->allow_models)
    return tn_fail(err, TN_E_ARG,
                   "%s serves the model %s, %s the model %s: what differs would be the models; "
                   "--allow-different-models compares them all the same",
                   first->url, first->model, r->url, r->model);
  tn_ab_exp_warn(&s->e, "%s serves the model %s, %s the model %s: the differences are those of the models as well",
                 first->url, first->model, r->url, r->model);
  return TN_OK;
}

static tn_status open_all(servers *s, tn_err *err)
{
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < s->a->n_urls; i++) {
    char name[32];
    const char *url = split(s->a->urls[i], i, name);
    s->n_open = i + 1;
    st = tn_ab_remote_open(&s->remote[i], url, s->a->n_gen, err);
    if (st == TN_OK) st = describe(s, i, name, err);
    if (st == TN_OK) st = same_model(s, i, err);
  }
  s->e.n_variants = s->n_open;
  return st;
}

/* What the servers did that a reader of the figures has to know. */
static void warn_of_runs(servers *s)
{
  for (uint32_t i = 0; i < s->n_open; i++) {
    const tn_ab_remote *r = &s->remote[i];
    const char *name = s->e.variant[i].name;
    if (r->plain)
      tn_ab_exp_warn(&s->e, "%s takes OpenAI's fields only: an answer may end early, and a prompt come from its cache",
                     name);
    if (r->n_cached)
      tn_ab_exp_warn(&s->e, "%s took %llu prompt tokens from its cache: runs were not independent", name,
                     (unsigned long long)r->n_cached);
    if (r->uneven)
      tn_ab_exp_warn(&s->e, "%s gave answers of other lengths than %lld tokens", name, (long long)r->n_gen);
  }
}

static int estimate(servers *s, double seconds)
{
  const ab_args *a = s->a;
  if (a->engine.json)
    return tn_cli_json("ab", json_pack("{s:f, s:I, s:i}", "seconds", seconds, "pairs", (json_int_t)a->pairs, "variants",
                                       (int)s->e.n_variants));
  printf("%lld pairs of %u servers take about %.0f s\n", (long long)a->pairs, s->e.n_variants, seconds);
  return tn_cli_done("ab", TN_EXIT_OK);
}

static tn_status measure(servers *s, tn_ab_run *run, tn_ab_results *r, tn_err *err)
{
  tn_status st = ab_pairs(s->a, run, r, err);
  if (st == TN_OK && s->e.n_blocks < 2) st = tn_fail(err, TN_E_STATE, "interrupted before the second pair");
  if (st == TN_OK) warn_of_runs(s);
  if (st == TN_OK) st = tn_ab_analyse(&s->e, r, err);
  if (st == TN_OK) tn_ab_pareto(&s->e, r);
  return st;
}

static int work(servers *s, tn_ab_results *r, tn_err *err)
{
  ab_args *a = s->a;
  uint32_t want;
  tn_ab_run run = {.e = &s->e, .remote = s->remote, .stop = tn_cli_interrupted};
  tn_status st = ab_begin(a, &s->e, err);
  if (st == TN_OK) st = open_all(s, err);
  if (st == TN_OK) (void)ab_raise_pairs(a, &s->e, &want);
  if (st == TN_OK) ab_show_warnings(&s->e);
  if (st == TN_OK && a->estimate) {
    uint64_t start = tn_now_ns();
    st = tn_ab_warm_up(&run, err);
    if (st == TN_OK) return estimate(s, (double)(tn_now_ns() - start) / 1e9 * (double)(a->pairs + 1));
  }
  if (st == TN_OK) st = ab_make_folder(a, err);
  if (st == TN_OK) st = measure(s, &run, r, err);
  if (st == TN_OK) st = ab_keep(a, &s->e, r, err);
  return st == TN_OK ? ab_print(a, &s->e, r) : tn_cli_fail(&a->cli, err);
}

int ab_servers(ab_args *a)
{
  servers *s = tn_zalloc(1, sizeof *s);
  tn_ab_results *r = tn_zalloc(1, sizeof *r);
  tn_err err = tn_err_init();
  int code;
  if (s && r) {
    tn_ab_exp_init(&s->e);
    s->a = a;
    code = work(s, r, &err);
    for (uint32_t i = 0; i < s->n_open; i++) tn_ab_remote_release(&s->remote[i]);
    tn_ab_exp_free(&s->e);
  } else {
    tn_fail(&err, TN_E_NOMEM, "no memory for the experiment");
    code = tn_cli_fail(&a->cli, &err);
  }
  free(r);
  free(s);
  return tn_cli_interrupted() ? 130 : code;
}
