/* ab_probe: one run of a variant in a process of its own: what memory it takes alone, how long a run is, and whether all
 * of its techniques act on the longest prompt. An engine that crashes takes only the child with it. See ab_int.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/ab_int.h"

/* Peak resident memory of this process, bytes; 0 when the system does not say. */
static double peak_rss(void)
{
  char line[256];
  double kib = 0;
  FILE *f = fopen("/proc/self/status", "re");
  if (!f) return 0;
  while (fgets(line, sizeof line, f))
    if (strncmp(line, "VmHWM:", 6) == 0) kib = strtod(line + 6, NULL);
  fclose(f);
  return kib * 1024;
}

static tn_status run_once(const ab_bench *b, uint32_t i, ab_probe *out, tn_err *err)
{
  tn_ab_rig r = {0};
  ab_setup s;
  ab_setup_of(b, i, &s);
  tn_status st = tn_ab_rig_open(&r, &s.args, b->e.n_gen, err);
  out->open_s = r.open_s;
  uint64_t start = tn_now_ns();
  const tn_ab_tokens *p = &b->prompt[b->longest];
  if (st == TN_OK) st = tn_ab_rig_begin(&r, p->at, p->n, err);
  if (st == TN_OK) st = tn_ab_rig_advance(&r, b->e.n_gen, err);
  out->run_s = (double)(tn_now_ns() - start) / 1e9;
  if (st == TN_OK) {
    char *idle = tn_ab_rig_idle(&r);
    if (idle) snprintf(out->idle, sizeof out->idle, "%s", idle);
    free(idle);
  }
  tn_ab_rig_close(&r);
  out->rss_bytes = peak_rss();
  return st;
}

static void child(const ab_bench *b, uint32_t i, int fd)
{
  ab_probe out = {0};
  tn_err err = tn_err_init();
  out.status = (int32_t)run_once(b, i, &out, &err);
  snprintf(out.msg, sizeof out.msg, "%s", err.msg);
  ssize_t n = write(fd, &out, sizeof out); /* smaller than a pipe's atomic write */
  _exit(n == (ssize_t)sizeof out ? 0 : 1);
}

static void fail(ab_probe *out, const char *what, const char *why)
{
  out->status = TN_E_INTERNAL;
  snprintf(out->msg, sizeof out->msg, "%s %s", what, why);
}

void ab_probe_run(const ab_bench *b, uint32_t i, ab_probe *out)
{
  int fd[2], how = 0;
  size_t have = 0;
  *out = (ab_probe){0};
  if (pipe(fd) != 0) {
    fail(out, "no pipe:", strerror(errno));
    return;
  }
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) child(b, i, fd[1]);
  close(fd[1]);
  for (ssize_t n; pid > 0 && have<sizeof *out; have += n> 0 ? (size_t)n : 0) {
    n = read(fd[0], (char *)out + have, sizeof *out - have);
    if (n == 0 || (n < 0 && errno != EINTR)) break;
  }
  close(fd[0]);
  while (pid > 0 && waitpid(pid, &how, 0) < 0 && errno == EINTR) continue;
  char why[64];
  snprintf(why, sizeof why, WIFSIGNALED(how) ? "by signal %d" : "with code %d",
           WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how));
  if (pid < 0) fail(out, "no process for the first run:", strerror(errno));
  if (pid > 0 && have < sizeof *out) fail(out, "the process of the first run ended", why);
}
