/* linear: one panel times up to TNK_TILE rows, chunk by chunk, on the kernels of any instruction set. */
#include "linear.h"

#include <string.h>

#include "isa.h"

const tnk_linear_kernels *tnk_linear_of(int isa)
{
#if defined(__x86_64__)
  switch (isa) {
    case TNK_ISA_AVX2: return &tnk_linear_avx2;
    case TNK_ISA_AVXVNNI: return &tnk_linear_avxvnni;
    case TNK_ISA_AVX512: return &tnk_linear_avx512;
    case TNK_ISA_AVX512VNNI: return &tnk_linear_avx512vnni;
    default: break;
  }
#endif
  (void)isa;
  return &tnk_linear_scalar;
}

/* Where a chunk is: blocks [b0, b0 + nb) of the record that holds block `block`, none past `end`. */
typedef struct piece {
  const uint8_t *rec;
  int64_t rec_nb, b0, nb;
} piece;

static piece piece_at(const tnk_panels *p, int64_t panel, int64_t block, int64_t end)
{
  const int64_t per = p->fmt.rec_blocks, index = block / per;
  piece c = {.b0 = block - index * per};
  c.rec = p->data + (size_t)panel * p->panel_bytes + (size_t)index * tnk_record(&p->fmt, per).bytes;
  c.rec_nb = p->blocks - index * per < per ? p->blocks - index * per : per;
  c.nb = c.rec_nb - c.b0 < end - block ? c.rec_nb - c.b0 : end - block;
  if (c.nb > TNK_CHUNK) c.nb = TNK_CHUNK;
  return c;
}

/* Index of tnk_linear_kernels.dot for codes of so many bits. */
static int wide_kind(const tnk_fmt *f)
{
  if (f->iq4 || f->bits == 8) return 3;
  return f->bits <= 4 ? 0 : f->bits - 4;
}

/* One row: straight from the panel's bits. */
static void row_blocks(const tnk_linear_kernels *l, const tnk_panels *p, int64_t panel, const tnk_cell *a, int64_t begin,
                       int64_t end, float *acc, tnk_chunk *w)
{
  const tnk_fmt *f = &p->fmt;
  const size_t block_bytes = tnk_lines(f->bits) * TNK_LINE;
  for (int64_t b = begin; b < end;) {
    const piece c = piece_at(p, panel, b, end);
    const bool min = l->scales(f, c.rec, c.rec_nb, c.b0, c.nb, w->ws[0], w->wm[0]);
    const uint8_t *lines = c.rec + (size_t)c.b0 * block_bytes;
    if (f->iq4) {
      l->codes(f, c.nb, lines, w->code[0][0]);
      l->dot[3][tnk_halves(f) - 1][0](c.nb, w->code[0][0], w->ws[0], min ? w->wm[0] : NULL, a + b, 0, acc);
    } else {
      l->packed[f->bits - 1][tnk_halves(f) - 1](c.nb, lines, w->ws[0], min ? w->wm[0] : NULL, a + b, 0, acc);
    }
    b += c.nb;
  }
}

/* Codes and scales of blocks [b, end), at most a chunk's worth, over record borders. Returns how many; *min as scales. */
static int64_t fill_chunk(const tnk_linear_kernels *l, const tnk_panels *p, int64_t panel, int64_t b, int64_t end,
                          tnk_chunk *w, bool *min)
{
  const tnk_fmt *f = &p->fmt;
  const int64_t halves = tnk_halves(f), limit = end - b < TNK_CHUNK ? end - b : TNK_CHUNK;
  int64_t n = 0;
  while (n < limit) {
    const piece c = piece_at(p, panel, b + n, b + limit);
    l->codes(f, c.nb, c.rec + (size_t)c.b0 * tnk_lines(f->bits) * TNK_LINE, w->code[n][0]);
    *min = l->scales(f, c.rec, c.rec_nb, c.b0, c.nb, w->ws[n * halves], w->wm[n * halves]);
    n += c.nb;
  }
  return n;
}

/* Several rows: a chunk is expanded once for all. */
static void tile_blocks(const tnk_linear_kernels *l, const tnk_panels *p, int64_t panel, const tnk_operand *a,
                        int64_t rows, int64_t begin, int64_t end, float *acc, tnk_chunk *w)
{
  const tnk_dot *dot = l->dot[wide_kind(&p->fmt)][tnk_halves(&p->fmt) - 1];
  for (int64_t b = begin, n; b < end; b += n) {
    bool min = false;
    n = fill_chunk(l, p, panel, b, end, w, &min);
    for (int64_t r = 0; r < rows; r += TNK_ROWS) {
      const int64_t m = rows - r < TNK_ROWS ? rows - r : TNK_ROWS;
      dot[m - 1](n, w->code[0][0], w->ws[0], min ? w->wm[0] : NULL, a->cells + r * a->stride + b, a->stride,
                 acc + r * TNK_PANEL);
    }
  }
}

/* Columns [k0, k0 + n) of a panel of plain rows to [n][16]. */
static void gather(const tnk_panels *p, int64_t panel, int64_t k0, int64_t n, float *out)
{
  const float *rows = (const float *)(const void *)p->data;
  for (int64_t r = 0; r < TNK_PANEL; r++) {
    const int64_t row = panel * TNK_PANEL + r;
    for (int64_t k = 0; k < n; k++) out[k * TNK_PANEL + r] = row < p->n ? rows[row * p->k + k0 + k] : 0.0f;
  }
}

/* f32 activations: a chunk becomes f32 numbers once for all rows. Blocks, so that columns past k are left out. */
static void float_blocks(const tnk_linear_kernels *l, const tnk_panels *p, int64_t panel, const tnk_operand *a,
                         int64_t rows, int64_t begin, int64_t end, float *acc, tnk_chunk *w, float *numbers)
{
  const tnk_fmt *f = &p->fmt;
  for (int64_t b = begin, n; b < end; b += n) {
    const int64_t left = p->k - b * TNK_BLOCK;
    n = end - b < TNK_CHUNK ? end - b : TNK_CHUNK;
    const int64_t columns = n * TNK_BLOCK < left ? n * TNK_BLOCK : left;
    if (f->kind == TNK_MATRIX) {
      gather(p, panel, b * TNK_BLOCK, columns, numbers);
    } else if (f->kind == TNK_FLOAT) {
      const size_t at = (size_t)b * TNK_BLOCK * TNK_PANEL * tnk_scale_bytes(f->scale);
      l->numbers(f->scale, columns, p->data + (size_t)panel * p->panel_bytes + at, numbers);
    } else {
      bool min = false;
      n = fill_chunk(l, p, panel, b, end, w, &min);
      l->floats(f, n, w->code[0][0], w->ws[0], min ? w->wm[0] : NULL, numbers);
    }
    for (int64_t r = 0; r < rows; r += TNK_ROWS) {
      const int64_t m = rows - r < TNK_ROWS ? rows - r : TNK_ROWS;
      l->fdot[m - 1](columns, numbers, a->x + r * a->stride + b * TNK_BLOCK, a->stride, acc + r * TNK_PANEL);
    }
  }
}

void tnk_linear_panel(const tnk_linear_kernels *l, const tnk_panels *p, int64_t panel, const tnk_operand *a, int64_t rows,
                      uint32_t segments, float *part, void *work)
{
  tnk_chunk *w = work;
  float *numbers = (float *)(void *)(w + 1);
  memset(part, 0, (size_t)rows * segments * TNK_PANEL * sizeof *part);
  for (uint32_t s = 0; s < segments; s++, part += rows * TNK_PANEL) {
    const int64_t begin = p->blocks / segments * s, end = p->blocks / segments * (s + 1);
    if (a->x) float_blocks(l, p, panel, a, rows, begin, end, part, w, numbers);
    else if (rows == 1) row_blocks(l, p, panel, a->cells, begin, end, part, w);
    else tile_blocks(l, p, panel, a, rows, begin, end, part, w);
  }
}
