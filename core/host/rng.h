/* rng: counter-based random numbers. A draw depends on its four keys and on nothing else, so neither batch nor order
 * can change it. Philox 4x32-10 (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011). Pure functions. */
#ifndef TN_CORE_HOST_RNG_H
#define TN_CORE_HOST_RNG_H

#include <stdint.h>

/* What a draw is for: one stream each, so that draws for different ends never correlate. */
enum { TN_RNG_SAMPLE = 1, TN_RNG_ACCEPT = 2, TN_RNG_RESIDUAL = 3, TN_RNG_DRAFT = 4, TN_RNG_PLUGIN = 64 };

/* One 128-bit block. */
void tn_philox(uint64_t key, const uint32_t counter[4], uint32_t out[4]);

/* Uniform in [0, 1), 53 bits. */
double tn_rng_uniform(uint64_t request, uint64_t position, uint32_t purpose, uint32_t index);

#endif
