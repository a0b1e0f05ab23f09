/* tenon plugins info: one plugin, by name, id or file. */
#include <stdlib.h>
#include <string.h>

#include "cli/compose_open.h"
#include "cli/plugins.h"

enum { OPT_JSON = 0 };

static const tn_cli_option options[] = {
    [OPT_JSON] = {"json", 0, NULL, "print JSON"},
};
static const tn_cli_usage usage = {
    .command = "plugins info",
    .operands = "NAME",
    .summary = "Shows one plugin's options with ranges and defaults, its tokens, counters and file. NAME is the word\n"
               "in an INI, an id (org.tenon.paged), or SLOT/NAME.",
    .options = options,
    .n_options = TN_ARRAY_LEN(options),
};

/* Is f what the user calls `name`? */
static bool is_called(const tn_found *f, const char *name)
{
  const char *slash = strchr(name, '/');
  if (!slash) return strcmp(f->name, name) == 0 || strcmp(f->id, name) == 0;
  size_t n = (size_t)(slash - name);
  const char *slot = tn_slot_name(f->slot);
  return strlen(slot) == n && strncmp(slot, name, n) == 0 && strcmp(f->name, slash + 1) == 0;
}

static tn_status unknown(const tn_found_list *list, const char *name, tn_err *err)
{
  const char **names = tn_zalloc(list->n, sizeof *names);
  if (!names) return tn_fail(err, TN_E_NOMEM, "no memory to look for '%s'", name);
  for (size_t i = 0; i < list->n; i++) names[i] = list->at[i].name;
  const char *near = tn_nearest(name, names, list->n);
  if (near)
    tn_fail(err, TN_E_ARG, "there is no plugin '%s'; did you mean '%s'?", name, near);
  else
    tn_fail(err, TN_E_ARG, "there is no plugin '%s'; `tenon plugins list` shows what there is", name);
  free((void *)names);
  return TN_E_ARG;
}

/* The one plugin of that name, loaded. */
static tn_status find(tn_loader *l, const tn_found_list *list, const char *name, const tn_plugin **out, tn_err *err)
{
  const tn_found *hit = NULL;
  for (size_t i = 0; i < list->n; i++) {
    const tn_found *f = &list->at[i];
    if (f->shadowed || !is_called(f, name)) continue;
    if (hit)
      return tn_fail(err, TN_E_ARG, "'%s' is a plugin of the slots %s and %s: say %s/%s or %s/%s", name,
                     tn_slot_name(hit->slot), tn_slot_name(f->slot), tn_slot_name(hit->slot), name,
                     tn_slot_name(f->slot), name);
    hit = f;
  }
  if (!hit) return unknown(list, name, err);
  if (hit->problem) return tn_fail(err, TN_E_UNSUPPORTED, "%s", hit->problem);
  return tn_loader_open(l, hit->slot, hit->name, NULL, out, err);
}

int tn_cli_plugins_info(int argc, char **argv)
{
  tn_cli_args args;
  const char *value;
  bool json = false;
  int o;
  tn_cli_begin(&args, &usage, argc, argv);
  while ((o = tn_cli_next(&args, &value)) >= 0) json = json || o == OPT_JSON;
  if (o == TN_CLI_STOP) return args.exit_code;
  if (argc - args.first_operand != 1) return tn_cli_mistake(&args, "takes one NAME");
  tn_err err = tn_err_init();
  tn_loader *loader = NULL;
  tn_found_list list = {0};
  const tn_plugin *p = NULL;
  tn_status st = tn_cli_loader(&loader, &err);
  if (st == TN_OK) st = tn_loader_scan(loader, &list, &err);
  if (st == TN_OK) st = find(loader, &list, argv[args.first_operand], &p, &err);
  int code;
  if (st != TN_OK) {
    code = tn_cli_fail(&args, &err);
  } else if (json) {
    code = tn_cli_json(usage.command, tn_cli_describe_json(p));
  } else {
    tn_cli_describe(p);
    code = tn_cli_done(usage.command, TN_EXIT_OK);
  }
  tn_found_list_free(&list);
  tn_loader_free(loader);
  return code;
}
