/* layout: how a row of values is stored in few bits: parameters, decoding of a quantizer's codes, and entries of the KV
 * cache.
 *
 *   DENSE    f32, f16 or bf16
 *   AFFINE   codes 0 .. 2^bits - 1; one scale, and perhaps one offset, per group of columns
 *            OFF_NONE x = s (q - 2^(bits-1))     OFF_INT x = s (q - z)     OFF_MIN x = s q + m
 *            two levels: s = d * sub_scale, m = -dmin * sub_offset, d and dmin in f16
 *   FLOAT8   x = s fp8(code)           TABLE  x = s table[code]
 * Decoding is done in double and rounded once to f32.
 *
 * The cache's scale rule, for values x of a group, with every stored scale and minimum rounded to scale_type first (f16
 * clamped to +-65504) and r = 1 / s in f32 (0 when s is 0):
 *   OFF_NONE s = max|x| / (2^(bits-1) - 1);       q = clamp(rne(x r), -2^(bits-1), 2^(bits-1) - 1) + 2^(bits-1)
 *            8 bits: the lower bound is -127; 1 bit: s = max|x|
 *   OFF_INT  lo = min(0, min x), hi = max(0, max x), s = (hi - lo) / (2^bits - 1), z = clamp(rne(-lo r)), one byte;
 *            q = clamp(rne(x r) + z), bounds 0 and 2^bits - 1
 *   OFF_MIN  m = min x, s = (max x - m) / (2^bits - 1);   q = clamp(rne((x - m) r))
 *   FLOAT8   s = max|x| / 448 (57344 for E5M2), code = fp8(x r)
 *   TABLE    s = max|x| / max|table|, code of the value nearest to x r, the lowest of equals
 *   dense f16 is clamped to +-65504
 * Tests: tests/backend/test_ref_layout.c */
#ifndef TN_KERNELS_REF_LAYOUT_H
#define TN_KERNELS_REF_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

/* Values equal the plugin API's TN_LAY_* and TN_OFF_*. */
enum { TNK_LAY_DENSE = 1, TNK_LAY_AFFINE = 2, TNK_LAY_FLOAT8 = 3, TNK_LAY_TABLE = 4 };
enum { TNK_OFF_NONE = 0, TNK_OFF_INT = 1, TNK_OFF_MIN = 2 };

typedef struct tnk_layout {
  uint32_t kind;       /* TNK_LAY_* */
  uint32_t dtype;      /* DENSE: TNK_F32, TNK_F16, TNK_BF16 */
  uint32_t bits;       /* AFFINE, TABLE: 1..8 */
  uint32_t group;      /* columns per scale; 0: the whole row */
  uint32_t scale_type; /* TNK_F32, TNK_F16, TNK_BF16 */
  uint32_t offset;     /* TNK_OFF_* */
  uint32_t super;      /* groups per super group; 0: one level */
  uint32_t fp8;        /* TNK_E4M3, TNK_E5M2 */
  const float *table;  /* [1 << bits] */
} tnk_layout;

/* A row as a quantizer gives it: unpacked. Unused arrays are NULL. */
typedef struct tnk_codes {
  const uint8_t *codes;                  /* [k] */
  const float *scale, *offset;           /* [groups] */
  const uint8_t *sub_scale, *sub_offset; /* [groups] */
  const float *d, *dmin;                 /* [supers] */
} tnk_codes;

/* Groups of a row of k columns. */
int64_t tnk_ref_groups(const tnk_layout *lay, int64_t k);

/* x rounded to a scale type and back; f16 is clamped to +-65504. */
float tnk_ref_round(uint32_t scale_type, float x);

/* Row of k columns back to f32. scale, offset, d and dmin are taken as they are (already rounded). */
void tnk_ref_codes_decode(const tnk_layout *lay, const tnk_codes *row, int64_t k, float *out);

/* An entry: d values of one token and one head, packed; scales in front of codes. No alignment needed. */
size_t tnk_ref_entry_bytes(const tnk_layout *lay, int64_t d);
void tnk_ref_entry_encode(const tnk_layout *lay, const float *x, int64_t d, uint8_t *entry);
void tnk_ref_entry_decode(const tnk_layout *lay, const uint8_t *entry, int64_t d, float *x);

#endif
