/* Packed weights kept from one process to the next: found, made again where damaged, and never an error. */
#include "host/wcache.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/cache_dir.h"

static char dir[64], said[4096];
static uint8_t a[100], b[3 << 20];

static void setup(void)
{
  strcpy(dir, "/tmp/tenon-wcache-XXXXXX");
  cr_assert(mkdtemp(dir) != NULL);
  for (size_t i = 0; i < sizeof a; i++) a[i] = (uint8_t)(i + 1);
  for (size_t i = 0; i < sizeof b; i++) b[i] = (uint8_t)(i * 7 + (i >> 9));
}

static void teardown(void)
{
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", dir);
  cr_assert(system(command) == 0);
}
TestSuite(wcache, .init = setup, .fini = teardown);

static void on_log(void *ctx, int32_t level, const char *msg)
{
  (void)ctx;
  cr_expect(eq(i32, level, TN_LOG_INFO));
  cr_expect(strncmp(msg, "weights: packed cache ", 22) == 0, "%s", msg);
  strncat(said, msg, sizeof said - strlen(said) - 2);
  strcat(said, "\n");
}

static tn_wcache *open_in(const char *folder, uint64_t limit)
{
  tn_wcache_cfg cfg = {.dir = folder, .key = {5}, .limit_bytes = limit, .log = on_log};
  said[0] = '\0';
  tn_wcache *w = tn_wcache_open(&cfg);
  cr_assert(w != NULL);
  return w;
}

static void put_both(tn_wcache *w)
{
  tn_wcache_put(w, "form", "a", a, sizeof a);
  tn_wcache_put(w, "form", "b", b, sizeof b);
}

static void fill(void)
{
  tn_wcache *w = open_in(dir, 0);
  put_both(w);
  tn_wcache_done(w);
  tn_wcache_close(w);
}

static bool got(tn_wcache *w, const char *form, const char *key, const void *want, uint64_t bytes)
{
  const void *p = tn_wcache_get(w, form, key, bytes);
  return p && memcmp(p, want, bytes) == 0;
}

static int files(void)
{
  DIR *d = opendir(dir);
  cr_assert(d != NULL);
  int n = 0;
  for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
  closedir(d);
  return n;
}

Test(wcache, keeps_what_is_put)
{
  tn_wcache *w = open_in(dir, 0);
  cr_expect(tn_wcache_reads(w) == false);
  cr_expect(tn_wcache_get(w, "form", "a", sizeof a) == NULL);
  put_both(w);
  tn_wcache_done(w);
  cr_expect(strstr(said, "written /tmp/tenon-wcache-") && strstr(said, ", 3.0 MiB\n"), "%s", said);
  tn_wcache_close(w);
  w = open_in(dir, 0);
  cr_expect(tn_wcache_reads(w));
  cr_expect(got(w, "form", "a", a, sizeof a) && got(w, "form", "b", b, sizeof b));
  cr_expect(tn_wcache_get(w, "form", "a", sizeof a - 1) == NULL, "another size");
  cr_expect(tn_wcache_get(w, "form 2", "a", sizeof a) == NULL, "another form");
  cr_expect(tn_wcache_get(w, "form", "c", sizeof a) == NULL, "another key");
  tn_wcache_done(w);
  cr_expect(strstr(said, "hit /tmp/tenon-wcache-") && !strstr(said, "written"), "%s", said);
  tn_wcache_close(w);
  cr_expect(eq(int, files(), 1));
}

Test(wcache, without_done_nothing_stays)
{
  tn_wcache *w = open_in(dir, 0);
  put_both(w);
  tn_wcache_close(w);
  cr_expect(eq(int, files(), 0));
}

/* What is missing is added to what is there. */
Test(wcache, grows)
{
  fill();
  tn_wcache *w = open_in(dir, 0);
  tn_wcache_put(w, "form", "c", a + 1, sizeof a - 1);
  tn_wcache_done(w);
  tn_wcache_close(w);
  w = open_in(dir, 0);
  cr_expect(got(w, "form", "a", a, sizeof a) && got(w, "form", "b", b, sizeof b));
  cr_expect(got(w, "form", "c", a + 1, sizeof a - 1));
  tn_wcache_close(w);
}

static void damage(off_t at)
{
  char *path = tn_cache_path(dir, (const uint8_t[32]){5});
  int fd = open(path, O_RDWR);
  uint8_t x;
  cr_assert(fd >= 0 && pread(fd, &x, 1, at) == 1);
  x ^= 16;
  cr_assert(pwrite(fd, &x, 1, at) == 1);
  close(fd);
  free(path);
}

Test(wcache, damage_is_found_and_mended)
{
  fill();
  damage(4096 + 50); /* inside a */
  tn_wcache *w = open_in(dir, 0);
  cr_expect(tn_wcache_get(w, "form", "a", sizeof a) == NULL);
  cr_expect(strstr(said, "a is damaged there and is packed again") != NULL, "%s", said);
  cr_expect(got(w, "form", "b", b, sizeof b));
  tn_wcache_put(w, "form", "a", a, sizeof a);
  tn_wcache_done(w);
  tn_wcache_close(w);
  w = open_in(dir, 0);
  cr_expect(got(w, "form", "a", a, sizeof a) && got(w, "form", "b", b, sizeof b));
  tn_wcache_close(w);
}

Test(wcache, a_file_that_is_none_is_replaced)
{
  fill();
  damage(3); /* its magic number */
  tn_wcache *w = open_in(dir, 0);
  cr_expect(tn_wcache_reads(w) == false);
  cr_expect(strstr(said, "is not used: ") && strstr(said, "its first bytes is wrong"), "%s", said);
  put_both(w);
  tn_wcache_done(w);
  tn_wcache_close(w);
  w = open_in(dir, 0);
  cr_expect(got(w, "form", "a", a, sizeof a));
  tn_wcache_close(w);
}

/* What cannot be kept is said and does no harm. */
static void expect_not_kept(const char *folder, uint64_t limit, const char *says)
{
  tn_wcache *w = open_in(folder, limit);
  put_both(w);
  tn_wcache_put(w, "form", "c", a, sizeof a);
  tn_wcache_done(w);
  cr_expect(strstr(said, says) != NULL, "want '%s', got '%s'", says, said);
  cr_expect(strchr(said, '\n')[1] == '\0', "said twice: %s", said);
  tn_wcache_close(w);
}

Test(wcache, no_room_is_no_error)
{
  expect_not_kept("/dev/null/tenon", 0, "is not written: /dev/null/tenon: cannot be made: Not a directory");
  expect_not_kept("/proc/tenon", 0, "is not written: /proc/tenon: cannot be made: No such file");
  expect_not_kept(dir, 2 << 20, "is not written: it would take more than 2.0 MiB, the limit");
  cr_expect(eq(int, files(), 0));
}

/* The limit is for all files together; the one just written stays. */
Test(wcache, others_give_way)
{
  tn_wcache_cfg other = {.dir = dir, .key = {6}};
  fill();
  tn_wcache *w = tn_wcache_open(&other);
  put_both(w);
  tn_wcache_done(w);
  tn_wcache_close(w);
  cr_expect(eq(int, files(), 2));
  other.key[0] = 7;
  other.limit_bytes = 4 << 20;
  other.log = on_log;
  said[0] = '\0';
  w = tn_wcache_open(&other);
  put_both(w);
  tn_wcache_done(w);
  tn_wcache_close(w);
  cr_expect(strstr(said, "of other models, which are deleted for its limit of 4.0 MiB") != NULL, "%s", said);
  cr_expect(eq(int, files(), 1));
  w = tn_wcache_open(&other);
  cr_expect(tn_wcache_reads(w));
  tn_wcache_close(w);
}

/* Opened by two at once, both of whom write. */
Test(wcache, two_at_once)
{
  tn_wcache *w = open_in(dir, 0), *v = open_in(dir, 0);
  put_both(w);
  put_both(v);
  tn_wcache_done(w);
  tn_wcache *u = open_in(dir, 0);
  tn_wcache_done(v);
  cr_expect(got(u, "form", "b", b, sizeof b), "who reads keeps what it has mapped");
  tn_wcache_close(u);
  tn_wcache_close(v);
  tn_wcache_close(w);
  w = open_in(dir, 0);
  cr_expect(got(w, "form", "a", a, sizeof a) && got(w, "form", "b", b, sizeof b));
  tn_wcache_close(w);
  cr_expect(eq(int, files(), 1));
}
