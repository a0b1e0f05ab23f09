/* Typed look-ups: what converts, what is refused, and that an array's own element type bounds every read. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gguf_bytes.h"

static tn_gguf *g;
static void *copy;

static void scalars(gguf_bytes *b)
{
  gb_key(b, "u8", TN_GGUF_U8);
  gb_u8(b, 200);
  gb_key(b, "i8", TN_GGUF_I8);
  gb_u8(b, (uint8_t)-3);
  gb_key(b, "u16", TN_GGUF_U16);
  gb_raw(b, &(uint16_t){60000}, 2);
  gb_key(b, "i16", TN_GGUF_I16);
  gb_raw(b, &(int16_t){-300}, 2);
  gb_key(b, "u32", TN_GGUF_U32);
  gb_u32(b, 4000000000u);
  gb_key(b, "i32", TN_GGUF_I32);
  gb_u32(b, 7);
  gb_key(b, "u64", TN_GGUF_U64);
  gb_u64(b, UINT64_MAX);
  gb_key(b, "i64", TN_GGUF_I64);
  gb_u64(b, (uint64_t)INT64_MIN);
  gb_key(b, "f32", TN_GGUF_F32);
  gb_f32(b, 0.5f);
  gb_key(b, "f64", TN_GGUF_F64);
  gb_raw(b, &(double){1e300}, 8);
  gb_key(b, "yes", TN_GGUF_BOOL);
  gb_u8(b, 1);
  gb_key(b, "name", TN_GGUF_STR);
  gb_str(b, "tenon");
}

static void arrays(gguf_bytes *b)
{
  gb_key(b, "narrow", TN_GGUF_ARR); /* scores with one byte each, read as if they were floats by a careless reader */
  gb_array(b, TN_GGUF_U8, 3);
  gb_raw(b, "\1\2\377", 3);
  gb_key(b, "words", TN_GGUF_ARR);
  gb_array(b, TN_GGUF_STR, 2);
  gb_str(b, "");
  gb_str(b, "two");
  gb_key(b, "flags", TN_GGUF_ARR);
  gb_array(b, TN_GGUF_BOOL, 2);
  gb_raw(b, "\1\0", 2);
  gb_key(b, "signed", TN_GGUF_ARR);
  gb_array(b, TN_GGUF_I32, 2);
  gb_u32(b, 5);
  gb_u32(b, (uint32_t)-5);
}

static void setup(void)
{
  gguf_bytes b = {0};
  gb_head(&b, 0, 16);
  scalars(&b);
  arrays(&b);
  tn_err err = tn_err_init();
  tn_status st = gb_open(&b, &g, &copy, &err);
  gb_free(&b);
  cr_assert(eq(int, st, TN_OK), "%s", err.msg);
}

static void teardown(void)
{
  tn_gguf_close(g);
  free(copy);
}

TestSuite(gguf_value, .init = setup, .fini = teardown);

Test(gguf_value, integers_convert_to_u64_unless_negative)
{
  uint64_t u = 77;
  cr_expect(tn_gguf_u64(g, "u8", &u) && u == 200);
  cr_expect(tn_gguf_u64(g, "u16", &u) && u == 60000);
  cr_expect(tn_gguf_u64(g, "u32", &u) && u == 4000000000u);
  cr_expect(tn_gguf_u64(g, "i32", &u) && u == 7);
  cr_expect(tn_gguf_u64(g, "u64", &u) && u == UINT64_MAX);
  static const char *const refused[] = {"i8", "i16", "i64", "f32", "f64", "yes", "name", "words", "missing"};
  for (size_t i = 0; i < TN_ARRAY_LEN(refused); i++) {
    u = 77;
    cr_expect(not(tn_gguf_u64(g, refused[i], &u)), "%s", refused[i]);
    cr_expect(eq(u64, u, 77), "%s", refused[i]);
  }
}

Test(gguf_value, numbers_convert_to_f64_where_nothing_is_lost)
{
  double d = 77;
  cr_expect(tn_gguf_f64(g, "u8", &d) && d == 200);
  cr_expect(tn_gguf_f64(g, "i8", &d) && d == -3);
  cr_expect(tn_gguf_f64(g, "i16", &d) && d == -300);
  cr_expect(tn_gguf_f64(g, "i64", &d) && d == -0x1p63);
  cr_expect(tn_gguf_f64(g, "f32", &d) && d == 0.5);
  cr_expect(tn_gguf_f64(g, "f64", &d) && d == 1e300);
  static const char *const refused[] = {"u64", "yes", "name", "words", "missing"};
  for (size_t i = 0; i < TN_ARRAY_LEN(refused); i++) {
    d = 77;
    cr_expect(not(tn_gguf_f64(g, refused[i], &d)), "%s", refused[i]);
    cr_expect(eq(dbl, d, 77), "%s", refused[i]);
  }
}

Test(gguf_value, bools_strings_and_arrays_are_only_themselves)
{
  bool yes = false;
  tn_str s = {NULL, 77};
  tn_gguf_arr a = {.n = 77};
  cr_expect(tn_gguf_bool(g, "yes", &yes) && yes);
  cr_expect(not(tn_gguf_bool(g, "u8", &yes)));
  cr_expect(tn_gguf_string(g, "name", &s) && s.n == 5 && memcmp(s.p, "tenon", 5) == 0);
  cr_expect(not(tn_gguf_string(g, "words", &s)));
  cr_expect(not(tn_gguf_array(g, "name", &a)));
  cr_expect(eq(u64, a.n, 77));
  cr_expect(tn_gguf_has(g, "narrow"));
  cr_expect(not(tn_gguf_has(g, "narro")));
  cr_expect(not(tn_gguf_has(g, "narrows")));
}

/* The array's type decides how far element i is, not what the reader hoped for. */
Test(gguf_value, an_array_of_bytes_reads_as_bytes)
{
  tn_gguf_arr a;
  double d = 0;
  uint64_t u = 77;
  tn_str s;
  cr_assert(tn_gguf_array(g, "narrow", &a) && a.n == 3);
  cr_expect(tn_gguf_arr_f64(&a, 2, &d) && d == 255);
  cr_expect(tn_gguf_arr_u64(&a, 1, &u) && u == 2);
  cr_expect(not(tn_gguf_arr_f64(&a, 3, &d)));
  cr_expect(not(tn_gguf_arr_u64(&a, UINT64_MAX, &u)));
  cr_expect(not(tn_gguf_arr_str(&a, 0, &s)));
  cr_expect(eq(u64, u, 2));
}

Test(gguf_value, elements_convert_like_scalars)
{
  tn_gguf_arr a;
  uint64_t u = 77;
  double d = 0;
  bool flag = false;
  tn_str s;
  cr_assert(tn_gguf_array(g, "signed", &a));
  cr_expect(tn_gguf_arr_u64(&a, 0, &u) && u == 5);
  cr_expect(not(tn_gguf_arr_u64(&a, 1, &u)));
  cr_expect(tn_gguf_arr_f64(&a, 1, &d) && d == -5);
  cr_assert(tn_gguf_array(g, "flags", &a));
  cr_expect(tn_gguf_arr_bool(&a, 0, &flag) && flag);
  cr_expect(tn_gguf_arr_bool(&a, 1, &flag) && !flag);
  cr_expect(not(tn_gguf_arr_bool(&a, 2, &flag)));
  cr_expect(not(tn_gguf_arr_u64(&a, 0, &u)));
  cr_assert(tn_gguf_array(g, "words", &a));
  cr_expect(tn_gguf_arr_str(&a, 0, &s) && s.n == 0);
  cr_expect(tn_gguf_arr_str(&a, 1, &s) && s.n == 3 && memcmp(s.p, "two", 3) == 0);
  cr_expect(not(tn_gguf_arr_str(&a, 2, &s)));
  cr_expect(not(tn_gguf_arr_f64(&a, 0, &d)));
}

Test(gguf_value, renders_for_people)
{
  static const char *const want[] = {
      "200", "-3",     "60000", "-300",  "4000000000",    "7",         "18446744073709551615", "-9.22337204e+18",
      "0.5", "1e+300", "true",  "tenon", "[3] 1, 2, 255", "[2] , two", "[2] true, false",      "[2] 5, -5"};
  cr_assert(eq(u64, tn_gguf_n_kv(g), TN_ARRAY_LEN(want)));
  for (uint64_t i = 0; i < TN_ARRAY_LEN(want); i++) {
    char text[64];
    tn_gguf_kv_render(g, i, text, sizeof text);
    cr_expect(eq(str, text, (char *)want[i]));
    char small[4];
    tn_gguf_kv_render(g, i, small, sizeof small);
    cr_expect(zero(int, strncmp(small, want[i], 3)));
    cr_expect(le(sz, strlen(small), 3));
  }
  tn_str key = tn_gguf_kv_key(g, 1);
  cr_expect(key.n == 2 && memcmp(key.p, "i8", 2) == 0);
  cr_expect(zero(sz, tn_gguf_kv_key(g, 16).n));
}
