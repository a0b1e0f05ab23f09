/* tenon plugins list: the plugin files on the search path, read from their notes; with --long each is loaded. */
#include <string.h>

#include "cli/compose_open.h"
#include "cli/plugins.h"

enum { OPT_SLOT = 0, OPT_LONG, OPT_DIRS, OPT_JSON };

static const tn_cli_option options[] = {
    [OPT_SLOT] = {"slot", 0, "SLOT", "only the plugins of one slot"},
    [OPT_LONG] = {"long", 0, NULL, "load each plugin and show its version and summary"},
    [OPT_DIRS] = {"dirs", 0, NULL, "the folders that are searched, in their order"},
    [OPT_JSON] = {"json", 0, NULL, "print JSON"},
};
static const tn_cli_usage usage = {
    .command = "plugins list",
    .operands = "",
    .summary = "Lists the plugins on the search path. Only their ABI notes are read: no code of a plugin runs,\n"
               "unless --long asks for what only the plugin itself can say.",
    .options = options,
    .n_options = TN_ARRAY_LEN(options),
};

typedef struct request {
  tn_cli_args cli;
  uint32_t slot; /* 0: all */
  bool load, dirs, json;
} request;

static bool parse(int argc, char **argv, request *r, int *code)
{
  tn_cli_args *args = &r->cli;
  const char *value;
  int o;
  tn_cli_begin(args, &usage, argc, argv);
  while ((o = tn_cli_next(args, &value)) >= 0) {
    if (o == OPT_LONG) r->load = true;
    if (o == OPT_DIRS) r->dirs = true;
    if (o == OPT_JSON) r->json = true;
    if (o == OPT_SLOT && (r->slot = tn_slot_by_name(value)) == 0) {
      const char *names[TN_SLOT_LAST];
      for (uint32_t s = TN_SLOT_FIRST; s <= TN_SLOT_LAST; s++) names[s - 1] = tn_slot_name(s);
      const char *near = tn_nearest(value, names, TN_SLOT_LAST);
      *code = tn_cli_mistake(args, "there is no slot '%s'%s%s", value, near ? "; did you mean " : "", near ? near : "");
      return false;
    }
  }
  *code = args->exit_code;
  if (o == TN_CLI_STOP) return false;
  if (args->first_operand == argc) return true;
  *code = tn_cli_mistake(args, "takes no operand, '%s' is given", argv[args->first_operand]);
  return false;
}

/* The plugin itself, when it is to be loaded and can be; else NULL, with the reason in *err. */
static const tn_plugin *load(tn_loader *l, const request *r, const tn_found *f, tn_err *err)
{
  const tn_plugin *p = NULL;
  *err = tn_err_init();
  if (r->load && !f->problem && !f->shadowed) tn_loader_open(l, f->slot, f->name, NULL, &p, err);
  return p;
}

static const char *problem(const tn_found *f, const tn_err *err)
{
  if (f->problem) return f->problem;
  return err->msg[0] ? err->msg : NULL;
}

static json_t *found_json(const tn_found *f, const tn_plugin *p, const tn_err *err)
{
  const char *why = problem(f, err);
  json_t *j = json_pack("{ss ss ss ss sb ss?}", "slot", tn_slot_name(f->slot), "name", f->name, "id", f->id, "path",
                        f->path, "shadowed", (int)f->shadowed, "problem", why);
  if (j && p) {
    json_object_set_new(j, "version", json_string(p->desc->version));
    json_object_set_new(j, "summary", json_string(p->desc->summary));
  }
  return j;
}

static void print_found(const tn_found *f, const tn_plugin *p, const tn_err *err)
{
  const char *why = problem(f, err);
  if (why)
    printf("%-10s %-20s refused: %s\n", tn_slot_name(f->slot), f->name, why);
  else if (f->shadowed)
    printf("%-10s %-20s hidden by an earlier folder: %s\n", tn_slot_name(f->slot), f->name, f->path);
  else if (p)
    printf("%-10s %-20s %-8s %s\n", tn_slot_name(f->slot), f->name, p->desc->version, p->desc->summary);
  else
    printf("%-10s %-20s %-28s %s\n", tn_slot_name(f->slot), f->name, f->id, f->path);
}

/* The list as text, or as JSON when out is not NULL. */
static void show(tn_loader *l, const request *r, const tn_found_list *list, json_t *out)
{
  for (size_t i = 0; i < list->n; i++) {
    const tn_found *f = &list->at[i];
    tn_err err;
    if (r->slot && f->slot != r->slot) continue;
    const tn_plugin *p = load(l, r, f, &err);
    if (out)
      json_array_append_new(out, found_json(f, p, &err));
    else
      print_found(f, p, &err);
  }
}

static int show_dirs(tn_loader *l, bool json)
{
  json_t *out = json ? json_array() : NULL;
  for (size_t i = 0; i < tn_loader_n_dirs(l); i++) {
    const char *from, *dir = tn_loader_dir(l, i, &from);
    if (out)
      json_array_append_new(out, json_pack("{ss ss}", "path", dir, "from", from));
    else
      printf("%-14s %s\n", from, dir);
  }
  return json ? tn_cli_json(usage.command, out) : tn_cli_done(usage.command, TN_EXIT_OK);
}

int tn_cli_plugins_list(int argc, char **argv)
{
  request r = {0};
  int code;
  tn_err err = tn_err_init();
  tn_loader *loader = NULL;
  tn_found_list list = {0};
  if (!parse(argc, argv, &r, &code)) return code;
  if (tn_cli_loader(&loader, &err) != TN_OK) return tn_cli_fail(&r.cli, &err);
  if (r.dirs) {
    code = show_dirs(loader, r.json);
  } else if (tn_loader_scan(loader, &list, &err) != TN_OK) {
    code = tn_cli_fail(&r.cli, &err);
  } else {
    json_t *out = r.json ? json_array() : NULL;
    show(loader, &r, &list, out);
    code = r.json ? tn_cli_json(usage.command, out) : tn_cli_done(usage.command, TN_EXIT_OK);
  }
  tn_found_list_free(&list);
  tn_loader_free(loader);
  return code;
}
