/* tenon: the command. Finds the subcommand and hands it the rest of the command line. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

typedef struct command {
  const char *name;
  int (*fn)(int argc, char **argv);
  const char *summary;
} command;

static int help(int argc, char **argv);

static const command commands[] = {
#define TN_COMMAND(name, summary) {#name, tn_cli_##name, summary},
#include "cli/commands.def"
#undef TN_COMMAND
    {"help", help, "print this text, or the usage of a command: tenon help COMMAND"},
};

static void usage(FILE *out)
{
  fputs("usage: tenon COMMAND [OPTION...] [FILE...]\n\n"
        "Runs language models from a composition of plugins that an INI file names.\n\n",
        out);
  for (size_t i = 0; i < TN_ARRAY_LEN(commands); i++)
    fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
  fputs("\n`tenon COMMAND --help` lists a command's options; `tenon --version` prints the version.\n", out);
}

static int unknown(const char *word)
{
  const char *names[TN_ARRAY_LEN(commands)];
  for (size_t i = 0; i < TN_ARRAY_LEN(commands); i++) names[i] = commands[i].name;
  const char *near = tn_nearest(word, names, TN_ARRAY_LEN(commands));
  if (near)
    fprintf(stderr, "tenon: there is no command '%s'; did you mean '%s'?\n", word, near);
  else
    fprintf(stderr, "tenon: there is no command '%s'; `tenon --help` lists them\n", word);
  return TN_EXIT_USAGE;
}

static int run(int argc, char **argv)
{
  for (size_t i = 0; i < TN_ARRAY_LEN(commands); i++)
    if (!strcmp(argv[0], commands[i].name)) return commands[i].fn(argc, argv);
  return unknown(argv[0]);
}

static int help(int argc, char **argv)
{
  if (argc > 1 && strcmp(argv[1], "help") != 0) {
    char flag[] = "--help";
    char *args[] = {argv[1], flag, NULL};
    return run(2, args);
  }
  usage(stdout);
  return tn_cli_done("help", TN_EXIT_OK);
}

int main(int argc, char **argv)
{
  if (argc < 2) {
    usage(stderr);
    return TN_EXIT_USAGE;
  }
  const char *word = argv[1];
  if (!strcmp(word, "--help") || !strcmp(word, "-h")) return help(1, argv);
  if (!strcmp(word, "--version") || !strcmp(word, "-V")) {
    printf("tenon %s (plugin ABI %u.%u)\n", TN_VERSION, TN_ABI_MAJOR, TN_ABI_MINOR);
    return tn_cli_done("--version", TN_EXIT_OK);
  }
  return run(argc - 1, argv + 1);
}
