/* peak: the loop does the products it counts, on every instruction set of this processor. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "cpu/isa.h"
#include "cpu/peak.h"

enum { LANES = 16 };

/* Codes 0 .. 15, rows -127 .. 127. */
static void fill(tnk_peak_data *d)
{
  uint8_t *code = d->code[0][0];
  int8_t *row = d->row[0][0];
  for (uint32_t i = 0; i < sizeof d->code; i++) code[i] = (uint8_t)(i * 2654435761u >> 28);
  for (uint32_t i = 0; i < sizeof d->row; i++) row[i] = (int8_t)((int32_t)((i * 2246822519u >> 16) % 255) - 127);
}

/* Row r's byte c of a block: byte c % 4 of dword r of line c / 4. */
static void by_hand(const tnk_peak_data *d, int32_t *sum)
{
  memset(sum, 0, sizeof *sum * TNK_PEAK_ROWS * LANES);
  for (int r = 0; r < TNK_PEAK_ROWS; r++)
    for (int b = 0; b < TNK_PEAK_BLOCKS; b++)
      for (int c = 0; c < 32; c++)
        for (int l = 0; l < LANES; l++) sum[r * LANES + l] += d->code[b][c / 4][4 * l + c % 4] * d->row[r][b][c];
}

Test(peak, the_same_sums_as_by_hand_on_every_isa)
{
  static tnk_peak_data d;
  int32_t want[TNK_PEAK_ROWS * LANES], got[TNK_PEAK_ROWS * LANES];
  fill(&d);
  by_hand(&d, want);
  int tried = 0;
  for (int isa = 0; isa < TNK_ISA_COUNT; isa++) {
    if (!tnk_isa_runs(isa)) continue;
    memset(got, 0xAA, sizeof got);
    uint64_t ops = tnk_peak_of(isa, 4)(&d, 3, got);
    cr_expect(eq(u64, ops, 3ull * 2 * TNK_PEAK_BLOCKS * 32 * LANES * TNK_PEAK_ROWS));
    cr_expect(memcmp(got, want, sizeof got) == 0, "%s gives other sums", tnk_isa_name(isa));
    tried++;
  }
  cr_assert(gt(int, tried, 0));
}

/* Bytes are products of the code, or of the code less 128: the same for all rows and blocks. */
Test(peak, bytes_of_all_values_on_every_isa)
{
  static tnk_peak_data d, less;
  int32_t want[TNK_PEAK_ROWS * LANES], signed_[TNK_PEAK_ROWS * LANES], got[TNK_PEAK_ROWS * LANES];
  fill(&d);
  uint8_t *code = d.code[0][0];
  for (uint32_t i = 0; i < sizeof d.code; i++) code[i] = (uint8_t)(i * 2654435761u >> 24);
  by_hand(&d, want);
  less = d;
  memset(less.code, 128, sizeof less.code);
  by_hand(&less, signed_);
  for (int i = 0; i < TNK_PEAK_ROWS * LANES; i++) signed_[i] = want[i] - signed_[i];
  for (int isa = 0; isa < TNK_ISA_COUNT; isa++) {
    if (!tnk_isa_runs(isa)) continue;
    (void)tnk_peak_of(isa, 8)(&d, 1, got);
    cr_expect(memcmp(got, want, sizeof got) == 0 || memcmp(got, signed_, sizeof got) == 0, "%s gives other sums",
              tnk_isa_name(isa));
  }
}

/* The largest codes and rows: 8 x 2 x 15 x 127 is what 16 bits hold. */
Test(peak, no_sum_saturates)
{
  static tnk_peak_data d;
  int32_t want[TNK_PEAK_ROWS * LANES], got[TNK_PEAK_ROWS * LANES];
  memset(d.code, 15, sizeof d.code);
  memset(d.row, -127, sizeof d.row);
  by_hand(&d, want);
  cr_assert(eq(i32, want[0], -15 * 127 * 32 * TNK_PEAK_BLOCKS));
  for (int isa = 0; isa < TNK_ISA_COUNT; isa++) {
    if (!tnk_isa_runs(isa)) continue;
    tnk_peak_of(isa, 4)(&d, 1, got);
    cr_expect(memcmp(got, want, sizeof got) == 0, "%s gives other sums", tnk_isa_name(isa));
  }
}
