/* The tensor table of GGUF files: shapes, types, offsets and alignments that lie. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "gguf_bytes.h"

/* A file with one tensor of that entry and 256 bytes of data. */
static gguf_bytes one(uint32_t n_dims, const uint64_t *ne, uint32_t dtype, uint64_t offset)
{
  gguf_bytes b = {0};
  gb_head(&b, 1, 0);
  gb_tensor(&b, "blk.0.w", n_dims, ne, dtype, offset);
  gb_align(&b, 32);
  gb_raw(&b, NULL, 256);
  return b;
}

Test(gguf_tensor, gives_shape_and_bytes)
{
  gguf_bytes b = {0};
  gb_head(&b, 2, 0);
  gb_tensor(&b, "w", 2, (uint64_t[]){64, 3}, 2, 32);
  gb_tensor(&b, "v", 1, (uint64_t[]){2}, 0, 0);
  gb_align(&b, 32);
  gb_raw(&b, "\0\0\200?", 4);
  gb_raw(&b, NULL, 28 + 3 * 36);
  tn_gguf *g;
  void *copy;
  tn_err err = tn_err_init();
  cr_assert(eq(int, gb_open(&b, &g, &copy, &err), TN_OK), "%s", err.msg);
  const tn_gguf_tensor *w = tn_gguf_tensor_find(g, "w"), *v = tn_gguf_tensor_find(g, "v");
  cr_assert(w != NULL && v != NULL);
  cr_expect(w->ne[0] == 64 && w->ne[1] == 3 && w->ne[2] == 1 && w->ne[3] == 1 && w->n_dims == 2 && w->dtype == 2);
  cr_expect(eq(u64, w->bytes, 108));
  cr_expect(w->data == (uint8_t *)copy + b.n - 108);
  cr_expect(zero(int, memcmp(v->data, "\0\0\200?", 4)));
  cr_expect(w == tn_gguf_tensor_at(g, 0));
  cr_expect(v == tn_gguf_tensor_at(g, 1));
  cr_expect(zero(ptr, (void *)tn_gguf_tensor_at(g, 2)));
  cr_expect(zero(ptr, (void *)tn_gguf_tensor_find(g, "ww")));
  tn_gguf_close(g);
  free(copy);
  gb_free(&b);
}

Test(gguf_tensor, refuses_impossible_shapes)
{
  static const struct {
    uint32_t n_dims, dtype;
    uint64_t ne[5];
    const char *words;
  } cases[] = {
      {0, 0, {0}, "0 dimensions|1 to 4"},
      {5, 0, {1, 1, 1, 1, 1}, "5 dimensions|1 to 4"},
      {UINT32_MAX, 0, {1}, "dimensions|1 to 4"},
      {2, 0, {4, 0}, "0 elements in dimension 1"},
      {1, 0, {1ull << 63}, "9223372036854775808 elements in dimension 0"},
      {2, 0, {1ull << 32, 1ull << 32}, "overflows"},
      {4, 0, {1ull << 16, 1ull << 16, 1ull << 16, 1ull << 16}, "overflows"},
      {1, 0, {1ull << 61}, "overflows"},
      {2, 1, {1ull << 62, 2}, "overflows"},
      {1, 2, {33}, "33 elements|32 in a block of q4_0"},
      {1, 12, {128}, "128 elements|256 in a block of q4_k"},
  };
  for (size_t i = 0; i < TN_ARRAY_LEN(cases); i++) {
    gguf_bytes b = {0};
    gb_head(&b, 1, 0);
    gb_tensor(&b, "blk.0.w", cases[i].n_dims > 5 ? 1 : cases[i].n_dims, cases[i].ne, cases[i].dtype, 0);
    memcpy(b.p + 24 + 8 + 7, &cases[i].n_dims, 4);
    gb_raw(&b, NULL, 256);
    cr_expect(gb_refused(&b, TN_E_ARG, "tensor 'blk.0.w'"), "case %zu", i);
    gb_head(&b, 1, 0);
    gb_tensor(&b, "blk.0.w", cases[i].n_dims > 5 ? 1 : cases[i].n_dims, cases[i].ne, cases[i].dtype, 0);
    memcpy(b.p + 24 + 8 + 7, &cases[i].n_dims, 4);
    gb_raw(&b, NULL, 256);
    cr_expect(gb_refused(&b, TN_E_ARG, cases[i].words), "case %zu", i);
  }
}

Test(gguf_tensor, names_types_without_support)
{
  gguf_bytes b = one(1, (uint64_t[]){256}, 16, 0);
  cr_expect(gb_refused(&b, TN_E_UNSUPPORTED, "tensor 'blk.0.w'|type 16|iq2_xxs"));
  b = one(1, (uint64_t[]){256}, 4, 0);
  cr_expect(gb_refused(&b, TN_E_UNSUPPORTED, "type 4|q4_2, removed"));
  b = one(1, (uint64_t[]){256}, 12345, 0);
  cr_expect(gb_refused(&b, TN_E_UNSUPPORTED, "type 12345|no known type"));
}

Test(gguf_tensor, refuses_offsets_without_alignment)
{
  gguf_bytes b = one(1, (uint64_t[]){4}, 0, 16);
  cr_expect(gb_refused(&b, TN_E_ARG, "tensor 'blk.0.w'|offset 16|alignment 32"));
}

/* Head, one entry and padding are 64 bytes; 256 of data follow. */
Test(gguf_tensor, says_both_sizes_of_a_truncated_file)
{
  gguf_bytes b = one(1, (uint64_t[]){64}, 0, 0);
  cr_expect(gb_opens(&b));
  b = one(1, (uint64_t[]){65}, 0, 0);
  cr_expect(gb_refused(&b, TN_E_IO, "truncated|tensor 'blk.0.w'|ends at byte 324|has 320 bytes"));
  b = one(1, (uint64_t[]){1}, 0, 256);
  cr_expect(gb_refused(&b, TN_E_IO, "truncated|offset 256|ends at byte 324|has 320 bytes"));
  b = one(1, (uint64_t[]){1}, 0, UINT64_MAX - 31);
  cr_expect(gb_refused(&b, TN_E_IO, "truncated|offset 18446744073709551584"));
  b = one(1, (uint64_t[]){1ull << 60}, 0, 0);
  cr_expect(gb_refused(&b, TN_E_IO, "truncated|4611686018427387904 bytes|has 320 bytes"));
}

Test(gguf_tensor, refuses_duplicate_and_empty_names)
{
  gguf_bytes b = {0};
  gb_head(&b, 2, 0);
  gb_tensor(&b, "w", 1, (uint64_t[]){1}, 0, 0);
  gb_tensor(&b, "w", 1, (uint64_t[]){1}, 0, 32);
  gb_align(&b, 32);
  gb_raw(&b, NULL, 64);
  cr_expect(gb_refused(&b, TN_E_ARG, "tensor 'w'|twice"));
  gb_head(&b, 1, 0);
  gb_tensor(&b, "", 1, (uint64_t[]){1}, 0, 0);
  gb_raw(&b, NULL, 64);
  cr_expect(gb_refused(&b, TN_E_ARG, "empty name"));
}

/* general.alignment of that type and value, and one tensor at the offset. */
static gguf_bytes aligned(uint32_t type, uint32_t value, uint64_t offset)
{
  gguf_bytes b = {0};
  gb_head(&b, 1, 1);
  gb_key(&b, "general.alignment", type);
  if (type == TN_GGUF_STR)
    gb_str(&b, "32");
  else if (type == TN_GGUF_ARR)
    gb_array(&b, TN_GGUF_U8, 0);
  else if (type == TN_GGUF_U64)
    gb_u64(&b, value);
  else if (type == TN_GGUF_U8)
    gb_u8(&b, (uint8_t)value);
  else
    gb_u32(&b, value);
  gb_tensor(&b, "w", 1, (uint64_t[]){1}, 0, offset);
  gb_align(&b, 64);
  gb_raw(&b, NULL, 256);
  return b;
}

Test(gguf_tensor, checks_the_alignment)
{
  static const uint32_t types[] = {TN_GGUF_U8, TN_GGUF_U64, TN_GGUF_I32, TN_GGUF_F32, TN_GGUF_STR, TN_GGUF_ARR};
  for (size_t i = 0; i < TN_ARRAY_LEN(types); i++) {
    gguf_bytes b = aligned(types[i], 32, 0);
    cr_expect(gb_refused(&b, TN_E_ARG, "general.alignment has type|(uint32)"), "type %u", types[i]);
  }
  static const uint32_t values[] = {0, 1, 4, 12, 33, 131072, UINT32_MAX};
  for (size_t i = 0; i < TN_ARRAY_LEN(values); i++) {
    gguf_bytes b = aligned(TN_GGUF_U32, values[i], 0);
    cr_expect(gb_refused(&b, TN_E_ARG, "general.alignment is|power of two from 8 to 65536"), "%u", values[i]);
  }
  gguf_bytes b = aligned(TN_GGUF_U32, 64, 64);
  cr_expect(gb_opens(&b));
  b = aligned(TN_GGUF_U32, 64, 32);
  cr_expect(gb_refused(&b, TN_E_ARG, "offset 32|alignment 64"));
  b = aligned(TN_GGUF_U32, 8, 8);
  cr_expect(gb_opens(&b));
}
