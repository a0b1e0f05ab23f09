/* attend: ATTEND as a plain softmax in two passes over the visible ranks in rank order, and a third for column sums.
 *
 * A task is up to 16 rows of one sequence with the query heads of one KV head. It walks the ranks in steps of 64, so that
 * an entry is decoded once for all its rows; nothing but speed depends on that. Ranks below view.n are committed entries.
 * Rank n + o is, for a row on a path, the entry of its ancestor at order o, decoded for that row alone. */
#include <math.h>

#include "ref.h"
#include "ref/attend.h"
#include "ref/rope.h"

enum { STEP = 64, TASK_ROWS = 16 };
enum { PASS_MAX, PASS_SUM, PASS_SHARE };

typedef struct task {
  const ref_call *c;
  const ref_group *g;
  const ref_head *at;
  const tn_kv_view *view;
  uint32_t kv_head, rep; /* of the record; query heads per KV head */
  int64_t row0, row1;
  int64_t step;  /* ranks [64 step, 64 step + 64) are at hand */
  uint64_t have; /* bit b: k and v hold rank 64 step + b */
  bool with_v;
  float *k, *v, *own_k, *own_v; /* [64][d_k], [64][d_v]: common to all rows; of one row on a path */
  tnk_softmax *st;              /* [TASK_ROWS][rep] */
  ref_sight *sight;             /* [TASK_ROWS] */
} task;

typedef struct seen { /* what one row sees of the step, in rank order */
  int n;
  const float *k[STEP], *v[STEP];
  bool sink[STEP];
  int64_t entry[STEP];
} seen;

/* ---------------------------------------------------------------- scratch */

static uint64_t state_bytes(uint64_t rep, uint64_t d_v)
{
  return TASK_ROWS * (rep * (sizeof(tnk_softmax) + d_v * sizeof(double)) + sizeof(ref_sight));
}

uint64_t tn_ref_attend_bytes(const ref_group *g, const tn_op *op)
{
  const uint64_t rep = op->p.attend.n_heads / op->p.attend.n_kv_heads;
  return state_bytes(rep, g->d_v) + 2 * STEP * ((uint64_t)g->d_k + g->d_v) * sizeof(float);
}

/* Divides a worker's scratch: softmax states, their outputs, sights, then keys and values. */
static void lay_out(task *t, uint8_t *work)
{
  const uint64_t states = (uint64_t)TASK_ROWS * t->rep, d_k = t->g->d_k, d_v = t->g->d_v;
  t->st = (tnk_softmax *)(void *)work;
  double *o = (double *)(void *)(t->st + states);
  for (uint64_t i = 0; i < states; i++) t->st[i].o = o + i * d_v;
  t->sight = (ref_sight *)(void *)(o + states * d_v);
  t->k = (float *)(void *)(t->sight + TASK_ROWS);
  t->v = t->k + STEP * d_k;
  t->own_k = t->v + STEP * d_v;
  t->own_v = t->own_k + STEP * d_k;
}

/* ---------------------------------------------------------------- what a row sees */

static void load(const task *t, int64_t entry, float *k, float *v)
{
  const tn_op_attend *a = &t->c->op->p.attend;
  const int64_t half = a->rope_dims / 2;
  tn_ref_kv_load(t->c->p->kv, t->g, t->view, entry, t->at->layer, t->at->head, k, t->with_v ? v : NULL);
  if (t->g->keys != TN_KEYS_RAW) return;
  tnk_ref_rope(k, a->d_head, a->rope_dims, a->rope_style == TN_ROPE_INTERLEAVED, t->view->cos + entry * half,
               t->view->sin + entry * half, k);
}

/* Text position that the row finds at a rank; -1: nothing there. */
static int64_t pos_at(const task *t, int64_t row, int64_t rank)
{
  if (rank < t->view->n) return tn_ref_kv_pos(t->c->p->kv, t->view, rank);
  return t->c->b->text_pos[row] - (t->view->n + t->c->b->ord[row] - rank);
}

/* Decodes rank 64 step + bit for the row, unless it is at hand, and appends it. */
static void fetch(task *t, int64_t row, int bit, bool sink, seen *s)
{
  const int64_t rank = t->step * STEP + bit, n = t->view->n;
  const int64_t entry = rank < n ? rank : n + tn_ref_slot_at(t->c->b, row, rank - n);
  const bool common = rank < n || t->c->b->path_off[row] < 0;
  float *k = (common ? t->k : t->own_k) + (int64_t)bit * t->g->d_k;
  float *v = (common ? t->v : t->own_v) + (int64_t)bit * t->g->d_v;
  if (!common || !(t->have >> bit & 1)) load(t, entry, k, v);
  if (common) t->have |= 1ull << bit;
  s->k[s->n] = k;
  s->v[s->n] = v;
  s->sink[s->n] = sink;
  s->entry[s->n++] = entry;
}

static void look(task *t, int64_t row, seen *s)
{
  const tn_op_attend *a = &t->c->op->p.attend;
  const int64_t own = t->view->n + t->c->b->ord[row];
  s->n = 0;
  for (int bit = 0; bit < STEP && t->step * STEP + bit <= own; bit++) {
    const int64_t pos = pos_at(t, row, t->step * STEP + bit);
    if (pos < 0 || !tn_ref_sees(&t->sight[row - t->row0], pos)) continue;
    fetch(t, row, bit, t->c->x2.p && pos < (int64_t)a->n_sinks, s);
  }
}

/* ---------------------------------------------------------------- passes */

/* Accumulators that the row's attention is added to, by entry, or NULL. */
static int64_t *signal_of(const task *t, int64_t row)
{
  const tn_batch *b = t->c->b;
  if (!(t->c->op->flags & TN_OPF_COLSUM) || !b->signal || b->signal[row] < 0) return NULL;
  const tn_signal *s = b->signals[b->signal[row]];
  return s->attn && t->at->group < s->n_groups ? s->attn[t->at->group] : NULL;
}

static void head_pass(const task *t, int64_t row, uint32_t h, const seen *s, int pass)
{
  const tn_op_attend *a = &t->c->op->p.attend;
  const int64_t head = (int64_t)t->kv_head * t->rep + h;
  const float *q = t->c->x.p + row * t->c->x.stride + head * a->d_head;
  const float *q_sink = t->c->x2.p ? t->c->x2.p + row * t->c->x2.stride + head * a->d_head : q;
  tnk_softmax *st = &t->st[(row - t->row0) * t->rep + h];
  int64_t *signal = pass == PASS_SHARE ? signal_of(t, row) : NULL;
  for (int i = 0; i < s->n; i++) {
    const double x = tnk_ref_score(s->sink[i] ? q_sink : q, s->k[i], a->d_head, (double)a->scale, (double)a->softcap);
    if (pass == PASS_MAX) {
      tnk_ref_softmax_max(st, x);
    } else if (pass == PASS_SUM) {
      tnk_ref_softmax_add(st, x, s->v[i], a->d_v);
    } else {
      const int64_t share = llrint(ldexp(tnk_ref_softmax_share(st, x), 32));
      __atomic_fetch_add(&signal[s->entry[i]], share, __ATOMIC_RELAXED);
    }
  }
}

static void walk(task *t, int pass)
{
  seen s;
  int64_t last = 0;
  for (int64_t r = t->row0; r < t->row1; r++) last = t->c->b->ord[r] > last ? t->c->b->ord[r] : last;
  t->with_v = pass == PASS_SUM;
  for (t->step = 0; t->step <= (t->view->n + last) / STEP; t->step++) {
    t->have = 0;
    for (int64_t r = t->row0; r < t->row1; r++) {
      if (pass == PASS_SHARE && !signal_of(t, r)) continue;
      look(t, r, &s);
      for (uint32_t h = 0; h < t->rep; h++) head_pass(t, r, h, &s, pass);
    }
  }
}

static void finish(const task *t)
{
  const tn_op_attend *a = &t->c->op->p.attend;
  for (int64_t r = t->row0; r < t->row1; r++) {
    for (uint32_t h = 0; h < t->rep; h++) {
      const int64_t head = (int64_t)t->kv_head * t->rep + h;
      float *lse = t->c->y2.p ? t->c->y2.p + r * t->c->y2.stride + head : NULL;
      tnk_ref_softmax_end(&t->st[(r - t->row0) * t->rep + h], a->d_v, t->c->y.p + r * t->c->y.stride + head * a->d_v,
                          lse);
    }
  }
}

static tn_status run_task(task *t)
{
  for (int64_t r = t->row0; r < t->row1; r++) {
    tn_status st = tn_ref_sight_of(t->c, r, t->kv_head, &t->sight[r - t->row0]);
    if (st) return st;
    for (uint32_t h = 0; h < t->rep; h++) {
      tnk_softmax *one = &t->st[(r - t->row0) * t->rep + h];
      tnk_ref_softmax_begin(one, one->o, t->g->d_v);
    }
  }
  walk(t, PASS_MAX);
  walk(t, PASS_SUM);
  finish(t);
  if (t->c->op->flags & TN_OPF_COLSUM) walk(t, PASS_SHARE);
  return TN_OK;
}

/* ---------------------------------------------------------------- all tasks, on all workers */

typedef struct job {
  const ref_call *c;
  int32_t failed; /* TN_OK, or what a task answered */
} job;

static void tasks_of_worker(void *arg, uint32_t worker, uint32_t n_workers)
{
  job *j = arg;
  const ref_call *c = j->c;
  const tn_op_attend *a = &c->op->p.attend;
  task t = {.c = c, .rep = a->n_heads / a->n_kv_heads};
  uint64_t index = 0;
  for (int64_t r = 0; r < c->n; r = t.row1) {
    const int64_t end = tn_ref_same_seq(c->b, r);
    t.row0 = r;
    t.row1 = end - r < TASK_ROWS ? end : r + TASK_ROWS;
    for (t.kv_head = 0; t.kv_head < a->n_kv_heads; t.kv_head++) {
      if (index++ % n_workers != worker) continue;
      t.at = &c->heads[t.kv_head];
      t.g = &c->p->kv->groups[t.at->group];
      t.view = c->b->seqs[c->b->seq[r]]->kv[t.at->group];
      lay_out(&t, c->p->work + worker * c->p->work_bytes);
      const tn_status st = run_task(&t);
      if (st) __atomic_store_n(&j->failed, st, __ATOMIC_RELAXED);
    }
  }
}

tn_status tn_ref_do_attend(ref_call *c)
{
  job j = {c, tn_ref_view_check(c)};
  if (j.failed) return j.failed;
  int64_t entries = 0;
  for (int64_t r = 0; r < c->n; r++) entries += 1 + c->b->seqs[c->b->seq[r]]->kv[c->heads[0].group]->n + c->b->ord[r];
  tn_ref_gang(c->in, tasks_of_worker, &j, entries * c->x.cols);
  return j.failed;
}
