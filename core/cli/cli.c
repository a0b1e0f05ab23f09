/* cli: see cli.h. */
#include "cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HELP_CODE 0x10000
#define LONG_CODE 0x100 /* + index: an option without a letter */

/* Does the word stand before "--"? Known from the start, so that a mistake before it is told as JSON too. */
static bool given(int argc, char **argv, const char *word)
{
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
    if (!strcmp(argv[i], word)) return true;
  return false;
}

void tn_cli_begin(tn_cli_args *a, const tn_cli_usage *usage, int argc, char **argv)
{
  *a = (tn_cli_args){.usage = usage, .argc = argc, .argv = argv, .exit_code = TN_EXIT_OK};
  for (size_t i = 0; i < usage->n_options; i++)
    if (!strcmp(usage->options[i].name, "json")) a->json = given(argc, argv, "--json");
  optind = 0; /* glibc: start afresh */
  opterr = 0;
}

/* getopt_long's tables of a usage: longs[n_options + 2], letters[2 * n_options + 3]. */
static void tables(const tn_cli_usage *u, struct option *longs, char *letters)
{
  size_t k = 0;
  letters[k++] = ':'; /* a missing argument is reported as ':' */
  for (size_t i = 0; i < u->n_options; i++) {
    const tn_cli_option *o = &u->options[i];
    longs[i] = (struct option){o->name, o->arg ? required_argument : no_argument, NULL, LONG_CODE + (int)i};
    if (!o->letter) continue;
    letters[k++] = o->letter;
    if (o->arg) letters[k++] = ':';
  }
  longs[u->n_options] = (struct option){"help", no_argument, NULL, HELP_CODE};
  longs[u->n_options + 1] = (struct option){0};
  letters[k++] = 'h';
  letters[k] = '\0';
}

static int stop(tn_cli_args *a, int code)
{
  a->exit_code = code;
  return TN_CLI_STOP;
}

/* Says what is wrong with the word that getopt_long refused. */
static int refuse(tn_cli_args *a, int what)
{
  const char *word = a->argv[optind > 0 ? optind - 1 : 0];
  bool is_long = !strncmp(word, "--", 2);
  char name[64];
  snprintf(name, sizeof name, "%.*s", (int)strcspn(word + (is_long ? 2 : 0), "="), word + (is_long ? 2 : 0));
  if (!is_long) snprintf(name, sizeof name, "%c", optopt < LONG_CODE ? optopt : '?');
  const char *dashes = is_long ? "--" : "-";
  if (what == ':') return stop(a, tn_cli_mistake(a, "option %s%s needs a value", dashes, name));
  const char *names[TN_CLI_MAX_OPTIONS + 1];
  size_t n = 0;
  for (; n < a->usage->n_options; n++) {
    names[n] = a->usage->options[n].name;
    if (is_long && !strcmp(names[n], name)) return stop(a, tn_cli_mistake(a, "option --%s takes no value", name));
  }
  names[n++] = "help";
  const char *near = is_long ? tn_nearest(name, names, n) : NULL;
  if (near) return stop(a, tn_cli_mistake(a, "unknown option --%s; did you mean --%s?", name, near));
  return stop(a, tn_cli_mistake(a, "unknown option %s%s", dashes, name));
}

/* The option's value is there; only a text may be empty. */
static int take(tn_cli_args *a, int i)
{
  const tn_cli_option *o = &a->usage->options[i];
  if (!o->arg || *optarg || !strcmp(o->arg, "TEXT")) return i;
  return stop(a, tn_cli_mistake(a, "option --%s is empty: it needs a value, %s", o->name, o->arg));
}

int tn_cli_next(tn_cli_args *a, const char **value)
{
  struct option longs[TN_CLI_MAX_OPTIONS + 2];
  char letters[2 * TN_CLI_MAX_OPTIONS + 3];
  tables(a->usage, longs, letters);
  int c = getopt_long(a->argc, a->argv, letters, longs, NULL);
  *value = NULL;
  if (c == -1) {
    a->first_operand = optind;
    for (int i = optind; i < a->argc; i++)
      if (!*a->argv[i]) return stop(a, tn_cli_mistake(a, "argument %d is empty", i - optind + 1));
    return TN_CLI_END;
  }
  if (c == HELP_CODE || c == 'h') {
    tn_cli_usage_print(stdout, a->usage);
    return stop(a, tn_cli_done(a->usage->command, TN_EXIT_OK));
  }
  if (c == '?' || c == ':') return refuse(a, c);
  *value = optarg;
  if (c >= LONG_CODE) return take(a, c - LONG_CODE);
  for (size_t i = 0; i < a->usage->n_options; i++)
    if (a->usage->options[i].letter == c) return take(a, (int)i);
  return refuse(a, '?');
}

void tn_cli_usage_print(FILE *out, const tn_cli_usage *u)
{
  fprintf(out, "usage: tenon %s [OPTION...]%s%s\n\n%s\n\n", u->command, *u->operands ? " " : "", u->operands,
          u->summary);
  for (size_t i = 0; i < u->n_options; i++) {
    const tn_cli_option *o = &u->options[i];
    char left[64];
    snprintf(left, sizeof left, "--%s%s%s", o->name, o->arg ? "=" : "", o->arg ? o->arg : "");
    fprintf(out, o->letter ? "  -%c, " : "      ", o->letter);
    fprintf(out, "%-24s %s\n", left, o->help);
  }
  fprintf(out, "  -h, %-24s %s\n", "--help", "print this text");
  if (u->more) u->more(out);
}

/* {"error": {...}} on stdout. A text that is no UTF-8, or that there is no memory for, is left to stderr. */
static void error_json(tn_status status, const char *text)
{
  json_t *j = json_pack("{s:{s:s, s:s}}", "error", "status", tn_status_name(status), "message", text);
  if (!j) return;
  json_dumpf(j, stdout, JSON_INDENT(2));
  putchar('\n');
  fflush(stdout);
  json_decref(j);
}

int tn_cli_mistake(const tn_cli_args *a, const char *fmt, ...)
{
  char text[1024];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  fprintf(stderr, "tenon %s: %s (`tenon %s --help` lists the options)\n", a->usage->command, text, a->usage->command);
  if (a->json) error_json(TN_E_ARG, text);
  return TN_EXIT_USAGE;
}

int tn_cli_fail(const tn_cli_args *a, const tn_err *err)
{
  const char *text = err->msg[0] ? err->msg : tn_status_name(err->code);
  fprintf(stderr, "tenon %s: %s\n", a->usage->command, text);
  if (a->json) error_json(err->code, text);
  return TN_EXIT_FAIL;
}

bool tn_cli_number(const tn_cli_args *a, const char *option, const char *text, int64_t min, int64_t max, int64_t *out)
{
  char *end;
  errno = 0;
  long long x = strtoll(text, &end, 10);
  if (errno == 0 && end != text && *end == '\0' && x >= min && x <= max) {
    *out = x;
    return true;
  }
  tn_cli_mistake(a, "--%s=%s: want a whole number from %lld to %lld", option, text, (long long)min, (long long)max);
  return false;
}

bool tn_cli_real(const tn_cli_args *a, const char *option, const char *text, double *out)
{
  char *end;
  *out = strtod(text, &end);
  if (end != text && *end == '\0') return true;
  tn_cli_mistake(a, "--%s %s: not a number", option, text);
  return false;
}

int tn_cli_options_only(tn_cli_args *a, bool (*each)(void *ctx, int option, const char *value), void *ctx)
{
  const char *v;
  int i;
  while ((i = tn_cli_next(a, &v)) >= 0)
    if (!each(ctx, i, v)) return TN_EXIT_USAGE;
  if (i == TN_CLI_STOP) return a->exit_code;
  if (a->first_operand < a->argc)
    return tn_cli_mistake(a, "'%s': %s takes options only", a->argv[a->first_operand], a->usage->command);
  return -1;
}

int tn_cli_json(const char *command, json_t *j)
{
  if (!j) {
    fprintf(stderr, "tenon %s: no memory for the JSON output\n", command);
    return TN_EXIT_FAIL;
  }
  json_dumpf(j, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
  putchar('\n');
  json_decref(j);
  return tn_cli_done(command, TN_EXIT_OK);
}

bool tn_cli_colour(FILE *out)
{
  const char *term = getenv("TERM");
  return isatty(fileno(out)) && term && strcmp(term, "dumb") != 0;
}

int tn_cli_done(const char *command, int code)
{
  if (fflush(stdout) == 0 && !ferror(stdout)) return code;
  fprintf(stderr, "tenon %s: cannot write to standard output\n", command);
  return TN_EXIT_FAIL;
}

char *tn_cli_conf_dir(void)
{
  char exe[4096];
  ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
  if (n <= 0) return NULL;
  exe[n] = '\0';
  for (int up = 0; up < 2; up++) {
    char *slash = strrchr(exe, '/');
    if (!slash) return NULL;
    *slash = '\0';
  }
  return tn_asprintf("%s/share/tenon/conf", exe);
}
