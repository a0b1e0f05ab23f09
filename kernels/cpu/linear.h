/* linear: y = x w^T over panels, and the kernels that each instruction set brings for it.
 *
 * Order of the sums, the same for any number of rows, thread, tile and instruction set: a lane holds one output; for each
 * block of 32 columns, in order, and each of its sums (one, or two halves)
 *     t = whole-number sum of codes times activations        exact
 *     y = fma(t, ws * s, y)                                  ws, s: scales of weights and activations
 *     y = fma(wm, s * sum of activations, y)                 where the weights have offsets wm
 * With f32 activations or FLOAT panels: y = fma(x[k], w[k], y) for each column in order. */
#ifndef TN_KERNELS_CPU_LINEAR_H
#define TN_KERNELS_CPU_LINEAR_H

#include "act.h"
#include "panel.h"

enum {
  TNK_CHUNK = 20,  /* most blocks that are expanded at a time: 640 columns */
  TNK_ROWS = 4,    /* rows of one inner kernel */
  TNK_FEW = 4,     /* rows of the largest kernel that reads panels as they are */
  TNK_TILE = 64,   /* rows that share an expanded chunk */
  TNK_AHEAD = 4096 /* bytes that are asked for in advance where a panel is read once */
};

/* Expanded chunk of a panel: codes as bytes, scales as f32. */
typedef struct tnk_chunk { /* a multiple of 64 bytes */
  uint8_t code[TNK_CHUNK][8][TNK_LINE];
  float ws[TNK_CHUNK * 2][TNK_PANEL], wm[TNK_CHUNK * 2][TNK_PANEL]; /* [block][half] */
  bool min;                                                         /* wm is used; else the zero point is 2^(bits-1) */
  uint8_t reserved0[63];
} tnk_chunk;

/* What to ask of memory while working on a block: `bytes` from from + block * step on, blocks counted from 0. */
typedef struct tnk_ask {
  uintptr_t from;
  size_t step, bytes;
} tnk_ask;

/* Blocks [begin, end) of a panel with `blocks` in all, times 1 .. TNK_FEW rows, added to acc [rows][16].
 * a: cells of row r at a + r * stride. */
typedef void (*tnk_few)(const uint8_t *panel, int64_t blocks, int64_t begin, int64_t end, const tnk_cell *a,
                        int64_t stride, tnk_ask ask, float *acc);
/* nb expanded blocks times rows, added to acc; a: the first block's cells. */
typedef void (*tnk_dot)(int64_t nb, const tnk_chunk *w, const tnk_cell *a, int64_t stride, tnk_ask ask, float *acc);
/* Expands blocks [begin, begin + nb) of a panel of format f. */
typedef void (*tnk_fill)(const tnk_fmt *f, const uint8_t *panel, int64_t blocks, int64_t begin, int64_t nb,
                         tnk_chunk *w);
/* n columns of w [n][16] times x, added to acc [rows][16]; row r of x at x + r * stride. */
typedef void (*tnk_fdot)(int64_t n, const float *w, const float *x, int64_t stride, float *acc);

typedef struct tnk_linear_kernels {
  tnk_few few[TNK_N_FORMATS][TNK_FEW]; /* [format][rows - 1]; NULL: expand */
  tnk_fill fill[TNK_N_FORMATS + 1];    /* [format], last: any */
  tnk_dot dot[4][2][TNK_ROWS];         /* [0: up to 4 bits, 5, 6, 8][halves - 1][rows - 1] */
  tnk_fdot fdot[TNK_ROWS];             /* [rows - 1] */
  /* An expanded chunk to f32 [32 nb][16]. */
  void (*floats)(const tnk_fmt *f, int64_t nb, const tnk_chunk *w, float *out);
  /* Numbers of a FLOAT panel, n columns, to f32. */
  void (*numbers)(uint32_t scale, int64_t n, const uint8_t *src, float *out);
  /* Parts [segments][rows][16] added in order, then bias [lanes] and plus [rows][plus_stride], each if not NULL, to
   * y [rows][y_stride], lanes <= 16 columns of it. */
  void (*join)(int64_t rows, uint32_t segments, const float *part, const float *bias, const float *plus,
               int64_t plus_stride, float *y, int64_t y_stride, int64_t lanes);
} tnk_linear_kernels;

extern const tnk_linear_kernels tnk_linear_scalar, tnk_linear_avx2, tnk_linear_avxvnni, tnk_linear_avx512,
    tnk_linear_avx512vnni;

/* The kernels of an instruction set of isa.h. */
const tnk_linear_kernels *tnk_linear_of(int isa);

/* One panel times rows. Exactly one of cells [rows][k blocks] and x [rows][x_stride] is given.
 *   part  out  [segments][rows][16]: the sums of the segments, apart
 *   work       scratch of TNK_WORK bytes, 64-aligned, of the calling thread
 * rows: 1 .. TNK_TILE. segments divide k; with cells, into whole blocks. */
typedef struct tnk_operand {
  const tnk_cell *cells;
  const float *x;
  int64_t stride; /* cells or numbers between rows */
} tnk_operand;
enum { TNK_WORK = sizeof(tnk_chunk) + TNK_CHUNK * TNK_BLOCK * TNK_PANEL * 4 };
void tnk_linear_panel(const tnk_linear_kernels *l, const tnk_panels *p, int64_t panel, const tnk_operand *a,
                      int64_t rows, uint32_t segments, float *part, void *work);

#endif
