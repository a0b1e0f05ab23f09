/* compose_open: see compose_open.h. */
#include "cli/compose_open.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"

static void print_log(void *ctx, int32_t level, const char *msg)
{
  (void)ctx;
  if (level >= TN_LOG_WARN) fprintf(stderr, "tenon: %s\n", msg);
}

tn_status tn_cli_loader(tn_loader **out, tn_err *err)
{
  tn_loader_cfg cfg = {.log = print_log};
  return tn_loader_new(&cfg, out, err);
}

/* -m as what it stands for, [model] path. */
static tn_status set_model(tn_config *c, const char *path, tn_err *err)
{
  char *set = tn_asprintf("model.path=%s", path), *where = tn_asprintf("-m %s", path);
  tn_status st = set && where ? tn_config_set_from(c, set, where, err)
                              : tn_fail(err, TN_E_NOMEM, "no memory for the configuration");
  free(set);
  free(where);
  return st;
}

static tn_status read_config(const tn_cli_open_args *a, tn_config **out, tn_err *err)
{
  char *conf_dir = tn_cli_conf_dir(), *file = NULL;
  tn_config *c = tn_config_new(NULL, conf_dir);
  tn_status st = TN_OK;
  if (!c) st = tn_fail(err, TN_E_NOMEM, "no memory for the configuration");
  if (!st && a->n_files == 0) {
    file = conf_dir ? tn_asprintf("%s/default.ini", conf_dir) : NULL;
    st = file ? tn_config_load(c, file, err)
              : tn_fail(err, TN_E_IO, "the folder of configurations beside the executable cannot be found");
  }
  for (size_t i = 0; i < a->n_files && !st; i++) st = tn_config_load(c, a->files[i], err);
  for (size_t i = 0; i < a->n_sets && !st; i++) st = tn_config_set(c, a->sets[i], err);
  if (!st && a->model) st = set_model(c, a->model, err);
  free(file);
  free(conf_dir);
  *out = c;
  return st;
}

/* The model that the configuration names, or none. */
static tn_status open_model(const tn_cli_open_args *a, tn_cli_composed *s, tn_err *err)
{
  tn_host_options host;
  if (a->without_model) return TN_OK;
  tn_status st = tn_compose_host(s->config, &host, err);
  if (st) return st;
  if (*host.model_path) st = tn_model_open(host.model_path, a->progress, a->progress_ctx, &s->model, err);
  tn_compose_host_free(&host);
  return st;
}

tn_status tn_cli_compose_open(const tn_cli_open_args *a, tn_cli_composed *out, tn_err *err)
{
  *out = (tn_cli_composed){.catalog = tn_catalog_of(a->loader)};
  tn_status st = read_config(a, &out->config, err);
  if (!st) st = open_model(a, out, err);
  if (!st) {
    tn_compose_model facts = {0};
    if (out->model) facts = tn_compose_model_of(out->model);
    st = tn_compose(out->config, &out->catalog, out->model ? &facts : NULL, &out->composition, err);
  }
  const char *w;
  for (size_t i = 0; !st && (w = tn_composition_warning(out->composition, i)); i++)
    fprintf(stderr, "tenon %s: warning: %s\n", a->command, w);
  if (st) tn_cli_compose_close(out);
  return st;
}

void tn_cli_compose_close(tn_cli_composed *s)
{
  tn_composition_free(s->composition);
  tn_model_close(s->model);
  tn_config_free(s->config);
  *s = (tn_cli_composed){0};
}
