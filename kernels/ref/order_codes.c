/* order_codes: the file formats taken apart. Where bits sit is described in quant/decode_legacy.c and quant/decode_k.c. */
#include "order_codes.h"

#include <string.h>

#include "quant/dtype.h"

static const int8_t iq4_table[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static float half_at(const uint8_t *p)
{
  uint16_t h;
  memcpy(&h, p, sizeof h);
  return tnk_f16_to_f32(h);
}

tnk_order_kind tnk_order_kind_of(uint32_t dtype)
{
  switch (dtype) {
    case TNK_Q4_0:
    case TNK_Q5_0:
    case TNK_Q8_0:
    case TNK_IQ4_NL:
    case TNK_IQ4_XS: return (tnk_order_kind){1, false};
    case TNK_Q4_1:
    case TNK_Q5_1:
    case TNK_Q4_K:
    case TNK_Q5_K: return (tnk_order_kind){1, true};
    case TNK_Q2_K: return (tnk_order_kind){2, true};
    case TNK_Q3_K:
    case TNK_Q6_K: return (tnk_order_kind){2, false};
    default: return (tnk_order_kind){0, false};
  }
}

/* ---------------------------------------------------------------- blocks of 32 */

/* Number i of 32 nibbles: bytes 0..15 hold i below and i + 16 above. */
static int nibble(const uint8_t *p, int i) { return p[i % 16] >> (4 * (i / 16)) & 15; }

/* Bit i of little-endian bytes. */
static int bit(const uint8_t *p, int i) { return p[i / 8] >> (i % 8) & 1; }

static void block_of(uint32_t dtype, const uint8_t *src, tnk_order_block *out)
{
  out->s[0] = half_at(src);
  out->m[0] = dtype == TNK_Q4_1 || dtype == TNK_Q5_1 ? half_at(src + 2) : 0.0f;
  for (int i = 0; i < 32; i++) {
    int q;
    switch (dtype) {
      case TNK_Q4_0: q = nibble(src + 2, i) - 8; break;
      case TNK_Q4_1: q = nibble(src + 4, i); break;
      case TNK_Q5_0: q = (nibble(src + 6, i) | bit(src + 2, i) << 4) - 16; break;
      case TNK_Q5_1: q = nibble(src + 8, i) | bit(src + 4, i) << 4; break;
      case TNK_Q8_0: q = (int8_t)src[2 + i]; break;
      default: q = iq4_table[nibble(src + 2, i)]; break; /* IQ4_NL */
    }
    out->q[i] = (int16_t)q;
  }
}

/* ---------------------------------------------------------------- super-blocks of 256 */

/* Two bits of element i: byte 32 (i / 128) + i % 32, shift 2 (i / 32 % 4). */
static int two_bits(const uint8_t *p, int i) { return p[32 * (i / 128) + i % 32] >> (2 * (i / 32 % 4)) & 3; }

/* Element i of q4_k's and q5_k's nibbles; and a bit of q3_k's and q5_k's. */
static int four_bits(const uint8_t *p, int i) { return p[32 * (i / 64) + i % 32] >> (4 * (i / 32 % 2)) & 15; }
static int high_bit(const uint8_t *p, int i) { return p[i % 32] >> (i / 32) & 1; }

static int code_of(uint32_t dtype, const uint8_t *src, int i)
{
  switch (dtype) {
    case TNK_Q2_K: return two_bits(src + 16, i);
    case TNK_Q3_K: return (two_bits(src + 32, i) | high_bit(src, i) << 2) - 4;
    case TNK_Q4_K: return four_bits(src + 16, i);
    case TNK_Q5_K: return four_bits(src + 48, i) | high_bit(src + 16, i) << 4;
    case TNK_Q6_K: {
      const int low = src[64 * (i / 128) + i % 64] >> (4 * (i / 64 % 2)) & 15;
      return (low | two_bits(src + 128, i) << 4) - 32;
    }
    default: return iq4_table[nibble(src + 8 + 16 * (i / 32), i % 32)]; /* IQ4_XS */
  }
}

/* The small whole numbers of group g: u of its scale, v of its offset. */
static void small_of(uint32_t dtype, const uint8_t *src, int g, int *u, int *v)
{
  const uint8_t *p = src + 4;
  *v = 0;
  switch (dtype) {
    case TNK_Q2_K:
      *u = src[g] & 15;
      *v = src[g] >> 4;
      break;
    case TNK_Q3_K:
      p = src + 96;
      *u = ((p[g % 8] >> (4 * (g / 8)) & 15) | (p[8 + g % 4] >> (2 * (g / 4)) & 3) << 4) - 32;
      break;
    case TNK_Q4_K:
    case TNK_Q5_K:
      *u = g < 4 ? p[g] & 63 : (p[g + 4] & 15) | (p[g - 4] >> 6) << 4;
      *v = g < 4 ? p[g + 4] & 63 : p[g + 4] >> 4 | (p[g] >> 6) << 4;
      break;
    case TNK_Q6_K: *u = (int8_t)src[192 + g]; break;
    default: /* IQ4_XS */
      *u = ((p[g / 2] >> (4 * (g % 2)) & 15) | (src[2 + g / 4] >> (2 * (g % 4)) & 3) << 4) - 32;
      break;
  }
}

static void super_of(uint32_t dtype, const uint8_t *src, tnk_order_block *out)
{
  const tnk_order_kind kind = tnk_order_kind_of(dtype);
  const size_t d_at = dtype == TNK_Q2_K ? 80 : dtype == TNK_Q3_K ? 108 : dtype == TNK_Q6_K ? 208 : 0;
  const float d = half_at(src + d_at), dmin = kind.min ? half_at(src + d_at + 2) : 0.0f;
  for (int i = 0; i < 256; i++) out[i / 32].q[i % 32] = (int16_t)code_of(dtype, src, i);
  for (int g = 0; g < 8 * kind.sums; g++) {
    int u, v;
    small_of(dtype, src, g, &u, &v);
    out[g / kind.sums].s[g % kind.sums] = d * (float)u;
    out[g / kind.sums].m[g % kind.sums] = 0.0f - dmin * (float)v;
  }
}

void tnk_order_codes(uint32_t dtype, const uint8_t *src, int64_t n, tnk_order_block *out)
{
  const tnk_dtype_info info = tnk_dtype(dtype);
  for (; n > 0; n -= info.block / 32, out += info.block / 32, src += info.block_bytes) {
    if (info.block == 32)
      block_of(dtype, src, out);
    else
      super_of(dtype, src, out);
  }
}
