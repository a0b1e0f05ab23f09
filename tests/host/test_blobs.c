/* Files of byte runs: what is written is found again, aligned; whatever is damaged or foreign is told apart. */
#include "host/blobs_int.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sha256.h"

static char dir[64], path[96];
static const uint8_t key[32] = {1, 2, 3};

static void setup(void)
{
  strcpy(dir, "/tmp/tenon-blobs-XXXXXX");
  cr_assert(mkdtemp(dir) != NULL);
  snprintf(path, sizeof path, "%s/file", dir);
}

static void teardown(void)
{
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", dir);
  cr_assert(system(command) == 0);
}
TestSuite(blobs, .init = setup, .fini = teardown);

/* Run i: its id and its bytes. */
static const uint64_t sizes[] = {1, 64, 4095, 9u << 20, 100, 0, (8u << 20) - 4096};
enum { N = sizeof sizes / sizeof sizes[0] };
static uint8_t *run_of(uint32_t i, tn_blob *like)
{
  uint8_t *p = malloc(sizes[i] + 1);
  cr_assert(p != NULL);
  for (uint64_t k = 0; k < sizes[i]; k++) p[k] = (uint8_t)(k * (2 * i + 3) + (k >> 8));
  *like = (tn_blob){.id = {(uint8_t)(i + 1)}, .bytes = sizes[i], .sum = tn_blob_sum(p, sizes[i], NULL)};
  return p;
}

static tn_blobs_out *begin(void)
{
  tn_err err = tn_err_init();
  tn_blobs_out *o = NULL;
  cr_assert(tn_blobs_create(path, key, &o, &err) == TN_OK, "%s", err.msg);
  return o;
}

static void write_all(void)
{
  tn_err err = tn_err_init();
  tn_blobs_out *o = begin();
  for (uint32_t i = 0; i < N; i++) {
    tn_blob like;
    uint8_t *p = run_of(i, &like);
    cr_assert(tn_blobs_add(o, &like, p, &err) == TN_OK, "%s", err.msg);
    cr_expect(tn_blobs_has(o, like.id));
    free(p);
  }
  cr_assert(access(path, F_OK) != 0, "the file is there before it is complete");
  cr_assert(tn_blobs_finish(o, &err) == TN_OK, "%s", err.msg);
}

static int entries(void)
{
  char command[128], text[32];
  snprintf(command, sizeof command, "ls %s | wc -l", dir);
  FILE *f = popen(command, "r");
  cr_assert(f && fgets(text, sizeof text, f));
  pclose(f);
  return atoi(text);
}

Test(blobs, come_back)
{
  tn_err err = tn_err_init();
  tn_blobs *b = NULL;
  write_all();
  cr_assert(tn_blobs_open(path, key, &b, &err) == TN_OK, "%s", err.msg);
  cr_expect(eq(u64, tn_blobs_n(b), N));
  for (uint32_t i = 0; i < N; i++) {
    tn_blob like;
    uint8_t *p = run_of(i, &like);
    const tn_blob *at = tn_blobs_find(b, like.id);
    cr_assert(at != NULL && at == tn_blobs_at(b, i));
    const uint8_t *data = tn_blobs_data(b, at);
    cr_expect(at->bytes == sizes[i] && at->sum == like.sum && (uintptr_t)data % TN_BLOBS_ALIGN == 0);
    cr_expect(memcmp(data, p, sizes[i]) == 0, "run %u", i);
    free(p);
  }
  cr_expect(tn_blobs_find(b, (const uint8_t[32]){99}) == NULL);
  struct stat sb;
  cr_assert(stat(path, &sb) == 0);
  cr_expect(eq(u64, tn_blobs_bytes(b), (uint64_t)sb.st_size));
  cr_expect(eq(int, sb.st_mode & 0777, 0600), "others may read it");
  tn_blobs_close(b);
  cr_expect(eq(int, entries(), 1), "a temporary file stays behind");
}

Test(blobs, of_no_runs)
{
  tn_err err = tn_err_init();
  tn_blobs *b = NULL;
  cr_assert(tn_blobs_finish(begin(), &err) == TN_OK, "%s", err.msg);
  cr_assert(tn_blobs_open(path, key, &b, &err) == TN_OK, "%s", err.msg);
  cr_expect(eq(u64, tn_blobs_n(b), 0));
  cr_expect(tn_blobs_find(b, key) == NULL);
  tn_blobs_close(b);
}

Test(blobs, discarded_leave_nothing)
{
  tn_err err = tn_err_init();
  tn_blob like;
  uint8_t *p = run_of(3, &like);
  tn_blobs_out *o = begin();
  cr_assert(tn_blobs_add(o, &like, p, &err) == TN_OK);
  cr_expect(eq(int, entries(), 1));
  tn_blobs_discard(o);
  cr_expect(eq(int, entries(), 0));
  free(p);
}

/* Two who write one file at once: the later one stands, and who has the other one mapped keeps it. */
Test(blobs, two_writers)
{
  tn_err err = tn_err_init();
  tn_blob like;
  tn_blobs *first = NULL, *second = NULL;
  uint8_t *p = run_of(1, &like);
  tn_blobs_out *a = begin(), *b = begin();
  cr_assert(tn_blobs_add(a, &like, p, &err) == TN_OK && tn_blobs_finish(a, &err) == TN_OK, "%s", err.msg);
  cr_assert(tn_blobs_open(path, key, &first, &err) == TN_OK, "%s", err.msg);
  cr_assert(tn_blobs_finish(b, &err) == TN_OK, "%s", err.msg);
  cr_assert(tn_blobs_open(path, key, &second, &err) == TN_OK, "%s", err.msg);
  cr_expect(eq(u64, tn_blobs_n(second), 0));
  cr_expect(memcmp(tn_blobs_data(first, tn_blobs_at(first, 0)), p, like.bytes) == 0);
  tn_blobs_close(first);
  tn_blobs_close(second);
  cr_expect(eq(int, entries(), 1));
  free(p);
}

static void expect_refused(const char *says)
{
  tn_err err = tn_err_init();
  tn_blobs *b = NULL;
  cr_expect(tn_blobs_open(path, key, &b, &err) == TN_E_ARG && b == NULL, "want '%s', it opens", says);
  cr_expect(strstr(err.msg, says) && strstr(err.msg, path), "want '%s', got '%s'", says, err.msg);
}

/* Adds one to the byte at an offset. */
static void damage(uint64_t at)
{
  int fd = open(path, O_RDWR);
  uint8_t x;
  cr_assert(fd >= 0 && pread(fd, &x, 1, (off_t)at) == 1);
  x++;
  cr_assert(pwrite(fd, &x, 1, (off_t)at) == 1);
  close(fd);
}

static void small_file(tn_blobs_head *h)
{
  tn_err err = tn_err_init();
  tn_blob like;
  uint8_t *p = run_of(2, &like);
  tn_blobs_out *o = begin();
  cr_assert(tn_blobs_add(o, &like, p, &err) == TN_OK && tn_blobs_finish(o, &err) == TN_OK, "%s", err.msg);
  free(p);
  int fd = open(path, O_RDONLY);
  cr_assert(fd >= 0 && pread(fd, h, sizeof *h, 0) == sizeof *h);
  close(fd);
}

Test(blobs, damage_is_seen)
{
  tn_blobs_head h;
  for (uint64_t at = 0; at < sizeof h; at++) {
    small_file(&h);
    damage(at);
    expect_refused(at < 8 ? "its first bytes is wrong" : "the header's check sum is wrong");
  }
  for (uint64_t at = 0; at < sizeof(tn_blob); at++) {
    small_file(&h);
    damage(h.index_at + at);
    expect_refused("the index's check sum is wrong");
  }
  small_file(&h);
  cr_assert(truncate(path, (off_t)h.file_bytes - 1) == 0);
  expect_refused("its size is wrong");
  cr_assert(truncate(path, (off_t)h.file_bytes + 4096) == 0);
  expect_refused("its size is wrong");
  cr_assert(truncate(path, 4095) == 0);
  expect_refused("it has 4095 bytes");
  cr_assert(truncate(path, 0) == 0);
  expect_refused("it has 0 bytes");
}

/* A header and an index with right sums that say what cannot be. */
static void forge(const tn_blobs_head *h, const tn_blob *index, uint64_t at)
{
  tn_blobs_head sealed = *h;
  tn_sha256 sha;
  tn_sha256_init(&sha);
  tn_sha256_update(&sha, index, sizeof *index);
  tn_sha256_final(&sha, sealed.index_sum);
  tn_blobs_seal(&sealed);
  int fd = open(path, O_RDWR);
  cr_assert(fd >= 0 && pwrite(fd, index, sizeof *index, (off_t)at) == sizeof *index);
  cr_assert(pwrite(fd, &sealed, sizeof sealed, 0) == sizeof sealed);
  close(fd);
}

Test(blobs, lies_are_seen)
{
  tn_blobs_head h, x;
  tn_blob e = {.offset = TN_BLOBS_FIRST, .bytes = 4095};
  small_file(&h);
  forge(&h, &e, h.index_at);
  tn_blobs *b = NULL;
  cr_assert(tn_blobs_open(path, key, &b, NULL) == TN_OK, "the forgery itself is faulty");
  tn_blobs_close(b);
  e.offset = 128;
  forge(&h, &e, h.index_at);
  expect_refused("an entry of the index is wrong");
  e.offset = TN_BLOBS_FIRST + 32;
  forge(&h, &e, h.index_at);
  expect_refused("an entry of the index is wrong");
  e.offset = h.index_at + 64;
  forge(&h, &e, h.index_at);
  expect_refused("an entry of the index is wrong");
  e.offset = TN_BLOBS_FIRST, e.bytes = UINT64_MAX;
  forge(&h, &e, h.index_at);
  expect_refused("an entry of the index is wrong");
  e.bytes = 64;
  x = h, x.n = 2;
  forge(&x, &e, h.index_at);
  expect_refused("the index's size is wrong");
  x = h, x.n = UINT64_MAX / 64 + 2;
  forge(&x, &e, h.index_at);
  expect_refused("the index's size is wrong");
  x = h, x.index_at = h.file_bytes + 64;
  forge(&x, &e, h.index_at);
  expect_refused("its size is wrong");
  x = h, x.key[5] = 7;
  forge(&x, &e, h.index_at);
  expect_refused("its key is wrong");
}

Test(blobs, what_is_no_file)
{
  tn_err err = tn_err_init();
  tn_blobs *b = NULL;
  tn_blobs_out *o = NULL;
  char other[128];
  cr_expect(eq(i32, tn_blobs_open(path, key, &b, &err), TN_E_IO));
  cr_expect(strstr(err.msg, "No such file") != NULL, "%s", err.msg);
  cr_expect(eq(i32, tn_blobs_open(dir, key, &b, &err), TN_E_ARG));
  cr_expect(strstr(err.msg, "not a file of this user's own") != NULL, "%s", err.msg);
  write_all();
  snprintf(other, sizeof other, "%s/link", dir);
  cr_assert(symlink(path, other) == 0);
  cr_expect(eq(i32, tn_blobs_open(other, key, &b, &err), TN_E_IO), "a symbolic link is followed");
  snprintf(other, sizeof other, "%s/no/such", dir);
  cr_expect(eq(i32, tn_blobs_create(other, key, &o, &err), TN_E_IO));
  cr_expect(o == NULL && b == NULL);
}

/* Any one byte counts, wherever it is, and the number of threads does not. */
Test(blobs, sums)
{
  enum { BYTES = (3 << 20) + 77 };
  tn_pool *pool = NULL;
  uint8_t *p = calloc(1, BYTES);
  cr_assert(p && tn_pool_new(3, &pool, NULL) == TN_OK);
  const uint64_t zero = tn_blob_sum(p, BYTES, NULL);
  cr_expect(eq(u64, tn_blob_sum(p, BYTES, pool), zero));
  cr_expect(ne(u64, tn_blob_sum(p, BYTES - 1, NULL), zero));
  for (size_t at = 0; at < BYTES; at += at < 200 || at > BYTES - 200 ? 1 : 99991) {
    p[at] = 128;
    cr_expect(ne(u64, tn_blob_sum(p, BYTES, pool), zero), "byte %zu", at);
    p[at] = 0;
  }
  p[0] = p[1 << 20] = 1; /* the same change in two chunks */
  cr_expect(ne(u64, tn_blob_sum(p, BYTES, pool), zero));
  tn_pool_free(pool);
  free(p);
}
