/* tenon plugins: lists, describes, checks, pairs and begins plugins. Each subcommand is plugins_<name>.c. */
#include "cli/plugins.h"

#include <string.h>

typedef struct subcommand {
  const char *name;
  int (*fn)(int argc, char **argv);
  const char *summary;
} subcommand;

static const subcommand subcommands[] = {
    {"list", tn_cli_plugins_list, "the plugins on the search path"},
    {"info", tn_cli_plugins_info, "what one plugin is: options, tokens, counters, file"},
    {"check", tn_cli_plugins_check, "test a plugin file against the contract"},
    {"matrix", tn_cli_plugins_matrix, "which plugins work together, found out by running every pair"},
    {"new", tn_cli_plugins_new, "write the beginning of a plugin of one's own"},
};

static void usage(FILE *out)
{
  fputs("usage: tenon plugins SUBCOMMAND [OPTION...]\n\n", out);
  for (size_t i = 0; i < TN_ARRAY_LEN(subcommands); i++)
    fprintf(out, "  %-8s %s\n", subcommands[i].name, subcommands[i].summary);
  fputs("\nPlugins are looked for in the folders of TN_PATH, in lib/tenon beside the command, and where Tenon was\n"
        "installed. `tenon plugins SUBCOMMAND --help` lists a subcommand's options.\n",
        out);
}

int tn_cli_plugins(int argc, char **argv)
{
  const char *names[TN_ARRAY_LEN(subcommands)];
  if (argc < 2) {
    usage(stderr);
    return TN_EXIT_USAGE;
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
    usage(stdout);
    return tn_cli_done("plugins", TN_EXIT_OK);
  }
  for (size_t i = 0; i < TN_ARRAY_LEN(subcommands); i++) {
    names[i] = subcommands[i].name;
    if (strcmp(argv[1], names[i]) == 0) return subcommands[i].fn(argc - 1, argv + 1);
  }
  const char *near = tn_nearest(argv[1], names, TN_ARRAY_LEN(names));
  if (near)
    fprintf(stderr, "tenon plugins: there is no subcommand '%s'; did you mean '%s'?\n", argv[1], near);
  else
    fprintf(stderr, "tenon plugins: there is no subcommand '%s'; `tenon plugins --help` lists them\n", argv[1]);
  return TN_EXIT_USAGE;
}
