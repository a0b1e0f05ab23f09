/* panel_int: what the packers and the kernels share beside panel.h. Private to kernels/cpu. */
#ifndef TN_KERNELS_CPU_PANEL_INT_H
#define TN_KERNELS_CPU_PANEL_INT_H

#include <string.h>

#include "panel.h"

/* IQ4's values, 128 added. */
static const uint8_t tnk_iq4_codes[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};

static inline uint32_t tnk_u32(const uint8_t *p)
{
  uint32_t x;
  memcpy(&x, p, sizeof x);
  return x;
}

/* The dwords of one row of a block, [tnk_lines(bits)], from its codes, one a byte. */
static inline void tnk_place(uint32_t bits, const uint8_t code[TNK_BLOCK], uint32_t *dw)
{
  uint32_t c[8];
  for (int l = 0; l < 8; l++) c[l] = tnk_u32(code + 4 * l);
  if (bits == 8) {
    memcpy(dw, c, sizeof c);
    return;
  }
  if (bits & 4) {
    for (int i = 0; i < 4; i++) *dw++ = (c[i] & 0x0F0F0F0Fu) | (c[4 + i] & 0x0F0F0F0Fu) << 4;
    for (int l = 0; l < 8; l++) c[l] = c[l] >> 4 & 0x0F0F0F0Fu;
  }
  if (bits & 2) {
    for (int h = 0; h < 2; h++) {
      *dw = 0;
      for (int i = 0; i < 4; i++) *dw |= (c[4 * h + i] & 0x03030303u) << (2 * i);
      dw++;
    }
    for (int l = 0; l < 8; l++) c[l] = c[l] >> 2 & 0x03030303u;
  }
  if (bits & 1) {
    *dw = 0;
    for (int l = 0; l < 8; l++) *dw |= (c[l] & 0x01010101u) << l;
  }
}

/* Writes dword r of n lines. */
static inline void tnk_put_lines(uint8_t *lines, int64_t r, uint32_t n, const uint32_t *dw)
{
  for (uint32_t l = 0; l < n; l++) memcpy(lines + l * TNK_LINE + r * 4, dw + l, 4);
}

#endif
