/* Finding, loading and listing plugins with each allocation failing in turn: TN_E_NOMEM, and nothing stays behind. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/loader.h"
#include "oom.h"

/* /tmp/<unique>/eviction/{sound,abi_minor}.so, links to the test plugins. */
static char dir[] = "/tmp/tenon-oom-XXXXXX";

static void put(const char *name)
{
  char to[128], from[1024];
  snprintf(to, sizeof to, "%s/eviction/%s.so", dir, name);
  snprintf(from, sizeof from, "%s/tests/plugins/broken/%s.so", TN_BUILD_DIR, name);
  cr_assert(symlink(from, to) == 0);
}

static void setup(void)
{
  char sub[64];
  cr_assert(mkdtemp(dir) != NULL);
  snprintf(sub, sizeof sub, "%s/eviction", dir);
  cr_assert(mkdir(sub, 0700) == 0);
  put("sound");
  put("abi_minor");
}

static void teardown(void)
{
  char cmd[128];
  snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
  cr_assert(system(cmd) == 0);
}

TestSuite(oom_loader, .init = setup, .fini = teardown);

/* A loader that searches the folder. */
static tn_status fresh(tn_loader **out, tn_err *err)
{
  const tn_loader_cfg cfg = {.path = dir, .exe_dir = "/nonexistent/bin", .lib_dir = "/nonexistent/lib"};
  return tn_loader_new(&cfg, out, err);
}

static tn_status open_one(const char *name, tn_err *err)
{
  tn_loader *l = NULL;
  const tn_plugin *p = NULL;
  tn_status st = fresh(&l, err);
  if (st == TN_OK) st = tn_loader_open(l, TN_SLOT_EVICTION, name, NULL, &p, err);
  tn_loader_free(l);
  return st;
}

static tn_status list_all(const char *name, tn_err *err)
{
  tn_loader *l = NULL;
  tn_found_list list = {0};
  (void)name;
  tn_status st = fresh(&l, err);
  if (st == TN_OK) st = tn_loader_scan(l, &list, err);
  cr_expect(st != TN_OK || list.n == 2);
  tn_found_list_free(&list);
  tn_loader_free(l);
  return st;
}

/* Fails each allocation of `run` in turn; `want` is what comes of it when none fails. An allocation that only a better
 * message wanted may fail without consequence. */
static void sweep(tn_status (*run)(const char *, tn_err *), const char *name, tn_status want, uint64_t least)
{
  uint64_t n = 0, refused = 0;
  for (bool last = false; !last;) {
    int64_t live = oom_live();
    tn_err err = tn_err_init();
    oom_arm(++n);
    tn_status st = run(name, &err);
    last = !oom_fired();
    refused += st == TN_E_NOMEM;
    cr_expect(st == want || (!last && st == TN_E_NOMEM), "allocation %lu: %d %s", (unsigned long)n, st, err.msg);
    cr_expect(st == TN_OK || err.msg[0], "allocation %lu: no message", (unsigned long)n);
    cr_expect(eq(i64, oom_live(), live), "allocation %lu", (unsigned long)n);
  }
  cr_expect(ge(u64, refused, least));
}

Test(oom_loader, open) { sweep(open_one, "sound", TN_OK, 10); }

Test(oom_loader, open_refused) { sweep(open_one, "abi_minor", TN_E_VERSION, 5); }

Test(oom_loader, open_not_found) { sweep(open_one, "soumd", TN_E_ARG, 5); }

Test(oom_loader, scan) { sweep(list_all, NULL, TN_OK, 15); }
