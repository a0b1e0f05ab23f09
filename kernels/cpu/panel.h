/* panel: the layout of weights. Lanes are outputs, so a lane sums one output over k in one order, always.
 *
 * A matrix [n][k] is cut into panels of 16 output rows; a panel into records of a few blocks of 32 columns. One record:
 *   codes    of each block, in lines of 64 bytes = 16 rows x 4 bytes (below)
 *   scales   [groups][16], of type `scale`;        two levels: [groups][16] bytes, small whole numbers
 *   offsets  [groups][16], the same, if any;       two levels: [groups][16] bytes (NIBBLES: in the scales' high nibbles)
 *   d, dmin  two levels only: [16] of type `scale` each, dmin if there are offsets
 * Row r's four bytes of a line are its dword r. Where column c of a block sits, with h = c / 16, i = c / 4 % 4, b = c % 4:
 *   8 bits  byte b of line c / 4                           1 bit (also on top of 2 and 4)  byte b of the line, bit 4 h + i
 *   4 bits  nibble h of byte b of line i                   2 bits (also on top of 4)       byte b of line h, bits 2 i, 2 i + 1
 * So 3 = 2 + 1, 5 = 4 + 1, 6 = 4 + 2 bits, low part first. Q4_0's and Q4_1's bytes are these dwords as they stand.
 * FLOAT panels hold [k][16] numbers; MATRIX is no panel but f32 rows [n][k] as they stand. Rows past n and columns past k are zero codes with zero scales.
 *
 * Values: ZERO  x = s (q - 2^(bits-1))    MIN  x = s q + m    INT  x = s (q - z)
 *         two levels: s = d u, m = -(dmin v);  TABLE: q is table[code] + 128 of 8 bits, ZERO (IQ4)
 * A group is group16 x 16 columns; where that is odd, blocks have two groups (halves) of sums, else one. */
#ifndef TN_KERNELS_CPU_PANEL_H
#define TN_KERNELS_CPU_PANEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../quant/dtype.h"

enum { TNK_PANEL = 16, TNK_BLOCK = 32, TNK_LINE = 64 };
enum { TNK_CODES = 1, TNK_FLOAT = 2, TNK_MATRIX = 3 };              /* tnk_fmt.kind */
enum { TNK_S_F32 = 0, TNK_S_F16 = 1, TNK_S_BF16 = 2 };              /* tnk_fmt.scale; FLOAT: the numbers' type */
enum { TNK_O_ZERO = 0, TNK_O_MIN = 1, TNK_O_INT = 2 };              /* tnk_fmt.offset */
enum { TNK_SUB_NONE = 0, TNK_SUB_U8, TNK_SUB_I8, TNK_SUB_NIBBLES }; /* tnk_fmt.sub */

typedef struct tnk_fmt {
  uint8_t kind, bits, scale, offset, sub, iq4; /* iq4: codes go through IQ4's table */
  uint16_t group16;                            /* group / 16; two levels: of the sub scales */
  uint32_t rec_blocks;                         /* blocks of a record; the last one may have fewer */
} tnk_fmt;

/* The formats of files that are codes, X(dtype, tnk_fmt's fields): each has kernels of its own. Others take the general
 * ones. */
#define TNK_FORMATS(X)                                                      \
  X(TNK_Q4_0, TNK_CODES, 4, TNK_S_F16, TNK_O_ZERO, TNK_SUB_NONE, 0, 2, 2)   \
  X(TNK_Q4_1, TNK_CODES, 4, TNK_S_F16, TNK_O_MIN, TNK_SUB_NONE, 0, 2, 2)    \
  X(TNK_Q5_0, TNK_CODES, 5, TNK_S_F16, TNK_O_ZERO, TNK_SUB_NONE, 0, 2, 2)   \
  X(TNK_Q5_1, TNK_CODES, 5, TNK_S_F16, TNK_O_MIN, TNK_SUB_NONE, 0, 2, 2)    \
  X(TNK_Q8_0, TNK_CODES, 8, TNK_S_F16, TNK_O_ZERO, TNK_SUB_NONE, 0, 2, 2)   \
  X(TNK_IQ4_NL, TNK_CODES, 4, TNK_S_F16, TNK_O_ZERO, TNK_SUB_NONE, 1, 2, 2) \
  X(TNK_Q2_K, TNK_CODES, 2, TNK_S_F16, TNK_O_MIN, TNK_SUB_NIBBLES, 0, 1, 8) \
  X(TNK_Q3_K, TNK_CODES, 3, TNK_S_F16, TNK_O_ZERO, TNK_SUB_I8, 0, 1, 8)     \
  X(TNK_Q4_K, TNK_CODES, 4, TNK_S_F16, TNK_O_MIN, TNK_SUB_U8, 0, 2, 8)      \
  X(TNK_Q5_K, TNK_CODES, 5, TNK_S_F16, TNK_O_MIN, TNK_SUB_U8, 0, 2, 8)      \
  X(TNK_Q6_K, TNK_CODES, 6, TNK_S_F16, TNK_O_ZERO, TNK_SUB_I8, 0, 1, 8)     \
  X(TNK_IQ4_XS, TNK_CODES, 4, TNK_S_F16, TNK_O_ZERO, TNK_SUB_I8, 1, 2, 8)

typedef struct tnk_panels {
  tnk_fmt fmt;
  int64_t n, k;   /* outputs, inputs */
  int64_t blocks; /* ceil(k / 32) */
  int64_t panels; /* ceil(n / 16) */
  size_t panel_bytes;
  size_t share;  /* bytes of a block in a panel, scales included, rounded down */
  int format;    /* index in TNK_FORMATS, -1: the general kernels */
  uint8_t *data; /* [panels][panel_bytes], 64-aligned; whose it is, the user of this struct knows */
} tnk_panels;

/* Lines of one block, by bits. */
static inline uint32_t tnk_lines(uint32_t bits)
{
  return bits == 8 ? 8 : (bits >> 2 & 1) * 4 + (bits >> 1 & 1) * 2 + (bits & 1);
}

static inline uint32_t tnk_scale_bytes(uint32_t scale) { return scale == TNK_S_F32 ? 4 : 2; }

/* Sums of a block that have scales of their own: 2 where a group ends inside a block. */
static inline int tnk_halves(const tnk_fmt *f) { return f->group16 & 1 ? 2 : 1; }

/* Offsets of the parts of a record with nb blocks, in bytes; returns its size. */
typedef struct tnk_rec {
  size_t scales, offsets, d, dmin, bytes;
} tnk_rec;
static inline tnk_rec tnk_record(const tnk_fmt *f, int64_t nb)
{
  const size_t lane = TNK_PANEL, wide = lane * tnk_scale_bytes(f->scale);
  const size_t groups = (size_t)(2 * nb + f->group16 - 1) / f->group16;
  const size_t one = f->sub == TNK_SUB_NONE ? wide : lane; /* bytes of a group's scales */
  const bool offsets = f->offset != TNK_O_ZERO && f->sub != TNK_SUB_NIBBLES;
  tnk_rec r;
  r.scales = (size_t)nb * tnk_lines(f->bits) * TNK_LINE;
  r.offsets = r.scales + groups * one;
  r.d = r.offsets + (offsets ? groups * one : 0);
  r.dmin = r.d + (f->sub == TNK_SUB_NONE ? 0 : wide);
  r.bytes = r.dmin + (f->sub == TNK_SUB_NONE || f->offset == TNK_O_ZERO ? 0 : wide);
  return r;
}

/* Fills blocks, panels, panel_bytes, share and format from fmt, n and k; returns the bytes of all panels. */
size_t tnk_panels_size(tnk_panels *p);

enum { TNK_N_FORMATS = 12 };
/* Index of f in TNK_FORMATS, or -1. */
int tnk_fmt_index(const tnk_fmt *f);

/* The format that holds a file's dtype without changing a value; false: none, use a float one. */
bool tnk_fmt_of(uint32_t dtype, tnk_fmt *out);

/* Rows [16 panel, ...) of a tensor in its file's format to that panel; src is the tensor's first byte.
 * Thread rule: any number of threads, each with panels of its own. */
void tnk_pack_file(const tnk_panels *p, int64_t panel, uint32_t dtype, const void *src);

/* f32 rows [n][k] to one panel of FLOAT kind and f32 numbers. */
void tnk_pack_f32(const tnk_panels *p, int64_t panel, const float *src);

/* Row `row` back to f32, bit by bit what the format defines: dst[k]. */
void tnk_panel_row(const tnk_panels *p, int64_t row, float *dst);

#endif
