/* Matmul kernels: whole-number sums are exact, also at the extremes where 16-bit sums would saturate; rows, instruction
 * sets and segments change no bit; the result is that of a double sum. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/isa.h"
#include "cpu/linear.h"
#include "cpu/vec.h"
#include "kernel_data.h"

enum { N = 35, K = 768, ROWS = 9, SEGMENTS = 3, BLOCKS = K / 32 };

static float x[ROWS * K], part[SEGMENTS * ROWS * TNK_PANEL];
static _Alignas(64) tnk_cell cells[ROWS * BLOCKS];
static _Alignas(64) uint8_t work[TNK_WORK];

/* Products of all rows with one panel: part [segments][rows][16]. */
static void multiply(int isa, const tnk_panels *p, int64_t panel, int64_t row0, int64_t rows, uint32_t segments)
{
  const tnk_operand a = {.cells = cells + row0 * BLOCKS, .stride = BLOCKS};
  tnk_linear_panel(tnk_linear_of(isa), p, panel, &a, rows, segments, part, work);
}

static void quantize(void)
{
  for (int64_t r = 0; r < ROWS; r++) tnk_vec_of(TNK_ISA_SCALAR)->quant(x + r * K, K, cells + r * BLOCKS);
}

/* Whole numbers up to 127, each block with one of 127, so that the scale is 1. */
static void whole_rows(uint32_t seed)
{
  for (int i = 0; i < ROWS * K; i++) {
    x[i] = (float)((int)(kd_next(&seed) % 255) - 127);
    if (i % 32 == 5) x[i] = i % 64 == 5 ? 127.0f : -127.0f;
  }
  quantize();
}

/* Every output against an int64 sum over the columns of its segment. */
static void check_exact(const tnk_panels *p, const char *name)
{
  static float w[N * K];
  int isas[TNK_ISA_COUNT], n = kd_isas(isas);
  for (int64_t o = 0; o < N; o++) tnk_panel_row(p, o, w + o * K);
  for (int i = 0; i < n; i++) {
    for (int64_t panel = 0; panel < p->panels; panel++) {
      multiply(isas[i], p, panel, 0, ROWS, SEGMENTS);
      for (int64_t j = 0; j < SEGMENTS * ROWS * TNK_PANEL; j++) {
        const int64_t s = j / (ROWS * TNK_PANEL), r = j / TNK_PANEL % ROWS, o = panel * TNK_PANEL + j % TNK_PANEL;
        int64_t sum = 0;
        for (int64_t k = s * K / SEGMENTS; o < N && k < (s + 1) * K / SEGMENTS; k++) {
          sum += (int64_t)w[o * K + k] * (int64_t)x[r * K + k];
        }
        cr_assert(eq(i64, (int64_t)part[j], sum), "%s, %s, row %d, output %d", name, tnk_isa_name(isas[i]), (int)r,
                  (int)o);
      }
    }
  }
}

Test(linear, whole_numbers_are_exact)
{
  for (int i = 0; i < TNK_N_FORMATS; i++) {
    const uint32_t dtype = kd_code_dtypes[i];
    uint8_t *src = kd_tensor(dtype, N, K, true, 11 + dtype);
    tnk_panels p = kd_panels(dtype, N, K, src);
    whole_rows(3 + dtype);
    check_exact(&p, tnk_dtype(dtype).name);
    free(p.data);
    free(src);
  }
}

/* The largest codes and activations, of one sign: pairs of products and their sums at their greatest. */
Test(linear, extremes_do_not_saturate)
{
  static const uint32_t dtypes[] = {TNK_Q4_0, TNK_Q4_1, TNK_Q5_0, TNK_Q5_1, TNK_Q8_0, TNK_Q6_K, TNK_IQ4_NL};
  static const uint8_t bytes[4] = {0xFF, 0x00, 0x80, 0x7F};
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes * 4; i++) {
    const uint32_t dtype = dtypes[i / 4];
    const tnk_dtype_info info = tnk_dtype(dtype);
    uint8_t *src = kd_tensor(dtype, N, K, true, 1);
    for (size_t b = 0; b < (size_t)N * K / info.block; b++) {
      uint8_t *block = src + b * info.block_bytes;
      if (dtype == TNK_Q6_K) {
        memset(block, bytes[i % 4], 192);
        memset(block + 192, 1, 16);
      } else {
        const size_t head = dtype == TNK_Q4_1 || dtype == TNK_Q5_1 ? 4 : 2;
        memset(block + head, bytes[i % 4], info.block_bytes - head);
      }
    }
    tnk_panels p = kd_panels(dtype, N, K, src);
    for (int sign = -1; sign <= 1; sign += 2) {
      for (int j = 0; j < ROWS * K; j++) x[j] = (float)(sign * (j / K % 2 && j % 4 > 1 ? -127 : 127));
      quantize();
      check_exact(&p, info.name);
    }
    free(p.data);
    free(src);
  }
}

/* Model-like numbers: near the double sum of what the cells and the panels hold. */
static void check_near(const tnk_panels *p, int64_t panel, const char *name)
{
  static float w[K], xq[ROWS * K];
  for (int64_t r = 0; r < ROWS; r++) tnk_vec_of(TNK_ISA_SCALAR)->dequant(cells + r * BLOCKS, K, xq + r * K);
  for (int64_t o = 0; o < TNK_PANEL && panel * TNK_PANEL + o < N; o++) {
    tnk_panel_row(p, panel * TNK_PANEL + o, w);
    for (int64_t r = 0; r < ROWS; r++) {
      double sum = 0, size = 0;
      for (int64_t k = 0; k < K; k++) {
        sum += (double)w[k] * (double)xq[r * K + k];
        size += fabs((double)w[k] * (double)xq[r * K + k]);
      }
      cr_assert(le(dbl, fabs((double)part[r * TNK_PANEL + o] - sum), 3e-7 * size), "%s", name);
    }
  }
}

/* Rows one by one, two, three and all together; segments joined or whole; every instruction set: the same bits. */
Test(linear, rows_and_instruction_sets_change_no_bit)
{
  static float all[ROWS * TNK_PANEL];
  int isas[TNK_ISA_COUNT], n = kd_isas(isas);
  for (int f = 0; f < TNK_N_FORMATS; f++) {
    const uint32_t dtype = kd_code_dtypes[f];
    uint8_t *src = kd_tensor(dtype, N, K, false, 21 + dtype);
    tnk_panels p = kd_panels(dtype, N, K, src);
    kd_fill(x, ROWS * K, 2.0f, 31 + dtype);
    quantize();
    for (int64_t panel = 0; panel < p.panels; panel++) {
      multiply(TNK_ISA_SCALAR, &p, panel, 0, ROWS, 1);
      check_near(&p, panel, tnk_dtype(dtype).name);
      memcpy(all, part, sizeof all);
      for (int i = 0; i < n; i++) {
        for (int64_t rows = 1; rows <= ROWS; rows++) {
          multiply(isas[i], &p, panel, ROWS - rows, rows, 1);
          cr_assert(
              eq(i32, memcmp(part, all + (ROWS - rows) * TNK_PANEL, (size_t)(rows * TNK_PANEL) * sizeof *part), 0),
              "%s %s rows %d", tnk_dtype(dtype).name, tnk_isa_name(isas[i]), (int)rows);
        }
      }
    }
    free(p.data);
    free(src);
  }
}

/* f32 activations, over codes and over plain numbers. */
Test(linear, f32_activations)
{
  static const uint32_t dtypes[] = {TNK_Q4_1, TNK_Q2_K, TNK_Q6_K, TNK_IQ4_XS, TNK_F32};
  static float first[ROWS * TNK_PANEL], w[K], numbers[N * K];
  int isas[TNK_ISA_COUNT], n = kd_isas(isas);
  kd_fill(x, ROWS * K, 2.0f, 77);
  kd_fill(numbers, N * K, 1.0f, 78);
  for (size_t f = 0; f < sizeof dtypes / sizeof *dtypes; f++) {
    uint8_t *src = dtypes[f] == TNK_F32 ? NULL : kd_tensor(dtypes[f], N, K, false, 41);
    tnk_panels p = kd_panels(dtypes[f], N, K, src ? src : (const uint8_t *)numbers);
    for (int i = 0; i < n; i++) {
      const tnk_operand a = {.x = x, .stride = K};
      tnk_linear_panel(tnk_linear_of(isas[i]), &p, 1, &a, ROWS, 1, part, work);
      if (i == 0) memcpy(first, part, sizeof first);
      cr_assert(eq(i32, memcmp(part, first, sizeof first), 0), "%s", tnk_isa_name(isas[i]));
    }
    for (int64_t o = 0; o < TNK_PANEL; o++) {
      tnk_panel_row(&p, TNK_PANEL + o, w);
      for (int64_t r = 0; r < ROWS; r++) {
        double sum = 0, size = 0;
        for (int64_t k = 0; k < K; k++) {
          sum += (double)w[k] * (double)x[r * K + k];
          size += fabs((double)w[k] * (double)x[r * K + k]);
        }
        cr_assert(le(dbl, fabs((double)first[r * TNK_PANEL + o] - sum), 1e-6 * size));
      }
    }
    free(p.data);
    free(src);
  }
}
