/* cli: what the subcommands share. Each subcommand is core/cli/<name>.c with `int tn_cli_<name>(int argc, char **argv)`
 * and one line in commands.def; argv[0] is the subcommand's name.
 *
 * Results go to stdout, everything else to stderr. Thread rule: the main thread only (getopt_long has state). */
#ifndef TN_CORE_CLI_CLI_H
#define TN_CORE_CLI_CLI_H

#include <jansson.h>
#include <stdio.h>

#include "base.h"

enum {
  TN_EXIT_OK = 0,
  TN_EXIT_FAIL = 1, /* refused or failed; one line on stderr says why */
  TN_EXIT_USAGE = 2 /* the command line itself is wrong */
};

#define TN_COMMAND(name, summary) int tn_cli_##name(int argc, char **argv);
#include "cli/commands.def"
#undef TN_COMMAND

/* ---------------------------------------------------------------- options */

#define TN_CLI_MAX_OPTIONS 48u

typedef struct tn_cli_option {
  const char *name; /* long name without the dashes */
  char letter;      /* short form, or 0 */
  const char *arg;  /* what the value is called in the usage text; NULL: a flag */
  const char *help; /* one line */
} tn_cli_option;

typedef struct tn_cli_usage {
  const char *command;          /* "compose" */
  const char *operands;         /* "FILE..." or "" */
  const char *summary;          /* one paragraph, lines of at most 90 characters */
  const tn_cli_option *options; /* [n_options], at most TN_CLI_MAX_OPTIONS; --help is added */
  size_t n_options;
  void (*more)(FILE *out); /* prints what follows the options in the usage text; NULL: nothing */
} tn_cli_usage;

enum { TN_CLI_END = -1, TN_CLI_STOP = -2 };

/* One walk over argv. Start with tn_cli_begin; options may stand before and after operands; "--" ends them. */
typedef struct tn_cli_args {
  const tn_cli_usage *usage;
  int argc;
  char **argv;       /* permuted: operands move to the end */
  int first_operand; /* argv[first_operand .. argc) once next has returned TN_CLI_END */
  int exit_code;     /* once next has returned TN_CLI_STOP: TN_EXIT_OK after --help, TN_EXIT_USAGE after a mistake */
  bool json;         /* --json is given: what goes wrong is said on stdout as well, as JSON */
} tn_cli_args;

void tn_cli_begin(tn_cli_args *a, const tn_cli_usage *usage, int argc, char **argv);

/* The next option: its index in usage->options, and in *value its argument (NULL for a flag, borrowed from argv). Only a
 * TEXT may be empty; an operand may not.
 * TN_CLI_END when there are no more; TN_CLI_STOP when the command is to return a->exit_code now: the usage text or the
 * mistake, with the nearest option, has been printed. */
int tn_cli_next(tn_cli_args *a, const char **value);

/* The usage text. */
void tn_cli_usage_print(FILE *out, const tn_cli_usage *usage);

/* "tenon compose: <text>", and where to find the usage, on stderr. With --json also
 * {"error": {"status": "TN_E_ARG", "message": <text>}} on stdout. Returns TN_EXIT_USAGE. */
int tn_cli_mistake(const tn_cli_args *a, const char *fmt, ...) TN_PRINTF(2, 3);

/* "tenon compose: <the error's sentence>" on stderr, and with --json as above on stdout. Returns TN_EXIT_FAIL. */
int tn_cli_fail(const tn_cli_args *a, const tn_err *err);

/* A whole number in [min, max] into *out; false after tn_cli_mistake has said what was wrong. */
bool tn_cli_number(const tn_cli_args *a, const char *option, const char *text, int64_t min, int64_t max, int64_t *out);

/* A number into *out, the same way. */
bool tn_cli_real(const tn_cli_args *a, const char *option, const char *text, double *out);

/* For commands without operands: every option to each (false after it has said what was wrong). -1 when all are taken,
 * else what the command returns now. */
int tn_cli_options_only(tn_cli_args *a, bool (*each)(void *ctx, int option, const char *value), void *ctx);

/* ---------------------------------------------------------------- output */

/* Pretty-printed JSON and a newline on stdout. Takes over the caller's reference. TN_EXIT_FAIL when j is NULL (no
 * memory) or stdout cannot be written. */
int tn_cli_json(const char *command, json_t *j);

/* Is colour welcome: out is a terminal and TERM is not "dumb". */
bool tn_cli_colour(FILE *out);

/* Flushes stdout; TN_EXIT_FAIL with a line on stderr when what was printed could not be written, else code. */
int tn_cli_done(const char *command, int code);

/* ---------------------------------------------------------------- places */

/* ../share/tenon/conf beside the real executable, in the build tree as in an installation. Free with free(); NULL when
 * there is no memory or the executable's path cannot be read. The folder need not exist. */
char *tn_cli_conf_dir(void);

#endif
