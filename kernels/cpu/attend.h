/* attend: the kernels of tiled softmax attention: 64 keys at a time, partials joined by a tree.
 *
 *   s_j = (sum over d of q_d k_jd, in order) * scale, then cap tanh(s_j / cap) when cap > 0
 *   m = max s_j;  p_j = exp(s_j - m);  l = sum p_j;  o = sum over j, in order, of p_j v_j     over visible keys
 * A tile's (m, l, o) depends on nothing but the query, the visible keys and where they sit in the tile. Two partials:
 *   m = max(m1, m2), e = exp(m_i - m), l = fma(l2, e2, l1 e1), o = fma(o2, e2, o1 e1)
 * Keys lie as [d][16 keys], values as [key][d padded to 16], so that neither sums horizontally. */
#ifndef TN_KERNELS_CPU_ATTEND_H
#define TN_KERNELS_CPU_ATTEND_H

#include <stdint.h>

enum { TNK_KEYS = 64 }; /* keys of a tile */

/* The keys and values of a tile, where they lie in the cache as halves or as 8-bit codes (k8[0] not NULL), or as f32 in
 * scratch (k32 not NULL). A coded number is code times scale, rounded to f32. Keys that no query sees may be anything. */
typedef struct tnk_tile {
  const uint16_t *k16[4];   /* [d][16] each */
  const uint16_t *v16[4];   /* [16][dv] each, dv a multiple of 16 */
  const int8_t *k8[4];      /* [d][16] each, d a multiple of 16 */
  const int8_t *v8[4];      /* [16][dv] each */
  const uint16_t *ks[4];    /* [d / k_group][16] f16 scales */
  const uint16_t *vs[4];    /* [16][dv / v_group] f16 scales */
  int64_t k_group, v_group; /* columns of a scale, a multiple of 16 */
  const uint8_t *next[4];   /* asked for while values are read: the keys of the tile that comes next; not with k32 */
  const float *k32;         /* [4][d][16] */
  const float *v32;         /* [dv / 16][64][16] */
} tnk_tile;

typedef struct tnk_attend {
  /* Products of rows queries q[r] [d] with the tile's keys: s [rows][64]. */
  void (*scores)(int64_t rows, const float *const *q, int64_t d, const tnk_tile *t, float *s);
  /* s [64] to p in place, with m and l; visible is not 0. Invisible keys get p = 0. */
  void (*soften)(float *s, uint64_t visible, float scale, float cap, float *m, float *l);
  /* p of the whole row's softmax: exp(s - m) / l, for column sums; 0 where invisible. */
  void (*shares)(float *s, uint64_t visible, float scale, float cap, float m, float l);
  /* o[r] [dv] = sum of p [rows][64] times values, over the keys of `visible`. */
  void (*mix)(int64_t rows, const float *p, uint64_t visible, const tnk_tile *t, int64_t dv, float *const *o);
  /* First partial becomes the join of both. */
  void (*join)(float *m, float *l, float *o, float m2, float l2, const float *o2, int64_t dv);
  /* o / l to out [n]; returns m + log l. */
  float (*finish)(float m, float l, const float *o, int64_t n, float *out);
  /* A tile of halves or codes to f32 scratch: k32 [4][d][16], v32 [dv / 16][64][16]. */
  void (*widen)(const tnk_tile *t, int64_t d, int64_t dv, float *k32, float *v32);
  /* One key to slot `lane` of [d][16], one value to [dv]; n values are given, the rest of dv is zero. */
  void (*put)(const float *k, int64_t d, uint16_t *k16, int64_t lane, const float *v, int64_t n, uint16_t *v16,
              int64_t dv);
  /* Parts o [parts][stride] of d columns joined by their lse [parts][lse_stride], in order, to out [d]. Returns the lse. */
  float (*merge)(int64_t parts, const float *o, int64_t stride, const float *lse, int64_t lse_stride, int64_t d,
                 float *out);
} tnk_attend;

extern const tnk_attend tnk_attend_scalar, tnk_attend_avx2, tnk_attend_avx512;

/* The kernels of an instruction set of isa.h. */
const tnk_attend *tnk_attend_of(int isa);

#endif
