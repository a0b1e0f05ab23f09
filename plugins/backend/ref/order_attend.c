/* order_attend: ATTEND in f32: tiles of 64 ranks joined in pairs, as NUMERICS.md says.
 *
 *   node(0, t) = tile t;   node(h + 1, t) = join(node(h, 2 t), node(h, 2 t + 1))
 * of all queries of a task at once. A node that no key of is visible, or behind the last tile, is nothing, and the join
 * with nothing is the other one. */
#include <math.h>

#include "ref.h"
#include "ref/order_attend.h"

enum { LEVELS = 40 };

typedef struct task {
  ref_look look;
  int64_t tiles;
  tnk_order_part *part[LEVELS]; /* [REF_TASK_ROWS][rep]: node of the level that is being made */
} task;

uint64_t tn_ref_order_attend_bytes(const ref_group *g, uint64_t rep)
{
  return LEVELS * REF_TASK_ROWS * rep * (sizeof(tnk_order_part) + 2 * (((uint64_t)g->d_v + 1) / 2) * sizeof(float));
}

static void lay_out(task *t, uint8_t *work)
{
  const uint64_t queries = (uint64_t)REF_TASK_ROWS * t->look.rep, d_v = 2 * (((uint64_t)t->look.g->d_v + 1) / 2);
  tnk_order_part *part = (tnk_order_part *)(void *)work;
  float *o = (float *)(void *)(part + LEVELS * queries);
  for (int level = 0; level < LEVELS; level++) t->part[level] = part + (uint64_t)level * queries;
  for (uint64_t i = 0; i < LEVELS * queries; i++) part[i].o = o + i * d_v;
  tn_ref_look_lay_out(&t->look, (uint8_t *)(o + LEVELS * queries * d_v));
}

/* Scores of query head h of a row with all keys that it sees of the tile. */
static void score_all(const task *t, int64_t row, uint32_t h, const ref_seen *s, float *score)
{
  const ref_call *c = t->look.c;
  const tn_op_attend *a = &c->op->p.attend;
  const int64_t head = (int64_t)t->look.kv_head * t->look.rep + h;
  const float *q = c->x.p + row * c->x.stride + head * a->d_head;
  const float *q_sink = c->x2.p ? c->x2.p + row * c->x2.stride + head * a->d_head : q;
  for (int i = 0; i < s->n; i++) {
    score[i] = tnk_order_score(s->sink[i] ? q_sink : q, s->k[i], a->d_head, a->scale, a->softcap);
  }
}

static void tile(task *t, int64_t index)
{
  ref_look *l = &t->look;
  ref_seen s;
  float score[REF_STEP];
  l->step = index;
  l->have = 0;
  l->with_v = true;
  for (int64_t r = l->row0; r < l->row1; r++) {
    tn_ref_look(l, r, &s);
    for (uint32_t h = 0; h < l->rep; h++) {
      score_all(t, r, h, &s, score);
      tnk_order_tile(s.n, s.bit, score, s.v, l->g->d_v, &t->part[0][(r - l->row0) * l->rep + h]);
    }
  }
}

/* Makes node(level, index) of all queries, in part[level]. */
static void node(task *t, int level, int64_t index)
{
  const int64_t queries = (t->look.row1 - t->look.row0) * t->look.rep, d_v = t->look.g->d_v;
  tnk_order_part *whole = t->part[level];
  if (level == 0 && index < t->tiles) {
    tile(t, index);
    return;
  }
  for (int64_t i = 0; i < queries; i++) whole[i].any = false;
  for (int64_t half = 2 * index; level > 0 && half < 2 * index + 2; half++) {
    if (half << (level - 1) >= t->tiles) return;
    node(t, level - 1, half);
    for (int64_t i = 0; i < queries; i++) tnk_order_join(&whole[i], &t->part[level - 1][i], d_v);
  }
}

static void write_out(const task *t, const tnk_order_part *root)
{
  const ref_look *l = &t->look;
  const ref_call *c = l->c;
  const int64_t d_v = c->op->p.attend.d_v;
  for (int64_t r = l->row0; r < l->row1; r++) {
    for (uint32_t h = 0; h < l->rep; h++) {
      const int64_t head = (int64_t)l->kv_head * l->rep + h;
      float *lse = c->y2.p ? c->y2.p + r * c->y2.stride + head : NULL;
      tnk_order_finish(root++, d_v, c->y.p + r * c->y.stride + head * d_v, lse);
    }
  }
}

/* The finished rows' shares, in units of 2^-32, to their signals. */
static void share(task *t, const tnk_order_part *root)
{
  ref_look *l = &t->look;
  ref_seen s;
  float score[REF_STEP];
  l->with_v = false;
  for (l->step = 0; l->step < t->tiles; l->step++) {
    l->have = 0;
    for (int64_t r = l->row0; r < l->row1; r++) {
      int64_t *signal = tn_ref_look_signal(l, r);
      if (!signal) continue;
      tn_ref_look(l, r, &s);
      for (uint32_t h = 0; h < l->rep; h++) {
        score_all(t, r, h, &s, score);
        for (int i = 0; i < s.n; i++) {
          const float p = tnk_order_share(&root[(r - l->row0) * l->rep + h], score[i]);
          __atomic_fetch_add(&signal[s.entry[i]], llrint(ldexp((double)p, 32)), __ATOMIC_RELAXED);
        }
      }
    }
  }
}

tn_status tn_ref_order_attend(const ref_look *look, uint8_t *work)
{
  task t = {.look = *look, .tiles = tn_ref_look_steps(look)};
  int level = 0;
  lay_out(&t, work);
  tn_status st = tn_ref_look_sights(&t.look);
  if (st) return st;
  while ((int64_t)1 << level < t.tiles) level++;
  node(&t, level, 0);
  write_out(&t, t.part[level]);
  if (look->c->op->flags & TN_OPF_COLSUM) share(&t, t.part[level]);
  return TN_OK;
}
