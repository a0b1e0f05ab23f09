/* `tenon compose` as a user runs it: exit codes, what is on stdout and what on stderr. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TENON TN_BUILD_DIR "/bin/tenon"
#define CONF TN_SOURCE_DIR "/conf"

static char out[65536];

/* Runs the command through the shell; out receives stdout (with "2>&1" in args: both). The exit code. */
static int run(const char *args)
{
  char command[1024];
  snprintf(command, sizeof command, TENON " %s", args);
  FILE *f = popen(command, "r");
  cr_assert(f != NULL);
  size_t n = fread(out, 1, sizeof out - 1, f);
  out[n] = '\0';
  int rc = pclose(f);
  return WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
}

static void built(void)
{
  const char *files[] = {TENON,
                         TN_BUILD_DIR "/lib/tenon/backend/ref.so",
                         TN_BUILD_DIR "/lib/tenon/memory/paged.so",
                         TN_BUILD_DIR "/lib/tenon/attention/full.so",
                         TN_BUILD_DIR "/lib/tenon/position/rope.so",
                         TN_BUILD_DIR "/lib/tenon/scheduler/continuous.so"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if (access(files[i], R_OK) != 0) cr_skip_test("%s is not built", files[i]);
}
TestSuite(cli_compose, .init = built);

#define REF " --set compose.backend=ref "

Test(cli_compose, summary)
{
  cr_assert(eq(int, run("compose --no-model" REF CONF "/default.ini"), 0), "%s", out);
  cr_assert(strstr(out, "backend   = ref ") == out, "%s", out);
  cr_assert(strstr(out, "\nfingerprint ") != NULL, "%s", out);
  char first[sizeof out];
  strcpy(first, strstr(out, "fingerprint "));
  cr_assert(eq(int, run("compose --no-model" REF), 0), "%s", out);
  cr_assert(eq(str, strstr(out, "fingerprint "), first), "without a file it is the installation's default.ini");
}

Test(cli_compose, explain)
{
  cr_assert(eq(int, run("compose --no-model --explain" REF CONF "/default.ini"), 0), "%s", out);
  cr_assert(strstr(out, "\nmemory = paged\n") != NULL, "%s", out);
}

Test(cli_compose, model_of_the_command_line)
{
  const char *model = TN_SOURCE_DIR "/tests/data/tiny/llama.gguf";
  if (access(model, R_OK) != 0) cr_skip_test("there is no %s", model);
  char args[512];
  snprintf(args, sizeof args, "compose -m %s --explain" REF, model);
  cr_assert(eq(int, run(args), 0), "%s", out);
  cr_assert(strstr(out, "(without a model)") == NULL, "%s", out);
  snprintf(args, sizeof args, "-m %s  [does not change tokens]\n", model);
  cr_assert(strstr(out, args) != NULL, "%s", out);
}

Test(cli_compose, json)
{
  cr_assert(eq(int, run("compose --no-model --json" REF CONF "/default.ini"), 0), "%s", out);
  json_t *j = json_loads(out, 0, NULL);
  cr_assert(j != NULL, "%s", out);
  cr_assert(eq(sz, json_array_size(json_object_get(j, "parts")), 5));
  json_decref(j);
}

Test(cli_compose, diff)
{
  cr_assert(eq(int, run("compose --no-model" REF "--diff " CONF "/default.ini " CONF "/default.ini"), 0), "%s", out);
  cr_assert(eq(str, out, ""));
  cr_assert(eq(int, run("compose --diff a.ini 2>&1"), 2));
  cr_assert(strstr(out, "--diff takes exactly two files, 1 are given") != NULL, "%s", out);
}

Test(cli_compose, refusals_go_to_stderr_with_1)
{
  cr_assert(eq(int, run("compose --no-model" REF "--set engine.treads=2 " CONF "/default.ini"), 1));
  cr_assert(eq(str, out, ""));
  cr_assert(eq(int, run("compose --no-model" REF "--set engine.treads=2 " CONF "/default.ini 2>&1"), 1));
  cr_assert(eq(str, out,
               "tenon compose: --set engine.treads=2: [engine] has no option 'treads'; did you mean "
               "'threads'?\n"));
  cr_assert(eq(int, run("compose --no-model no/such.ini 2>&1"), 1));
  cr_assert(eq(str, out, "tenon compose: no/such.ini: cannot be opened: No such file or directory\n"));
}

Test(cli_compose, refusals_as_json)
{
  cr_assert(eq(int, run("compose --no-model --json" REF "--set engine.treads=2 2>/dev/null"), 1));
  json_t *j = json_loads(out, 0, NULL), *e = json_object_get(j, "error");
  cr_assert(eq(str, (char *)json_string_value(json_object_get(e, "status")), "TN_E_ARG"), "%s", out);
  cr_assert(eq(str, (char *)json_string_value(json_object_get(e, "message")),
               "--set engine.treads=2: [engine] has no option 'treads'; did you mean 'threads'?"));
  json_decref(j);
}

/* A letter stands for one long option, whatever the command; but in bench -p, -n (as in llama-bench) and -b are lists
 * of lengths and of numbers of sequences. */
Test(cli_compose, letters_mean_the_same_everywhere)
{
  const char *commands[] = {"run",          "bench",         "eval",         "tokenize",   "compose",
                            "plugins list", "plugins check", "plugins info", "plugins new"};
  char meaning[128][32] = {{0}};
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    char args[64], name[32];
    snprintf(args, sizeof args, "%s --help", commands[i]);
    cr_assert(eq(int, run(args), 0));
    for (const char *at = out; (at = strstr(at, "\n  -")); at++) {
      if (sscanf(at + 5, ", --%31[a-z-]", name) != 1) continue;
      if (!strcmp(commands[i], "bench") && strchr("pnb", at[4])) continue;
      char *known = meaning[at[4] & 127];
      if (*known) cr_expect(eq(str, known, name), "-%c of %s", at[4], commands[i]);
      strcpy(known, name);
    }
  }
  cr_expect(eq(str, meaning['s'], "seed"));
  cr_expect(eq(str, meaning['b'], "batch-size"));
  cr_expect(eq(str, meaning['n'], "predict"));
}

Test(cli_compose, model_that_is_not_there)
{
  cr_assert(eq(int, run("compose" REF "--set model.path=no/such.gguf " CONF "/default.ini 2>&1"), 1));
  cr_assert(strstr(out, "no/such.gguf") != NULL, "%s", out);
}

Test(cli_compose, the_command_itself)
{
  cr_assert(eq(int, run("--version"), 0));
  cr_assert(strncmp(out, "tenon ", 6) == 0, "%s", out);
  cr_assert(eq(int, run("--help"), 0));
  cr_assert(strstr(out, "\n  compose ") != NULL, "%s", out);
  cr_assert(eq(int, run("help compose"), 0));
  cr_assert(strstr(out, "usage: tenon compose ") == out, "%s", out);
  cr_assert(strstr(out, "\n[engine]\n") != NULL, "the host's options are listed");
  cr_assert(eq(int, run("2>&1"), 2));
  cr_assert(eq(int, run("compsoe 2>&1"), 2));
  cr_assert(eq(str, out, "tenon: there is no command 'compsoe'; did you mean 'compose'?\n"));
  cr_assert(eq(int, run("compose --help >/dev/full 2>&1"), 1), "output that cannot be written is a failure");
}
