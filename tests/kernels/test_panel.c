/* Panels hold every format's values bit by bit, in about the file's size. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_data.h"

enum { N = 37, K = 768 };

/* Rows come back as the format decodes them. */
static void check_rows(uint32_t dtype)
{
  float want[K], got[K];
  const tnk_dtype_info info = tnk_dtype(dtype);
  uint8_t *src = kd_tensor(dtype, N, K, false, 7 + dtype);
  tnk_panels p = kd_panels(dtype, N, K, src);
  for (int64_t r = 0; r < N; r++) {
    cr_assert(tnk_decode(dtype, src + (size_t)r * (K / info.block * info.block_bytes), want, K));
    tnk_panel_row(&p, r, got);
    for (int i = 0; i < K; i++) cr_assert(eq(flt, got[i], want[i]), "%s row %d column %d", info.name, (int)r, i);
  }
  free(p.data);
  free(src);
}

Test(panel, rows_come_back)
{
  for (int i = 0; i < TNK_N_FORMATS; i++) check_rows(kd_code_dtypes[i]);
}

Test(panel, f32_f16_and_bf16_rows_come_back)
{
  static float x[N * K], got[K];
  static uint16_t h[N * K];
  kd_fill(x, N * K, 3.0f, 5);
  for (int t = 0; t < 3; t++) {
    const uint32_t dtype = t == 0 ? TNK_F32 : t == 1 ? TNK_F16 : TNK_BF16;
    for (int i = 0; i < N * K; i++) h[i] = t == 1 ? tnk_f32_to_f16(x[i]) : tnk_f32_to_bf16(x[i]);
    tnk_panels p = kd_panels(dtype, N, K, t == 0 ? (const uint8_t *)x : (const uint8_t *)h);
    for (int64_t r = 0; r < N; r++) {
      tnk_panel_row(&p, r, got);
      for (int64_t i = 0; i < K; i++) {
        const uint16_t u = h[r * K + i];
        cr_assert(eq(flt, got[i], t == 0 ? x[r * K + i] : t == 1 ? tnk_f16_to_f32(u) : tnk_bf16_to_f32(u)));
      }
    }
    free(p.data);
  }
}

/* 16 whole rows take what the file takes, plus at most 3 percent (Q3_K's scales: a byte each, 4.3). */
Test(panel, size)
{
  for (int i = 0; i < TNK_N_FORMATS; i++) {
    const tnk_dtype_info info = tnk_dtype(kd_code_dtypes[i]);
    tnk_panels p = {.n = 160, .k = 2048};
    cr_assert(tnk_fmt_of(kd_code_dtypes[i], &p.fmt));
    const double file = 160.0 * 2048 / info.block * info.block_bytes, growth = (double)tnk_panels_size(&p) / file - 1;
    cr_assert(le(dbl, growth, kd_code_dtypes[i] == TNK_Q3_K ? 0.043 : 0.03), "%s", info.name);
    cr_assert(ge(dbl, growth, 0.0));
  }
}

Test(panel, each_format_has_an_index_of_its_own)
{
  bool seen[TNK_N_FORMATS] = {false};
  for (int i = 0; i < TNK_N_FORMATS; i++) {
    tnk_fmt f;
    cr_assert(tnk_fmt_of(kd_code_dtypes[i], &f));
    const int at = tnk_fmt_index(&f);
    cr_assert(ge(int, at, 0));
    cr_assert(not(seen[at]));
    seen[at] = true;
    f.rec_blocks += 2;
    cr_assert(eq(int, tnk_fmt_index(&f), -1));
  }
  tnk_fmt f;
  cr_assert(not(tnk_fmt_of(TNK_I8, &f)));
}
