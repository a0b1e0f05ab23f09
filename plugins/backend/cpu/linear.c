/* linear: LINEAR on its own: the rows in 8 bits, then panels shared among the workers, rows in tiles. */
#include "cpu.h"

int64_t tn_cpu_tile_rows(uint32_t segments)
{
  const int64_t fit = CPU_PART_ROWS / (int64_t)segments;
  return fit < 1 ? 1 : fit < TNK_TILE ? fit : TNK_TILE;
}

void tn_cpu_panel(const cpu_call *c, int64_t panel, const tnk_operand *a, int64_t n, const float *plus,
                  int64_t plus_stride, float *y, int64_t y_stride)
{
  const tn_op_linear *l = &c->op->p.linear;
  const int64_t o = panel * TNK_PANEL, lanes = l->n - o < TNK_PANEL ? l->n - o : TNK_PANEL;
  const uint32_t apart = c->op->flags & TN_OPF_PARTS ? l->segments : 1;
  uint8_t *work = c->in->work + (uint64_t)c->worker * CPU_WORK;
  float *part = (float *)(void *)(work + CPU_WORK - CPU_PARTS);
  tnk_linear_panel(c->in->linear, &c->rec->w, panel, a, n, l->segments, part, work);
  for (uint32_t s = 0; s < apart; s++) {
    c->in->linear->join(n, l->segments / apart, part + s * n * TNK_PANEL, c->rec->vec ? c->rec->vec + o : NULL, plus,
                        plus_stride, y + s * l->n, y_stride, lanes);
  }
}

/* The calling worker's rows of the input to cells, and back to f32 where the weights are no codes. */
static void quantize(const cpu_call *c)
{
  const int64_t k = c->op->p.linear.k, blocks = c->rec->w.blocks;
  int64_t first, last;
  tn_cpu_share(c->n, c->worker, c->n_workers, &first, &last);
  for (int64_t r = first; r < last; r++) {
    tnk_cell *cells = c->p->cells + r * blocks;
    c->in->vec->quant(c->x.p + r * c->x.stride, k, cells);
    if (!c->rec->codes) c->in->vec->dequant(cells, k, c->p->rounded + r * k);
  }
}

/* What the panels are multiplied with, from row r on. */
static tnk_operand operand_at(const cpu_call *c, int64_t r)
{
  const int64_t k = c->op->p.linear.k, blocks = c->rec->w.blocks;
  if (!c->p || !c->p->cells) return (tnk_operand){.x = c->x.p + r * c->x.stride, .stride = c->x.stride};
  if (!c->rec->codes) return (tnk_operand){.x = c->p->rounded + r * k, .stride = k};
  return (tnk_operand){.cells = c->p->cells + r * blocks, .stride = blocks};
}

void tn_cpu_do_linear(const cpu_call *c)
{
  const int64_t tile = tn_cpu_tile_rows(c->op->p.linear.segments);
  int64_t first, last;
  if (c->p && c->p->cells) {
    quantize(c);
    tn_cpu_barrier(c->in);
  }
  tn_cpu_share(c->rec->w.panels, c->worker, c->n_workers, &first, &last);
  for (int64_t r = 0; r < c->n; r += tile) {
    const tnk_operand a = operand_at(c, r);
    for (int64_t p = first; p < last; p++) {
      tn_cpu_panel(c, p, &a, c->n - r < tile ? c->n - r : tile, NULL, 0, c->y.p + r * c->y.stride + p * TNK_PANEL,
                   c->y.stride);
    }
  }
}
