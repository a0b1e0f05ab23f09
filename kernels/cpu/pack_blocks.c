/* pack_blocks: blocks of the file formats to codes and dwords. The formats are described in quant/decode_k.c and
 * quant/decode_legacy.c. */
#include "../quant/dtype.h"
#include "pack_int.h"
#include "panel_int.h"

/* Q5's word of fifth bits, bit e for element e, to the dword of panel.h: bit 4 h + i of byte b for e = 16 h + 4 i + b. */
static uint32_t spread_bits(uint32_t q)
{
  uint32_t out = 0;
  for (int l = 0; l < 8; l++) out |= ((q >> (4 * l) & 15) * 0x00204081u & 0x01010101u) << l;
  return out;
}

void tnk_file_block(uint32_t dtype, const uint8_t *src, uint32_t dw[8])
{
  switch (dtype) {
    case TNK_Q4_1: memcpy(dw, src + 4, 16); break;
    case TNK_Q5_0:
      memcpy(dw, src + 6, 16);
      dw[4] = spread_bits(tnk_u32(src + 2));
      break;
    case TNK_Q5_1:
      memcpy(dw, src + 8, 16);
      dw[4] = spread_bits(tnk_u32(src + 4));
      break;
    case TNK_Q8_0:
      for (int l = 0; l < 8; l++) dw[l] = tnk_u32(src + 2 + 4 * l) ^ 0x80808080u;
      break;
    default: memcpy(dw, src + 2, 16); break; /* Q4_0, IQ4_NL */
  }
}

/* Two bits of each of 256 elements: byte 32 (i / 128) + i % 32, shift 2 (i / 32 % 4). Sets code. */
static void two_bits(const uint8_t *p, uint8_t *code)
{
  for (int h = 0; h < 2; h++) {
    for (int v = 0; v < 4; v++) {
      for (int l = 0; l < 32; l++) *code++ = p[32 * h + l] >> (2 * v) & 3;
    }
  }
}

/* One bit of each element: byte i % 32, bit i / 32. Adds it at `shift` of code. */
static void add_bits(const uint8_t *p, int shift, uint8_t *code)
{
  for (int v = 0; v < 8; v++) {
    for (int l = 0; l < 32; l++) *code++ |= (uint8_t)((p[l] >> v & 1) << shift);
  }
}

/* Low nibbles of q4_k and q5_k: byte 32 (v / 2) + l, upper half where v = i / 32 is odd. */
static void nibbles(const uint8_t *p, uint8_t *code)
{
  for (int v = 0; v < 8; v++) {
    for (int l = 0; l < 32; l++) *code++ = p[32 * (v / 2) + l] >> (4 * (v % 2)) & 15;
  }
}

static void scales_q4_k(const uint8_t *p, uint8_t *s, uint8_t *m)
{
  for (int j = 0; j < 4; j++) {
    s[j] = p[j] & 63;
    m[j] = p[j + 4] & 63;
    s[j + 4] = (uint8_t)((p[j + 8] & 15) | (p[j] >> 6) << 4);
    m[j + 4] = (uint8_t)(p[j + 8] >> 4 | (p[j + 4] >> 6) << 4);
  }
}

static void scales_q3_k(const uint8_t *p, uint8_t *s)
{
  for (int j = 0; j < 16; j++) {
    const int low = p[j % 8] >> (4 * (j / 8)) & 15, high = p[8 + j % 4] >> (2 * (j / 4)) & 3;
    s[j] = (uint8_t)(int8_t)((low | high << 4) - 32);
  }
}

static void super_q6_k(const uint8_t *src, tnk_super *x)
{
  two_bits(src + 128, x->code);
  for (int h = 0; h < 2; h++) {
    for (int v = 0; v < 4; v++) {
      uint8_t *code = x->code + 128 * h + 32 * v;
      for (int l = 0; l < 32; l++) {
        const int low = src[64 * h + 32 * (v % 2) + l] >> (4 * (v / 2)) & 15;
        code[l] = (uint8_t)(low | code[l] << 4);
      }
    }
  }
  memcpy(x->scale, src + 192, 16);
  memcpy(&x->d, src + 208, 2);
}

/* d f16, high bits of the scales 2 bytes, low nibbles of the scales 4, q 128: 8 groups of 32, scale less 32. */
static void super_iq4_xs(const uint8_t *src, tnk_super *x)
{
  const uint32_t high = (uint32_t)src[2] | (uint32_t)src[3] << 8;
  for (int g = 0; g < 8; g++) {
    const int low = src[4 + g / 2] >> (4 * (g % 2)) & 15;
    x->scale[g] = (uint8_t)(int8_t)((low | (int)(high >> (2 * g) & 3) << 4) - 32);
    for (int l = 0; l < 16; l++) {
      x->code[32 * g + l] = src[8 + 16 * g + l] & 15;
      x->code[32 * g + 16 + l] = src[8 + 16 * g + l] >> 4;
    }
  }
  memcpy(&x->d, src, 2);
}

void tnk_file_super(uint32_t dtype, const uint8_t *src, tnk_super *x)
{
  switch (dtype) {
    case TNK_Q2_K:
      two_bits(src + 16, x->code);
      memcpy(x->scale, src, 16);
      memcpy(&x->d, src + 80, 2);
      memcpy(&x->dmin, src + 82, 2);
      break;
    case TNK_Q3_K:
      two_bits(src + 32, x->code);
      add_bits(src, 2, x->code);
      scales_q3_k(src + 96, x->scale);
      memcpy(&x->d, src + 108, 2);
      break;
    case TNK_Q4_K:
    case TNK_Q5_K:
      nibbles(src + (dtype == TNK_Q4_K ? 16 : 48), x->code);
      if (dtype == TNK_Q5_K) add_bits(src + 16, 4, x->code);
      scales_q4_k(src + 4, x->scale, x->offset);
      memcpy(&x->d, src, 2);
      memcpy(&x->dmin, src + 2, 2);
      break;
    case TNK_Q6_K: super_q6_k(src, x); break;
    default: super_iq4_xs(src, x); break;
  }
}
