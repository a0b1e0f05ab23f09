/* A change of the process is seen, each by its own line. */
#include "check/state.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <fenv.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* The last change, and how many there were. */
typedef struct changes {
  int n;
  char was[512], is[512];
} changes;

static void keep(void *ctx, const char *was, const char *is)
{
  changes *c = ctx;
  c->n++;
  snprintf(c->was, sizeof c->was, "%s", was ? was : "");
  snprintf(c->is, sizeof c->is, "%s", is ? is : "");
}

/* What `snapshot` says changes when `act` is done. */
static changes after(void (*snapshot)(tn_text *), void (*act)(void))
{
  changes c = {0};
  tn_text before = {0}, now = {0};
  snapshot(&before);
  act();
  snapshot(&now);
  cr_assert(not(before.failed || now.failed));
  tn_state_compare(tn_text_str(&before), tn_text_str(&now), &c, keep);
  tn_text_release(&before);
  tn_text_release(&now);
  return c;
}

static void nothing(void) {}
static void ignore_signal(void) { signal(SIGUSR2, SIG_IGN); }
static void go_away(void) { cr_assert(chdir("/") == 0); }
static void new_umask(void) { umask(0123); }
static void new_variable(void) { setenv("TN_TEST_STATE", "a\nb", 1); }
static void no_variable(void) { unsetenv("TN_TEST_STATE"); }
static void round_up(void) { fesetround(FE_UPWARD); }
static void open_file(void) { cr_assert(open("/dev/zero", O_RDONLY) >= 0); }

static void fewer_files(void)
{
  struct rlimit l;
  cr_assert(getrlimit(RLIMIT_NOFILE, &l) == 0);
  l.rlim_cur--;
  cr_assert(setrlimit(RLIMIT_NOFILE, &l) == 0);
}

static void block_signal(void)
{
  sigset_t s;
  sigemptyset(&s);
  sigaddset(&s, SIGUSR1);
  sigprocmask(SIG_BLOCK, &s, NULL);
}

Test(state, nothing_changes)
{
  cr_expect(eq(int, after(tn_state_process, nothing).n, 0));
  cr_expect(eq(int, after(tn_state_resources, nothing).n, 0));
}

Test(state, each_change_is_one_line)
{
  static const struct {
    void (*act)(void);
    const char *is;
  } rows[] = {{ignore_signal, "signal 12: ignored"},
              {go_away, "working directory: /"},
              {new_umask, "umask: 123"},
              {new_variable, "environment TN_TEST_STATE: =a b"},
              {fewer_files, "resource limit 7: "},
              {block_signal, "blocked signals: "}};
  for (size_t i = 0; i < TN_ARRAY_LEN(rows); i++) {
    changes c = after(tn_state_process, rows[i].act);
    cr_expect(eq(int, c.n, 1), "row %zu: %s, %s", i, c.was, c.is);
    cr_expect(strncmp(c.is, rows[i].is, strlen(rows[i].is)) == 0, "row %zu: %s", i, c.is);
  }
  changes c = after(tn_state_process, no_variable);
  cr_expect(eq(int, c.n, 1));
  cr_expect(eq(str, c.was, "environment TN_TEST_STATE: =a b"));
  cr_expect(eq(str, c.is, ""));
}

Test(state, floating_point_mode)
{
  changes c = after(tn_state_process, round_up);
  cr_expect(ge(int, c.n, 1));
  fesetround(FE_TONEAREST);
}

Test(state, a_file_left_open)
{
  changes c = after(tn_state_resources, open_file);
  cr_expect(eq(int, c.n, 1));
  cr_expect(strstr(c.is, ": /dev/zero") != NULL, "%s", c.is);
}
