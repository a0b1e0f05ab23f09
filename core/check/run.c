/* run: each test in a child process of its own, with a time limit. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check/check.h"
#include "check/check_int.h"

#define DEFAULT_TIMEOUT_MS 10000u
#define MAX_TEXT 16384u /* bytes of a test's findings: fits the pipe */

/* What a child sends before its text. */
typedef struct head {
  uint32_t verdict, n;
} head;

/* One run over the tests. */
typedef struct run {
  const tn_check_cfg *cfg;
  char *path; /* canonical */
  char tmp[32];
  const tn_check_test *closed; /* the gate that failed, NULL: none */
} run;

static void send_all(int fd, const void *p, size_t n)
{
  for (size_t done = 0; done < n;) {
    ssize_t k = write(fd, (const char *)p + done, n - done);
    if (k <= 0 && errno != EINTR) return;
    if (k > 0) done += (size_t)k;
  }
}

/* The child's part: its output is caught, and what it found is sent before it ends as any program does, so that the
 * plugin's destructors run inside the test. */
static void child(const tn_check_test *test, tn_check *c, int fd)
{
  int out = memfd_create("output", 0);
  setpgid(0, 0);
  if (out >= 0) {
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    if (out > STDERR_FILENO) close(out);
  }
  test->run(c);
  if (c->text.failed) c->verdict = TN_CHECK_SKIP;
  head h = {c->verdict, (uint32_t)(c->text.n < MAX_TEXT ? c->text.n : MAX_TEXT)};
  send_all(fd, &h, sizeof h);
  send_all(fd, tn_text_str(&c->text), h.n);
  close(fd);
  _exit(0);
}

/* n bytes from fd before the deadline. 1: all there, 0: closed before, -1: time is over. */
static int receive(int fd, void *p, size_t n, uint64_t deadline)
{
  for (size_t done = 0; done < n;) {
    uint64_t now = tn_now_ns();
    if (now >= deadline) return -1;
    struct pollfd pfd = {.fd = fd, .events = POLLIN};
    int ready = poll(&pfd, 1, (int)((deadline - now) / 1000000u + 1));
    if (ready <= 0) continue;
    ssize_t k = read(fd, (char *)p + done, n - done);
    if (k == 0 || (k < 0 && errno != EINTR)) return 0;
    if (k > 0) done += (size_t)k;
  }
  return 1;
}

/* Waits for the end of a child; at the deadline, or at once when it has said all, it is killed with what it started. */
static int reap(pid_t pid, bool done, uint64_t deadline)
{
  int status = 0;
  while (!done && waitpid(pid, &status, WNOHANG) == 0) {
    done = tn_now_ns() >= deadline;
    usleep(200);
  }
  kill(-pid, SIGKILL);
  if (done) {
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
  }
  return status;
}

/* What became of a child that did not report. */
static void died(tn_check *c, int status, uint32_t *sig)
{
  if (WIFSIGNALED(status)) {
    *sig = (uint32_t)WTERMSIG(status);
    tn_check_say(c, TN_CHECK_CRASH, "ended by signal %u (%s)", *sig, strsignal((int)*sig));
  } else {
    tn_check_say(c, TN_CHECK_CRASH, "the process ended with status %d in the middle of the test", WEXITSTATUS(status));
  }
}

static tn_status run_forked(const run *r, const tn_check_test *test, tn_check *c, uint32_t *sig, tn_err *err)
{
  int fd[2];
  if (pipe2(fd, O_CLOEXEC) != 0) return tn_fail(err, TN_E_IO, "cannot make a pipe: %s", strerror(errno));
  uint64_t limit = r->cfg->timeout_ms ? r->cfg->timeout_ms : DEFAULT_TIMEOUT_MS;
  uint64_t deadline = tn_now_ns() + limit * 1000000u;
  fflush(NULL); /* or the child's first flush writes what waits in the parent's buffers */
  pid_t pid = fork();
  if (pid < 0) {
    close(fd[0]);
    close(fd[1]);
    return tn_fail(err, TN_E_IO, "cannot start a child process: %s", strerror(errno));
  }
  if (pid == 0) {
    close(fd[0]);
    child(test, c, fd[1]);
  }
  close(fd[1]);
  head h = {0};
  char text[MAX_TEXT + 1];
  int got = receive(fd[0], &h, sizeof h, deadline);
  if (got == 1 && h.n <= MAX_TEXT) got = receive(fd[0], text, h.n, deadline);
  close(fd[0]);
  int status = reap(pid, got != 0, deadline);
  if (got == 1) {
    tn_text_add(&c->text, text, h.n);
    c->verdict = h.verdict;
  } else if (got < 0) {
    tn_check_say(c, TN_CHECK_TIMEOUT, "did not come back within %llu ms", (unsigned long long)limit);
  } else {
    died(c, status, sig);
  }
  return TN_OK;
}

/* One test and its report. */
static tn_status run_one(run *r, const tn_check_test *test, tn_check_result *out, tn_text *text, tn_err *err)
{
  tn_check c = {.path = r->path, .tmp = r->tmp};
  tn_status st = TN_OK;
  uint64_t begin = tn_now_ns();
  *out = (tn_check_result){.test = test};
  if (r->closed && test->level > 0)
    tn_check_say(&c, TN_CHECK_SKIP, "the plugin is not loaded, see %s", r->closed->id);
  else if (r->cfg->in_process)
    test->run(&c);
  else
    st = run_forked(r, test, &c, &out->signal, err);
  out->ns = tn_now_ns() - begin;
  out->verdict = c.verdict;
  tn_text_clear(text);
  tn_text_add(text, tn_text_str(&c.text), c.text.n);
  out->text = tn_text_str(text);
  if (st == TN_OK && (c.text.failed || text->failed)) st = tn_fail(err, TN_E_NOMEM, "no memory for a test's findings");
  tn_text_release(&c.text);
  tn_text_release(&c.log);
  bool shut = c.verdict >= TN_CHECK_FAIL || (c.verdict == TN_CHECK_SKIP && test->gate == TN_CHECK_GATE_PASS);
  if (test->gate && shut && !r->closed) r->closed = test;
  return st;
}

static tn_status check_cfg(const tn_check_cfg *cfg, tn_err *err)
{
  if (cfg->level > TN_CHECK_MAX_LEVEL)
    return tn_fail(err, TN_E_ARG, "level %u: there are levels 0 to %u", cfg->level, TN_CHECK_MAX_LEVEL);
  if (!cfg->only) return TN_OK;
  for (size_t i = 0; tn_check_test_at(i); i++)
    if (strcmp(tn_check_test_at(i)->id, cfg->only) == 0) return TN_OK;
  return tn_fail(err, TN_E_ARG, "there is no test '%s'", cfg->only);
}

static tn_status run_all(run *r, void (*report)(void *, const tn_check_result *), void *ctx, uint32_t counts[6],
                         tn_err *err)
{
  tn_text text = {0};
  tn_status st = TN_OK;
  const char *only = r->cfg->only;
  for (size_t i = 0; st == TN_OK && tn_check_test_at(i); i++) {
    const tn_check_test *t = tn_check_test_at(i);
    bool wanted = only ? strcmp(t->id, only) == 0 : t->level <= r->cfg->level;
    if (!wanted && !(only && t->gate)) continue;
    tn_check_result result;
    st = run_one(r, t, &result, &text, err);
    if (st != TN_OK || !wanted) continue;
    counts[result.verdict]++;
    report(ctx, &result);
  }
  tn_text_release(&text);
  return st;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
  (void)st;
  (void)type;
  (void)ftw;
  remove(path);
  return 0;
}

tn_status tn_check_run(const tn_check_cfg *cfg, void (*report)(void *ctx, const tn_check_result *), void *ctx,
                       uint32_t counts[6], bool *ok, tn_err *err)
{
  memset(counts, 0, 6 * sizeof counts[0]);
  *ok = false;
  tn_status st = check_cfg(cfg, err);
  if (st != TN_OK) return st;
  run r = {.cfg = cfg, .path = realpath(cfg->path, NULL), .tmp = "/tmp/tenon-check-XXXXXX"};
  if (!r.path) return tn_fail(err, TN_E_IO, "%s: %s", cfg->path, strerror(errno));
  if (mkdtemp(r.tmp)) {
    st = run_all(&r, report, ctx, counts, err);
    nftw(r.tmp, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
  } else {
    st = tn_fail(err, TN_E_IO, "%s: cannot make a folder for the tests: %s", r.tmp, strerror(errno));
  }
  free(r.path);
  *ok = st == TN_OK && counts[TN_CHECK_FAIL] + counts[TN_CHECK_CRASH] + counts[TN_CHECK_TIMEOUT] == 0;
  return st;
}
