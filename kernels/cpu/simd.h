/* simd: a virtual vector of 16 f32 lanes, the same operations and the same bits on every instruction set.
 *
 * The including file's compiler flags choose the form: one zmm, two ymm, or an array. Every operation rounds once per
 * lane as IEEE 754 says; multiply-add is fused everywhere; max and min return their second operand when either is a
 * NaN or both are equal; sums over lanes use the fixed tree 8, 4, 2, 1. A mask is 16 bits, bit i for lane i. */
#ifndef TN_KERNELS_CPU_SIMD_H
#define TN_KERNELS_CPU_SIMD_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifndef __AVX2__
#define TNK_AI static inline __attribute__((unused))
#define TNK_UNROLL
#else
#define TNK_AI static inline __attribute__((always_inline, unused))
#endif
#if defined(__AVX2__) && defined(__clang__)
#define TNK_UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__AVX2__)
#define TNK_UNROLL _Pragma("GCC unroll 64")
#endif

enum { TNK_LANES = 16 };

#if defined(__AVX512F__)
#include "simd_avx512.h"
#elif defined(__AVX2__)
#include "simd_avx2.h"
#else
#include "simd_scalar.h"
#endif

/* Lanes [0, n) of memory, the rest zero; and back. */
TNK_AI vf vf_load_n(const float *p, int64_t n)
{
  float t[TNK_LANES] = {0};
  if (n >= TNK_LANES) return vf_load(p);
  memcpy(t, p, (size_t)n * sizeof *p);
  return vf_load(t);
}

TNK_AI void vf_store_n(float *p, vf a, int64_t n)
{
  float t[TNK_LANES];
  if (n >= TNK_LANES) {
    vf_store(p, a);
    return;
  }
  vf_store(t, a);
  memcpy(p, t, (size_t)n * sizeof *p);
}

#endif
