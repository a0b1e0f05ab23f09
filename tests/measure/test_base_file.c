/* Recorded laws: the bytes of a small file of each kind, what comes back from them, and files that are damaged. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "measure/base_file.h"

#define V 5

static const int32_t tokens[8] = {1, 2, 3, 4, 0, 4, 3, 2};
/* Chunks of 4 with row 2 scored: tokens 4 and 2 follow. Logits so that llama-perplexity's numbers can be made by hand. */
static const float rows[2][V] = {{0, 1, 2, -30, 1}, {3, 3, 3, 3, 3}};
static char path[64];

static void setup(void) { snprintf(path, sizeof path, "/tmp/tenon-base-%d", (int)getpid()); }
static void teardown(void) { (void)unlink(path); }
TestSuite(measure_base_file, .init = setup, .fini = teardown, .timeout = 30);

static void record(uint32_t k)
{
  tn_base_info info = {k, 4, 2, V, 2, tokens};
  tn_base_writer *w;
  tn_err err = tn_err_init();
  cr_assert(eq(int, tn_base_create(path, &info, &w, &err), TN_OK), "%s", err.msg);
  cr_expect(access(path, R_OK) != 0, "a file that is not whole has its name");
  cr_assert(eq(int, tn_base_put(w, rows[0], 4, &err), TN_OK));
  cr_assert(eq(int, tn_base_put(w, rows[1], 2, &err), TN_OK));
  cr_expect(eq(int, tn_base_put(w, rows[1], 2, &err), TN_E_STATE));
  cr_assert(eq(int, tn_base_finish(w, &err), TN_OK), "%s", err.msg);
}

static size_t content(uint8_t *to, size_t cap)
{
  FILE *f = fopen(path, "rb");
  cr_assert(f != NULL);
  size_t n = fread(to, 1, cap, f);
  fclose(f);
  return n;
}

static void put_f32(uint8_t **at, float x)
{
  memcpy(*at, &x, 4);
  *at += 4;
}

static void put_u32(uint8_t **at, uint32_t x)
{
  memcpy(*at, &x, 4);
  *at += 4;
}

/* The layout as llama.cpp's tools/perplexity writes it: 8 + 12 + 4 * 8 bytes, then rows of 8 + 2 * 6. */
Test(measure_base_file, golden_bytes)
{
  uint8_t want[256], have[256], *at = want;
  static const uint16_t v[2][6] = {{57343, 61439, 65535, 0, 61439, 0}, {0, 0, 0, 0, 0, 0}};
  double lse = log(exp(0) + 2 * exp(1) + exp(2) + exp(-30));
  memcpy(at, "_logits_", 8), at += 8;
  put_u32(&at, 4), put_u32(&at, V), put_u32(&at, 2);
  memcpy(at, tokens, sizeof tokens), at += sizeof tokens;
  put_f32(&at, 16.0f / 65535), put_f32(&at, (float)(-14 - lse)); /* the least is 16 below the largest */
  memcpy(at, v[0], 12), at += 12;
  put_f32(&at, 0), put_f32(&at, (float)-log(5));
  memcpy(at, v[1], 12), at += 12;
  record(0);
  cr_assert(eq(sz, content(have, sizeof have), (size_t)(at - want)));
  for (long i = 0; i < at - want; i++) cr_expect(eq(u8, have[i], want[i]), "byte %ld", i);
}

Test(measure_base_file, golden_bytes_compact)
{
  uint8_t want[256], have[256], *at = want;
  double lse = log(exp(0) + 2 * exp(1) + exp(2) + exp(-30));
  memcpy(at, "TNKLDB1\n", 8), at += 8;
  put_u32(&at, 2), put_u32(&at, 4), put_u32(&at, 2), put_u32(&at, V), put_u32(&at, 2), put_u32(&at, 0);
  memcpy(at, tokens, sizeof tokens), at += sizeof tokens;
  put_f32(&at, (float)(1 - lse)), put_f32(&at, (float)((exp(0) + exp(1) + exp(-30)) / exp(lse)));
  put_u32(&at, 2), put_u32(&at, 1), put_f32(&at, (float)(2 - lse)), put_f32(&at, (float)(1 - lse));
  put_f32(&at, (float)-log(5)), put_f32(&at, 0.6f);
  put_u32(&at, 0), put_u32(&at, 1), put_f32(&at, (float)-log(5)), put_f32(&at, (float)-log(5));
  record(2);
  cr_assert(eq(sz, content(have, sizeof have), (size_t)(at - want)));
  for (long i = 0; i < at - want; i++) cr_expect(eq(u8, have[i], want[i]), "byte %ld", i);
}

/* What a file gives for the rows it was made of, and for others, against the whole rows. */
static void compare(uint32_t k, double tolerance)
{
  static const float tested[2][V] = {{0.5f, 0, 2, -3, 1.5f}, {0, 1, 2, 3, 4}};
  tn_base *b;
  tn_err err = tn_err_init();
  record(k);
  cr_assert(eq(int, tn_base_open(path, &b, &err), TN_OK), "%s", err.msg);
  const tn_base_info *i = tn_base_about(b);
  cr_expect(eq(u32, i->k, k));
  cr_expect(eq(u32, i->n_ctx, 4));
  cr_expect(eq(u32, i->n_prompt, 2));
  cr_expect(eq(u32, i->n_chunks, 2));
  cr_expect(eq(u32, i->n_vocab, V));
  cr_expect(eq(int, memcmp(i->tokens, tokens, sizeof tokens), 0));
  static const int32_t next[2] = {4, 2};
  for (int turn = 0; turn < 2; turn++)
    for (uint32_t c = 0; c < 2; c++) {
      tn_kld_token whole, t;
      const float *row = turn ? rows[1 - c] : tested[1 - c];
      cr_assert(eq(int, tn_base_chunk(b, 1 - c, &err), TN_OK)); /* in any order */
      cr_assert(eq(int, tn_base_compare(b, row, next[1 - c], &t, &err), TN_OK), "%s", err.msg);
      cr_assert(eq(int, tn_kld_rows(rows[1 - c], row, V, next[1 - c], &whole, &err), TN_OK));
      cr_expect(epsilon_eq(dbl, t.nll, whole.nll, 1e-12));
      cr_expect(epsilon_eq(dbl, t.nll_base, whole.nll_base, 2e-4), "%g, %g", t.nll_base, whole.nll_base);
      cr_expect(eq(int, t.same_top, whole.same_top));
      if (k == 0 || k == V) cr_expect(epsilon_eq(dbl, t.kld, whole.kld, tolerance), "%g, %g", t.kld, whole.kld);
      cr_expect(le(dbl, t.kld, whole.kld + tolerance), "%g, %g", t.kld, whole.kld);
    }
  cr_expect(eq(int, tn_base_chunk(b, 2, &err), TN_E_ARG));
  tn_base_free(b);
}

Test(measure_base_file, whole_rows_come_back) { compare(0, 2e-4); }
Test(measure_base_file, all_tokens_come_back) { compare(V, 1e-6); }
Test(measure_base_file, a_compact_record_is_a_lower_bound) { compare(2, 1e-6); }

static void damaged(size_t at, uint32_t value, size_t cut, const char *words)
{
  uint8_t bytes[256];
  tn_base *b;
  tn_err err = tn_err_init();
  size_t n = content(bytes, sizeof bytes) - cut;
  if (at != SIZE_MAX) memcpy(bytes + at, &value, 4);
  char bad[80];
  snprintf(bad, sizeof bad, "%s.bad", path);
  FILE *f = fopen(bad, "wb");
  cr_assert(f != NULL && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
  cr_expect(eq(int, tn_base_open(bad, &b, &err), TN_E_IO));
  cr_expect(strstr(err.msg, words) != NULL, "%s: no '%s'", err.msg, words);
  cr_expect(strstr(err.msg, bad) != NULL, "%s names no file", err.msg);
  (void)unlink(bad);
}

Test(measure_base_file, damaged_files)
{
  record(0);
  damaged(0, 0, 0, "is no record of log-probabilities");
  damaged(8, 2, 0, "n_ctx = 2");
  damaged(8, UINT32_MAX, 0, "n_ctx = 4294967295");
  damaged(12, 1, 0, "n_vocab = 1");
  damaged(16, 0, 0, "n_chunks = 0");
  damaged(16, 3, 0, "has 92 bytes, and 3 chunks of 4 tokens with 5 logits make 128");
  damaged(20, V, 0, "token 0 is 5");
  damaged(SIZE_MAX, 0, 1, "has 91 bytes");
  damaged(SIZE_MAX, 0, 80, "the header cannot be read: the file ends before");
  (void)unlink(path);
  record(2);
  damaged(8, 0, 0, "k = 0");
  damaged(8, 6, 0, "k = 6");
  damaged(16, 3, 0, "n_prompt = 3");
}

Test(measure_base_file, what_cannot_be_recorded)
{
  tn_base_info info = {0, 4, 1, V, 2, tokens};
  tn_base_writer *w;
  tn_err err = tn_err_init();
  cr_expect(eq(int, tn_base_create(path, &info, &w, &err), TN_E_ARG));
  cr_expect(strstr(err.msg, "holds the second half of each chunk") != NULL, "%s", err.msg);
  info = (tn_base_info){6, 4, 1, V, 2, tokens};
  cr_expect(eq(int, tn_base_create(path, &info, &w, &err), TN_E_ARG));
  info.k = 2;
  cr_expect(eq(int, tn_base_create("/no/such/file", &info, &w, &err), TN_E_IO));
  cr_assert(eq(int, tn_base_create(path, &info, &w, &err), TN_OK));
  cr_expect(eq(int, tn_base_finish(w, &err), TN_E_STATE), "rows are missing");
  cr_expect(access(path, R_OK) != 0);
}
