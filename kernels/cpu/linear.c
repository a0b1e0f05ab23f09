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

/* Index of tnk_linear_kernels.dot for codes of format f. */
static int dot_kind(const tnk_fmt *f)
{
  if (f->iq4 || f->bits == 8) return 3;
  return f->bits <= 4 ? 0 : f->bits - 4;
}

static tnk_fill fill_of(const tnk_linear_kernels *l, const tnk_panels *p)
{
  return l->fill[p->format < 0 ? TNK_N_FORMATS : p->format];
}

/* Blocks of the next chunk of [b, end): the rest in equal shares. */
static int64_t next_chunk(int64_t b, int64_t end)
{
  const int64_t left = end - b, chunks = (left + TNK_CHUNK - 1) / TNK_CHUNK;
  return (left + chunks - 1) / chunks;
}

/* Rows up to which a panel is multiplied as it is, each TNK_FEW rows taking its codes apart anew. */
static int64_t straight_rows(const tnk_fmt *f)
{
  if (f->bits == 8) return 16; /* nothing to take apart */
  return f->bits == 4 && !f->iq4 ? 8 : 4;
}

/* What pass `pass` of `passes` over a panel's blocks from `begin` on asks for: its part of the next panel, so that memory
 * works all the time; a single pass the lines just ahead of it. */
static tnk_ask ask_of(const tnk_panels *p, const uint8_t *panel, int64_t begin, int64_t pass, int64_t passes)
{
  const size_t share = p->share;
  const uintptr_t at = (uintptr_t)panel + (size_t)begin * share;
  if (passes == 1) return (tnk_ask){at + TNK_AHEAD, share, share};
  const size_t part = (uint32_t)share / (uint32_t)passes;
  return (tnk_ask){at + p->panel_bytes + part * (size_t)pass, share, part + TNK_LINE / 2};
}

/* A few rows: straight from the panel's bits. */
static void few_rows(const tnk_linear_kernels *l, const tnk_panels *p, const uint8_t *panel, const tnk_operand *a,
                     int64_t rows, int64_t begin, int64_t end, float *acc)
{
  const int64_t passes = (rows + TNK_FEW - 1) / TNK_FEW;
  for (int64_t r = 0; r < rows; r += TNK_FEW) {
    const int64_t m = rows - r < TNK_FEW ? rows - r : TNK_FEW;
    const tnk_ask ask = ask_of(p, panel, begin, r / TNK_FEW, passes);
    l->few[p->format][m - 1](panel, p->blocks, begin, end, a->cells + r * a->stride, a->stride, ask,
                             acc + r * TNK_PANEL);
  }
}

/* Several rows: a chunk is expanded once for all. */
static void tile_rows(const tnk_linear_kernels *l, const tnk_panels *p, const uint8_t *panel, const tnk_operand *a,
                      int64_t rows, int64_t begin, int64_t end, float *acc, tnk_chunk *w)
{
  const tnk_dot *dot = l->dot[dot_kind(&p->fmt)][tnk_halves(&p->fmt) - 1];
  const int64_t passes = (rows + TNK_ROWS - 1) / TNK_ROWS;
  for (int64_t b = begin, n; b < end; b += n) {
    n = next_chunk(b, end);
    fill_of(l, p)(&p->fmt, panel, p->blocks, b, n, w);
    for (int64_t r = 0; r < rows; r += TNK_ROWS) {
      const int64_t m = rows - r < TNK_ROWS ? rows - r : TNK_ROWS;
      const tnk_ask ask = ask_of(p, panel, b, r / TNK_ROWS, passes);
      dot[m - 1](n, w, a->cells + r * a->stride + b, a->stride, ask, acc + r * TNK_PANEL);
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

/* f32 activations, columns [begin, end): a chunk becomes f32 numbers once for all rows. */
static void float_rows(const tnk_linear_kernels *l, const tnk_panels *p, int64_t panel, const tnk_operand *a,
                       int64_t rows, int64_t begin, int64_t end, float *acc, tnk_chunk *w, float *numbers)
{
  const tnk_fmt *f = &p->fmt;
  const uint8_t *data = p->data + (size_t)panel * p->panel_bytes;
  for (int64_t c = begin, m; c < end; c += m) {
    const int64_t b = c / TNK_BLOCK, n = next_chunk(b, (end + TNK_BLOCK - 1) / TNK_BLOCK), last = (b + n) * TNK_BLOCK;
    const float *from = numbers;
    m = last < end ? last - c : end - c;
    if (f->kind == TNK_MATRIX) {
      gather(p, panel, c, m, numbers);
    } else if (f->kind == TNK_FLOAT) {
      l->numbers(f->scale, m, data + (size_t)(c * TNK_PANEL) * tnk_scale_bytes(f->scale), numbers);
    } else {
      fill_of(l, p)(f, data, p->blocks, b, n, w);
      l->floats(f, n, w, numbers);
      from += c % TNK_BLOCK * TNK_PANEL;
    }
    for (int64_t r = 0; r < rows; r += TNK_ROWS) {
      const int64_t few = rows - r < TNK_ROWS ? rows - r : TNK_ROWS;
      l->fdot[few - 1](m, from, a->x + r * a->stride + c, a->stride, acc + r * TNK_PANEL);
    }
  }
}

void tnk_linear_panel(const tnk_linear_kernels *l, const tnk_panels *p, int64_t panel, const tnk_operand *a,
                      int64_t rows, uint32_t segments, float *part, void *work)
{
  tnk_chunk *w = work;
  float *numbers = (float *)(void *)(w + 1);
  const uint8_t *data = p->data + (size_t)panel * p->panel_bytes;
  const int64_t step = p->blocks / segments, columns = p->k / segments;
  memset(part, 0, (size_t)rows * segments * TNK_PANEL * sizeof *part);
  for (int64_t s = 0; s < segments; s++, part += rows * TNK_PANEL) {
    const int64_t b = s * step;
    if (a->x)
      float_rows(l, p, panel, a, rows, s * columns, (s + 1) * columns, part, w, numbers);
    else if (p->format >= 0 && rows <= straight_rows(&p->fmt))
      few_rows(l, p, data, a, rows, b, b + step, part);
    else
      tile_rows(l, p, data, a, rows, b, b + step, part, w);
  }
}
