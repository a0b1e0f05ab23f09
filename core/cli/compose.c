/* tenon compose: resolves INI files to a composition and reports it. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/compose_open.h"
#include "config/param.h"

enum { OPT_MODEL = 0, OPT_SET, OPT_EXPLAIN, OPT_DIFF, OPT_JSON, OPT_NO_MODEL, MAX_SETS = 256 };

static const tn_cli_option options[] = {
    [OPT_MODEL] = {"model", 'm', "FILE", "model to check against, a GGUF file; over [model] path"},
    [OPT_SET] = {"set", 0, "S.K=V",
                 "one option, as in --set engine.threads=2 or --set compose.kv=NAME; may be repeated"},
    [OPT_EXPLAIN] = {"explain", 0, NULL, "what each key got and why, with the origin of every option"},
    [OPT_DIFF] = {"diff", 0, NULL, "compare the compositions of exactly two files"},
    [OPT_JSON] = {"json", 0, NULL, "print JSON"},
    [OPT_NO_MODEL] = {"no-model", 0, NULL, "do not open the model: nothing is checked against it"},
};

/* The host's own options, for --help. */
static void host_options(FILE *out)
{
  const tn_host_section *h;
  for (size_t s = 0; (h = tn_host_section_at(s)); s++) {
    fprintf(out, "\n[%s]\n", h->name);
    for (size_t i = 0; h->params[i]; i++) {
      const tn_param *p = h->params[i];
      char *range = tn_param_range(p);
      fprintf(out, "  %-18s %s\n  %-18s %s; default %s\n", p->key, p->help, "", range ? range : "",
              *p->def ? p->def : "none");
      free(range);
    }
  }
}

static const tn_cli_usage usage = {
    .command = "compose",
    .operands = "[FILE...]",
    .summary = "Resolves the composition that INI files describe (later files override earlier ones; without a file,\n"
               "the installation's default.ini) and prints what it is, or why it cannot work and what to change.",
    .options = options,
    .n_options = TN_ARRAY_LEN(options),
    .more = host_options,
};

typedef struct request {
  tn_cli_args cli;
  bool explain, diff, json, no_model;
  const char *model;
  size_t n_sets, n_files;
  const char *sets[MAX_SETS];
  const char *const *files;
} request;

/* false: the command ends with *code. */
static bool parse(int argc, char **argv, request *r, int *code)
{
  tn_cli_args *args = &r->cli;
  const char *value;
  int o;
  tn_cli_begin(args, &usage, argc, argv);
  while ((o = tn_cli_next(args, &value)) >= 0) {
    if (o == OPT_MODEL) r->model = value;
    if (o == OPT_EXPLAIN) r->explain = true;
    if (o == OPT_DIFF) r->diff = true;
    if (o == OPT_JSON) r->json = true;
    if (o == OPT_NO_MODEL) r->no_model = true;
    if (o == OPT_SET && r->n_sets == MAX_SETS) {
      *code = tn_cli_mistake(args, "over %d times --set", MAX_SETS);
      return false;
    }
    if (o == OPT_SET) r->sets[r->n_sets++] = value;
  }
  *code = args->exit_code;
  if (o == TN_CLI_STOP) return false;
  r->files = (const char *const *)argv + args->first_operand;
  r->n_files = (size_t)(argc - args->first_operand);
  *code = TN_EXIT_USAGE;
  if (r->diff && r->n_files != 2) tn_cli_mistake(args, "--diff takes exactly two files, %zu are given", r->n_files);
  if (r->diff && r->explain) tn_cli_mistake(args, "--diff and --explain exclude each other");
  return !r->diff || (r->n_files == 2 && !r->explain);
}

static tn_status open_one(const request *r, tn_loader *loader, const char *const *files, size_t n, tn_cli_composed *out,
                          tn_err *err)
{
  tn_cli_open_args args = {.command = usage.command,
                           .files = files,
                           .n_files = n,
                           .sets = r->sets,
                           .n_sets = r->n_sets,
                           .loader = loader,
                           .model = r->model,
                           .without_model = r->no_model};
  return tn_cli_compose_open(&args, out, err);
}

/* Prints text and frees it. */
static int print(const request *r, char *text, tn_err *err)
{
  if (!text) {
    tn_fail(err, TN_E_NOMEM, "no memory for the report");
    return tn_cli_fail(&r->cli, err);
  }
  fputs(text, stdout);
  free(text);
  return tn_cli_done(usage.command, TN_EXIT_OK);
}

static int report(const request *r, tn_loader *loader, tn_err *err)
{
  tn_cli_composed s;
  if (open_one(r, loader, r->files, r->n_files, &s, err)) return tn_cli_fail(&r->cli, err);
  int code;
  if (r->json)
    code = tn_cli_json(usage.command, tn_composition_json(s.composition));
  else if (r->explain)
    code = print(r, tn_composition_explain(s.composition), err);
  else
    code = print(r, tn_composition_summary(s.composition), err);
  tn_cli_compose_close(&s);
  return code;
}

static int report_diff(const request *r, tn_loader *loader, tn_err *err)
{
  tn_cli_composed a = {0}, b = {0};
  int code = TN_EXIT_FAIL;
  tn_status st = open_one(r, loader, r->files, 1, &a, err);
  if (!st) st = open_one(r, loader, r->files + 1, 1, &b, err);
  if (st)
    code = tn_cli_fail(&r->cli, err);
  else if (r->json)
    code = tn_cli_json(usage.command, tn_composition_diff_json(a.composition, b.composition));
  else
    code = print(r, tn_composition_diff(a.composition, b.composition), err);
  tn_cli_compose_close(&a);
  tn_cli_compose_close(&b);
  return code;
}

int tn_cli_compose(int argc, char **argv)
{
  request r = {0};
  int code;
  if (!parse(argc, argv, &r, &code)) return code;
  tn_err err = tn_err_init();
  tn_loader *loader = NULL;
  if (tn_cli_loader(&loader, &err)) return tn_cli_fail(&r.cli, &err);
  code = r.diff ? report_diff(&r, loader, &err) : report(&r, loader, &err);
  tn_loader_free(loader);
  return code;
}
