/* kernel_data: see kernel_data.h. */
#include "kernel_data.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/isa.h"
#include "quant/dtype.h"

const uint32_t kd_code_dtypes[TNK_N_FORMATS] = {TNK_Q4_0, TNK_Q4_1, TNK_Q5_0, TNK_Q5_1, TNK_Q8_0,   TNK_Q2_K,
                                                TNK_Q3_K, TNK_Q4_K, TNK_Q5_K, TNK_Q6_K, TNK_IQ4_NL, TNK_IQ4_XS};

uint32_t kd_next(uint32_t *seed)
{
  *seed ^= *seed << 13;
  *seed ^= *seed >> 17;
  *seed ^= *seed << 5;
  return *seed;
}

float kd_unit(uint32_t *seed) { return (float)((double)kd_next(seed) / 2147483648.0 - 1.0); }

void kd_fill(float *x, int64_t n, float scale, uint32_t seed)
{
  for (int64_t i = 0; i < n; i++) x[i] = scale * kd_unit(&seed);
}

static void put_half(uint8_t *at, float x)
{
  const uint16_t h = tnk_f32_to_f16(x);
  memcpy(at, &h, sizeof h);
}

/* Where d (and dmin, or m) of a block are; -1: none. */
static void half_places(uint32_t dtype, int *d, int *m)
{
  *d = 0;
  *m = -1;
  switch (dtype) {
    case TNK_Q4_1:
    case TNK_Q5_1:
    case TNK_Q4_K:
    case TNK_Q5_K: *m = 2; break;
    case TNK_Q2_K:
      *d = 80;
      *m = 82;
      break;
    case TNK_Q3_K: *d = 108; break;
    case TNK_Q6_K: *d = 208; break;
    default: break;
  }
}

/* Small scales of a super-block, so that sums of products stay exact in f32. */
static void small_scales(uint32_t dtype, uint8_t *b)
{
  if (dtype == TNK_Q2_K) {
    for (int i = 0; i < 16; i++) b[i] &= 0x33;
  } else if (dtype == TNK_Q4_K || dtype == TNK_Q5_K) {
    for (int i = 0; i < 8; i++) b[4 + i] &= 3;
    for (int i = 8; i < 12; i++) b[4 + i] &= 0x33;
  } else if (dtype == TNK_Q6_K) {
    for (int i = 0; i < 16; i++) b[192 + i] = (uint8_t)((b[192 + i] & 7) - 4);
  } else if (dtype == TNK_IQ4_XS) {
    b[2] = b[3] = 0xAA; /* upper pairs 2: 32, the zero of the scales */
    for (int i = 0; i < 4; i++) b[4 + i] &= 0x11;
  }
}

uint8_t *kd_tensor(uint32_t dtype, int64_t n, int64_t k, bool whole, uint32_t seed)
{
  const tnk_dtype_info info = tnk_dtype(dtype);
  const size_t blocks = (size_t)(n * (k / info.block)), bytes = blocks * info.block_bytes;
  uint8_t *t = malloc(bytes);
  cr_assert(t != NULL && k % info.block == 0);
  for (size_t i = 0; i < bytes; i++) t[i] = (uint8_t)(kd_next(&seed) >> 9);
  for (size_t i = 0; i < blocks; i++) {
    uint8_t *b = t + i * info.block_bytes;
    int d, m;
    half_places(dtype, &d, &m);
    put_half(b + d, whole ? 1.0f : 0.02f * (1.5f + kd_unit(&seed)));
    if (m >= 0) put_half(b + m, whole ? (float)(kd_next(&seed) % 5) : 0.05f * kd_unit(&seed));
    if (whole) small_scales(dtype, b);
  }
  return t;
}

tnk_panels kd_panels(uint32_t dtype, int64_t n, int64_t k, const uint8_t *src)
{
  tnk_panels p = {.n = n, .k = k};
  cr_assert(tnk_fmt_of(dtype, &p.fmt));
  const size_t bytes = tnk_panels_size(&p);
  p.data = aligned_alloc(TNK_LINE, bytes);
  cr_assert(p.data != NULL);
  memset(p.data, 0xA5, bytes);
  for (int64_t i = 0; i < p.panels; i++) tnk_pack_file(&p, i, dtype, src);
  return p;
}

int kd_isas(int *isas)
{
  int n = 0;
  for (int i = 0; i < TNK_ISA_COUNT; i++) {
    if (tnk_isa_runs(i)) isas[n++] = i;
  }
  return n;
}
