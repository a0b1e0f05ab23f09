/* tenon eval: the quality of a composed engine. Each subcommand is eval_<name>.c. */
#include "cli/eval.h"

#include <string.h>

typedef struct subcommand {
  const char *name;
  int (*fn)(int argc, char **argv);
  const char *summary;
} subcommand;

static const subcommand subcommands[] = {
    {"ppl", tn_cli_eval_ppl, "perplexity on a text"},
    {"kld", tn_cli_eval_kld, "perplexity and KL divergence from a reference"},
    {"needle", tn_cli_eval_needle, "a number in a long text, by depth and length"},
    {"passkey", tn_cli_eval_passkey, "a number in repeated noise"},
    {"multikey", tn_cli_eval_multikey, "one of four numbers in a long text"},
    {"vartrack", tn_cli_eval_vartrack, "a chain of variables in a long text"},
    {"tasks", tn_cli_eval_tasks, "multiple-choice questions of a JSON-lines file"},
    {"match", tn_cli_eval_match, "greedy continuations against a reference's"},
};

static void usage(FILE *out)
{
  fputs("usage: tenon eval SUBCOMMAND [OPTION...]\n\n", out);
  for (size_t i = 0; i < TN_ARRAY_LEN(subcommands); i++)
    fprintf(out, "  %-9s %s\n", subcommands[i].name, subcommands[i].summary);
  fputs("\n`tenon eval SUBCOMMAND --help` lists a subcommand's options.\n", out);
}

int tn_cli_eval(int argc, char **argv)
{
  const char *names[TN_ARRAY_LEN(subcommands)];
  if (argc < 2) {
    usage(stderr);
    return TN_EXIT_USAGE;
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
    usage(stdout);
    return tn_cli_done("eval", TN_EXIT_OK);
  }
  for (size_t i = 0; i < TN_ARRAY_LEN(subcommands); i++) {
    names[i] = subcommands[i].name;
    if (strcmp(argv[1], names[i]) == 0) return subcommands[i].fn(argc - 1, argv + 1);
  }
  const char *near = tn_nearest(argv[1], names, TN_ARRAY_LEN(names));
  if (near)
    fprintf(stderr, "tenon eval: there is no subcommand '%s'; did you mean '%s'?\n", argv[1], near);
  else
    fprintf(stderr, "tenon eval: there is no subcommand '%s'; `tenon eval --help` lists them\n", argv[1]);
  return TN_EXIT_USAGE;
}
