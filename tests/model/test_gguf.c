/* Whole models: a real file, splits, identity. */
#include "model/gguf.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gguf_bytes.h"
#include "sha256.h"

#define TINY TN_SOURCE_DIR "/tests/data/tiny/gemma3.gguf"

static char folder[64];

static void make_folder(void)
{
  snprintf(folder, sizeof folder, "/tmp/tenon-gguf-XXXXXX");
  cr_assert(mkdtemp(folder) != NULL);
}

static void remove_folder(void)
{
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  cr_expect(zero(int, system(command)));
}

TestSuite(gguf, .init = make_folder, .fini = remove_folder);

Test(gguf, opens_a_model_from_its_file)
{
  tn_gguf *g;
  tn_err err = tn_err_init();
  uint64_t u = 0;
  double d = 0;
  tn_gguf_arr tokens;
  tn_str s;
  cr_assert(eq(int, tn_gguf_open(TINY, &g, &err), TN_OK), "%s", err.msg);
  cr_expect(eq(str, (char *)tn_gguf_path(g), TINY));
  cr_expect(tn_gguf_string(g, "general.architecture", &s) && s.n == 6 && memcmp(s.p, "gemma3", 6) == 0);
  cr_expect(tn_gguf_u64(g, "gemma3.block_count", &u) && u == 6);
  cr_expect(tn_gguf_f64(g, "gemma3.rope.freq_base", &d) && d == 1000000);
  cr_assert(tn_gguf_array(g, "tokenizer.ggml.tokens", &tokens) && tokens.n == 320);
  cr_expect(tn_gguf_arr_str(&tokens, 2, &s) && s.n == 5 && memcmp(s.p, "<bos>", 5) == 0);
  const tn_gguf_tensor *t = tn_gguf_tensor_find(g, "blk.5.ffn_down.weight");
  cr_assert(t != NULL);
  cr_expect(t->ne[0] == 128 && t->ne[1] == 64 && t->bytes == 128 * 64 * 2);
  cr_expect(zero(int, (int)((uintptr_t)t->data % 32)));
  tn_gguf_close(g);
  tn_gguf_close(NULL);
}

Test(gguf, says_why_a_file_does_not_open)
{
  static const struct {
    const char *path, *words;
  } cases[] = {
      {"/nonexistent/m.gguf", "/nonexistent/m.gguf: cannot open: No such file"},
      {"/tmp", "/tmp: not a regular file"},
      {"/dev/null", "/dev/null: not a regular file"},
      {TN_SOURCE_DIR "/tests/data/tiny/README.md", "README.md: not a GGUF file"},
  };
  for (size_t i = 0; i < TN_ARRAY_LEN(cases); i++) {
    tn_gguf *g = (tn_gguf *)&i;
    tn_err err = tn_err_init();
    cr_expect(lt(int, tn_gguf_open(cases[i].path, &g, &err), 0));
    cr_expect(zero(ptr, g));
    cr_expect(strstr(err.msg, cases[i].words) != NULL, "%s", err.msg);
    cr_expect(lt(int, tn_gguf_open(cases[i].path, &g, NULL), 0));
  }
}

/* Part no (from 0) of a split of count: one tensor named t<no> that holds 8 floats of value no. */
static gguf_bytes part(int no, int count, int says_no, int says_count, int total)
{
  gguf_bytes b = {0};
  char name[8];
  snprintf(name, sizeof name, "t%d", no);
  gb_head(&b, 1, 4);
  gb_key(&b, no ? "other.part" : "first.part", TN_GGUF_U8);
  gb_u8(&b, (uint8_t)count);
  gb_key(&b, "split.no", TN_GGUF_U16);
  gb_raw(&b, &(uint16_t){(uint16_t)says_no}, 2);
  gb_key(&b, "split.count", TN_GGUF_U16);
  gb_raw(&b, &(uint16_t){(uint16_t)says_count}, 2);
  gb_key(&b, "split.tensors.count", TN_GGUF_I32);
  gb_u32(&b, (uint32_t)total);
  gb_tensor(&b, name, 1, (uint64_t[]){8}, 0, 0);
  gb_align(&b, 32);
  for (int i = 0; i < 8; i++) gb_f32(&b, (float)no);
  return b;
}

static void save_part(int no, int count, int says_no, int says_count, int total)
{
  char path[128];
  gguf_bytes b = part(no, count, says_no, says_count, total);
  snprintf(path, sizeof path, "%s/m-%05d-of-%05d.gguf", folder, no + 1, count);
  gb_save(&b, path);
  gb_free(&b);
}

static tn_status open_part(int no, int count, tn_gguf **g, tn_err *err)
{
  char path[128];
  snprintf(path, sizeof path, "%s/m-%05d-of-%05d.gguf", folder, no + 1, count);
  *err = tn_err_init();
  return tn_gguf_open(path, g, err);
}

Test(gguf, any_part_opens_the_whole_split)
{
  uint8_t id[3][32];
  for (int i = 0; i < 3; i++) save_part(i, 3, i, 3, 3);
  for (int i = 0; i < 3; i++) {
    tn_gguf *g;
    tn_err err;
    cr_assert(eq(int, open_part(i, 3, &g, &err), TN_OK), "%s", err.msg);
    cr_expect(eq(u64, tn_gguf_n_tensors(g), 3));
    cr_expect(tn_gguf_has(g, "first.part"));
    cr_expect(not(tn_gguf_has(g, "other.part")));
    const tn_gguf_tensor *t = tn_gguf_tensor_find(g, "t2");
    float two = 2;
    cr_assert(t != NULL && t == tn_gguf_tensor_at(g, 2));
    cr_expect(zero(int, memcmp(t->data, &two, sizeof two)));
    tn_gguf_identity(g, id[i]);
    tn_gguf_close(g);
  }
  cr_expect(zero(int, memcmp(id[0], id[1], 32)));
  cr_expect(zero(int, memcmp(id[0], id[2], 32)));
}

Test(gguf, a_missing_or_wrong_sister_is_named)
{
  tn_gguf *g;
  tn_err err;
  save_part(0, 2, 0, 2, 2);
  cr_expect(eq(int, open_part(0, 2, &g, &err), TN_E_IO));
  cr_expect(strstr(err.msg, "m-00002-of-00002.gguf: cannot open") != NULL, "%s", err.msg);
  save_part(1, 2, 0, 2, 2); /* says that it is part 0 */
  cr_expect(eq(int, open_part(0, 2, &g, &err), TN_E_ARG));
  cr_expect(strstr(err.msg, "00002.gguf: split.no 0 ") && strstr(err.msg, "part 2 (from 1) of 2"), "%s", err.msg);
  save_part(1, 2, 1, 3, 2); /* says that there are three */
  cr_expect(eq(int, open_part(0, 2, &g, &err), TN_E_ARG));
  cr_expect(strstr(err.msg, "split.count 3") != NULL, "%s", err.msg);
  cr_expect(zero(ptr, g));
}

Test(gguf, a_split_says_how_many_tensors_it_has)
{
  tn_gguf *g;
  tn_err err;
  save_part(0, 2, 0, 2, 5);
  save_part(1, 2, 1, 2, 5);
  cr_expect(eq(int, open_part(1, 2, &g, &err), TN_E_ARG));
  cr_expect(strstr(err.msg, "split.tensors.count is 5") && strstr(err.msg, "have 2 tensors"), "%s", err.msg);
}

Test(gguf, a_part_under_another_name_is_refused)
{
  gguf_bytes b = part(0, 2, 0, 2, 2);
  char path[128];
  snprintf(path, sizeof path, "%s/renamed.gguf", folder);
  gb_save(&b, path);
  tn_gguf *g;
  tn_err err = tn_err_init();
  cr_expect(eq(int, tn_gguf_open(path, &g, &err), TN_E_ARG));
  cr_expect(strstr(err.msg, "split.count is 2") && strstr(err.msg, "does not end in"), "%s", err.msg);
  cr_expect(gb_refused(&b, TN_E_ARG, "split.count is 2|other parts"));
}

static double last_done;

static bool note_progress(void *ctx, double done)
{
  last_done = done;
  return *(bool *)ctx;
}

Test(gguf, hashes_the_whole_file_on_request)
{
  gguf_bytes b = {0};
  gb_head(&b, 0, 0);
  uint8_t want[32], got[32];
  tn_sha256 h;
  tn_sha256_init(&h);
  tn_sha256_update(&h, b.p, b.n);
  tn_sha256_final(&h, want);
  tn_gguf *g;
  void *copy;
  bool go_on = true;
  tn_err err = tn_err_init();
  cr_assert(eq(int, gb_open(&b, &g, &copy, &err), TN_OK));
  cr_expect(eq(int, tn_gguf_sha256(g, note_progress, &go_on, got, &err), TN_OK));
  cr_expect(zero(int, memcmp(got, want, 32)));
  cr_expect(eq(dbl, last_done, 1.0));
  go_on = false;
  cr_expect(eq(int, tn_gguf_sha256(g, note_progress, &go_on, got, &err), TN_E_STATE));
  tn_gguf_close(g);
  free(copy);
  gb_free(&b);
}

/* Metadata, tensor table and the ends and middle of every tensor count; the bytes between do not. */
Test(gguf, identity_sees_header_and_samples)
{
  gguf_bytes b = {0};
  gb_head(&b, 1, 1);
  gb_key(&b, "k", TN_GGUF_U8);
  size_t value = b.n;
  gb_u8(&b, 1);
  gb_tensor(&b, "w", 1, (uint64_t[]){256}, 0, 0);
  gb_align(&b, 32);
  size_t data = b.n;
  gb_raw(&b, NULL, 1024);
  const size_t seen[] = {value, data, data + 63, data + 512, data + 1023}, unseen[] = {data + 64, data + 900};
  uint8_t first[32], id[32];
  for (size_t i = 0; i < 8; i++) {
    size_t at = i == 0 ? 0 : i <= 5 ? seen[i - 1] : unseen[i - 6];
    b.p[at] ^= (uint8_t)(i > 0);
    tn_gguf *g;
    void *copy;
    tn_err err = tn_err_init();
    cr_assert(eq(int, gb_open(&b, &g, &copy, &err), TN_OK), "%s", err.msg);
    tn_gguf_identity(g, i ? id : first);
    if (i) cr_expect(eq(int, memcmp(id, first, 32) != 0, i <= 5), "byte %zu", at);
    b.p[at] ^= (uint8_t)(i > 0);
    tn_gguf_close(g);
    free(copy);
  }
  gb_free(&b);
}

/* As many tokens as Gemma has: one pass over the strings, and no search per string. */
Test(gguf, opens_a_large_vocabulary)
{
  enum { TOKENS = 262144 };
  gguf_bytes b = {0};
  gb_head(&b, 0, 1);
  gb_key(&b, "tokenizer.ggml.tokens", TN_GGUF_ARR);
  gb_array(&b, TN_GGUF_STR, TOKENS);
  size_t head = b.n;
  gb_raw(&b, NULL, (size_t)TOKENS * 12);
  for (size_t i = 0; i < TOKENS; i++) {
    uint64_t n = 4;
    memcpy(b.p + head + 12 * i, &n, sizeof n);
    memcpy(b.p + head + 12 * i + 8, &(uint32_t){(uint32_t)i}, 4);
  }
  tn_gguf *g;
  void *copy;
  tn_err err = tn_err_init();
  uint64_t start = tn_now_ns();
  cr_assert(eq(int, gb_open(&b, &g, &copy, &err), TN_OK));
  cr_expect(lt(u64, (tn_now_ns() - start) / 1000000, 1000)); /* 3 ms here; a search per string would take minutes */
  tn_gguf_arr a;
  tn_str s;
  cr_assert(tn_gguf_array(g, "tokenizer.ggml.tokens", &a) && tn_gguf_arr_str(&a, TOKENS - 1, &s));
  cr_expect(zero(int, memcmp(s.p, &(uint32_t){TOKENS - 1}, 4)));
  tn_gguf_close(g);
  free(copy);
  gb_free(&b);
}
