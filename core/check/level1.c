/* level1: loading. What a plugin does to its process when it is loaded and asked what it is. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check/check_int.h"
#include "check/files.h"
#include "check/state.h"
#include "check/walk.h"
#include "loader/loader_int.h"

#define SCAN_LIMIT_MS 100 /* for constructors and entry: hosts list many plugins */

static void loads(tn_check *c)
{
  tn_err err = tn_err_init();
  if (chdir("/") != 0)
    tn_check_say(c, TN_CHECK_SKIP, "cannot go to /: %s", strerror(errno));
  else if (tn_file_enter(c->path, NULL, NULL, &c->module, &err) != TN_OK)
    tn_check_say(c, TN_CHECK_FAIL, "%s", err.msg);
}

static void odd_path(tn_check *c)
{
  char file[PATH_MAX];
  tn_err err = tn_err_init();
  if (!tn_check_copy(c, "a b \xc3\xa9 %s ;", "it.so", file)) return;
  if (tn_file_enter(file, NULL, NULL, &c->module, &err) != TN_OK) tn_check_say(c, TN_CHECK_FAIL, "%s", err.msg);
}

/* What a function pointer of the walk has to be: of the library that the walk is about. */
typedef struct own {
  tn_check *check;
  const void *base; /* load address of the library */
} own;

static void function_is_own(void *ctx, const char *what, const void *fn)
{
  own *o = ctx;
  Dl_info info;
  if (dladdr(fn, &info) && info.dli_fbase == o->base) return;
  tn_check_say(o->check, TN_CHECK_FAIL, "%s was replaced by a function of %s", what,
               dladdr(fn, &info) && info.dli_fname ? info.dli_fname : "no library");
}

/* A copy of the plugin exports all that the plugin exports, so each name that can be replaced is. */
static void beside_a_decoy(tn_check *c)
{
  char file[PATH_MAX];
  Dl_info info;
  if (!tn_check_copy(c, "decoy", "it.so", file)) return;
  if (!dlopen(file, RTLD_NOW | RTLD_GLOBAL)) {
    tn_check_say(c, TN_CHECK_SKIP, "the decoy does not load, see TN-L1-01");
    return;
  }
  if (!tn_check_enter(c)) return;
  void *handle = dlopen(c->path, RTLD_NOW | RTLD_NOLOAD);
  void *entry = handle ? dlsym(handle, TN_ENTRY_SYMBOL) : NULL;
  if (!entry || !dladdr(entry, &info)) {
    tn_check_say(c, TN_CHECK_FAIL, "its entry is not to be found beside a copy");
    return;
  }
  own o = {c, info.dli_fbase};
  if (!dladdr(c->module, &info) || info.dli_fbase != o.base)
    tn_check_say(c, TN_CHECK_FAIL, "beside a library that exports the same names, its entry returns that one's module");
  else
    tn_walk(c->module, &(tn_walker){.ctx = &o, .function = function_is_own});
}

static void once_again(tn_check *c)
{
  char link[PATH_MAX];
  const tn_module *again = NULL, *linked = NULL;
  if (!tn_check_enter(c)) return;
  snprintf(link, sizeof link, "%s/link.so", c->tmp);
  if (symlink(c->path, link) != 0 && errno != EEXIST)
    tn_check_say(c, TN_CHECK_SKIP, "cannot make a link: %s", strerror(errno));
  else if (tn_file_enter(c->path, NULL, NULL, &again, NULL) != TN_OK || again != c->module)
    tn_check_say(c, TN_CHECK_FAIL, "its entry gives another module when it is called again");
  else if (tn_file_enter(link, NULL, NULL, &linked, NULL) != TN_OK || linked != c->module)
    tn_check_say(c, TN_CHECK_FAIL, "its entry gives another module when it is loaded through a symbolic link");
}

static void as_a_copy(tn_check *c)
{
  char file[PATH_MAX];
  const tn_module *other = NULL;
  tn_err err = tn_err_init();
  if (!tn_check_enter(c) || !tn_check_copy(c, "copy", "it.so", file)) return;
  if (tn_file_enter(file, NULL, NULL, &other, &err) != TN_OK)
    tn_check_say(c, TN_CHECK_FAIL, "a copy does not load beside it: %s", err.msg);
  else if (other == c->module)
    tn_check_say(c, TN_CHECK_FAIL, "a copy shares the module of the first: their state would be one");
}

/* Milliseconds, at most 250, that a fresh process takes to load the plugin and hear its answer; -1: it does not load. */
static int load_ms(tn_check *c)
{
  pid_t pid = fork();
  if (pid == 0) {
    uint64_t begin = tn_now_ns();
    if (!tn_check_enter(c)) _exit(255);
    uint64_t ms = (tn_now_ns() - begin) / 1000000u;
    _exit(ms < 250 ? (int)ms : 250);
  }
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) == 255) return -1;
  return WEXITSTATUS(status);
}

/* The best of three counts: on a busy machine any process may have to wait. */
static void in_time(tn_check *c)
{
  int best = 250;
  for (int i = 0; i < 3 && best >= SCAN_LIMIT_MS; i++) {
    int ms = load_ms(c);
    if (ms < 0) {
      tn_check_say(c, TN_CHECK_SKIP, "does not load, see TN-L1-01");
      return;
    }
    if (ms < best) best = ms;
  }
  if (best >= SCAN_LIMIT_MS)
    tn_check_say(c, TN_CHECK_FAIL, "took %d ms to load and answer, want under %d", best, SCAN_LIMIT_MS);
}

/* A change of the process: said with both values. */
static void changed(void *ctx, const char *was, const char *is)
{
  if (was && is)
    tn_check_say(ctx, TN_CHECK_FAIL, "changed: was \"%s\", is \"%s\"", was, is);
  else if (is)
    tn_check_say(ctx, TN_CHECK_FAIL, "left behind: \"%s\"", is);
  else
    tn_check_say(ctx, TN_CHECK_FAIL, "took away: \"%s\"", was);
}

static void compare_state(tn_check *c, void (*snapshot)(tn_text *))
{
  tn_text before = {0}, after = {0};
  snapshot(&before);
  if (tn_check_enter(c)) {
    snapshot(&after);
    if (before.failed || after.failed)
      tn_check_say(c, TN_CHECK_SKIP, "no memory to compare the process");
    else
      tn_state_compare(tn_text_str(&before), tn_text_str(&after), c, changed);
  }
  tn_text_release(&before);
  tn_text_release(&after);
}

static void leaves_nothing(tn_check *c) { compare_state(c, tn_state_resources); }

static void leaves_process_alone(tn_check *c) { compare_state(c, tn_state_process); }

/* Size of what was written to a standard stream of the child so far. */
static off_t written(int fd)
{
  struct stat st;
  fflush(NULL);
  return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? st.st_size : 0;
}

static void prints_nothing(tn_check *c)
{
  char text[200];
  off_t before = written(STDOUT_FILENO);
  if (!tn_check_enter(c)) return;
  off_t n = written(STDOUT_FILENO) - before;
  if (n <= 0) return;
  ssize_t k = pread(STDOUT_FILENO, text, sizeof text - 1, before);
  text[k > 0 ? k : 0] = '\0';
  text[strcspn(text, "\n")] = '\0';
  tn_check_say(c, TN_CHECK_FAIL, "wrote %lld bytes to the standard streams: \"%s\"", (long long)n, text);
}

static void ends_cleanly(tn_check *c)
{
  pid_t pid = fork();
  if (pid == 0) {
    if (!tn_check_enter(c)) _exit(77);
    exit(0);
  }
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid)
    tn_check_say(c, TN_CHECK_SKIP, "no process for it: %s", strerror(errno));
  else if (WIFSIGNALED(status))
    tn_check_say(c, TN_CHECK_FAIL, "a process that loaded it was ended by signal %d (%s) in exit()", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
  else if (WEXITSTATUS(status) == 77)
    tn_check_say(c, TN_CHECK_SKIP, "does not load, see TN-L1-01");
  else if (WEXITSTATUS(status) != 0)
    tn_check_say(c, TN_CHECK_FAIL, "a process that loaded it ended with status %d instead of 0", WEXITSTATUS(status));
}

static void entry_uses_log_alone(tn_check *c)
{
  if (tn_check_enter(c) && c->log.n) tn_check_say(c, TN_CHECK_FAIL, "%s", tn_text_str(&c->log));
}

const tn_check_test tn_check_level1[] = {
    {"TN-L1-01", 1, TN_CHECK_GATE_FAIL, "loads by its absolute path, every symbol bound, and its entry answers", loads},
    {"TN-L1-02", 1, TN_CHECK_GATE_NONE, "loads from a path with blanks and other letters", odd_path},
    {"TN-L1-03", 1, TN_CHECK_GATE_NONE, "keeps its own functions beside a library that exports the same names",
     beside_a_decoy},
    {"TN-L1-04", 1, TN_CHECK_GATE_NONE, "gives the same module again, also through a symbolic link", once_again},
    {"TN-L1-05", 1, TN_CHECK_GATE_NONE, "a copy of the file is a library of its own", as_a_copy},
    {"TN-L1-06", 1, TN_CHECK_GATE_NONE, "loads and answers within 100 ms", in_time},
    {"TN-L1-07", 1, TN_CHECK_GATE_NONE, "leaves no thread, file descriptor or child process behind", leaves_nothing},
    {"TN-L1-08", 1, TN_CHECK_GATE_NONE,
     "leaves signals, locale, folder, environment, limits and floating-point mode alone", leaves_process_alone},
    {"TN-L1-09", 1, TN_CHECK_GATE_NONE, "writes nothing to the standard streams", prints_nothing},
    {"TN-L1-10", 1, TN_CHECK_GATE_NONE, "lets a process end cleanly", ends_cleanly},
    {"TN-L1-11", 1, TN_CHECK_GATE_NONE, "uses nothing of the host but its log in the entry", entry_uses_log_alone},
    {NULL, 0, 0, NULL, NULL},
};
