/* decode_iq4: 4-bit numbers that index a fixed table of 16 unevenly spaced values.
 *
 * iq4_nl  32 elements: d f16, 16 bytes of nibbles as in q4_0                        x = d * table[q]
 * iq4_xs  256 elements: d f16, upper pairs of 8 scales (16 bits, pair g at 2 g), their low nibbles (4 bytes, even group
 *         below), then 8 groups of 16 bytes, nibbles as in q4_0                     x = (d * (s - 32)) * table[q] */
#include "decode.h"

static const int8_t table[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/* 32 elements from 16 bytes of nibbles. */
static void group(const uint8_t *p, float scale, float *dst)
{
  for (int j = 0; j < 16; j++) {
    dst[j] = scale * (float)table[p[j] & 15];
    dst[j + 16] = scale * (float)table[p[j] >> 4];
  }
}

void tnk_decode_iq4_nl(const uint8_t *src, float *dst, size_t n_blocks)
{
  for (size_t b = 0; b < n_blocks; b++, src += 18, dst += 32) group(src + 2, tnk_half_at(src), dst);
}

void tnk_decode_iq4_xs(const uint8_t *src, float *dst, size_t n_blocks)
{
  for (size_t b = 0; b < n_blocks; b++, src += 136, dst += 256) {
    float d = tnk_half_at(src);
    int high = src[2] | src[3] << 8;
    for (int g = 0; g < 8; g++) {
      int s = (src[4 + g / 2] >> (4 * (g % 2)) & 15) | (high >> (2 * g) & 3) << 4;
      group(src + 8 + 16 * g, d * (float)(s - 32), dst + 32 * g);
    }
  }
}
