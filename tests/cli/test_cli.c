/* The option parser that every subcommand shares. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static const tn_cli_option options[] = {{"set", 's', "K=V", "sets"},
                                        {"json", 'j', NULL, "prints JSON"},
                                        {"long-only", 0, NULL, "no letter"},
                                        {"prompt", 'p', "TEXT", "may be empty"}};
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
                          "  -p, --prompt=TEXT            may be empty\n"
                          "  -h, --help                   print this text\n");
}

Test(cli, empty_value)
{
  cr_assert(eq(str, WALK("demo", "--prompt=", "-p", "", "x"), "prompt= prompt= |x "));
  cr_assert(eq(str, WALK("demo", "-s", ""), "stop 2"));
  fflush(stderr);
  cr_assert_stderr_eq_str("tenon demo: option --set is empty: it needs a value, K=V (`tenon demo --help` lists the "
                          "options)\n");
}

Test(cli, empty_operand)
{
  cr_assert(eq(str, WALK("demo", "x", ""), "stop 2"));
  fflush(stderr);
  cr_assert_stderr_eq_str("tenon demo: argument 2 is empty (`tenon demo --help` lists the options)\n");
}

/* Also for a mistake that comes before the option itself. */
Test(cli, mistakes_as_json)
{
  cr_assert(eq(str, WALK("demo", "--jsn", "--json"), "stop 2"));
  fflush(stderr);
  cr_assert_stderr_eq_str("tenon demo: unknown option --jsn; did you mean --json? (`tenon demo --help` lists the "
                          "options)\n");
  cr_assert_stdout_eq_str(
      "{\n  \"error\": {\n    \"status\": \"TN_E_ARG\",\n    \"message\": \"unknown option --jsn; did "
      "you mean --json?\"\n  }\n}\n");
}

Test(cli, failures_as_json)
{
  tn_cli_args a;
  char *argv[] = {"demo", "--json", NULL}, *plain[] = {"demo", "--", "--json", NULL};
  tn_err err = tn_err_init();
  tn_fail(&err, TN_E_IO, "it is \"gone\"");
  tn_cli_begin(&a, &usage, 3, plain);
  cr_assert(eq(int, tn_cli_fail(&a, &err), TN_EXIT_FAIL));
  tn_cli_begin(&a, &usage, 2, argv);
  cr_assert(eq(int, tn_cli_fail(&a, &err), TN_EXIT_FAIL));
  fflush(stderr);
  cr_assert_stderr_eq_str("tenon demo: it is \"gone\"\ntenon demo: it is \"gone\"\n");
  cr_assert_stdout_eq_str("{\n  \"error\": {\n    \"status\": \"TN_E_IO\",\n    \"message\": \"it is "
                          "\\\"gone\\\"\"\n  }\n}\n");
}

Test(cli, numbers)
{
  int64_t x = 0;
  tn_cli_args a = {.usage = &usage};
  cr_assert(eq(int, tn_cli_number(&a, "n", "12", 1, 12, &x), 1));
  cr_assert(eq(i64, x, 12));
  const char *bad[] = {"", "13", "0", "1x", "99999999999999999999"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    cr_assert(eq(int, tn_cli_number(&a, "n", bad[i], 1, 12, &x), 0), "%s", bad[i]);
  cr_assert(eq(i64, x, 12));
}
