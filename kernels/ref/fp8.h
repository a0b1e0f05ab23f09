/* fp8: the two 8-bit floats of OCP, E4M3 (fn: no infinity, NaN 0x7f and 0xff, max 448) and E5M2 (infinity 0x7c, max
 * 57344). Tests: tests/backend/test_ref_layout.c */
#ifndef TN_KERNELS_REF_FP8_H
#define TN_KERNELS_REF_FP8_H

#include <stdint.h>

enum { TNK_E4M3 = 1, TNK_E5M2 = 2 };

float tnk_ref_fp8_max(uint32_t format); /* 448 or 57344 */
float tnk_ref_fp8_decode(uint32_t format, uint8_t code);

/* Nearest code, ties to the even mantissa, subnormals kept, values beyond the maximum saturate; NaN stays NaN. */
uint8_t tnk_ref_fp8_encode(uint32_t format, float x);

#endif
