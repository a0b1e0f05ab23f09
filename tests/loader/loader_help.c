/* loader_help: see loader_help.h. */
#include "loader/loader_help.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void append(void *ctx, int32_t level, const char *msg)
{
  char *log = ctx;
  size_t n = strlen(log);
  snprintf(log + n, 4096 - n, "%d %s\n", level, msg);
}

tn_loader *help_loader(const char *path, char *log)
{
  if (log) log[0] = '\0';
  const tn_loader_cfg cfg = {.path = path,
                             .exe_dir = "/nonexistent/bin",
                             .lib_dir = "",
                             .isa = 1 + TN_ISA_BASE,
                             .log = log ? append : NULL,
                             .ctx = log};
  tn_loader *l = NULL;
  tn_err err = tn_err_init();
  cr_assert(tn_loader_new(&cfg, &l, &err) == TN_OK, "%s", err.msg);
  return l;
}

const char *help_broken(const char *name)
{
  static char ring[4][512];
  static unsigned next;
  char *p = ring[next++ % 4];
  snprintf(p, sizeof ring[0], "%s/tests/plugins/broken/%s.so", TN_BUILD_DIR, name);
  return p;
}

char *help_tmpdir(void)
{
  char *dir = tn_strdup("/tmp/tenon-test-XXXXXX");
  cr_assert(mkdtemp(dir) != NULL);
  return dir;
}

void help_rmdir(char *dir)
{
  char cmd[256];
  snprintf(cmd, sizeof cmd, "rm -rf '%s'", dir);
  cr_assert(system(cmd) == 0);
  free(dir);
}

void help_copy(const char *src, const char *dst, long bytes)
{
  char part[1024];
  for (const char *p = strchr(dst + 1, '/'); p; p = strchr(p + 1, '/')) {
    snprintf(part, sizeof part, "%.*s", (int)(p - dst), dst);
    mkdir(part, 0777);
  }
  FILE *in = fopen(src, "rb"), *out = fopen(dst, "wb");
  cr_assert(in && out, "cannot copy %s to %s", src, dst);
  for (int c = fgetc(in); c != EOF && bytes != 0; c = fgetc(in), bytes--) fputc(c, out);
  fclose(in);
  cr_assert(fclose(out) == 0);
}

void help_patch(const char *path, long offset, const void *bytes, size_t n)
{
  FILE *f = fopen(path, "r+b");
  cr_assert(f && fseek(f, offset, SEEK_SET) == 0);
  cr_assert(fwrite(bytes, 1, n, f) == n);
  fclose(f);
}

char *help_mask(const char *msg, const char *path)
{
  char *out = calloc(1, 4 * strlen(msg) + 1);
  size_t n = strlen(path), k = 0;
  for (const char *p = msg; *p;) {
    bool hit = strncmp(p, path, n) == 0;
    if (hit)
      memcpy(out + k, "FILE", 4);
    else
      out[k] = *p;
    k += hit ? 4 : 1;
    p += hit ? n : 1;
  }
  return out;
}
