/* The option parser that every subcommand shares. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static const tn_cli_option options[] = {
    {"set", 's', "K=V", "sets"}, {"json", 'j', NULL, "prints JSON"}, {"long-only", 0, NULL, "no letter"}};
static const tn_cli_usage usage = {.command = "demo",
                                   .operands = "FILE...",
                                   .summary = "Shows.",
                                   .options = options,
                                   .n_options = TN_ARRAY_LEN(options)};

/* Walks argv and writes what came as "set=a json |operands", or "stop CODE". */
static char *walk(int argc, char **argv)
{
  static char buf[256];
  tn_cli_args a;
  const char *value;
  int o;
  buf[0] = '\0';
  tn_cli_begin(&a, &usage, argc, argv);
  while ((o = tn_cli_next(&a, &value)) >= 0) {
    size_t n = strlen(buf);
    snprintf(buf + n, sizeof buf - n, "%s%s%s ", options[o].name, value ? "=" : "", value ? value : "");
  }
  if (o == TN_CLI_STOP) {
    snprintf(buf, sizeof buf, "stop %d", a.exit_code);
    return buf;
  }
  strcat(buf, "|");
  for (int i = a.first_operand; i < argc; i++) strcat(strcat(buf, argv[i]), " ");
  return buf;
}

#define WALK(...) walk((int)(sizeof((char *[]){__VA_ARGS__}) / sizeof(char *)), (char *[]){__VA_ARGS__, NULL})

static void quiet(void)
{
  cr_redirect_stderr();
  cr_redirect_stdout();
}
TestSuite(cli, .init = quiet);

Test(cli, options_and_operands)
{
  cr_assert(eq(str, WALK("demo"), "|"));
  cr_assert(eq(str, WALK("demo", "-s", "a=1", "x", "--json", "y"), "set=a=1 json |x y "));
  cr_assert(eq(str, WALK("demo", "--set=b", "-js", "c", "--long-only"), "set=b json set=c long-only |"));
  cr_assert(eq(str, WALK("demo", "--", "-j", "--json"), "|-j --json "));
  cr_assert(eq(str, WALK("demo", "-"), "|- "));
}

Test(cli, unknown_option)
{
  cr_assert(eq(str, WALK("demo", "--jsn"), "stop 2"));
  fflush(stderr);
  cr_assert_stderr_eq_str("tenon demo: unknown option --jsn; did you mean --json? (`tenon demo --help` lists the "
                          "options)\n");
}

Test(cli, unknown_letter)
{
  cr_assert(eq(str, WALK("demo", "-x"), "stop 2"));
  fflush(stderr);
  cr_assert_stderr_eq_str("tenon demo: unknown option -x (`tenon demo --help` lists the options)\n");
}

Test(cli, value_missing)
{
  cr_assert(eq(str, WALK("demo", "--set"), "stop 2"));
  fflush(stderr);
  cr_assert_stderr_eq_str("tenon demo: option --set needs a value (`tenon demo --help` lists the options)\n");
}

Test(cli, value_too_many)
{
  cr_assert(eq(str, WALK("demo", "--json=1"), "stop 2"));
  fflush(stderr);
  cr_assert_stderr_eq_str("tenon demo: option --json takes no value (`tenon demo --help` lists the options)\n");
}

Test(cli, help)
{
  cr_assert(eq(str, WALK("demo", "--help"), "stop 0"));
  cr_assert_stdout_eq_str("usage: tenon demo [OPTION...] FILE...\n\nShows.\n\n"
                          "  -s, --set=K=V                sets\n"
                          "  -j, --json                   prints JSON\n"
                          "      --long-only              no letter\n"
                          "  -h, --help                   print this text\n");
}

Test(cli, numbers)
{
  int64_t x = 0;
  cr_assert(eq(int, tn_cli_number(&usage, "n", "12", 1, 12, &x), 1));
  cr_assert(eq(i64, x, 12));
  const char *bad[] = {"", "13", "0", "1x", "99999999999999999999"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    cr_assert(eq(int, tn_cli_number(&usage, "n", bad[i], 1, 12, &x), 0), "%s", bad[i]);
  cr_assert(eq(i64, x, 12));
}
