/* state: see state.h. */
#include "check/state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <limits.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

static void signals(tn_text *out)
{
  for (int s = 1; s < NSIG; s++) {
    struct sigaction a;
    if (sigaction(s, NULL, &a) != 0) continue;
    void (*fn)(int) = a.sa_handler;
    const char *what = fn == SIG_DFL ? "default" : fn == SIG_IGN ? "ignored" : "handled";
    tn_text_addf(out, "signal %d: %s, flags %#x\n", s, what, (unsigned)a.sa_flags);
  }
  sigset_t mask;
  if (sigprocmask(SIG_SETMASK, NULL, &mask) != 0) return;
  tn_text_addf(out, "blocked signals:");
  for (int s = 1; s < NSIG; s++)
    if (sigismember(&mask, s) == 1) tn_text_addf(out, " %d", s);
  tn_text_addf(out, "\n");
}

static void floating_point(tn_text *out)
{
  tn_text_addf(out, "rounding mode: %d\n", fegetround());
#if defined(__SSE__)
  tn_text_addf(out, "MXCSR: %#x\n", _mm_getcsr() & ~0x3fu);
#endif
#if defined(__x86_64__)
  unsigned short control = 0;
  __asm__ volatile("fnstcw %0" : "=m"(control));
  tn_text_addf(out, "x87 control word: %#x\n", control);
#endif
}

static void limits(tn_text *out)
{
  for (int r = 0; r < (int)RLIM_NLIMITS; r++) {
    struct rlimit l;
    if (getrlimit((__rlimit_resource_t)r, &l) == 0)
      tn_text_addf(out, "resource limit %d: %llu of %llu\n", r, (unsigned long long)l.rlim_cur,
                   (unsigned long long)l.rlim_max);
  }
}

static void streams(tn_text *out)
{
  FILE *const files[] = {stdin, stdout, stderr};
  for (int i = 0; i < 3; i++)
    tn_text_addf(out, "standard stream %d: descriptor %d, flags %#x\n", i, fileno(files[i]), fcntl(i, F_GETFL));
}

void tn_state_process(tn_text *out)
{
  char cwd[PATH_MAX];
  signals(out);
  tn_text_addf(out, "locale: %s\n", setlocale(LC_ALL, NULL));
  tn_text_addf(out, "working directory: %s\n", getcwd(cwd, sizeof cwd) ? cwd : "?");
  mode_t mask = umask(077);
  umask(mask);
  tn_text_addf(out, "umask: %03o\n", (unsigned)mask);
  for (char **e = environ; e && *e; e++) {
    size_t n = strcspn(*e, "=");
    tn_text_addf(out, "environment %.*s: ", (int)n, *e);
    for (const char *p = *e + n; *p; p++) tn_text_add(out, *p == '\n' ? " " : p, 1);
    tn_text_add(out, "\n", 1);
  }
  limits(out);
  floating_point(out);
  streams(out);
}

static void entries(tn_text *out, const char *dir, const char *what)
{
  DIR *d = opendir(dir);
  if (!d) return;
  for (struct dirent *e = readdir(d); e; e = readdir(d)) {
    char link[PATH_MAX], file[PATH_MAX];
    if (e->d_name[0] == '.' || atoi(e->d_name) == dirfd(d)) continue;
    snprintf(file, sizeof file, "%s/%s", dir, e->d_name);
    ssize_t n = readlink(file, link, sizeof link - 1);
    tn_text_addf(out, "%s %s: %.*s\n", what, e->d_name, n > 0 ? (int)n : 0, link);
  }
  closedir(d);
}

void tn_state_resources(tn_text *out)
{
  entries(out, "/proc/self/fd", "file descriptor");
  entries(out, "/proc/self/task", "thread");
  siginfo_t info;
  if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD)
    tn_text_addf(out, "child process: there is one\n");
}

/* The line of text that begins with line's name (up to its colon), its length in *n. NULL: none. */
static const char *find(const char *text, const char *line, size_t *n)
{
  size_t name = strcspn(line, ":\n") + 1;
  for (; *text; text += *n, text += *text == '\n') {
    *n = strcspn(text, "\n");
    if (strncmp(text, line, name) == 0) return text;
  }
  return NULL;
}

/* Lines of `from` that are not the same in `in`; where both is false, only those that `in` does not have at all. */
static void differences(const char *from, const char *in, bool both, void *ctx,
                        void (*say)(void *, const char *was, const char *is))
{
  for (size_t n; *from; from += n, from += *from == '\n') {
    n = strcspn(from, "\n");
    size_t k = 0;
    const char *other = find(in, from, &k);
    if (other && (!both || (k == n && strncmp(other, from, n) == 0))) continue;
    char mine[512], its[512];
    snprintf(mine, sizeof mine, "%.*s", (int)(n < 500 ? n : 500), from);
    snprintf(its, sizeof its, "%.*s", (int)(k < 500 ? k : 500), other ? other : "");
    if (both)
      say(ctx, mine, other ? its : NULL);
    else
      say(ctx, NULL, mine);
  }
}

void tn_state_compare(const char *before, const char *after, void *ctx,
                      void (*say)(void *ctx, const char *was, const char *is))
{
  differences(before, after, true, ctx, say);
  differences(after, before, false, ctx, say);
}
