/* attend: ATTEND: tasks of a few rows of one sequence with the query heads of one KV head, claimed by the workers.
 *
 * A task walks its tiles in order and joins their partials by the binary tree over the tile index. Where there are too few
 * tasks for the workers, a task is cut at whole subtrees: their roots go to tn_prepared.parts and are joined by the same
 * tree after a barrier. So no bit depends on the cut, and none on who did what. */
#include <math.h>
#include <string.h>

#include "cpu.h"

enum { TASK_ROWS = 16, LEVELS = 40, SPLIT_ROWS = 16, SPLIT = 32, TASKS_PER_WORKER = 6 };

/* Partials of one query on the way up the tree: entry i is a node whose first tile is leaf[i]. */
typedef struct tree {
  int32_t n;
  int64_t leaf[LEVELS];
  float m[LEVELS], l[LEVELS];
  float *o; /* [LEVELS][dv] */
} tree;

typedef struct task {
  cpu_sight s;
  uint32_t kv_head, rep; /* of the record; query heads per KV head */
  int64_t row0, row1, tile0, tile1;
  uint64_t visible[TASK_ROWS], sinks[TASK_ROWS];
  const float **q;   /* [TASK_ROWS * rep] */
  float *p, *p_sink; /* [TASK_ROWS * rep][64] */
  float **o;         /* [TASK_ROWS * rep] */
  tree *trees;       /* [TASK_ROWS * rep] */
} task;

/* ---------------------------------------------------------------- scratch */

static uint64_t round_up(uint64_t n) { return (n + CPU_LINE - 1) / CPU_LINE * CPU_LINE; }

static uint64_t lay_out(task *t, const cpu_group *g, uint32_t rep, uint8_t *work)
{
  const uint64_t queries = (uint64_t)TASK_ROWS * rep, d = g->d_k, dv = (uint64_t)g->dv;
  uint64_t at[8] = {0};
  const uint64_t size[7] = {TNK_KEYS * d * 4,          TNK_KEYS * dv * 4 + (d + dv) * 4, queries * sizeof(float *),
                            queries * sizeof(float *), queries * TNK_KEYS * 8,           queries * sizeof(tree),
                            queries * LEVELS * dv * 4};
  for (int i = 0; i < 7; i++) at[i + 1] = at[i] + round_up(size[i]);
  if (!t) return at[7];
  t->s.k32 = (float *)(void *)(work + at[0]);
  t->s.v32 = (float *)(void *)(work + at[1]);
  t->q = (const float **)(void *)(work + at[2]);
  t->o = (float **)(void *)(work + at[3]);
  t->p = (float *)(void *)(work + at[4]);
  t->p_sink = t->p + queries * TNK_KEYS;
  t->trees = (tree *)(void *)(work + at[5]);
  for (uint64_t i = 0; i < queries; i++) t->trees[i].o = (float *)(void *)(work + at[6]) + i * LEVELS * dv;
  return at[7];
}

uint64_t tn_cpu_attend_bytes(const cpu_group *g, const tn_op *op)
{
  return lay_out(NULL, g, op->p.attend.n_heads / op->p.attend.n_kv_heads, NULL);
}

/* Numbers of a partial in tn_prepared.parts: o [dv], m, l. */
static int64_t part_size(const cpu_group *g) { return g->dv + 16; }

int64_t tn_cpu_attend_parts(const cpu_group *g, const tn_op *op)
{
  return SPLIT_ROWS * (int64_t)op->p.attend.n_heads * SPLIT * part_size(g);
}

/* ---------------------------------------------------------------- the tree */

static void join_top(const cpu_call *c, tree *t, int64_t dv)
{
  const int32_t a = t->n - 2, b = t->n - 1;
  c->in->attend->join(&t->m[a], &t->l[a], t->o + a * dv, t->m[b], t->l[b], t->o + b * dv, dv);
  t->n--;
}

/* Makes room for a node whose first tile is leaf: pairs whose common subtree ends before it are joined. Returns its o. */
static float *push(const cpu_call *c, tree *t, int64_t leaf, int64_t dv)
{
  while (t->n >= 2) {
    const uint64_t x = (uint64_t)t->leaf[t->n - 2], y = (uint64_t)t->leaf[t->n - 1];
    const int level = 64 - __builtin_clzll(x ^ y);
    if ((uint64_t)leaf >> level == x >> level) break;
    join_top(c, t, dv);
  }
  t->leaf[t->n] = leaf;
  return t->o + t->n++ * dv;
}

/* ---------------------------------------------------------------- one tile */

static int64_t head_of(const task *t, uint32_t h) { return (int64_t)t->kv_head * t->rep + h; }

static void point_queries(task *t, const cpu_rows *x, int64_t r0, int64_t r1)
{
  const float **q = t->q;
  for (int64_t r = r0; r < r1; r++) {
    for (uint32_t h = 0; h < t->rep; h++) *q++ = x->p + r * x->stride + head_of(t, h) * t->s.c->op->p.attend.d_head;
  }
}

/* Products of rows [r0, r1) with a tile's keys to p; keys of sinks with the sink queries. */
static void products(task *t, int64_t r0, int64_t r1, const tnk_tile *tile)
{
  const cpu_call *c = t->s.c;
  const int64_t n = (r1 - r0) * t->rep, d = c->op->p.attend.d_head;
  uint64_t any = 0;
  point_queries(t, &c->x, r0, r1);
  c->in->attend->scores(n, t->q, d, tile, t->p);
  for (int64_t r = r0; r < r1; r++) any |= t->sinks[r - t->row0] & t->visible[r - t->row0];
  if (!any) return;
  point_queries(t, &c->x2, r0, r1);
  c->in->attend->scores(n, t->q, d, tile, t->p_sink);
  for (int64_t i = 0; i < n; i++) {
    for (uint64_t s = t->sinks[r0 - t->row0 + i / t->rep]; s; s &= s - 1) {
      const int64_t j = i * TNK_KEYS + __builtin_ctzll(s);
      t->p[j] = t->p_sink[j];
    }
  }
}

/* Rows [r0, r1), which find the same keys in the tile: their partials go onto their trees. */
static void tile_rows(task *t, int64_t tile_index, int64_t r0, int64_t r1)
{
  const cpu_call *c = t->s.c;
  const tn_op_attend *a = &c->op->p.attend;
  const int64_t rep = t->rep, dv = t->s.g->dv;
  uint64_t any = 0;
  while (r0 < r1 && !t->visible[r0 - t->row0]) r0++;
  while (r0 < r1 && !t->visible[r1 - 1 - t->row0]) r1--;
  if (r0 == r1) return;
  for (int64_t r = r0; r < r1; r++) any |= t->visible[r - t->row0];
  tnk_tile tile;
  tn_cpu_tile(&t->s, r0, tile_index, any, (r1 - r0) * rep > 4, &tile);
  products(t, r0, r1, &tile);
  int64_t same = r0; /* rows [same, r) see the same keys */
  for (int64_t r = r0; r < r1; r++) {
    const uint64_t seen = t->visible[r - t->row0];
    for (int64_t i = (r - r0) * rep; seen && i < (r - r0 + 1) * rep; i++) {
      tree *to = &t->trees[(r0 - t->row0) * rep + i];
      t->o[i] = push(c, to, tile_index, dv);
      c->in->attend->soften(t->p + i * TNK_KEYS, seen, a->scale, a->softcap, &to->m[to->n - 1], &to->l[to->n - 1]);
    }
    if (r + 1 < r1 && t->visible[r + 1 - t->row0] == seen) continue;
    const int64_t first = (same - r0) * rep;
    if (seen) c->in->attend->mix((r + 1 - same) * rep, t->p + first * TNK_KEYS, seen, &tile, dv, t->o + first);
    same = r + 1;
  }
}

/* Some row of the task is on a path: its ranks behind the committed ones are its own. */
static bool on_path(const task *t)
{
  for (int64_t r = t->row0; r < t->row1; r++) {
    if (t->s.c->b->path_off[r] >= 0) return true;
  }
  return false;
}

/* fn on the rows of each tile that find the same keys there. */
static void walk(task *t, void (*fn)(task *, int64_t, int64_t, int64_t))
{
  const bool path = on_path(t);
  for (int64_t i = t->tile0; i < t->tile1; i++) {
    uint64_t any = 0;
    for (int64_t r = t->row0; r < t->row1; r++) {
      t->visible[r - t->row0] = tn_cpu_visible(&t->s, r, i, &t->sinks[r - t->row0]);
      any |= t->visible[r - t->row0];
    }
    if (!any) continue;
    if (!path || (i + 1) * TNK_KEYS <= t->s.view->n) {
      fn(t, i, t->row0, t->row1);
    } else {
      for (int64_t r = t->row0; r < t->row1; r++) fn(t, i, r, r + 1);
    }
  }
}

/* ---------------------------------------------------------------- column sums */

/* Accumulators that the row's attention is added to, by entry, or NULL. */
static int64_t *signal_of(const task *t, int64_t row)
{
  const tn_batch *b = t->s.c->b;
  if (!(t->s.c->op->flags & TN_OPF_COLSUM) || !b->signal || b->signal[row] < 0) return NULL;
  const tn_signal *s = b->signals[b->signal[row]];
  return s->attn && t->s.at->group < s->n_groups ? s->attn[t->s.at->group] : NULL;
}

/* The finished rows' shares of a tile, in units of 2^-32, to their signals. */
static void share_rows(task *t, int64_t tile_index, int64_t r0, int64_t r1)
{
  const cpu_call *c = t->s.c;
  const tn_op_attend *a = &c->op->p.attend;
  for (int64_t r = r0; r < r1; r++) {
    const uint64_t seen = t->visible[r - t->row0];
    int64_t *signal = signal_of(t, r);
    if (!seen || !signal) continue;
    tnk_tile tile;
    tn_cpu_tile(&t->s, r, tile_index, seen, false, &tile);
    products(t, r, r + 1, &tile);
    for (int64_t h = 0; h < t->rep; h++) {
      const tree *done = &t->trees[(r - t->row0) * t->rep + h];
      float *p = t->p + h * TNK_KEYS;
      c->in->attend->shares(p, seen, a->scale, a->softcap, done->m[0], done->l[0]);
      for (uint64_t left = seen; left; left &= left - 1) {
        const int64_t bit = __builtin_ctzll(left), rank = tile_index * TNK_KEYS + bit, n = t->s.view->n;
        const int64_t entry = rank < n ? rank : n + tn_cpu_slot_at(c->b, r, rank - n);
        __atomic_fetch_add(&signal[entry], llrint((double)p[bit] * 0x1p32), __ATOMIC_RELAXED);
      }
    }
  }
}

/* ---------------------------------------------------------------- results */

/* Root of a tree, or nothing seen, to the row's output and lse. */
static void write_out(const cpu_call *c, const cpu_group *g, int64_t row, int64_t head, const tree *root)
{
  float *y = c->y.p + row * c->y.stride + head * c->op->p.attend.d_v, lse = -INFINITY;
  if (root->n)
    lse = c->in->attend->finish(root->m[0], root->l[0], root->o, g->d_v, y);
  else
    memset(y, 0, g->d_v * sizeof *y);
  if (c->y2.p) c->y2.p[row * c->y2.stride + head] = lse;
}

/* How a record's work is cut. */
typedef struct split {
  int64_t chunk, n_chunks; /* tiles of a subtree, subtrees of a row; n_chunks 1: whole rows */
} split;

static float *part_at(const cpu_call *c, const cpu_group *g, const split *cut, int64_t row, int64_t head, int64_t chunk)
{
  const int64_t heads = c->op->p.attend.n_heads;
  return c->p->parts + ((row * heads + head) * cut->n_chunks + chunk) * part_size(g);
}

static void run_task(task *t, const split *cut, int64_t chunk)
{
  const cpu_call *c = t->s.c;
  const int64_t dv = t->s.g->dv;
  const int64_t queries = (t->row1 - t->row0) * t->rep;
  for (int64_t i = 0; i < queries; i++) t->trees[i].n = 0;
  walk(t, tile_rows);
  for (int64_t i = 0; i < queries; i++) {
    tree *root = &t->trees[i];
    const int64_t row = t->row0 + i / t->rep, head = head_of(t, (uint32_t)(i % t->rep));
    while (root->n > 1) join_top(c, root, dv);
    if (cut->n_chunks == 1) {
      write_out(c, t->s.g, row, head, root);
      continue;
    }
    float *part = part_at(c, t->s.g, cut, row, head, chunk);
    part[dv] = root->n ? root->m[0] : -INFINITY;
    part[dv + 1] = root->n ? root->l[0] : 0;
    if (root->n) memcpy(part, root->o, (size_t)dv * sizeof *part);
  }
  if (c->op->flags & TN_OPF_COLSUM) walk(t, share_rows);
}

/* Tiles up to the last rank that any row of [row0, row1) finds. */
static int64_t tiles_of(const cpu_call *c, const tn_kv_view *view, int64_t row0, int64_t row1)
{
  int64_t last = 0;
  for (int64_t r = row0; r < row1; r++) last = c->b->ord[r] > last ? c->b->ord[r] : last;
  return (view->n + last) / TNK_KEYS + 1;
}

/* Whole rows where that keeps the workers busy, else subtrees of a power of two of tiles. */
static split cut_of(const cpu_call *c)
{
  split whole = {0, 1}, cut = {1, 1};
  int64_t units = 0, most = 1;
  if (c->n_workers == 1 || c->n > SPLIT_ROWS || c->op->flags & TN_OPF_COLSUM) return whole;
  for (int64_t r = 0, end; r < c->n; r = end) {
    end = tn_cpu_same_seq(c->b, r);
    units += c->op->p.attend.n_kv_heads;
    for (uint32_t h = 0; h < c->op->p.attend.n_kv_heads; h++) {
      const int64_t tiles = tiles_of(c, c->b->seqs[c->b->seq[r]]->kv[c->rec->heads[h].group], r, end);
      if (tiles > most) most = tiles;
    }
  }
  const int64_t want = (int64_t)c->n_workers * TASKS_PER_WORKER / (units ? units : 1);
  if (want < 2) return whole;
  while (cut.chunk * SPLIT < most || cut.chunk * 2 * want <= most) cut.chunk *= 2;
  cut.n_chunks = (most + cut.chunk - 1) / cut.chunk;
  return cut.n_chunks > 1 ? cut : whole;
}

/* ---------------------------------------------------------------- all tasks */

static void each_task(const cpu_call *c, task *t, const split *cut)
{
  const tn_op_attend *a = &c->op->p.attend;
  uint32_t index = 0, mine = __atomic_fetch_add(c->next, 1, __ATOMIC_RELAXED);
  for (int64_t r = 0; r < c->n; r = t->row1) {
    const int64_t end = tn_cpu_same_seq(c->b, r);
    t->row0 = r;
    t->row1 = end - r < TASK_ROWS ? end : r + TASK_ROWS;
    for (uint32_t unit = 0; unit < a->n_kv_heads * (uint32_t)cut->n_chunks; unit++) {
      if (index++ != mine) continue;
      mine = __atomic_fetch_add(c->next, 1, __ATOMIC_RELAXED);
      const int64_t chunk = unit % cut->n_chunks;
      t->kv_head = unit / (uint32_t)cut->n_chunks;
      t->s.at = &c->rec->heads[t->kv_head];
      t->s.g = &c->p->kv->groups[t->s.at->group];
      t->s.view = c->b->seqs[c->b->seq[r]]->kv[t->s.at->group];
      t->tile0 = chunk * cut->chunk;
      t->tile1 = tiles_of(c, t->s.view, t->row0, t->row1);
      if (cut->n_chunks > 1 && t->tile1 > t->tile0 + cut->chunk) t->tile1 = t->tile0 + cut->chunk;
      lay_out(t, t->s.g, t->rep, c->p->work + c->worker * c->p->work_bytes);
      run_task(t, cut, chunk);
    }
  }
}

/* The subtrees of the worker's share of the queries become roots. */
static void join_parts(const cpu_call *c, task *t, const split *cut)
{
  const int64_t heads = c->op->p.attend.n_heads;
  int64_t first, last;
  tn_cpu_share(c->n * heads, c->worker, c->n_workers, &first, &last);
  for (int64_t i = first; i < last; i++) {
    const int64_t row = i / heads, head = i % heads;
    const cpu_group *g = &c->p->kv->groups[c->rec->heads[head / t->rep].group];
    lay_out(t, g, t->rep, c->p->work + c->worker * c->p->work_bytes);
    tree *root = &t->trees[0];
    root->n = 0;
    for (int64_t chunk = 0; chunk < cut->n_chunks; chunk++) {
      const float *part = part_at(c, g, cut, row, head, chunk);
      if (part[g->dv] == -INFINITY) continue;
      memcpy(push(c, root, chunk * cut->chunk, g->dv), part, (size_t)g->dv * sizeof *part);
      root->m[root->n - 1] = part[g->dv];
      root->l[root->n - 1] = part[g->dv + 1];
    }
    while (root->n > 1) join_top(c, root, g->dv);
    write_out(c, g, row, head, root);
  }
}

void tn_cpu_do_attend(const cpu_call *c)
{
  const tn_op_attend *a = &c->op->p.attend;
  const split cut = cut_of(c);
  task t = {.s = {.c = c, .kv = c->p->kv}, .rep = a->n_heads / a->n_kv_heads};
  each_task(c, &t, &cut);
  if (cut.n_chunks == 1) return;
  tn_cpu_barrier(c->in);
  join_parts(c, &t, &cut);
}
