/* The cache of packed weights with each allocation failing in turn: what is read is right, nothing stays behind, and no
 * file is left that is not complete. */
#include "host/wcache.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "oom.h"

static char dir[64];
static uint8_t bytes[70][64];

static void setup(void)
{
  strcpy(dir, "/tmp/tenon-oom-XXXXXX");
  cr_assert(mkdtemp(dir) != NULL);
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i / 64][i % 64] = (uint8_t)(i * 31 + i / 64);
}

static void empty(void)
{
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s/*", dir);
  cr_assert(system(command) == 0);
}

static void teardown(void)
{
  empty();
  rmdir(dir);
}
TestSuite(oom_wcache, .init = setup, .fini = teardown);

static tn_wcache *open_it(void)
{
  tn_wcache_cfg cfg = {.dir = dir, .key = {9}};
  return tn_wcache_open(&cfg);
}

static void key_of(size_t i, char out[16]) { snprintf(out, 16, "w%zu", i); }

/* All that is there is right; how much it is. */
static size_t found(tn_wcache *w)
{
  size_t n = 0;
  char key[16];
  for (size_t i = 0; i < 70; i++) {
    key_of(i, key);
    const void *p = tn_wcache_get(w, "f", key, 64);
    if (p) cr_expect(memcmp(p, bytes[i], 64) == 0, "%s", key);
    n += p != NULL;
  }
  return n;
}

/* Loads as a backend would: gets, and puts what is not there. False: there was no n-th allocation. */
static bool attempt(uint64_t n)
{
  char key[16];
  int64_t live = oom_live();
  oom_arm(n);
  tn_wcache *w = open_it();
  if (w) {
    found(w);
    for (size_t i = 0; i < 70; i++) {
      key_of(i, key);
      if (!tn_wcache_get(w, "f", key, 64)) tn_wcache_put(w, "f", key, bytes[i], 64);
    }
    tn_wcache_done(w);
  }
  tn_wcache_close(w);
  bool was = oom_fired();
  cr_expect(oom_live() == live, "allocation %lu: %ld stay behind", (unsigned long)n, (long)(oom_live() - live));
  w = open_it();
  size_t have = found(w);
  cr_expect(have == 70 || (was && (have == 0 || have == 30)), "allocation %lu: %zu of 70", (unsigned long)n, have);
  tn_wcache_close(w);
  DIR *d = opendir(dir);
  size_t files = 0;
  for (struct dirent *e; (e = readdir(d));) files += e->d_name[0] != '.';
  closedir(d);
  cr_expect(files == (have > 0), "allocation %lu: %zu files", (unsigned long)n, files);
  return was;
}

Test(oom_wcache, written)
{
  uint64_t n = 0;
  for (bool more = true; more;) {
    empty();
    more = attempt(++n);
  }
  cr_expect(gt(u64, n, 12));
}

/* A file that has some is completed. */
Test(oom_wcache, completed)
{
  uint64_t n = 0;
  char key[16];
  for (bool more = true; more;) {
    empty();
    tn_wcache *w = open_it();
    for (size_t i = 0; i < 30; i++) {
      key_of(i, key);
      tn_wcache_put(w, "f", key, bytes[i], 64);
    }
    tn_wcache_done(w);
    tn_wcache_close(w);
    more = attempt(++n);
  }
  cr_expect(gt(u64, n, 12));
}
