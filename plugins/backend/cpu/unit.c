/* unit: MATMUL units: rows on their way to LINEARs, the LINEARs, and what follows on the columns of their outputs.
 *
 * Few rows: every worker makes all of the input for itself, so that nobody waits. More rows are shared, with a barrier.
 * Then the workers share items, a tile of rows times some panels each (a head where records follow that work on heads), and
 * carry each one through to the end. Every number is computed as the records one by one do: units change no bit. */
#include <string.h>

#include "cpu.h"

typedef struct work {
  const tn_prepared *p;
  const cpu_unit *u;
  uint32_t worker, n_workers;
  cpu_call before[CPU_BEFORE], lin[CPU_LINEARS], after[CPU_AFTER];
  int64_t n;             /* rows */
  bool own, pass;        /* the worker makes all of the input; the result goes to p->passed */
  const tnk_cell *cells; /* [n][blocks] the input in 8 bits, for codes */
  int64_t blocks;
  const float *rows; /* and in f32, row r at rows + r * stride, for others */
  int64_t stride;
} work;

static void open_work(work *w, const tn_batch *b)
{
  uint32_t i = w->u->first;
  for (uint32_t j = 0; j < w->u->n_before; j++) w->before[j] = tn_cpu_call_for(w->p, i++, b, w->worker, w->n_workers);
  for (uint32_t j = 0; j < w->u->n_linears; j++) w->lin[j] = tn_cpu_call_for(w->p, i++, b, w->worker, w->n_workers);
  for (uint32_t j = 0; i < w->u->last; j++) w->after[j] = tn_cpu_call_for(w->p, i++, b, w->worker, w->n_workers);
  w->n = w->lin[0].n;
  w->own = w->n <= CPU_OWN_ROWS;
}

/* ---------------------------------------------------------------- the input */

/* The worker's row i in f32: CPU_OWN_ROWS of input, then those on the way to it. */
static float *own_row(const work *w, int64_t i)
{
  const int64_t rows = CPU_OWN_ROWS + CPU_BEFORE;
  return w->p->own_rows + ((int64_t)w->worker * rows + i) * w->p->max_blocks * TNK_BLOCK;
}

/* Row r of act as record j before the LINEARs finds it. */
static const float *row_before(const work *w, uint32_t j, int32_t act, const cpu_rows *x, int64_t r)
{
  while (j-- > 0) {
    if (w->before[j].op->out[0] == act) return own_row(w, CPU_OWN_ROWS + j);
  }
  return x->p + r * x->stride;
}

/* Row r through the records before the LINEARs; where it ends up: at `to`, if not NULL. */
static const float *make_row(const work *w, int64_t r, float *to)
{
  const uint32_t n = w->u->n_before;
  const float *x = NULL;
  for (uint32_t j = 0; j < n; j++) {
    const cpu_call *c = &w->before[j];
    const float *a = row_before(w, j, c->op->in[0], &c->x, r);
    float *out = j + 1 == n && to ? to : own_row(w, CPU_OWN_ROWS + j);
    if (c->op->kind == TN_OP_NORM) {
      const tn_op_norm *o = &c->op->p.norm;
      c->in->vec->norm(a, c->rec->vec, c->x.cols, o->span, (float)o->eps, out);
    } else {
      c->in->vec->add(a, row_before(w, j, c->op->in[1], &c->x2, r), c->x.cols, out);
    }
    float *act = c->y.p + r * c->y.stride;
    if (w->u->kept >> j & 1 && (!w->own || w->worker == 0) && act != out) {
      memcpy(act, out, (size_t)c->y.cols * sizeof *act);
    }
    x = out;
  }
  return x;
}

/* The worker's rows of the input, as the LINEARs want them. */
static void make_rows(const work *w, tnk_cell *cells, float *rows)
{
  const cpu_call *l = &w->lin[0];
  const int64_t k = l->op->p.linear.k;
  int64_t first = 0, last = w->n;
  if (!w->own) tn_cpu_share(w->n, w->worker, w->n_workers, &first, &last);
  for (int64_t r = first; r < last; r++) {
    float *to = rows + r * w->stride;
    const float *x = w->u->n_before ? make_row(w, r, cells ? NULL : to) : l->x.p + r * l->x.stride;
    if (!cells) continue;
    l->in->vec->quant(x, k, cells + r * w->blocks);
    if (w->u->floats) l->in->vec->dequant(cells + r * w->blocks, k, to);
  }
}

static void take_input(work *w, bool ready)
{
  const cpu_call *l = &w->lin[0];
  const tn_prepared *p = w->p;
  w->blocks = l->rec->w.blocks;
  w->cells = NULL;
  w->rows = NULL;
  w->stride = 0;
  if (ready) {
    w->cells = p->passed;
    return;
  }
  if (!p->cells && !w->u->n_before) {
    w->rows = l->x.p;
    w->stride = l->x.stride;
    return;
  }
  tnk_cell *cells = p->cells;
  float *rows = cells ? p->rounded : l->x.p;
  w->stride = cells ? l->op->p.linear.k : l->x.stride;
  if (w->own) {
    if (cells) cells = p->own_cells + (int64_t)w->worker * CPU_OWN_ROWS * p->max_blocks;
    rows = own_row(w, 0);
    w->stride = p->max_blocks * TNK_BLOCK;
  }
  make_rows(w, cells, rows);
  w->cells = cells;
  w->rows = rows;
  if (!w->own) tn_cpu_barrier(l->in);
}

/* ---------------------------------------------------------------- one item */

/* Panel `panel` of LINEAR c times rows [r0, r0 + n), see tn_cpu_panel. */
static void multiply(const work *w, const cpu_call *c, int64_t panel, int64_t r0, int64_t n, const cpu_rows *plus,
                     float *y, int64_t y_stride)
{
  tnk_operand a = {.stride = w->stride};
  if (w->cells && c->rec->codes)
    a = (tnk_operand){.cells = w->cells + r0 * w->blocks, .stride = w->blocks};
  else
    a.x = w->rows + r0 * w->stride;
  tn_cpu_panel(c, panel, &a, n, plus ? plus->p + r0 * plus->stride + panel * TNK_PANEL : NULL, plus ? plus->stride : 0,
               y, y_stride);
}

/* act(gate) * up of the item's columns. */
static void glu_item(const work *w, int64_t item, int64_t r0, int64_t n)
{
  const cpu_call *c = &w->after[0];
  const tnk_vec *v = c->in->vec;
  const int64_t wide = w->u->width * TNK_PANEL, o = item * wide, left = c->y.cols - o, cols = left < wide ? left : wide;
  float gate[TNK_TILE * TNK_BLOCK], up[TNK_TILE * TNK_BLOCK];
  for (int64_t i = 0; i < w->u->width; i++) {
    multiply(w, &w->lin[0], item * w->u->width + i, r0, n, NULL, gate + i * TNK_PANEL, wide);
    multiply(w, &w->lin[1], item * w->u->width + i, r0, n, NULL, up + i * TNK_PANEL, wide);
  }
  if (!w->pass) {
    for (int64_t r = 0; r < n; r++) {
      v->glu(c->op->p.glu.act, gate + r * wide, up + r * wide, cols, c->y.p + (r0 + r) * c->y.stride + o);
    }
    return;
  }
  const int64_t blocks = c->y.cols / TNK_BLOCK;
  v->glu(c->op->p.glu.act, gate, up, n * wide, gate);
  for (int64_t r = 0; r < n; r++) v->quant(gate + r * wide, wide, w->p->passed + (r0 + r) * blocks + item);
}

/* The LINEAR plus the ADD's other operand. */
static void add_item(const work *w, int64_t item, int64_t r0, int64_t n)
{
  const cpu_call *c = &w->after[0];
  const cpu_rows *plus = c->op->in[0] == w->lin[0].op->out[0] ? &c->x2 : &c->x;
  multiply(w, &w->lin[0], item, r0, n, plus, c->y.p + r0 * c->y.stride + item * TNK_PANEL, c->y.stride);
}

/* The records that follow on head `head` of the list's LINEARs. */
static void heads_after(const work *w, const cpu_list *l, int64_t head, int64_t r0, int64_t n)
{
  for (uint32_t i = 0; i < w->u->last - w->u->first - w->u->n_before - w->u->n_linears; i++) {
    const cpu_call *c = &w->after[i];
    if (w->u->owner[i] < l->linear || w->u->owner[i] >= l->linear + l->n_linears) continue;
    for (int64_t r = r0; r < r0 + n; r++) {
      if (c->op->kind == TN_OP_NORM)
        tn_cpu_head_norm(c, r, head);
      else if (c->op->kind == TN_OP_ROPE)
        tn_cpu_head_rope(c, r, head);
      else
        tn_cpu_head_write(c, r, head);
    }
  }
}

/* Item `item` of the unit, rows [r0, r0 + n). */
static void do_item(const work *w, int64_t item, int64_t r0, int64_t n)
{
  const cpu_list *l = w->u->lists;
  while (item >= l->n) item -= l++->n;
  if (w->u->then == CPU_THEN_GLU) {
    glu_item(w, item, r0, n);
    return;
  }
  if (w->u->then == CPU_THEN_ADD) {
    add_item(w, item, r0, n);
    return;
  }
  for (uint32_t i = l->linear; i < l->linear + l->n_linears; i++) {
    const cpu_call *c = &w->lin[i];
    for (int64_t p = item * w->u->width; p < (item + 1) * w->u->width; p++) {
      multiply(w, c, p, r0, n, NULL, c->y.p + r0 * c->y.stride + p * TNK_PANEL, c->y.stride);
    }
  }
  if (w->u->then == CPU_THEN_HEADS) heads_after(w, l, item, r0, n);
}

/* ---------------------------------------------------------------- all items */

/* A tile of rows and an item. */
typedef struct spot {
  int64_t tile, item;
} spot;

/* Where worker's share begins, by bytes of panels times rows. */
static spot begin_of(const work *w, uint32_t worker)
{
  const cpu_unit *u = w->u;
  const int64_t at = w->n * u->cost * worker / w->n_workers, tile = at / (u->tile * u->cost), r0 = tile * u->tile;
  const int64_t rows = w->n - r0 < u->tile ? w->n - r0 : u->tile;
  return (spot){tile, rows ? tn_cpu_item_at(u, (at - r0 * u->cost) / rows) : 0};
}

void tn_cpu_do_unit(const tn_prepared *p, const cpu_unit *u, const tn_batch *b, uint32_t worker, uint32_t n_workers,
                    bool take, bool pass)
{
  work w; /* of the calls only those that the unit has are filled */
  int64_t items = 0;
  w.p = p;
  w.u = u;
  w.worker = worker;
  w.n_workers = n_workers;
  w.pass = pass;
  open_work(&w, b);
  take_input(&w, take);
  for (uint32_t i = 0; i < u->n_lists; i++) items += u->lists[i].n;
  const spot end = begin_of(&w, worker + 1);
  for (spot at = begin_of(&w, worker); at.tile < end.tile || (at.tile == end.tile && at.item < end.item);) {
    const int64_t r0 = at.tile * u->tile;
    if (at.item == items || r0 >= w.n) {
      at = (spot){at.tile + 1, 0};
      continue;
    }
    do_item(&w, at.item++, r0, w.n - r0 < u->tile ? w.n - r0 : u->tile);
  }
}
