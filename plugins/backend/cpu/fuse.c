/* fuse: records to units, which the workers go through without waiting for each other inside. With TN_PREP_UNFUSED or
 * fuse = off every record is a unit. Where the host runs a part of a unit only, that part becomes units of its own.
 *
 *   rows    records that treat each row on its own: a worker takes its rows through all of them
 *   matmul  (NORM | ADD)* of whole rows, then LINEARs of their result, then one of
 *             GLU of two LINEARs | ADD of one LINEAR and another activation | (NORM | ROPE | KV_WRITE)* on whole heads
 *
 * What a unit does not leave in memory (rows on the way to the LINEARs, gate and up, a sum's operand) is read by no later
 * record before another one overwrites it. What a program never overwrites is always kept: the host may read it. The input
 * of a matmul unit is nothing that the unit writes: another worker may still be reading. */
#include "cpu.h"

enum { ACTS = 60, BIT_CELLS = 60, BIT_CACHE = 61, BIT_MANY = 63 };

static const tn_op *op_at(const tn_prepared *p, uint32_t i) { return &p->ops[i].op; }

/* Acts as bits; those past ACTS share one. */
static uint64_t act_bits(const int32_t *index, int n)
{
  uint64_t bits = 0;
  for (int i = 0; i < n; i++) {
    if (index[i] >= 0) bits |= 1ull << (index[i] < ACTS ? index[i] : (int)BIT_MANY);
  }
  return bits;
}

static uint64_t reads(const tn_op *op) { return act_bits(op->in, 4); }
static uint64_t writes(const tn_op *op) { return act_bits(op->out, 2); }

/* No record from i on reads the act before another one writes it, and one does write it. */
static bool dead(const tn_prepared *p, int32_t act, uint32_t i)
{
  const uint64_t bit = act_bits(&act, 1);
  for (; i < p->n_ops; i++) {
    if (reads(op_at(p, i)) & bit) return false;
    if (writes(op_at(p, i)) & bit) return true;
  }
  return false;
}

static uint32_t linear0(const cpu_unit *u) { return u->first + u->n_before; }
static uint32_t after0(const cpu_unit *u) { return linear0(u) + u->n_linears; }
static const tn_op *linear_at(const tn_prepared *p, const cpu_unit *u, uint32_t i) { return op_at(p, linear0(u) + i); }

/* ---------------------------------------------------------------- what may follow the LINEARs */

static bool take_glu(const tn_prepared *p, cpu_unit *u)
{
  const tn_op *op = op_at(p, u->last);
  if (u->n_linears != 2 || op->kind != TN_OP_GLU) return false;
  const tn_op *gate = linear_at(p, u, 0);
  if (op->in[0] != gate->out[0] || op->in[1] != linear_at(p, u, 1)->out[0]) return false;
  for (int i = 0; i < 2; i++) {
    if (op->in[i] != op->out[0] && !dead(p, op->in[i], u->last + 1)) return false;
  }
  u->width = gate->p.linear.n % TNK_BLOCK == 0 ? TNK_BLOCK / TNK_PANEL : 1;
  u->then = CPU_THEN_GLU;
  u->last++;
  return true;
}

static bool take_add(const tn_prepared *p, cpu_unit *u)
{
  const tn_op *op = op_at(p, u->last);
  if (u->n_linears != 1 || op->kind != TN_OP_ADD) return false;
  const int32_t y = linear_at(p, u, 0)->out[0];
  if ((op->in[0] == y) == (op->in[1] == y) || (op->out[0] != y && !dead(p, y, u->last + 1))) return false;
  u->then = CPU_THEN_ADD;
  u->last++;
  return true;
}

/* Which LINEAR's columns an act has: its output, or what records behind it made of that. n_linears: none. */
static uint32_t owner(const tn_prepared *p, const cpu_unit *u, int32_t act)
{
  uint32_t found = u->n_linears;
  for (uint32_t i = 0; i < u->n_linears; i++) {
    if (linear_at(p, u, i)->out[0] == act) found = i;
  }
  for (uint32_t i = after0(u); i < u->last; i++) {
    if (op_at(p, i)->out[0] == act) found = u->owner[i - after0(u)];
  }
  return found;
}

/* LINEAR i's output is `heads` heads of d columns; all of a unit's heads are equally wide. */
static bool is_heads(const tn_prepared *p, cpu_unit *u, uint32_t i, int64_t heads, int64_t d)
{
  if (i >= u->n_linears || d % TNK_PANEL || heads * d != linear_at(p, u, i)->p.linear.n) return false;
  if (u->last > after0(u) && u->width != d / TNK_PANEL) return false;
  u->width = d / TNK_PANEL;
  return true;
}

/* Record u->last works on the heads of LINEAR *i; KV_WRITE on those of LINEARs *i and *i + 1. */
static bool takes_heads(const tn_prepared *p, cpu_unit *u, uint32_t *i)
{
  const tn_op *op = op_at(p, u->last);
  const tn_op_attend *a = &op->p.attend;
  *i = owner(p, u, op->in[0]);
  if (*i == u->n_linears) return false;
  const int64_t n = linear_at(p, u, *i)->p.linear.n;
  if (op->kind == TN_OP_KV_WRITE) {
    return a->kv_head0 == p->kv_head0 && owner(p, u, op->in[1]) == *i + 1 &&
           is_heads(p, u, *i, a->n_kv_heads, a->d_head) && is_heads(p, u, *i + 1, a->n_kv_heads, a->d_v) &&
           a->d_v == a->d_head;
  }
  const uint32_t of = owner(p, u, op->out[0]);
  if (of != u->n_linears && of != *i) return false;
  if (op->kind == TN_OP_NORM) return is_heads(p, u, *i, n / op->p.norm.span, op->p.norm.span);
  return op->kind == TN_OP_ROPE && is_heads(p, u, *i, op->p.rope.n_heads, op->p.rope.d_head);
}

static bool take_heads(const tn_prepared *p, uint32_t end, cpu_unit *u)
{
  for (uint32_t n = 0, i; n < CPU_AFTER && u->last < end && takes_heads(p, u, &i); n++) {
    if (op_at(p, u->last++)->kind == TN_OP_KV_WRITE) u->pair = i + 1;
    u->owner[n] = (uint8_t)i;
  }
  u->then = CPU_THEN_HEADS;
  for (uint32_t i = 0; i < u->n_linears; i++) {
    if (linear_at(p, u, i)->p.linear.n % (u->width * TNK_PANEL)) return false;
  }
  return u->last > after0(u);
}

/* ---------------------------------------------------------------- items */

/* Lists the items that are shared among the workers. */
static void list_items(const tn_prepared *p, cpu_unit *u)
{
  u->n_lists = 0;
  u->cost = 0;
  for (uint32_t i = 0, n; i < u->n_linears; i += n) {
    const tnk_panels *w = &p->ops[linear0(u) + i].w;
    cpu_list *l = &u->lists[u->n_lists++];
    n = u->then == CPU_THEN_GLU || u->pair == i + 1 ? 2 : 1;
    *l = (cpu_list){.linear = i, .n_linears = n, .n = w->panels / u->width};
    for (uint32_t j = i; j < i + n; j++) l->cost += u->width * (int64_t)p->ops[linear0(u) + j].w.panel_bytes;
    u->cost += l->n * l->cost;
  }
}

int64_t tn_cpu_item_at(const cpu_unit *u, int64_t cost)
{
  int64_t items = 0;
  for (uint32_t i = 0; i < u->n_lists; i++) {
    const cpu_list *l = &u->lists[i];
    if (cost < l->n * l->cost) return items + (cost + l->cost / 2) / l->cost;
    cost -= l->n * l->cost;
    items += l->n;
  }
  return items;
}

/* Bytes of the first `items` items. */
static int64_t cost_of(const cpu_unit *u, int64_t items)
{
  int64_t cost = 0;
  for (uint32_t i = 0; i < u->n_lists; i++) {
    const int64_t n = items < u->lists[i].n ? items : u->lists[i].n;
    cost += n * u->lists[i].cost;
    items -= n;
  }
  return cost;
}

/* No worker has much more than its share of whole heads. */
static bool balanced(const tn_inst *in, const cpu_unit *u)
{
  for (int64_t w = 0, n = in->n_workers; w < n; w++) {
    const int64_t first = tn_cpu_item_at(u, u->cost * w / n), last = tn_cpu_item_at(u, u->cost * (w + 1) / n);
    if ((cost_of(u, last) - cost_of(u, first)) * n > u->cost + u->cost / 5) return false;
  }
  return true;
}

/* ---------------------------------------------------------------- matmul units */

/* No worker overwrites what another one may still read, or reads what another one may not have written. */
static bool is_safe(const tn_prepared *p, const cpu_unit *u)
{
  uint64_t input = 0, made = 0, written = 0, also = 0;
  for (uint32_t i = u->first; i < linear0(u); i++) {
    input |= reads(op_at(p, i)) & ~made;
    made |= writes(op_at(p, i));
  }
  for (uint32_t i = linear0(u); i < after0(u); i++) {
    if (writes(op_at(p, i)) & written) return false;
    input |= reads(op_at(p, i)) & ~made;
    written |= writes(op_at(p, i));
  }
  for (uint32_t i = after0(u); i < u->last; i++) {
    also |= reads(op_at(p, i)) & ~written;
    written |= writes(op_at(p, i));
  }
  return !(input & (made | written)) && !(made & (written | also));
}

/* (NORM | ADD)* from record i on, up to a LINEAR of the last one's result. */
static bool take_before(const tn_prepared *p, uint32_t end, cpu_unit *u)
{
  uint32_t i = u->first;
  while (i < end && i - u->first < CPU_BEFORE && (op_at(p, i)->kind == TN_OP_NORM || op_at(p, i)->kind == TN_OP_ADD)) {
    i++;
  }
  if (i == end || op_at(p, i)->kind != TN_OP_LINEAR) return false;
  u->n_before = i - u->first;
  u->last = i;
  const int32_t input = op_at(p, i)->in[0];
  if (u->n_before && op_at(p, i - 1)->out[0] != input) return false;
  for (i = u->first; i < u->last; i++) {
    const int32_t out = op_at(p, i)->out[0];
    if (p->act_rows[out] != p->act_rows[input] || p->acts[out].ne[0] != p->acts[input].ne[0]) return false;
  }
  return true;
}

static bool parts_apart(const tn_op *op) { return op->flags & TN_OPF_PARTS; }

/* The LINEARs at u->last that read the same rows, at most `most`. */
static void take_linears(const tn_prepared *p, uint32_t end, uint32_t most, cpu_unit *u)
{
  const tn_op *one = op_at(p, u->last);
  u->width = 1;
  u->tile = TNK_TILE;
  for (; u->last < end && u->n_linears < most; u->last++, u->n_linears++) {
    const cpu_op *r = &p->ops[u->last];
    if (r->op.kind != TN_OP_LINEAR || r->op.in[0] != one->in[0]) break;
    if (&r->op != one && (parts_apart(one) || parts_apart(&r->op))) break;
    const int64_t fit = tn_cpu_tile_rows(r->op.p.linear.segments);
    if (fit < u->tile) u->tile = fit;
    u->floats = u->floats || !r->codes;
  }
}

/* What follows the LINEARs, if anything does. */
static bool take_after(const tn_inst *in, const tn_prepared *p, uint32_t end, cpu_unit *u)
{
  const cpu_unit bare = *u;
  if (u->last == end || parts_apart(linear_at(p, u, 0))) return false;
  if (take_glu(p, u) || take_add(p, u) || take_heads(p, end, u)) {
    list_items(p, u);
    if (is_safe(p, u) && (u->then != CPU_THEN_HEADS || balanced(in, u))) return true;
  }
  *u = bare;
  return false;
}

/* The largest matmul unit that begins at record i and ends at `end` at the latest. */
static bool match(const tn_inst *in, const tn_prepared *p, uint32_t i, uint32_t end, cpu_unit *u)
{
  cpu_unit start = {.first = i, .last = i, .kind = CPU_MATMUL};
  if (!take_before(p, end, &start)) return false;
  for (uint32_t most = CPU_LINEARS; most; most--) {
    *u = start;
    take_linears(p, end, most, u);
    if (!take_after(in, p, end, u)) list_items(p, u);
    if (is_safe(p, u)) break;
    if (most == 1) return false;
  }
  for (uint32_t j = 0; j < u->n_before; j++) {
    if (!dead(p, op_at(p, u->first + j)->out[0], u->last)) u->kept |= 1u << j;
  }
  return true;
}

/* GLU hands its result on in 8 bits where the next unit alone reads it, as codes. */
static void pass_cells(tn_prepared *p)
{
  for (uint32_t i = 0; p->flags & TN_PREP_ACT_INT8 && i + 1 < p->n_units; i++) {
    cpu_unit *a = &p->units[i], *b = &p->units[i + 1];
    if (a->then != CPU_THEN_GLU || a->width == 1 || b->kind != CPU_MATMUL || b->n_before || b->floats) continue;
    const int32_t act = op_at(p, a->last - 1)->out[0];
    if (op_at(p, b->first)->in[0] != act || !dead(p, act, b->last)) continue;
    a->passes = true;
    const int64_t blocks = p->ops[b->first].w.blocks;
    if (blocks > p->pass_blocks) p->pass_blocks = blocks;
  }
}

/* ---------------------------------------------------------------- all units */

static bool is_row_wise(const tn_op *op)
{
  return op->kind == TN_OP_NORM || op->kind == TN_OP_ADD || op->kind == TN_OP_GLU || op->kind == TN_OP_ROPE ||
         op->kind == TN_OP_KV_WRITE || op->kind == TN_OP_SCALE || op->kind == TN_OP_SOFTCAP ||
         op->kind == TN_OP_MERGE || op->kind == TN_OP_TAP || op->kind == TN_OP_SEGSUM;
}

static uint32_t rows_of(const tn_prepared *p, const tn_op *op)
{
  return p->act_rows[op->out[0] >= 0 ? op->out[0] : op->in[0]];
}

static void take_rows(const tn_inst *in, const tn_prepared *p, uint32_t end, cpu_unit *u)
{
  const tn_op *one = op_at(p, u->first);
  cpu_unit next;
  if (!is_row_wise(one) && one->kind != TN_OP_EMBED && one->kind != TN_OP_PICK) return;
  u->kind = CPU_ROWS;
  while (u->last < end && is_row_wise(op_at(p, u->last)) && rows_of(p, op_at(p, u->last)) == rows_of(p, one) &&
         !match(in, p, u->last, end, &next)) {
    u->last++;
  }
}

void tn_cpu_unit_at(const tn_inst *in, const tn_prepared *p, uint32_t first, uint32_t end, cpu_unit *u)
{
  if (p->fused && match(in, p, first, end, u)) return;
  *u = (cpu_unit){.first = first, .last = first + 1};
  if (p->fused) take_rows(in, p, end, u);
}

/* Barriers only where a unit reads what another one wrote since the last barrier, or overwrites what it used. */
static void place_barriers(tn_prepared *p)
{
  uint64_t read = 0, written = 0;
  for (uint32_t i = 0; i < p->n_units; i++) {
    cpu_unit *u = &p->units[i];
    uint64_t in = 0, out = 0;
    for (uint32_t r = u->first; r < u->last; r++) {
      const tn_op *op = op_at(p, r);
      in |= reads(op) | (op->kind == TN_OP_ATTEND ? 1ull << BIT_CACHE : 0);
      out |= writes(op) | (op->kind == TN_OP_KV_WRITE ? 1ull << BIT_CACHE : 0);
      if (op->kind == TN_OP_LINEAR) out |= 1ull << BIT_CELLS;
    }
    u->barrier = (in & written) || (out & (read | written));
    if (u->barrier) read = written = 0;
    read |= in;
    written |= out;
  }
}

tn_status tn_cpu_fuse(tn_inst *in, tn_prepared *p)
{
  p->fused = in->fuse && !(p->flags & TN_PREP_UNFUSED) && p->n_acts <= ACTS;
  p->units = tn_cpu_zalloc(in, p->n_ops, sizeof *p->units);
  p->unit_of = tn_cpu_zalloc(in, p->n_ops, sizeof *p->unit_of);
  if (!p->units || !p->unit_of) return TN_E_NOMEM;
  for (uint32_t i = 0; i < p->n_ops; p->n_units++) {
    tn_cpu_unit_at(in, p, i, p->n_ops, &p->units[p->n_units]);
    while (i < p->units[p->n_units].last) p->unit_of[i++] = p->n_units;
  }
  pass_cells(p);
  place_barriers(p);
  return TN_OK;
}
