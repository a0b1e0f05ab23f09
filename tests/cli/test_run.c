/* `tenon run` as a user meets it, on a tiny model: what it says when something is wrong, and sessions that go on. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MODEL TN_SOURCE_DIR "/tests/data/tiny/llama.gguf"
#define RUN "run -m " MODEL " "

static char out[1 << 16], dir[64];

/* `tenon <args>` through the shell; out receives stdout (with "2>&1" in args: both). The exit code. */
static int tenon(const char *args)
{
  char command[2048];
  snprintf(command, sizeof command, "cd %s && %s/bin/tenon %s", dir, TN_BUILD_DIR, args);
  FILE *f = popen(command, "r");
  cr_assert(f != NULL);
  out[fread(out, 1, sizeof out - 1, f)] = '\0';
  int rc = pclose(f);
  return WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
}

/* The last line of what a command that fails says. */
static const char *said(const char *args)
{
  char with[1024];
  snprintf(with, sizeof with, "%s 2>&1", args);
  cr_assert(ne(int, tenon(with), 0), "%s", out);
  size_t n = strlen(out);
  if (n && out[n - 1] == '\n') out[n - 1] = '\0';
  const char *nl = strrchr(out, '\n');
  return nl ? nl + 1 : out;
}

static void setup(void)
{
  if (access(TN_BUILD_DIR "/bin/tenon", X_OK) != 0 || access(TN_BUILD_DIR "/lib/tenon/backend/cpu.so", R_OK) != 0)
    cr_skip_test("the command or the backend is not built");
  if (access(MODEL, R_OK) != 0) cr_skip_test("there is no " MODEL);
  unsetenv("TN_PATH");
  setenv("XDG_CACHE_HOME", TN_BUILD_DIR "/tests/cache", 1); /* not the user's */
  strcpy(dir, "/tmp/tenon-run-XXXXXX");
  cr_assert(mkdtemp(dir) != NULL);
}

static void teardown(void)
{
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", dir);
  if (*dir) cr_assert(system(command) == 0);
}
TestSuite(cli_run, .init = setup, .fini = teardown, .timeout = 60);

Test(cli_run, files_that_cannot_be_used)
{
  cr_expect(eq(str, (char *)said(RUN "-f no/such.txt"),
               "tenon run: -f no/such.txt: cannot be opened: No such file or directory"));
  cr_expect(eq(str, (char *)said(RUN "-f ."), "tenon run: -f .: cannot be read: Is a directory"));
  cr_expect(eq(str, (char *)said(RUN "-p abc -n 1 --load no.tns"),
               "tenon run: --load: no.tns: cannot be opened: No such file or directory"));
  cr_expect(eq(str, (char *)said(RUN "-p abc -n 1 --save no/such.tns"),
               "tenon run: --save no/such.tns: cannot be opened: No such file or directory"));
  cr_expect(strstr(out, "KV cache size") == NULL, "an answer was made that cannot be saved: %s", out);
  cr_expect(eq(str, (char *)said(RUN "-p abc -n 1 --save /dev/full"),
               "tenon run: --save /dev/full: cannot be written: No space left on device"));
}

Test(cli_run, empty_values)
{
  cr_expect(strstr(said("run -m '' -p abc"), "tenon run: option --model is empty: it needs a value, FILE") != NULL);
  cr_expect(strstr(said(RUN "-c '' -p abc"), "option --ctx-size is empty") != NULL);
  cr_expect(strstr(said(RUN "-p abc ''"), "argument 1 is empty") != NULL);
  cr_expect(tenon(RUN "-f /dev/null -n 1 --logit-bias '' 2>&1") == 2);
}

/* What does not fit is told in the words of the command line. */
Test(cli_run, flags_are_named)
{
  cr_expect(strstr(said(RUN "-p abc -c 16 -n 200"),
                   "and -n 200 asks for as many more, but [engine] ctx is 16: lower -n, "
                   "shorten the prompt, or raise ctx (ctx comes from -c 16)") != NULL,
            "%s", out);
  cr_expect(strstr(said(RUN "-p abc --set engine.ctx=16 -n 200"), "(ctx comes from --set engine.ctx=16)") != NULL, "%s",
            out);
  cr_expect(strstr(said(RUN "-p abc -n 1000000"), "raise ctx (ctx: -c)") != NULL, "%s", out);
  cr_expect(eq(str, (char *)said(RUN "-p abc -t 300"),
               "tenon run: -t 300: [engine]: threads = 300: want a whole number of threads from 0 to 256"));
  cr_expect(eq(int, tenon(RUN "-p abc -n 1 -c 1000 2>&1"), 0), "%s", out);
  cr_expect(strstr(out, "warning: engine.ctx = 1000 (-c 1000): the model was trained for ") != NULL, "%s", out);
}

static void expect_error(const char *args, int code, const char *status)
{
  char with[1024];
  snprintf(with, sizeof with, "%s 2>err", args);
  cr_expect(eq(int, tenon(with), code));
  json_t *j = json_loads(out, 0, NULL), *e = json_object_get(j, "error");
  cr_expect(e != NULL && !strcmp(json_string_value(json_object_get(e, "status")), status), "%s: %s", args, out);
  const char *message = json_string_value(json_object_get(e, "message"));
  cr_expect(message && *message);
  char errors[4096];
  snprintf(with, sizeof with, "%s/err", dir);
  FILE *f = fopen(with, "r");
  cr_assert(f != NULL);
  errors[fread(errors, 1, sizeof errors - 1, f)] = '\0';
  fclose(f);
  cr_expect(message && strstr(errors, message) != NULL, "stderr has no such text: %s", errors);
  json_decref(j);
}

Test(cli_run, errors_as_json)
{
  expect_error(RUN "--json -f no.txt", 1, "TN_E_IO");
  expect_error("run -m no.gguf -p abc --json", 1, "TN_E_IO");
  expect_error(RUN "-p abc --set compose.kv=int9 --json", 1, "TN_E_ARG");
  expect_error(RUN "-p abc --tempp 1 --json", 2, "TN_E_ARG");
  expect_error(RUN "--json", 2, "TN_E_ARG");
  expect_error("eval ppl -m " MODEL " -f no.txt --json", 1, "TN_E_IO");
  expect_error("tokenize -m no.gguf -p abc --json", 1, "TN_E_IO");
  expect_error("plugins info pagd --json", 1, "TN_E_ARG");
  expect_error("plugins list --slot darft --json", 2, "TN_E_ARG");
  expect_error("plugins check no.so --json", 1, "TN_E_IO");
}

/* Every line that a run prints to stderr is explained. */
Test(cli_run, help_explains_the_lines_of_a_run)
{
  static const char *const lines[] = {"KV cache size: ", "Maximum concurrency for ",
                                      "prompt eval time = ", "eval time = ", "composition = "};
  cr_assert(eq(int, tenon(RUN "-p abc -n 20 --ignore-eos 2>&1 >/dev/null"), 0));
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    cr_expect(strstr(out, lines[i]) != NULL, "%s: %s", lines[i], out);
  cr_assert(eq(int, tenon("run --help"), 0));
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    cr_expect(strstr(out, lines[i]) != NULL, "%s: %s", lines[i], out);
}

/* ---- sessions */

/* ids of a run that prints JSON. The caller's. */
static json_t *ids(const char *args)
{
  char with[1024];
  snprintf(with, sizeof with, RUN "--json %s 2>err", args);
  cr_assert(eq(int, tenon(with), 0), "%s", out);
  json_t *j = json_loads(out, 0, NULL), *list = json_incref(json_object_get(j, "ids"));
  json_decref(j);
  return list;
}

/* -n 0 runs the prompt and says so; alternatives that nobody would see are refused. */
Test(cli_run, without_an_answer)
{
  cr_expect(eq(int, tenon(RUN "-p abc -n 0 2>&1"), 0));
  const char *line = strstr(out, "prompt eval time = ");
  cr_assert(line != NULL, "%s", out);
  cr_expect(strtod(line + strlen("prompt eval time = "), NULL) > 0 && strstr(line, " /     3 tokens") != NULL, "%s",
            out);
  cr_expect(strstr(said(RUN "-p abc -n 1 --logprobs 2"), "--logprobs: they are in the output of --json only") != NULL,
            "%s", out);
}

Test(cli_run, a_saved_session_goes_on_where_its_answer_ended)
{
  json_t *whole = ids("-p abc -n 24 --ignore-eos"), *a = ids("-p abc -n 10 --ignore-eos --save s.tns"),
         *b = ids("--load s.tns -n 9 --ignore-eos --save s.tns"), *c = ids("--load s.tns -p '' -n 5 --ignore-eos");
  json_array_extend(a, b);
  json_array_extend(a, c);
  cr_expect(eq(sz, json_array_size(a), 24));
  cr_expect(eq(int, json_equal(whole, a), 1), "three parts are not the whole");
  json_decref(whole);
  json_decref(a);
  json_decref(b);
  json_decref(c);
}

Test(cli_run, sessions_that_cannot_go_on)
{
  json_decref(ids("-p abc -n 4 --ignore-eos --save s.tns"));
  cr_expect(strstr(said(RUN "--load s.tns -p x -n 1 --set compose.kv=int8"),
                   "tenon run: --load s.tns: saved session: made by another composition or model") != NULL,
            "%s", out);
  const char *torn = "tenon run: --load t.tns: no session that `tenon run --save` has written, or it is cut short";
  cr_expect(tenon("--version && head -c 100 s.tns >t.tns") == 0);
  cr_expect(eq(str, (char *)said(RUN "--load t.tns -p x -n 1"), (char *)torn));
  cr_expect(tenon("--version && (head -c -13 s.tns; printf '\\377\\377\\377\\0TNRUN1\\n\\0') >t.tns") == 0);
  cr_expect(eq(str, (char *)said(RUN "--load t.tns -p x -n 1"), (char *)torn), "more tokens than the file has");
}

/* Nothing follows an end-of-generation token: a next turn has to be given. */
Test(cli_run, an_answer_that_ended_by_itself)
{
  json_t *stopped = ids("-p abc -n 8 --save s.tns --logit-bias 284=1000"); /* its end-of-generation token */
  cr_expect(eq(sz, json_array_size(stopped), 1));
  cr_expect(strstr(said(RUN "--load s.tns -n 4"), "its answer had come to an end by itself") != NULL, "%s", out);
  cr_expect(eq(int, tenon(RUN "--load s.tns -p x -n 1 2>err"), 0));
  json_decref(stopped);
}
