/* The committed MATRIX.md is what the tree's plugins give, and a plugin whose claim is false turns its cells red.
 * label: full */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/config.h"

#define COMMAND "cd '" TN_SOURCE_DIR "' && '" TN_BUILD_DIR "/bin/tenon' plugins matrix -m tests/data/tiny/qwen3.gguf "

static char dir[32];

static void setup(void)
{
  strcpy(dir, "/tmp/tenon-matrix-XXXXXX");
  if (access(TN_BUILD_DIR "/bin/tenon", X_OK) != 0) cr_skip_test("the command is not built");
  cr_assert(mkdtemp(dir));
  unsetenv("TN_PATH");
}

static void teardown(void)
{
  char cmd[128];
  snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
  cr_expect(system(cmd) == 0);
}

TestSuite(matrix, .init = setup, .fini = teardown, .timeout = 3000);

/* The report's text, free(); *status: how the command ended. */
static char *report(const char *args, int *status)
{
  char cmd[1024], file[64], *text;
  size_t n;
  tn_err err = tn_err_init();
  snprintf(file, sizeof file, "%s/M.md", dir);
  snprintf(cmd, sizeof cmd, COMMAND "-o %s %s 2>%s/errors", file, args, dir);
  int s = system(cmd);
  *status = WIFEXITED(s) ? WEXITSTATUS(s) : -1;
  cr_assert(tn_file_read(file, 1 << 20, &text, &n, &err) == TN_OK, "%s", err.msg);
  return text;
}

static int count(const char *text, const char *word)
{
  int n = 0;
  for (const char *p = text; (p = strstr(p, word)); p += strlen(word)) n++;
  return n;
}

Test(matrix, committed_file_is_what_the_plugins_give)
{
  int status;
  char *committed, *text = report("--without cuda", &status);
  size_t n;
  tn_err err = tn_err_init();
  cr_expect_eq(status, 0, "some cell failed:\n%s", text);
  cr_expect_eq(count(text, "| - |") + count(text, "|  |"), 0, "some cell is empty");
  cr_assert(tn_file_read(TN_SOURCE_DIR "/MATRIX.md", 1 << 20, &committed, &n, &err) == TN_OK, "%s", err.msg);
  cr_expect(strcmp(committed, text) == 0,
            "MATRIX.md is not what the plugins give now; write it anew with\n"
            "  build/bin/tenon plugins matrix -m tests/data/tiny/qwen3.gguf -o MATRIX.md\n%s",
            text);
  free(committed);
  free(text);
}

Test(matrix, false_claim_turns_its_cells_red)
{
  char cmd[512];
  snprintf(cmd, sizeof cmd, "mkdir %s/attention && ln -s '%s/tests/plugins/attention/false_claim.so' %s/attention/",
           dir, TN_BUILD_DIR, dir);
  cr_assert(system(cmd) == 0);
  setenv("TN_PATH", dir, 1);
  int status;
  char *text = report("--only false_claim --without performer --without random", &status);
  cr_expect_eq(status, 1);
  cr_expect(strstr(text,
                   "| attention | false_claim | exact | qwen3.gguf | **FAIL**: false_claim claims to change nothing, "
                   "but the result is another one"),
            "%s", text);
  const char *row = strstr(text, "\n| false_claim |");
  cr_assert(row);
  for (; row; row = strstr(row + 1, "\n| false_claim |")) { /* no cell of its rows but red or refused ones */
    char line[512];
    snprintf(line, sizeof line, "%.*s", (int)strcspn(row + 1, "\n"), row + 1);
    cr_expect(!strstr(line, "equal") && !strstr(line, "<") && !strstr(line, ">="), "%s", line);
  }
  cr_expect_gt(count(text, "**FAIL**"), 12);
  free(text);
}
