/* check: tests a plugin file against the contract, without an engine.
 *
 * Each test has an id for good (TN-L0-05) and runs in a child process with a time limit, so that a plugin that crashes,
 * hangs or ends its process loses that test alone. Levels: 0 the file, no code of it runs; 1 loading; 2 the descriptor.
 * A level needs the ones below: when a file may not be loaded, the tests that would load it are skipped.
 *
 * Thread rule: one call at a time in a process with one thread (it forks). */
#ifndef TN_CORE_CHECK_CHECK_H
#define TN_CORE_CHECK_CHECK_H

#include "base.h"

#define TN_CHECK_MAX_LEVEL 2u

enum {
  TN_CHECK_PASS = 0,
  TN_CHECK_SKIP = 1,   /* could not be asked, with the reason */
  TN_CHECK_WARN = 2,   /* allowed, and worth a look */
  TN_CHECK_FAIL = 3,   /* breaks the contract */
  TN_CHECK_CRASH = 4,  /* the plugin ended the test's process */
  TN_CHECK_TIMEOUT = 5 /* the test did not come back in time */
};

/* What a test decides for those that load the plugin: nothing; they are skipped when it fails; also when it is skipped. */
enum { TN_CHECK_GATE_NONE = 0, TN_CHECK_GATE_FAIL = 1, TN_CHECK_GATE_PASS = 2 };

typedef struct tn_check tn_check; /* one running test: see check_int.h */

typedef struct tn_check_test {
  const char *id; /* "TN-L0-05": never reused */
  uint32_t level;
  uint32_t gate;    /* TN_CHECK_GATE_* */
  const char *what; /* what holds when it passes */
  void (*run)(tn_check *);
} tn_check_test;

typedef struct tn_check_cfg {
  const char *path;    /* the plugin file */
  uint32_t level;      /* highest level to run */
  uint32_t timeout_ms; /* for one test; 0: 10000 */
  const char *only;    /* id of the one test to run, besides the gates that it needs; NULL: all */
  uint32_t in_process; /* 1: no child processes (for a debugger); a crash ends the caller */
  uint32_t reserved0;
} tn_check_cfg;

typedef struct tn_check_result {
  const tn_check_test *test;
  uint32_t verdict; /* TN_CHECK_* */
  uint32_t signal;  /* CRASH: the signal, 0: it exited */
  uint64_t ns;      /* how long it took */
  const char *text; /* findings, one a line; "" when there is nothing to say. Valid during the call */
} tn_check_result;

/* Runs the tests in order and reports each. counts[verdict] is set for all six verdicts. *ok: no test failed, crashed or
 * ran out of time. Errors (of the checker, not of the plugin): TN_E_ARG (no such test, level too high), TN_E_IO (the
 * file cannot be read, no child process), TN_E_NOMEM. */
tn_status tn_check_run(const tn_check_cfg *cfg, void (*report)(void *ctx, const tn_check_result *), void *ctx,
                       uint32_t counts[6], bool *ok, tn_err *err);

/* All tests in their order; NULL past the end. Static. */
const tn_check_test *tn_check_test_at(size_t i);

/* "PASS", "WARN" and the like. Static. */
const char *tn_check_verdict_name(uint32_t verdict);

#endif
