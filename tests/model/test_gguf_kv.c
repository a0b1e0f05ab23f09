/* The metadata section of GGUF files: keys, values and arrays that lie about themselves. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "gguf_bytes.h"

Test(gguf_kv, refuses_strings_beyond_the_file)
{
  static const uint64_t lengths[] = {17, 1000, (uint64_t)1 << 62, UINT64_MAX, UINT64_MAX - 7};
  for (size_t i = 0; i < TN_ARRAY_LEN(lengths); i++) {
    gguf_bytes b = {0};
    gb_head(&b, 0, 1);
    gb_u64(&b, lengths[i]); /* the key */
    gb_raw(&b, "0123456789abcdef", 16);
    cr_expect(gb_refused(&b, TN_E_IO, "a metadata key|the file has 48 bytes"));
    gb_head(&b, 0, 1);
    gb_key(&b, "general.name", TN_GGUF_STR);
    gb_u64(&b, lengths[i]);
    gb_raw(&b, "0123456789abcdef", 16);
    cr_expect(gb_refused(&b, TN_E_IO, "key 'general.name'|the file has 72 bytes"));
  }
}

Test(gguf_kv, refuses_unknown_types)
{
  gguf_bytes b = {0};
  gb_head(&b, 0, 1);
  gb_key(&b, "k", 13);
  gb_raw(&b, NULL, 32);
  cr_expect(gb_refused(&b, TN_E_ARG, "key 'k'|type 13|0 to 12"));
  gb_head(&b, 0, 1);
  gb_key(&b, "k", TN_GGUF_ARR);
  gb_array(&b, 99, 1);
  gb_raw(&b, NULL, 32);
  cr_expect(gb_refused(&b, TN_E_ARG, "key 'k'|type 99|0 to 12"));
}

Test(gguf_kv, refuses_nested_arrays)
{
  gguf_bytes b = {0};
  gb_head(&b, 0, 1);
  gb_key(&b, "k", TN_GGUF_ARR);
  gb_array(&b, TN_GGUF_ARR, 1);
  gb_array(&b, TN_GGUF_U8, 1);
  gb_raw(&b, NULL, 32);
  cr_expect(gb_refused(&b, TN_E_ARG, "key 'k'|array of arrays"));
}

Test(gguf_kv, refuses_arrays_beyond_the_file)
{
  static const struct {
    uint32_t type;
    uint64_t n;
  } cases[] = {
      {TN_GGUF_U8, 33},          {TN_GGUF_F32, 9}, {TN_GGUF_F64, 1ull << 61}, {TN_GGUF_F64, (1ull << 61) + 1},
      {TN_GGUF_F32, UINT64_MAX}, {TN_GGUF_STR, 5}, {TN_GGUF_STR, 1ull << 61}, {TN_GGUF_STR, UINT64_MAX},
  };
  for (size_t i = 0; i < TN_ARRAY_LEN(cases); i++) {
    gguf_bytes b = {0};
    gb_head(&b, 0, 1);
    gb_key(&b, "k", TN_GGUF_ARR);
    gb_array(&b, cases[i].type, cases[i].n);
    gb_raw(&b, NULL, 32);
    cr_expect(gb_refused(&b, TN_E_IO, "key 'k'|elements|32 bytes"), "case %zu", i);
  }
}

Test(gguf_kv, refuses_a_string_array_whose_last_string_is_cut)
{
  gguf_bytes b = {0};
  gb_head(&b, 0, 1);
  gb_key(&b, "k", TN_GGUF_ARR);
  gb_array(&b, TN_GGUF_STR, 2);
  gb_str(&b, "whole");
  gb_u64(&b, 4);
  gb_raw(&b, "cut", 3);
  cr_expect(gb_refused(&b, TN_E_IO, "key 'k'|4 bytes"));
}

Test(gguf_kv, refuses_duplicate_keys)
{
  gguf_bytes b = {0};
  gb_head(&b, 0, 3);
  gb_key(&b, "a.b", TN_GGUF_U8);
  gb_u8(&b, 1);
  gb_key(&b, "a.c", TN_GGUF_U8);
  gb_u8(&b, 1);
  gb_key(&b, "a.b", TN_GGUF_U8);
  gb_u8(&b, 2);
  cr_expect(gb_refused(&b, TN_E_ARG, "metadata key 'a.b'|twice"));
}

Test(gguf_kv, refuses_empty_keys_and_bools_that_are_neither)
{
  gguf_bytes b = {0};
  gb_head(&b, 0, 1);
  gb_key(&b, "", TN_GGUF_U8);
  gb_u8(&b, 1);
  gb_u8(&b, 1);
  cr_expect(gb_refused(&b, TN_E_ARG, "key has 0 bytes"));
  gb_head(&b, 0, 1);
  gb_key(&b, "k", TN_GGUF_BOOL);
  gb_u8(&b, 2);
  cr_expect(gb_refused(&b, TN_E_ARG, "key 'k'|bool of value 2"));
}

Test(gguf_kv, shows_keys_fit_for_a_terminal)
{
  gguf_bytes b = {0};
  gb_head(&b, 0, 1);
  gb_key(&b, "\033[2Jcleared-by-a-key-that-is-far-longer-than-a-message-should-show-in-one-line", 13);
  gb_raw(&b, NULL, 32);
  cr_expect(gb_refused(&b, TN_E_ARG, "key '?[2Jcleared-by-a-key-that-is-far-longer-than-a-message-should-sh...'"));
}
