/* peak: how fast whole-number products can go at most: the inner loops of linear.h for codes of 4 bits and for codes of
 * 8, on panels and rows that stay in the first cache, without scales, bits to unpack or memory to wait for. */
#ifndef TN_KERNELS_CPU_PEAK_H
#define TN_KERNELS_CPU_PEAK_H

#include <stdint.h>

enum { TNK_PEAK_BLOCKS = 24, TNK_PEAK_ROWS = 4 };

typedef struct tnk_peak_data {          /* 15 KiB */
  uint8_t code[TNK_PEAK_BLOCKS][8][64]; /* lines of codes, 0 .. 15; of 8 bits 0 .. 255 */
  int8_t row[TNK_PEAK_ROWS][TNK_PEAK_BLOCKS][32];
} tnk_peak_data;

/* Products of all blocks with all rows, `rounds` times; sum [rows][16] receives what a round gives: of codes, or of
 * codes of 8 bits less 128 where the instruction set multiplies those. Returns the
 * operations done: two for each multiply-add. Pure. */
typedef uint64_t (*tnk_peak)(const tnk_peak_data *d, uint64_t rounds, int32_t *sum);

uint64_t tnk_peak_bytes_scalar(const tnk_peak_data *d, uint64_t rounds, int32_t *sum);
uint64_t tnk_peak_scalar(const tnk_peak_data *d, uint64_t rounds, int32_t *sum);
uint64_t tnk_peak_bytes_avx2(const tnk_peak_data *d, uint64_t rounds, int32_t *sum);
uint64_t tnk_peak_avx2(const tnk_peak_data *d, uint64_t rounds, int32_t *sum);
uint64_t tnk_peak_bytes_avxvnni(const tnk_peak_data *d, uint64_t rounds, int32_t *sum);
uint64_t tnk_peak_avxvnni(const tnk_peak_data *d, uint64_t rounds, int32_t *sum);
uint64_t tnk_peak_bytes_avx512(const tnk_peak_data *d, uint64_t rounds, int32_t *sum);
uint64_t tnk_peak_avx512(const tnk_peak_data *d, uint64_t rounds, int32_t *sum);
uint64_t tnk_peak_bytes_avx512vnni(const tnk_peak_data *d, uint64_t rounds, int32_t *sum);
uint64_t tnk_peak_avx512vnni(const tnk_peak_data *d, uint64_t rounds, int32_t *sum);

/* The loop of an instruction set of isa.h, for codes of 4 or of 8 bits. */
tnk_peak tnk_peak_of(int isa, int bits);

/* "tenon.peak/2", an extension that a backend may offer to measurements. */
struct tn_inst;
typedef struct tnk_ext_peak {
  uint32_t struct_size, reserved0;
  tnk_peak (*loop)(struct tn_inst *, int bits); /* the loop of the instruction set in use, for codes of 4 or of 8
                                                   bits; any thread may run it */
} tnk_ext_peak;

#endif
