/* stats: does a sample follow a law? For tests of drawing; every such test must also see a wrong law. */
#ifndef TN_TESTS_ENGINE_STATS_H
#define TN_TESTS_ENGINE_STATS_H

#include <stdint.h>

/* Pearson's chi-square of counts n[k] against the law p[k], as a standard normal deviate (Wilson and Hilferty): a
 * sample of p stays under 5; one of another law goes far beyond once it is large. Classes with fewer than 5 expected are
 * put together; a count where p is 0 gives infinity. */
double chi_square(const uint64_t *n, const double *p, uint32_t k);

/* One draw of a 64-bit linear congruential generator, in [0, 1); not the generator under test. */
double plain_uniform(uint64_t *state);

/* A law over k classes, no class empty; dyadic: in whole 1024ths, so that it is exact as f32 and sums to 1. */
void random_law(uint64_t *state, uint32_t k, double *p);
void dyadic_law(uint64_t *state, uint32_t k, float *p);

#endif
