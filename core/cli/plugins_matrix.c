/* tenon plugins matrix: every pair of plugins, run. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/compose_open.h"
#include "cli/engine_args.h"
#include "cli/plugins.h"
#include "host/pool.h"
#include "matrix/matrix.h"

enum { OPT_MODEL = 0, OPT_ONLY, OPT_WITHOUT, OPT_OUT, OPT_JOBS, OPT_TIMEOUT, OPT_JSON, MAX_WITHOUT = 16 };

static const tn_cli_option options[] = {
    [OPT_MODEL] = {"model", 'm', "FILE", "a small model, a GGUF file; again: for plugins that refuse the ones before"},
    [OPT_ONLY] = {"only", 0, "NAME", "only the pairs with this plugin"},
    [OPT_WITHOUT] = {"without", 0, "NAME", "leave this plugin out; may be given several times"},
    [OPT_OUT] = {"output", 'o', "FILE", "write the report there; default: standard output"},
    [OPT_JOBS] = {"jobs", 'j', "N", "runs at once; default: as many as there are CPUs"},
    [OPT_TIMEOUT] = {"timeout", 0, "S", "seconds that one run may take; default 120"},
    [OPT_JSON] = {"json", 0, NULL, "print JSON, with every figure"},
};
static const tn_cli_usage usage = {
    .command = "plugins matrix",
    .operands = "",
    .summary =
        "Runs every two plugins of different slots together (quantizers as weights and as kv), each pair in a\n"
        "process of its own, and says of each: equal bitwise, within a measured KL divergence of the default\n"
        "composition, or refused with its reason. Exits with 1 when a pair fails: a claim that does not hold, a\n"
        "plugin that took no part, a crash.\n\n"
        "  tenon plugins matrix -m tests/data/tiny/llama.gguf -o MATRIX.md\n"
        "  tenon plugins matrix -m M.gguf --only my_plugin",
    .options = options,
    .n_options = TN_ARRAY_LEN(options),
};

typedef struct request {
  tn_cli_args cli;
  tn_matrix_cfg cfg;
  const char *models[TN_MATRIX_MODELS], *without[MAX_WITHOUT], *out;
  bool json;
} request;

static bool take(request *r, int o, const char *v)
{
  int64_t n = 0;
  switch (o) {
    case OPT_MODEL:
      if (r->cfg.n_models == TN_MATRIX_MODELS)
        return tn_cli_mistake(&r->cli, "more than %d --model", TN_MATRIX_MODELS), false;
      r->models[r->cfg.n_models++] = v;
      return true;
    case OPT_ONLY: r->cfg.only = v; return true;
    case OPT_WITHOUT:
      if (r->cfg.n_without == MAX_WITHOUT) return tn_cli_mistake(&r->cli, "more than %d --without", MAX_WITHOUT), false;
      r->without[r->cfg.n_without++] = v;
      return true;
    case OPT_OUT: r->out = v; return true;
    case OPT_JOBS:
      if (!tn_cli_number(&r->cli, "jobs", v, 1, 64, &n)) return false;
      r->cfg.jobs = (uint32_t)n;
      return true;
    case OPT_TIMEOUT:
      if (!tn_cli_number(&r->cli, "timeout", v, 1, 86400, &n)) return false;
      r->cfg.timeout_s = (uint32_t)n;
      return true;
    default: r->json = true; return true;
  }
}

static bool parse(int argc, char **argv, request *r, int *code)
{
  const char *value;
  int o;
  tn_cli_begin(&r->cli, &usage, argc, argv);
  *code = TN_EXIT_USAGE;
  while ((o = tn_cli_next(&r->cli, &value)) >= 0)
    if (!take(r, o, value)) return false;
  *code = r->cli.exit_code;
  if (o == TN_CLI_STOP) return false;
  *code = TN_EXIT_USAGE;
  if (r->cli.first_operand < argc)
    return tn_cli_mistake(&r->cli, "takes no operand, '%s' is given", argv[r->cli.first_operand]), false;
  if (r->cfg.n_models == 0) return tn_cli_mistake(&r->cli, "no model: give a small GGUF file with -m FILE"), false;
  r->cfg.models = r->models;
  r->cfg.without = r->without;
  return true;
}

typedef struct shown {
  uint64_t start;
  size_t done;
} shown;

static bool on_progress(void *ctx, size_t done, size_t planned)
{
  shown *s = ctx;
  if (tn_cli_interrupted()) return false;
  double spent = (double)(tn_now_ns() - s->start) / 1e9;
  if (done == s->done || spent < 1 || !isatty(STDERR_FILENO)) return true;
  s->done = done;
  fprintf(stderr, "\r%zu of %zu runs, %.0f s left ", done, planned, spent / (double)done * (double)(planned - done));
  return true;
}

static json_t *cell_json(const tn_matrix *m, const tn_matrix_cell *c)
{
  bool ran = c->kind == TN_CELL_EQUAL || c->kind == TN_CELL_KLD;
  json_t *j = json_pack("{ss si si s[I,I] ss ss}", "result", tn_cell_kind_name(c->kind), "a", (int)c->a, "b", (int)c->b,
                        "engaged", (json_int_t)c->engaged[0], (json_int_t)c->engaged[1], "fingerprint", c->fingerprint,
                        "reason", c->text);
  if (!j) return NULL;
  json_object_set_new(j, "model", json_integer(c->model));
  json_object_set_new(j, "kld", ran && isfinite(c->kld) ? json_real(c->kld) : json_null());
  json_object_set_new(j, "same_as", c->same_as == UINT32_MAX ? json_null() : json_string(m->parts[c->same_as].name));
  return j;
}

static json_t *matrix_json(const tn_matrix *m, const tn_matrix_cfg *cfg)
{
  json_t *models = json_array(), *parts = json_array(), *cells = json_array();
  for (size_t i = 0; i < cfg->n_models; i++) json_array_append_new(models, json_string(cfg->models[i]));
  for (size_t i = 0; i < m->n_parts; i++) {
    const tn_matrix_part *p = &m->parts[i];
    json_t *sets = json_array();
    for (size_t k = 0; k < p->n_sets; k++) json_array_append_new(sets, json_string(p->sets[k]));
    json_array_append_new(parts, json_pack("{ss ss sb so ss?}", "key", p->key, "name", p->name, "exact", (int)p->exact,
                                           "settings", sets, "problem", p->problem));
  }
  for (size_t i = 0; i < m->n_cells; i++) json_array_append_new(cells, cell_json(m, &m->cells[i]));
  return json_pack("{so so so s{si si si si}}", "models", models, "parts", parts, "cells", cells, "counts", "equal",
                   (int)m->counts[TN_CELL_EQUAL], "kld", (int)m->counts[TN_CELL_KLD], "refused",
                   (int)m->counts[TN_CELL_REFUSED], "fail", (int)m->counts[TN_CELL_FAIL]);
}

/* The report to -o FILE or standard output. */
static int write_report(const request *r, const tn_matrix *m)
{
  tn_text text = {0};
  tn_err err = tn_err_init();
  tn_matrix_markdown(m, &r->cfg, &text);
  FILE *f = r->out ? fopen(r->out, "we") : stdout;
  int code = TN_EXIT_OK;
  bool good = !text.failed && f && fputs(tn_text_str(&text), f) >= 0;
  if (f && f != stdout) good = fclose(f) == 0 && good;
  if (!good) {
    tn_fail(&err, TN_E_IO, "%s: the report cannot be written", r->out ? r->out : "standard output");
    code = tn_cli_fail(&r->cli, &err);
  }
  tn_text_release(&text);
  return code == TN_EXIT_OK ? tn_cli_done(usage.command, code) : code;
}

static int report(const request *r, const tn_matrix *m)
{
  int code = r->out || !r->json ? write_report(r, m) : TN_EXIT_OK;
  if (code == TN_EXIT_OK && r->json) code = tn_cli_json(usage.command, matrix_json(m, &r->cfg));
  if (code != TN_EXIT_OK) return code;
  for (size_t i = 0; i < m->n_cells; i++) {
    const tn_matrix_cell *c = &m->cells[i];
    const tn_matrix_part *a = &m->parts[c->a], *b = &m->parts[c->b];
    if (c->kind != TN_CELL_FAIL) continue;
    code = TN_EXIT_FAIL;
    if (c->a == c->b)
      fprintf(stderr, "tenon plugins matrix: %s = %s: %s\n", a->key, a->name, c->text);
    else
      fprintf(stderr, "tenon plugins matrix: %s = %s with %s = %s: %s\n", a->key, a->name, b->key, b->name, c->text);
  }
  return code;
}

int tn_cli_plugins_matrix(int argc, char **argv)
{
  request r = {.cfg = {.timeout_s = 120, .jobs = tn_cpus_allowed()}};
  shown show = {tn_now_ns(), 0};
  int code;
  tn_matrix m;
  tn_err err = tn_err_init();
  if (!parse(argc, argv, &r, &code)) return code;
  if (tn_cli_loader(&r.cfg.loader, &err) != TN_OK) return tn_cli_fail(&r.cli, &err);
  char *conf_dir = tn_cli_conf_dir();
  r.cfg.conf_dir = conf_dir;
  r.cfg.progress = on_progress;
  r.cfg.ctx = &show;
  tn_cli_catch_interrupt();
  tn_status st = tn_matrix_run(&r.cfg, &m, &err);
  if (show.done) fprintf(stderr, "\r%*s\r", 50, "");
  code = st == TN_OK ? report(&r, &m) : tn_cli_fail(&r.cli, &err);
  if (st == TN_OK) tn_matrix_free(&m);
  tn_loader_free(r.cfg.loader);
  free(conf_dir);
  return tn_cli_interrupted() ? 130 : code;
}
