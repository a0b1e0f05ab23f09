/* Facts of the dtypes, and their decoders against blocks decoded by another implementation
 * (tests/data/quant/make_decode_golden.py). */
#include "quant/dtype.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint8_t golden[1 << 16];
static size_t golden_bytes;

static void read_golden(void)
{
  FILE *f = fopen(TN_SOURCE_DIR "/tests/data/quant/decode.golden", "rb");
  cr_assert(f != NULL, "decode.golden is missing");
  golden_bytes = fread(golden, 1, sizeof golden, f);
  fclose(f);
}

TestSuite(dtype, .init = read_golden);

Test(dtype, knows_names_and_sizes)
{
  cr_expect(eq(str, (char *)tnk_dtype(TNK_Q4_1).name, "q4_1"));
  cr_expect(eq(u32, tnk_dtype(TNK_Q4_1).block, 32));
  cr_expect(eq(u32, tnk_dtype(TNK_Q4_1).block_bytes, 20));
  cr_expect(eq(str, (char *)tnk_dtype(TNK_BF16).name, "bf16"));
  cr_expect(not(tnk_dtype(TNK_I32).decodes));
  cr_expect(eq(u32, tnk_dtype(TNK_I32).block_bytes, 4));
  cr_expect(zero(ptr, (void *)tnk_dtype(16).name));
  cr_expect(zero(ptr, (void *)tnk_dtype(UINT32_MAX).name));
}

Test(dtype, refuses_what_it_cannot_decode)
{
  float f = 7.0f;
  uint64_t bits = 1;
  cr_expect(not(tnk_decode(TNK_I32, &bits, &f, 1)));
  cr_expect(not(tnk_decode(TNK_F64, &bits, &f, 1)));
  cr_expect(not(tnk_decode(16, &bits, &f, 1)));
  cr_expect(eq(flt, f, 7.0f));
}

/* Every record: same size as the facts say, same bits as the other implementation. */
Test(dtype, decodes_golden_blocks_bit_for_bit)
{
  size_t at = 0, records = 0;
  while (at < golden_bytes) {
    uint32_t head[3];
    memcpy(head, golden + at, sizeof head);
    tnk_dtype_info info = tnk_dtype(head[0]);
    size_t n = head[1], bytes = head[2];
    cr_assert(info.name != NULL, "golden dtype %u", head[0]);
    cr_assert(eq(sz, n / info.block * info.block_bytes, bytes), "size of %s", info.name);
    const uint8_t *src = golden + at + sizeof head, *want = src + bytes;
    cr_assert(src + bytes + n * sizeof(float) <= golden + golden_bytes);
    float *got = malloc(n * sizeof *got);
    cr_assert(got != NULL && tnk_decode(head[0], src, got, n), "%s", info.name);
    for (size_t i = 0; i < n; i++) {
      float w;
      memcpy(&w, want + 4 * i, sizeof w);
      cr_assert(memcmp(&got[i], &w, sizeof w) == 0, "%s element %zu: got %a, want %a", info.name, i, (double)got[i],
                (double)w);
    }
    free(got);
    at += sizeof head + bytes + n * sizeof(float);
    records++;
  }
  cr_expect(eq(sz, records, 12));
}

Test(dtype, decodes_plain_floats_without_alignment)
{
  uint8_t buf[1 + 2 * sizeof(float)];
  float f[2] = {1.5f, -0.0f}, got[2];
  memcpy(buf + 1, f, sizeof f);
  cr_assert(tnk_decode(TNK_F32, buf + 1, got, 2));
  cr_expect(zero(int, memcmp(f, got, sizeof f)));
  memcpy(buf + 1, ((uint8_t[]){0x00, 0x3E, 0x01, 0x80}), 4); /* half 1.5, minus the least subnormal */
  cr_assert(tnk_decode(TNK_F16, buf + 1, got, 2));
  cr_expect(eq(flt, got[0], 1.5f));
  cr_expect(eq(flt, got[1], -0x1p-24f));
  memcpy(buf + 1, ((uint8_t[]){0xC0, 0x3F, 0x01, 0x80}), 4); /* bfloat 1.5, minus the least subnormal */
  cr_assert(tnk_decode(TNK_BF16, buf + 1, got, 2));
  cr_expect(eq(flt, got[0], 1.5f));
  cr_expect(eq(flt, got[1], -0x1p-133f));
}
