/* decode_k: super-blocks of 256 with two-level scales: an f16 per super-block times a small integer per group.
 *
 *        bytes in order                                                      groups   x
 * q2_k   scales 16 (low nibble s, high nibble m), q 64, d f16, dmin f16      16 x 16  (d * s) * q - (dmin * m)
 * q3_k   high bits 32, q 64, scales 12 (16 of 6 bits, less 32), d f16        16 x 16  (d * s) * (q - 4)
 * q4_k   d f16, dmin f16, scales 12 (8 s and 8 m of 6 bits), q 128           8 x 32   (d * s) * q - (dmin * m)
 * q5_k   d f16, dmin f16, scales 12 (as q4_k), high bits 32, q 128           8 x 32   (d * s) * q - (dmin * m)
 * q6_k   low nibbles 128, high pairs 64, scales 16 (signed), d f16           16 x 16  (d * s) * (q - 32)
 *
 * Where element i sits, with h = i / 128, l = i % 32, v = i / 32:
 * q2_k, q3_k  two bits: byte 32 h + l, shift 2 (v % 4);  q3_k's third bit: byte l, bit v
 * q4_k, q5_k  low nibble: byte 32 (v / 2) + l, upper half where v is odd;  q5_k's fifth bit: byte l, bit v
 * q6_k        low nibble: byte 64 h + i % 64, upper half where i % 128 >= 64;  high pair: byte 32 h + l, shift 2 (v % 4) */
#include "decode.h"

enum { BLOCK = 256 };

/* Two bits of element i, packed as in q2_k, q3_k and the upper part of q6_k. */
static int two_bits(const uint8_t *p, int i) { return p[32 * (i / 128) + i % 32] >> (2 * (i / 32 % 4)) & 3; }

/* Low nibble of element i of q4_k and q5_k. */
static int four_bits(const uint8_t *p, int i) { return p[32 * (i / 64) + i % 32] >> (4 * (i / 32 % 2)) & 15; }

/* One more bit of element i, packed as in q3_k and q5_k. */
static int high_bit(const uint8_t *p, int i) { return p[i % 32] >> (i / 32) & 1; }

/* The eight 6-bit scales s and minima m of q4_k and q5_k. Bytes 0..3 hold s 0..3 and 4..7 hold m 0..3 in their low six
 * bits; bytes 8..11 hold the low nibbles of s and m 4..7, whose upper pairs sit on top of bytes 0..7. */
static void scales_q4_k(const uint8_t p[12], int s[8], int m[8])
{
  for (int j = 0; j < 4; j++) {
    s[j] = p[j] & 63;
    m[j] = p[j + 4] & 63;
    s[j + 4] = (p[j + 8] & 15) | (p[j] >> 6) << 4;
    m[j + 4] = p[j + 8] >> 4 | (p[j + 4] >> 6) << 4;
  }
}

/* The sixteen 6-bit scales of q3_k: bytes 0..7 hold their low nibbles (0..7 below, 8..15 above), byte 8 + j % 4 the upper
 * pair of scale j at shift 2 (j / 4). */
static int scale_q3_k(const uint8_t p[12], int j)
{
  int low = p[j % 8] >> (4 * (j / 8)) & 15, high = p[8 + j % 4] >> (2 * (j / 4)) & 3;
  return (low | high << 4) - 32;
}

void tnk_decode_q2_k(const uint8_t *src, float *dst, size_t n_blocks)
{
  for (size_t b = 0; b < n_blocks; b++, src += 84, dst += BLOCK) {
    float d = tnk_half_at(src + 80), dmin = tnk_half_at(src + 82);
    for (int g = 0; g < 16; g++) {
      float scale = d * (float)(src[g] & 15), min = dmin * (float)(src[g] >> 4);
      for (int i = 16 * g; i < 16 * g + 16; i++) dst[i] = scale * (float)two_bits(src + 16, i) - min;
    }
  }
}

void tnk_decode_q3_k(const uint8_t *src, float *dst, size_t n_blocks)
{
  for (size_t b = 0; b < n_blocks; b++, src += 110, dst += BLOCK) {
    float d = tnk_half_at(src + 108);
    for (int g = 0; g < 16; g++) {
      float scale = d * (float)scale_q3_k(src + 96, g);
      for (int i = 16 * g; i < 16 * g + 16; i++) {
        dst[i] = scale * (float)((two_bits(src + 32, i) | high_bit(src, i) << 2) - 4);
      }
    }
  }
}

void tnk_decode_q4_k(const uint8_t *src, float *dst, size_t n_blocks)
{
  for (size_t b = 0; b < n_blocks; b++, src += 144, dst += BLOCK) {
    float d = tnk_half_at(src), dmin = tnk_half_at(src + 2);
    int s[8], m[8];
    scales_q4_k(src + 4, s, m);
    for (int g = 0; g < 8; g++) {
      float scale = d * (float)s[g], min = dmin * (float)m[g];
      for (int i = 32 * g; i < 32 * g + 32; i++) dst[i] = scale * (float)four_bits(src + 16, i) - min;
    }
  }
}

void tnk_decode_q5_k(const uint8_t *src, float *dst, size_t n_blocks)
{
  for (size_t b = 0; b < n_blocks; b++, src += 176, dst += BLOCK) {
    float d = tnk_half_at(src), dmin = tnk_half_at(src + 2);
    int s[8], m[8];
    scales_q4_k(src + 4, s, m);
    for (int g = 0; g < 8; g++) {
      float scale = d * (float)s[g], min = dmin * (float)m[g];
      for (int i = 32 * g; i < 32 * g + 32; i++) {
        dst[i] = scale * (float)(four_bits(src + 48, i) | high_bit(src + 16, i) << 4) - min;
      }
    }
  }
}

void tnk_decode_q6_k(const uint8_t *src, float *dst, size_t n_blocks)
{
  for (size_t b = 0; b < n_blocks; b++, src += 210, dst += BLOCK) {
    float d = tnk_half_at(src + 208);
    for (int i = 0; i < BLOCK; i++) {
      float scale = d * (float)(int8_t)src[192 + i / 16];
      int low = src[64 * (i / 128) + i % 64] >> (4 * (i / 64 % 2)) & 15;
      dst[i] = scale * (float)((low | two_bits(src + 128, i) << 4) - 32);
    }
  }
}
