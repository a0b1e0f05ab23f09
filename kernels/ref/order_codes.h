/* order_codes: weight rows of the file formats as whole numbers with scales, as 8-bit matrix products use them.
 *
 * Columns come in blocks of 32. A block has one sum, or two of 16 columns where the format has a scale for each 16. The
 * value of a column is s q, or s q + m where the format has offsets; q, s and m of each sum are
 *                          sums  q                             s                 m
 *   q4_0                   1     code - 8                      d
 *   q5_0                   1     code - 16                     d
 *   q8_0                   1     code                          d
 *   iq4_nl, iq4_xs         1     the table's number            d; d (u - 32)
 *   q4_1, q5_1             1     code                          d                 m as stored
 *   q4_k, q5_k             1     code                          d u               0 - dmin v
 *   q2_k                   2     code                          d u               0 - dmin v
 *   q3_k                   2     code - 4                      d (u - 32)
 *   q6_k                   2     code - 32                     d u
 * with d and dmin in f16 made f32, u and v the small whole numbers of the group, each product rounded to f32.
 * Tests: tests/backend/test_ref_order.c */
#ifndef TN_KERNELS_REF_ORDER_CODES_H
#define TN_KERNELS_REF_ORDER_CODES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct tnk_order_block { /* of 32 columns */
  int16_t q[32];
  float s[2], m[2]; /* of each sum */
} tnk_order_block;

typedef struct tnk_order_kind {
  int sums; /* of a block: 1 or 2; 0: the dtype is no format of codes */
  bool min; /* has offsets m */
} tnk_order_kind;

tnk_order_kind tnk_order_kind_of(uint32_t dtype);

/* Row of n blocks (whole super-blocks of 8 where the format has them) of a dtype whose kind has sums. */
void tnk_order_codes(uint32_t dtype, const uint8_t *src, int64_t n, tnk_order_block *out);

#endif
