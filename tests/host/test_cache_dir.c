/* The folder of packed weights: where it is, and that it keeps to its size. */
#include "host/cache_dir.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char dir[64];

static void setup(void)
{
  strcpy(dir, "/tmp/tenon-cachedir-XXXXXX");
  cr_assert(mkdtemp(dir) != NULL);
}

static void teardown(void)
{
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", dir);
  cr_assert(system(command) == 0);
}
TestSuite(cache_dir, .init = setup, .fini = teardown);

static void expect_dir(const char *xdg, const char *home, const char *want)
{
  if (xdg)
    setenv("XDG_CACHE_HOME", xdg, 1);
  else
    unsetenv("XDG_CACHE_HOME");
  if (home)
    setenv("HOME", home, 1);
  else
    unsetenv("HOME");
  char *got = tn_cache_dir();
  cr_expect(got && want ? strcmp(got, want) == 0 : got == want, "%s, want %s", got ? got : "none",
            want ? want : "none");
  free(got);
}

Test(cache_dir, follows_the_environment)
{
  expect_dir("/var/c", "/home/u", "/var/c/tenon");
  expect_dir(NULL, "/home/u", "/home/u/.cache/tenon");
  expect_dir("", "/home/u", "/home/u/.cache/tenon");
  expect_dir("rel/ative", "/home/u", "/home/u/.cache/tenon");
  expect_dir("/var/c", NULL, "/var/c/tenon");
  expect_dir(NULL, NULL, NULL);
  expect_dir("rel", "", NULL);
}

Test(cache_dir, is_made_for_the_user_alone)
{
  tn_err err = tn_err_init();
  struct stat sb;
  char deep[128];
  snprintf(deep, sizeof deep, "%s/a/b/tenon", dir);
  cr_assert(tn_cache_dir_make(deep, &err) == TN_OK, "%s", err.msg);
  cr_assert(tn_cache_dir_make(deep, &err) == TN_OK, "%s", err.msg);
  cr_assert(stat(deep, &sb) == 0);
  cr_expect(eq(int, sb.st_mode & 0777, 0700), "%o", sb.st_mode);
  snprintf(deep, sizeof deep, "/dev/null/a/tenon");
  cr_expect(eq(i32, tn_cache_dir_make(deep, &err), TN_E_IO));
  cr_expect(strstr(err.msg, "/dev/null/a: cannot be made: ") != NULL, "%s", err.msg);
}

/* A file of the folder, last used so many seconds ago. */
static char *put(const char *name, uint8_t key, off_t bytes, time_t ago)
{
  char *path = name ? tn_asprintf("%s/%s", dir, name) : tn_cache_path(dir, (const uint8_t[32]){key});
  int fd = open(path, O_CREAT | O_WRONLY, 0600);
  cr_assert(fd >= 0 && ftruncate(fd, bytes) == 0);
  const struct timespec when[2] = {{time(NULL) - ago, 0}, {time(NULL) - ago, 0}};
  cr_assert(futimens(fd, when) == 0);
  close(fd);
  return path;
}

static bool there(const char *path) { return access(path, F_OK) == 0; }

Test(cache_dir, least_recently_used_go_first)
{
  char *old = put(NULL, 1, 1000, 300), *mid = put(NULL, 2, 1000, 200), *young = put(NULL, 3, 1000, 100);
  char *foreign = put("notes.txt", 0, 100000, 900), *like = put("weights-0.tnw", 0, 100000, 900);
  cr_expect(eq(u64, tn_cache_trim(dir, 0, young), 0), "no limit");
  cr_expect(eq(u64, tn_cache_trim(dir, 3000, young), 0));
  cr_expect(eq(u64, tn_cache_trim(dir, 2999, young), 1000));
  cr_expect(there(mid) && there(young) && !there(old));
  cr_expect(eq(u64, tn_cache_trim(dir, 10, mid), 1000), "not the one that is to stay");
  cr_expect(there(mid) && !there(young));
  cr_expect(there(foreign) && there(like), "a file of others is deleted");
  cr_expect(eq(u64, tn_cache_trim("/no/such/folder", 1, NULL), 0));
  free(old);
  free(mid);
  free(young);
  free(foreign);
  free(like);
}

Test(cache_dir, half_written_ones_go_when_nobody_writes_them)
{
  char *whole = tn_cache_path(dir, (const uint8_t[32]){7});
  char *dead = tn_asprintf("%s.aB3dEf", whole), *live = tn_asprintf("%s.xyz123", whole);
  free(put(strrchr(dead, '/') + 1, 0, 500, 7200));
  free(put(strrchr(live, '/') + 1, 0, 500, 60));
  cr_expect(eq(u64, tn_cache_trim(dir, 1, NULL), 500));
  cr_expect(there(live) && !there(dead));
  free(whole);
  free(dead);
  free(live);
}
