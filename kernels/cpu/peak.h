/* peak: how fast whole-number products can go at most: the inner loop of linear.h for codes of 4 bits, on panels and
 * rows that stay in the first cache, without scales, bits to unpack or memory to wait for. */
#ifndef TN_KERNELS_CPU_PEAK_H
#define TN_KERNELS_CPU_PEAK_H

#include <stdint.h>

enum { TNK_PEAK_BLOCKS = 24, TNK_PEAK_ROWS = 4 };

typedef struct tnk_peak_data {          /* 15 KiB */
  uint8_t code[TNK_PEAK_BLOCKS][8][64]; /* lines of codes, 0 .. 15 */
  int8_t row[TNK_PEAK_ROWS][TNK_PEAK_BLOCKS][32];
} tnk_peak_data;

/* Products of all blocks with all rows, `rounds` times; sum [rows][16] receives what a round gives. Returns the
 * operations done: two for each multiply-add. Pure. */
typedef uint64_t (*tnk_peak)(const tnk_peak_data *d, uint64_t rounds, int32_t *sum);

uint64_t tnk_peak_scalar(const tnk_peak_data *d, uint64_t rounds, int32_t *sum);
uint64_t tnk_peak_avx2(const tnk_peak_data *d, uint64_t rounds, int32_t *sum);
uint64_t tnk_peak_avxvnni(const tnk_peak_data *d, uint64_t rounds, int32_t *sum);
uint64_t tnk_peak_avx512(const tnk_peak_data *d, uint64_t rounds, int32_t *sum);
uint64_t tnk_peak_avx512vnni(const tnk_peak_data *d, uint64_t rounds, int32_t *sum);

/* The loop of an instruction set of isa.h. */
tnk_peak tnk_peak_of(int isa);

/* "tenon.peak/1", an extension that a backend may offer to measurements. */
struct tn_inst;
typedef struct tnk_ext_peak {
  uint32_t struct_size, reserved0;
  tnk_peak (*loop)(struct tn_inst *); /* the loop of the instruction set in use; any thread may run it */
} tnk_ext_peak;

#endif
