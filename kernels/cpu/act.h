/* act: a row of activations in 8 bits: one cell of 64 bytes for each block of 32 columns.
 *
 * a = max abs, s = a / 127, q = clamp(round to even(x * (127 / a)), -127, 127), value s q; a = 0 gives zeros. The sums
 * are those of q, over the block and over its halves: offsets of the weights multiply them. */
#ifndef TN_KERNELS_CPU_ACT_H
#define TN_KERNELS_CPU_ACT_H

#include <stdint.h>

typedef struct tnk_cell {
  int8_t q[32];      /* columns past k are 0 */
  float s;           /* scale */
  float ssum;        /* s * sum, rounded */
  float shalf[2];    /* s * half[i], rounded */
  int32_t sum;       /* of q */
  int32_t half[2];   /* of q[0..15], q[16..31] */
  int32_t reserved0; /* 0 */
} tnk_cell;
_Static_assert(sizeof(tnk_cell) == 64, "a cell is a cache line");

#endif
