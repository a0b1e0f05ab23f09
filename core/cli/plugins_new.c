/* tenon plugins new: the beginning of a plugin outside the tree, complete and working for every slot. */
#include <stdlib.h>
#include <string.h>

#include "cli/compose_open.h"
#include "cli/plugins.h"

enum { OPT_DIR, OPT_JSON };

static const tn_cli_option options[] = {
    [OPT_DIR] = {"dir", 0, "DIR", "folder to write to, made if it is not there; default ./NAME"},
    [OPT_JSON] = {"json", 0, NULL, "print JSON"},
};
static const tn_cli_usage usage = {
    .command = "plugins new",
    .operands = "SLOT NAME",
    .summary = "Writes the beginning of a plugin: a C file that compiles and works, Makefile and CMakeLists.txt, an\n"
               "INI that composes it, and a script that checks it. Nothing that exists is touched.",
    .options = options,
    .n_options = TN_ARRAY_LEN(options),
};

static int no_slot(const tn_cli_args *args, const char *word)
{
  const char *names[TN_SLOT_LAST];
  for (uint32_t s = TN_SLOT_FIRST; s <= TN_SLOT_LAST; s++) names[s - 1] = tn_slot_name(s);
  const char *near = tn_nearest(word, names, TN_SLOT_LAST);
  if (near) return tn_cli_mistake(args, "there is no slot '%s'; did you mean '%s'?", word, near);
  return tn_cli_mistake(args,
                        "there is no slot '%s'; slots are backend memory eviction quantizer draft attention "
                        "position scheduler parallel",
                        word);
}

/* Names are unique across slots: says so when one is taken on this machine. */
static void warn_taken(const char *name)
{
  tn_loader *loader = NULL;
  tn_found_list list = {0};
  if (tn_cli_loader(&loader, NULL) == TN_OK && tn_loader_scan(loader, &list, NULL) == TN_OK)
    for (size_t i = 0; i < list.n; i++)
      if (!list.at[i].shadowed && strcmp(list.at[i].name, name) == 0)
        fprintf(stderr, "tenon %s: warning: there is a plugin '%s' already: %s\n", usage.command, name,
                list.at[i].path);
  tn_found_list_free(&list);
  tn_loader_free(loader);
}

/* A word of a shell command: in quotes where it needs them. */
static void print_word(const char *word)
{
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+";
  bool quote = strspn(word, plain) < strlen(word);
  if (quote) putchar('\'');
  for (const char *p = word; *p; p++) fputs(*p == '\'' ? "'\\''" : (char[]){*p, '\0'}, stdout);
  if (quote) putchar('\'');
}

/* Is the running command the first `tenon` in PATH? */
static bool in_path(const char *exe)
{
  const char *path = getenv("PATH");
  while (path && *path) {
    size_t n = strcspn(path, ":");
    char *file = tn_asprintf("%.*s/tenon", (int)n, path), *real = file ? realpath(file, NULL) : NULL;
    bool found = real != NULL, same = found && strcmp(real, exe) == 0;
    free(file);
    free(real);
    if (found) return same;
    path += n + (path[n] == ':');
  }
  return false;
}

/* The commands that work from here: this very tenon, and the header beside it. prefix/bin/tenon is running. */
static void print_next(const char *dir, const char *name, const char *prefix)
{
  char *exe = tn_asprintf("%s/bin/tenon", prefix), *pc = tn_asprintf("%s/lib/pkgconfig", prefix);
  const char *searched = getenv("PKG_CONFIG_PATH");
  bool found = exe && in_path(exe);
  printf("Next:\n  cd ");
  print_word(dir);
  printf("\n  make check");
  if (exe && !found) printf(" TENON="), print_word(exe);
  if (pc && strcmp(prefix, "/usr") != 0 && !(searched && strstr(searched, pc)))
    printf(" PKG_CONFIG_PATH="), print_word(pc);
  printf("\n  TN_PATH=$PWD/build/lib/tenon ");
  print_word(found || !exe ? "tenon" : exe);
  printf(" run --conf %s.ini -m MODEL.gguf -p Hello\n", name);
  free(exe);
  free(pc);
}

/* share/tenon/scaffold beside the folder of configurations. Free with free(). */
static char *texts(void)
{
  char *conf = tn_cli_conf_dir(), *slash = conf ? strrchr(conf, '/') : NULL;
  char *dir = slash ? tn_asprintf("%.*s/scaffold", (int)(slash - conf), conf) : NULL;
  free(conf);
  return dir;
}

int tn_cli_plugins_new(int argc, char **argv)
{
  tn_cli_args args;
  const char *value, *dir = NULL;
  bool json = false;
  int o;
  tn_cli_begin(&args, &usage, argc, argv);
  while ((o = tn_cli_next(&args, &value)) >= 0) {
    if (o == OPT_DIR) dir = value;
    json = json || o == OPT_JSON;
  }
  if (o == TN_CLI_STOP) return args.exit_code;
  if (argc - args.first_operand != 2) return tn_cli_mistake(&args, "takes a SLOT and a NAME");
  const char *slot = argv[args.first_operand], *name = argv[args.first_operand + 1];
  if (!tn_slot_by_name(slot)) return no_slot(&args, slot);
  char *from = texts();
  tn_err err = tn_err_init();
  tn_scaffold s = {.slot = tn_slot_by_name(slot), .name = name, .from = from, .dir = dir ? dir : name};
  tn_status st = from ? tn_scaffold_write(&s, &err) : tn_fail(&err, TN_E_IO, "the folder share/tenon cannot be found");
  if (st != TN_OK) {
    free(from);
    return tn_cli_fail(&args, &err);
  }
  warn_taken(name);
  if (json) {
    free(from);
    return tn_cli_json(usage.command, json_pack("{ss ss ss}", "slot", slot, "name", name, "dir", s.dir));
  }
  printf("%s: a plugin '%s' of the slot %s. ", s.dir, name, slot);
  from[strlen(from) - strlen("/share/tenon/scaffold")] = '\0';
  print_next(s.dir, name, from);
  free(from);
  return tn_cli_done(usage.command, TN_EXIT_OK);
}
