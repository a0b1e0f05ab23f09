/* decode_legacy: blocks of 32 with one scale d, and a minimum m where the name ends in _1.
 *
 * Nibbles: byte j of the 16 holds element j below and element j + 16 above.
 * q4_0  d f16, 16 bytes                  x = (q - 8) * d         q4_1  d f16, m f16, 16 bytes         x = q * d + m
 * q5_0  d f16, 4 bytes of fifth bits
 *       (bit i is element i), 16 bytes   x = (q - 16) * d        q5_1  d, m, 4 bytes, 16 bytes        x = q * d + m
 * q8_0  d f16, 32 signed bytes           x = q * d */
#include "decode.h"

enum { BLOCK = 32, HALF = 16 };

static uint32_t u32_at(const uint8_t *p)
{
  return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* The 4-bit numbers of a block, 0..15. */
static void nibbles(const uint8_t *p, int q[BLOCK])
{
  for (int j = 0; j < HALF; j++) {
    q[j] = p[j] & 15;
    q[j + HALF] = p[j] >> 4;
  }
}

/* The 5-bit numbers of a block, 0..31: high holds their fifth bits. */
static void five_bits(const uint8_t *p, uint32_t high, int q[BLOCK])
{
  nibbles(p, q);
  for (int i = 0; i < BLOCK; i++) q[i] |= (int)(high >> i & 1u) << 4;
}

void tnk_decode_q4_0(const uint8_t *src, float *dst, size_t n_blocks)
{
  for (size_t b = 0; b < n_blocks; b++, src += 18, dst += BLOCK) {
    float d = tnk_half_at(src);
    int q[BLOCK];
    nibbles(src + 2, q);
    for (int i = 0; i < BLOCK; i++) dst[i] = (float)(q[i] - 8) * d;
  }
}

void tnk_decode_q4_1(const uint8_t *src, float *dst, size_t n_blocks)
{
  for (size_t b = 0; b < n_blocks; b++, src += 20, dst += BLOCK) {
    float d = tnk_half_at(src), m = tnk_half_at(src + 2);
    int q[BLOCK];
    nibbles(src + 4, q);
    for (int i = 0; i < BLOCK; i++) dst[i] = (float)q[i] * d + m;
  }
}

void tnk_decode_q5_0(const uint8_t *src, float *dst, size_t n_blocks)
{
  for (size_t b = 0; b < n_blocks; b++, src += 22, dst += BLOCK) {
    float d = tnk_half_at(src);
    int q[BLOCK];
    five_bits(src + 6, u32_at(src + 2), q);
    for (int i = 0; i < BLOCK; i++) dst[i] = (float)(q[i] - 16) * d;
  }
}

void tnk_decode_q5_1(const uint8_t *src, float *dst, size_t n_blocks)
{
  for (size_t b = 0; b < n_blocks; b++, src += 24, dst += BLOCK) {
    float d = tnk_half_at(src), m = tnk_half_at(src + 2);
    int q[BLOCK];
    five_bits(src + 8, u32_at(src + 4), q);
    for (int i = 0; i < BLOCK; i++) dst[i] = (float)q[i] * d + m;
  }
}

void tnk_decode_q8_0(const uint8_t *src, float *dst, size_t n_blocks)
{
  for (size_t b = 0; b < n_blocks; b++, src += 34, dst += BLOCK) {
    float d = tnk_half_at(src);
    for (int i = 0; i < BLOCK; i++) dst[i] = (float)(int8_t)src[2 + i] * d;
  }
}
