/* kernel_data: repeatable inputs for the kernels of the cpu backend, and the instruction sets to try. */
#ifndef TN_TESTS_KERNEL_DATA_H
#define TN_TESTS_KERNEL_DATA_H

#include <stdint.h>

#include "cpu/panel.h"

/* Next of a fixed sequence; seed is never 0. */
uint32_t kd_next(uint32_t *seed);
/* In [-1, 1). */
float kd_unit(uint32_t *seed);
/* n numbers in [-scale, scale). */
void kd_fill(float *x, int64_t n, float scale, uint32_t seed);

/* Rows [n][k] of a file's dtype with random codes. whole: scales are 1 or small whole numbers, so that every value is a
 * whole number; otherwise they are like those of a model. The caller frees. */
uint8_t *kd_tensor(uint32_t dtype, int64_t n, int64_t k, bool whole, uint32_t seed);

/* The same as panels; p->data is to be freed. */
tnk_panels kd_panels(uint32_t dtype, int64_t n, int64_t k, const uint8_t *src);

/* dtypes with panels of codes. */
extern const uint32_t kd_code_dtypes[TNK_N_FORMATS];

/* Instruction sets that run here; returns how many. */
int kd_isas(int *isas);

#endif
