/* The head of a GGUF file: magic, version, counts; and files that are cut or damaged anywhere. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf_bytes.h"

Test(gguf_part, refuses_what_is_no_gguf)
{
  gguf_bytes b = {0};
  cr_expect(gb_refused(&b, TN_E_IO, "magic number|0 bytes"));
  gb_raw(&b, "GGU", 3);
  cr_expect(gb_refused(&b, TN_E_IO, "magic number|3 bytes"));
  gb_raw(&b, "PK\3\4....................", 24);
  cr_expect(gb_refused(&b, TN_E_ARG, "not a GGUF file|50 4b 03 04"));
}

Test(gguf_part, refuses_other_versions)
{
  static const struct {
    uint32_t version;
    tn_status code;
    const char *words;
  } cases[] = {
      {0, TN_E_VERSION, "version 0|2 and 3"},
      {1, TN_E_VERSION, "version 1|2 and 3"},
      {4, TN_E_VERSION, "version 4|2 and 3"},
      {0x03000000, TN_E_UNSUPPORTED, "big-endian"},
  };
  for (size_t i = 0; i < TN_ARRAY_LEN(cases); i++) {
    gguf_bytes b = {0};
    gb_raw(&b, "GGUF", 4);
    gb_u32(&b, cases[i].version);
    gb_raw(&b, NULL, 16);
    cr_expect(gb_refused(&b, cases[i].code, cases[i].words));
  }
}

Test(gguf_part, takes_version_2)
{
  gguf_bytes b = {0};
  gb_raw(&b, "GGUF\2\0\0\0", 8);
  gb_raw(&b, NULL, 16);
  cr_expect(gb_opens(&b));
}

/* 2^60 tensors times the size of an entry is 0 in 64 bits. */
Test(gguf_part, refuses_counts_that_the_file_cannot_hold)
{
  static const uint64_t counts[] = {(uint64_t)1 << 60, (uint64_t)1 << 58, UINT64_MAX, INT64_MAX, 1000, 4};
  for (size_t i = 0; i < TN_ARRAY_LEN(counts); i++) {
    char want[64];
    snprintf(want, sizeof want, "count is %llu|108 bytes", (unsigned long long)counts[i]);
    gguf_bytes b = {0};
    gb_head(&b, counts[i], 0);
    gb_raw(&b, NULL, 100);
    cr_expect(gb_refused(&b, TN_E_IO, want));
    if (counts[i] < 10) continue;
    snprintf(want, sizeof want, "metadata count is %llu|100 bytes", (unsigned long long)counts[i]);
    gb_head(&b, 0, counts[i]);
    gb_raw(&b, NULL, 100);
    cr_expect(gb_refused(&b, TN_E_IO, want));
  }
}

/* A sound file with a bit of everything. */
static void sample(gguf_bytes *b)
{
  gb_head(b, 2, 5);
  gb_key(b, "general.architecture", TN_GGUF_STR);
  gb_str(b, "llama");
  gb_key(b, "general.alignment", TN_GGUF_U32);
  gb_u32(b, 64);
  gb_key(b, "a.flag", TN_GGUF_BOOL);
  gb_u8(b, 1);
  gb_key(b, "tokens", TN_GGUF_ARR);
  gb_array(b, TN_GGUF_STR, 3);
  gb_str(b, "a");
  gb_str(b, "");
  gb_str(b, "ccc");
  gb_key(b, "scores", TN_GGUF_ARR);
  gb_array(b, TN_GGUF_F32, 2);
  gb_f32(b, 1.0f);
  gb_f32(b, 2.0f);
  gb_tensor(b, "x", 2, (uint64_t[]){4, 2}, 0, 0);
  gb_tensor(b, "y", 1, (uint64_t[]){32}, 2, 64);
  gb_align(b, 64);
  gb_raw(b, NULL, 64 + 18);
}

Test(gguf_part, refuses_every_cut)
{
  gguf_bytes whole = {0};
  sample(&whole);
  gguf_bytes copy = {0};
  gb_raw(&copy, whole.p, whole.n);
  cr_assert(gb_opens(&copy));
  for (size_t n = 0; n < whole.n; n++) {
    gguf_bytes cut = {0};
    gb_raw(&cut, whole.p, n);
    cr_expect(gb_refused(&cut, TN_E_IO, "bytes"), "cut at %zu", n);
  }
  gb_free(&whole);
}

/* Opens or is refused, and what opens can be read through: nothing else, whatever byte is wrong. */
Test(gguf_part, survives_every_damaged_byte)
{
  gguf_bytes b = {0};
  sample(&b);
  for (size_t i = 0; i < b.n * 4; i++) {
    uint8_t was = b.p[i / 4];
    b.p[i / 4] = (uint8_t)(was ^ (uint8_t[]){0xFF, 0x01, 0x80, 0x10}[i % 4]);
    tn_gguf *g;
    void *copy;
    tn_err err = tn_err_init();
    tn_status st = gb_open(&b, &g, &copy, &err);
    cr_assert(eq(int, st == TN_OK, g != NULL));
    if (st != TN_OK) cr_expect(ge(sz, strlen(err.msg), 10));
    for (uint64_t t = 0; g && t < tn_gguf_n_tensors(g); t++) {
      const tn_gguf_tensor *x = tn_gguf_tensor_at(g, t);
      cr_assert(x->data + x->bytes <= (uint8_t *)copy + b.n);
    }
    uint8_t id[32];
    if (g) tn_gguf_identity(g, id);
    tn_gguf_close(g);
    free(copy);
    b.p[i / 4] = was;
  }
  gb_free(&b);
}
