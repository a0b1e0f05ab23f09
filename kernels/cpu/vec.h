/* vec: row kernels of one instruction set: everything that is neither a matmul nor attention.
 *
 * All take plain rows of f32; out may be an input. The same bits on every instruction set. Thread rule: pure. */
#ifndef TN_KERNELS_CPU_VEC_H
#define TN_KERNELS_CPU_VEC_H

#include <stdint.h>

#include "act.h"

enum { TNK_SILU = 1, TNK_GELU = 2, TNK_PLAIN = 3 };

typedef struct tnk_vec {
  /* x [k] to cells [ceil(k / 32)]; and back: x^ = s q. */
  void (*quant)(const float *x, int64_t k, tnk_cell *out);
  void (*dequant)(const tnk_cell *c, int64_t k, float *out);
  /* Each span of n columns: x / sqrt(mean square + eps) * w; w [span], NULL: ones. */
  void (*norm)(const float *x, const float *w, int64_t n, int64_t span, float eps, float *out);
  void (*add)(const float *a, const float *b, int64_t n, float *out);
  /* act(a) * b; b NULL: act(a). */
  void (*glu)(uint32_t act, const float *a, const float *b, int64_t n, float *out);
  void (*scale)(const float *x, float s, int64_t n, float *out);
  void (*softcap)(const float *x, float cap, int64_t n, float *out);
  /* Rotates the first dims of d columns of one head; cos, sin [dims / 2]. The rest is copied. */
  void (*rope_pairs)(const float *x, const float *cos, const float *sin, int64_t dims, int64_t d, float *out);
  void (*rope_halves)(const float *x, const float *cos, const float *sin, int64_t dims, int64_t d, float *out);
  /* e^x, as vmath.h says. */
  void (*exp)(const float *x, int64_t n, float *out);
} tnk_vec;

extern const tnk_vec tnk_vec_scalar, tnk_vec_avx2, tnk_vec_avx512;

/* The kernels of an instruction set of isa.h. */
const tnk_vec *tnk_vec_of(int isa);

#endif
