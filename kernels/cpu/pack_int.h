/* pack_int: blocks of the file formats in the terms of panel.h. Private to kernels/cpu. */
#ifndef TN_KERNELS_CPU_PACK_INT_H
#define TN_KERNELS_CPU_PACK_INT_H

#include <stdint.h>

/* The dwords of a block of Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 or IQ4_NL. */
void tnk_file_block(uint32_t dtype, const uint8_t *src, uint32_t dw[8]);

/* A super-block of 256 of Q2_K .. Q6_K or IQ4_XS, taken apart. */
typedef struct tnk_super {
  uint8_t code[256];
  uint8_t scale[16], offset[16]; /* small whole numbers, as the format's sub type stores them */
  uint16_t d, dmin;              /* f16 */
} tnk_super;
void tnk_file_super(uint32_t dtype, const uint8_t *src, tnk_super *out);

#endif
