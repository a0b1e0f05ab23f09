/* linear: LINEAR: the rows in 8 bits, then panels shared among the workers, rows in tiles. */
#include <string.h>

#include "cpu.h"

bool tn_cpu_own_cells(const cpu_call *c) { return c->n <= CPU_OWN_ROWS && c->rec->codes; }

/* Where the 8-bit rows are: the worker's own where there are few. */
static tnk_cell *cells_of(const cpu_call *c)
{
  if (!tn_cpu_own_cells(c)) return c->p->cells;
  return c->p->own_cells + (int64_t)c->worker * CPU_OWN_ROWS * c->p->max_blocks;
}

/* The calling worker's rows of the input to cells, and back to f32 where the weights are no codes. */
static void quantize(const cpu_call *c)
{
  const int64_t k = c->op->p.linear.k, blocks = c->rec->w.blocks;
  int64_t first = 0, last = c->n;
  if (!tn_cpu_own_cells(c)) tn_cpu_share(c->n, c->worker, c->n_workers, &first, &last);
  for (int64_t r = first; r < last; r++) {
    tnk_cell *cells = cells_of(c) + r * blocks;
    c->in->vec->quant(c->x.p + r * c->x.stride, k, cells);
    if (!c->rec->codes) c->in->vec->dequant(cells, k, c->p->rounded + r * k);
  }
}

/* What the panels are multiplied with. */
static tnk_operand operand_of(const cpu_call *c)
{
  const int64_t k = c->op->p.linear.k;
  if (!c->p || !c->p->cells) return (tnk_operand){.x = c->x.p, .stride = c->x.stride};
  if (!c->rec->codes) return (tnk_operand){.x = c->p->rounded, .stride = k};
  return (tnk_operand){.cells = cells_of(c), .stride = c->rec->w.blocks};
}

/* Outputs of one panel and rows [r0, r0 + n) from their parts [segments][n][16]. */
static void store(const cpu_call *c, int64_t panel, int64_t r0, int64_t n, const float *part)
{
  const tn_op_linear *l = &c->op->p.linear;
  const int64_t o = panel * TNK_PANEL, lanes = l->n - o < TNK_PANEL ? l->n - o : TNK_PANEL;
  const uint32_t apart = c->op->flags & TN_OPF_PARTS ? l->segments : 1;
  for (uint32_t s = 0; s < apart; s++) {
    c->in->linear->join(n, l->segments / apart, part + s * n * TNK_PANEL, c->rec->vec ? c->rec->vec + o : NULL, NULL, 0,
                        c->y.p + r0 * c->y.stride + s * l->n + o, c->y.stride, lanes);
  }
}

static void multiply(const cpu_call *c)
{
  const tn_op_linear *l = &c->op->p.linear;
  const tnk_operand a = operand_of(c);
  uint8_t *work = c->in->work + (uint64_t)c->worker * CPU_WORK;
  const int64_t fit = CPU_PART_ROWS / (int64_t)l->segments, tile = fit < 1 ? 1 : fit < TNK_TILE ? fit : TNK_TILE;
  float *part = (float *)(void *)(work + CPU_WORK - CPU_PARTS);
  int64_t first, last;
  tn_cpu_share(c->rec->w.panels, c->worker, c->n_workers, &first, &last);
  for (int64_t r = 0; r < c->n; r += tile) {
    const int64_t n = c->n - r < tile ? c->n - r : tile;
    const tnk_operand rows = {
        .cells = a.cells ? a.cells + r * a.stride : NULL, .x = a.x ? a.x + r * a.stride : NULL, .stride = a.stride};
    for (int64_t p = first; p < last; p++) {
      tnk_linear_panel(c->in->linear, &c->rec->w, p, &rows, n, l->segments, part, work);
      store(c, p, r, n, part);
    }
  }
}

void tn_cpu_do_linear(const cpu_call *c)
{
  if (c->p && c->p->cells && !c->have_cells) {
    quantize(c);
    if (!tn_cpu_own_cells(c)) tn_cpu_barrier(c->in);
  }
  multiply(c);
}
