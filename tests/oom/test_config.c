/* Reading a configuration, and composing it, with each allocation failing in turn: TN_E_NOMEM, and nothing stays
 * behind. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "compose/compose.h"
#include "oom.h"
#include "support/memfs.h"
#include "support/mock_catalog.h"

static const memfile files[] = {
    {"a.ini", "include = b.ini\n[compose]\nkv = q8\nattention.layers = 0-1:plain, 2-:window\n[engine]\nseed = 5\n"
              "[quantizer.q8]\ngroup = 64\ntable = x/y\nmin = 1\npath = lib/q8.so\n"},
    {"b.ini", "[compose]\nbackend = fast\nmemory = pages\nscheduler = queue\neviction = last\n"
              "[memory.pages]\nold = 2\n[draft.look]\npath = x\n"},
    {"conf/models.ini", "[position]\nnone = turn\n"},
};
static memfs disk = {files, sizeof files / sizeof files[0]};
static mock_catalog mock;

static tn_status load(tn_config **out, tn_err *err)
{
  tn_config_fs fs = memfs_fs(&disk);
  *out = tn_config_new(&fs, "conf");
  if (!*out) return tn_fail(err, TN_E_NOMEM, "no memory");
  tn_status st = tn_config_load(*out, "a.ini", err);
  if (!st) st = tn_config_set(*out, "eviction.last.span = 77", err);
  return st;
}

Test(oom_config, load)
{
  uint64_t n = 0;
  for (bool last = false; !last;) {
    int64_t live = oom_live();
    tn_config *c;
    tn_err err = tn_err_init();
    oom_arm(++n);
    tn_status st = load(&c, &err);
    last = !oom_fired();
    cr_expect(eq(int, st, last ? TN_OK : TN_E_NOMEM), "allocation %lu: %s", (unsigned long)n, err.msg);
    tn_config_free(c);
    cr_expect(eq(i64, oom_live(), live), "allocation %lu", (unsigned long)n);
  }
  cr_expect(gt(u64, n, 25));
}

/* Composes the files with more settings; what is refused is refused by the same sentence, but for suggestions that there
 * was no memory to find. */
static void sweep(const char *set, tn_status want)
{
  tn_config *c;
  tn_err err = tn_err_init();
  tn_catalog catalog = mock_catalog_of(&mock);
  cr_assert(zero(int, load(&c, &err)), "%s", err.msg);
  if (set) cr_assert(zero(int, tn_config_set(c, set, &err)), "%s", err.msg);
  uint64_t n = 0;
  for (bool last = false; !last;) {
    int64_t live = oom_live();
    tn_composition *out = (tn_composition *)&live;
    oom_arm(++n);
    tn_status st = tn_compose(c, &catalog, NULL, &out, &err);
    last = !oom_fired();
    if (last) cr_expect(eq(int, st, want), "%s", err.msg);
    if (!last)
      cr_expect(st == TN_E_NOMEM || (want != TN_OK && st == want), "allocation %lu: %d %s", (unsigned long)n, st,
                st ? err.msg : "works");
    cr_expect(eq(int, st == TN_OK, out != NULL));
    tn_composition_free(out);
    cr_expect(eq(i64, oom_live(), live), "allocation %lu", (unsigned long)n);
  }
  cr_expect(gt(u64, n, 40));
  tn_config_free(c);
}

Test(oom_config, compose) { sweep(NULL, TN_OK); }

Test(oom_config, refuse) { sweep("compose.eviction = heavy", TN_E_UNSUPPORTED); }
