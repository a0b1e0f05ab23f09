/* jobs: every run in a process of its own, so that a plugin that crashes or hangs costs its own cell and no other. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "matrix/matrix_int.h"

#define MAX_JOBS 64u

typedef struct job {
  pid_t pid; /* 0: free */
  const tn_matrix_run_args *run;
  uint64_t deadline;
} job;

/* What is printed by a plugin, or about it, is not the matrix's. */
static void child(const tn_matrix_run_args *run)
{
  int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  setpgid(0, 0);
  if (null >= 0) {
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
  }
  tn_matrix_one(run);
  _exit(0);
}

static tn_status start(const tn_matrix_cfg *cfg, const tn_matrix_run_args *run, job *j, tn_err *err)
{
  fflush(NULL); /* or the child's first flush writes what waits in the parent's buffers */
  pid_t pid = fork();
  if (pid < 0) return tn_fail(err, TN_E_IO, "cannot start a process for a run: %s", strerror(errno));
  if (pid == 0) child(run);
  *j = (job){pid, run, tn_now_ns() + (uint64_t)cfg->timeout_s * 1000000000u};
  return TN_OK;
}

static void say(tn_matrix_outcome *o, const char *fmt, unsigned long n, const char *word)
{
  o->state = TN_RUN_FAILED;
  snprintf(o->text, sizeof o->text, fmt, n, word);
}

/* Is the job over? Then its outcome is there. */
static bool over(const tn_matrix_cfg *cfg, job *j)
{
  int status = 0;
  tn_matrix_outcome *o = j->run->out;
  pid_t done = waitpid(j->pid, &status, WNOHANG);
  bool late = done == 0 && tn_now_ns() >= j->deadline;
  if (done == 0 && !late) return false;
  kill(-j->pid, SIGKILL);
  if (late) {
    kill(j->pid, SIGKILL);
    waitpid(j->pid, &status, 0);
    say(o, "did not end within %lu s%s", cfg->timeout_s, "");
  } else if (WIFSIGNALED(status)) {
    say(o, "ended by signal %lu (%s)", (unsigned long)WTERMSIG(status), strsignal(WTERMSIG(status)));
  } else if (o->state == TN_RUN_UNKNOWN) {
    say(o, "the process ended with status %lu in the middle of the run%s", (unsigned long)WEXITSTATUS(status), "");
  }
  j->pid = 0;
  return true;
}

/* Ends what runs. */
static void end_all(job *jobs)
{
  for (size_t i = 0; i < MAX_JOBS; i++) {
    if (jobs[i].pid == 0) continue;
    kill(-jobs[i].pid, SIGKILL);
    kill(jobs[i].pid, SIGKILL);
    waitpid(jobs[i].pid, NULL, 0);
  }
}

tn_status tn_matrix_jobs(const tn_matrix_cfg *cfg, const tn_matrix_run_args *runs, size_t n, size_t *done,
                         size_t planned, tn_err *err)
{
  job jobs[MAX_JOBS] = {{0}};
  uint32_t most = cfg->jobs < 1 ? 1 : cfg->jobs > MAX_JOBS ? MAX_JOBS : cfg->jobs;
  size_t next = 0, ended = 0;
  tn_status st = TN_OK;
  while (st == TN_OK && ended < n) {
    size_t before = ended;
    for (uint32_t i = 0; st == TN_OK && i < most; i++) {
      if (jobs[i].pid != 0 && over(cfg, &jobs[i])) ended++, ++*done;
      if (jobs[i].pid == 0 && next < n) st = start(cfg, &runs[next], &jobs[i], err), next++;
    }
    if (st == TN_OK && ended == before) usleep(1000);
    if (st == TN_OK && cfg->progress && !cfg->progress(cfg->ctx, *done, planned))
      st = tn_fail(err, TN_E_STATE, "stopped after %zu of %zu runs", *done, planned);
  }
  end_all(jobs);
  return st;
}
