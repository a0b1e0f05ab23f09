/* decode: the decoders behind tnk_decode, one per block format. Private to kernels/quant.
 *
 * Each takes n_blocks blocks from src (no alignment needed) and writes block * n_blocks floats to dst, with one rounding
 * per written operation in the order that the comment at its definition gives. */
#ifndef TN_KERNELS_QUANT_DECODE_H
#define TN_KERNELS_QUANT_DECODE_H

#include "dtype.h"

/* The half in two bytes of a block, lowest byte first. */
static inline float tnk_half_at(const uint8_t *p) { return tnk_f16_to_f32((uint16_t)(p[0] | p[1] << 8)); }

/* decode_legacy.c */
void tnk_decode_q4_0(const uint8_t *src, float *dst, size_t n_blocks);
void tnk_decode_q4_1(const uint8_t *src, float *dst, size_t n_blocks);
void tnk_decode_q5_0(const uint8_t *src, float *dst, size_t n_blocks);
void tnk_decode_q5_1(const uint8_t *src, float *dst, size_t n_blocks);
void tnk_decode_q8_0(const uint8_t *src, float *dst, size_t n_blocks);

/* decode_k.c */
void tnk_decode_q2_k(const uint8_t *src, float *dst, size_t n_blocks);
void tnk_decode_q3_k(const uint8_t *src, float *dst, size_t n_blocks);
void tnk_decode_q4_k(const uint8_t *src, float *dst, size_t n_blocks);
void tnk_decode_q5_k(const uint8_t *src, float *dst, size_t n_blocks);
void tnk_decode_q6_k(const uint8_t *src, float *dst, size_t n_blocks);

/* decode_iq4.c */
void tnk_decode_iq4_nl(const uint8_t *src, float *dst, size_t n_blocks);
void tnk_decode_iq4_xs(const uint8_t *src, float *dst, size_t n_blocks);

#endif
