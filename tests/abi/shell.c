/* shell: see shell.h. */
#include "abi/shell.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

int shell(char *out, size_t cap, const char *fmt, ...)
{
  char cmd[8192];
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(cmd, sizeof cmd, fmt, ap);
  va_end(ap);
  cr_assert(n > 0 && (size_t)n + 8 < sizeof cmd);
  char *full = tn_asprintf("( %s ) 2>&1", cmd);
  FILE *f = popen(full, "r");
  cr_assert(f != NULL);
  size_t got = fread(out, 1, cap - 1, f);
  out[got] = '\0';
  while (fgetc(f) != EOF) continue;
  free(full);
  int status = pclose(f);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool shell_has(const char *command)
{
  char out[256];
  return shell(out, sizeof out, "command -v %s", command) == 0;
}

char *shell_mkdir(void)
{
  char *dir = tn_strdup("/tmp/tenon-abi-XXXXXX");
  cr_assert(dir && mkdtemp(dir));
  return dir;
}

void shell_rmdir(char *dir)
{
  char out[256];
  cr_expect(shell(out, sizeof out, "rm -rf '%s'", dir) == 0, "%s", out);
  free(dir);
}
