/* `tenon ab --url` between two servers of the tree: what it reports, what it refuses, what it warns of. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <jansson.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base.h"

#define TINY(name) TN_SOURCE_DIR "/tests/data/tiny/" name ".gguf"
#define PROMPTS "-r 10 -n 32 -s 3 -p 'one two three' -p 'four five six seven' "

typedef struct server { /* a process */
  pid_t pid;
  char url[64];
} server;

static char out[1 << 18], dir[64];
static server a, b;

/* `tenon serve` on a free port, ready when this returns. */
static void serve(server *s, const char *model, const char *set)
{
  int fd[2];
  char line[512] = "";
  cr_assert(pipe(fd) == 0);
  s->pid = fork();
  cr_assert(s->pid >= 0);
  if (s->pid == 0) {
    dup2(fd[1], STDERR_FILENO);
    close(fd[0]), close(fd[1]);
    execl(TN_BUILD_DIR "/bin/tenon", "tenon", "serve", "-m", model, "--port", "0", "-t", "1", "-c", "128", "--set", set,
          (char *)NULL);
    _exit(127);
  }
  close(fd[1]);
  FILE *f = fdopen(fd[0], "r");
  cr_assert(f != NULL);
  while (!*s->url && fgets(line, sizeof line, f)) (void)sscanf(line, "ready: %63s", s->url);
  cr_assert(s->url[0] != 0, "the server did not come up: %s", line);
  fclose(f); /* what it says from now on goes nowhere: serve ignores SIGPIPE */
}

static void end(server *s)
{
  if (s->pid <= 0) return;
  kill(s->pid, SIGTERM);
  kill(s->pid, SIGTERM);
  waitpid(s->pid, NULL, 0);
}

/* `tenon <args>` in the folder; out receives stdout. The exit code. */
static int tenon(const char *fmt, ...) TN_PRINTF(1, 2);
static int tenon(const char *fmt, ...)
{
  char args[1024], command[2048];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(args, sizeof args, fmt, ap);
  va_end(ap);
  snprintf(command, sizeof command, "cd %s && %s/bin/tenon %s", dir, TN_BUILD_DIR, args);
  FILE *f = popen(command, "r");
  cr_assert(f != NULL);
  out[fread(out, 1, sizeof out - 1, f)] = '\0';
  int rc = pclose(f);
  return WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
}

static void setup(void)
{
  if (access(TN_BUILD_DIR "/bin/tenon", X_OK) != 0 || access(TN_BUILD_DIR "/lib/tenon/backend/cpu.so", R_OK) != 0)
    cr_skip_test("the command or the backend is not built");
  unsetenv("TN_PATH");
  unsetenv("TENON_API_KEY");
  strcpy(dir, "/tmp/tenon-ab-XXXXXX");
  cr_assert(mkdtemp(dir) != NULL);
}

static void teardown(void)
{
  char command[128];
  end(&a);
  end(&b);
  snprintf(command, sizeof command, "rm -rf %s", dir);
  if (*dir) cr_assert(system(command) == 0);
}
TestSuite(cli_ab_url, .init = setup, .fini = teardown, .timeout = 120);

static json_t *comparison(json_t *j, const char *metric)
{
  size_t i;
  json_t *c;
  json_array_foreach(json_object_get(j, "comparisons"), i, c)
  {
    if (strcmp(json_string_value(json_object_get(c, "metric")), metric) == 0) return c;
  }
  return NULL;
}

Test(cli_ab_url, two_servers_and_their_kept_run)
{
  static const char *const seen[] = {"ttft_s", "decode_tps", "gap_p50_s", "gap_p99_s", "exact_match"};
  serve(&a, TINY("llama"), "compose.kv=-");
  serve(&b, TINY("llama"), "compose.memory=contiguous");
  cr_assert(eq(int, tenon("ab --url old=%s --url new=%s " PROMPTS "--json -o kept 2>err", a.url, b.url), 0), "%s", out);
  json_t *j = json_loads(out, 0, NULL), *again;
  cr_assert(j != NULL, "%s", out);
  cr_expect(eq(int, (int)json_array_size(json_object_get(j, "comparisons")), (int)(sizeof seen / sizeof *seen)));
  for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
    const json_t *c = comparison(j, seen[i]);
    cr_assert(c != NULL, "%s", seen[i]);
    cr_expect(json_integer_value(json_object_get(c, "pairs")) >= 5, "%s", seen[i]); /* one may come all at once */
    cr_expect(json_number_value(json_object_get(c, "value")) > 0, "%s", seen[i]);
    cr_expect(strcmp(json_string_value(json_object_get(c, "variant")), "new") == 0);
  }
  cr_expect(json_number_value(json_object_get(comparison(j, "exact_match"), "value")) == 1.0, "the same texts");
  cr_expect(eq(int, (int)json_integer_value(json_object_get(j, "tests")), 4));
  cr_assert(eq(int, tenon("ab --json --replay kept"), 0), "%s", out);
  again = json_loads(out, 0, NULL);
  cr_expect(json_equal(json_object_get(j, "comparisons"), json_object_get(again, "comparisons")));
  cr_expect(eq(int, tenon("ab --replay kept"), 0));
  cr_expect(strstr(out, "old = http://127.0.0.1:") && strstr(out, ", the reference") && !strstr(out, "nan"), "%s", out);
  json_decref(j), json_decref(again);
}

Test(cli_ab_url, one_server_twice)
{
  serve(&a, TINY("llama"), "compose.kv=-");
  cr_expect(eq(int, tenon("ab --url %s --url %s " PROMPTS "2>&1", a.url, a.url), 0), "%s", out);
  cr_expect(strstr(out, "A (http://") && strstr(out, "this is an A/A run, and shows noise"), "%s", out);
  cr_expect(strstr(out, "runs were not independent") == NULL, "a prompt came from a cache: %s", out);
  cr_expect(eq(int, tenon("ab --url %s --url %s " PROMPTS "--estimate 2>&1", a.url, a.url), 0));
  cr_expect(strstr(out, "10 pairs of 2 servers take about") != NULL, "%s", out);
}

Test(cli_ab_url, other_models)
{
  serve(&a, TINY("llama"), "compose.kv=-");
  serve(&b, TINY("qwen3"), "compose.kv=-");
  cr_expect(eq(int, tenon("ab --url %s --url %s " PROMPTS "2>&1", a.url, b.url), 1));
  cr_expect(strstr(out, "serves the model llama, ") && strstr(out, "what differs would be the models"), "%s", out);
  cr_expect(eq(int, tenon("ab --url %s --url %s --allow-different-models " PROMPTS "2>&1", a.url, b.url), 0), "%s",
            out);
  cr_expect(strstr(out, "the differences are those of the models as well") != NULL, "%s", out);
}

Test(cli_ab_url, mistakes)
{
  cr_expect(eq(int, tenon("ab --url http://127.0.0.1:1 2>&1"), 2));
  cr_expect(strstr(out, "one --url: want 2 to 32") != NULL, "%s", out);
  cr_expect(eq(int, tenon("ab --url http://127.0.0.1:1 --url http://127.0.0.1:1 -m x 2>&1"), 2));
  cr_expect(strstr(out, "-m with --url: that is for engines which run in this process") != NULL, "%s", out);
  cr_expect(eq(int, tenon("ab --url http://127.0.0.1:1 --url http://127.0.0.1:1 a.ini 2>&1"), 2));
  cr_expect(eq(int, tenon("ab --url http://127.0.0.1:1 --url http://127.0.0.1:1 2>&1"), 1));
  cr_expect(strstr(out, "http://127.0.0.1:1/v1/models") != NULL, "%s", out);
  cr_expect(eq(int, tenon("ab --allow-different-models a.ini b.ini 2>&1"), 2));
}
