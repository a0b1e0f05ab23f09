/* attend: ATTEND, shared among the workers; and its double form: a plain softmax in two passes over the visible ranks in
 * rank order, and a third for column sums. order_attend.c has the f32 form.
 *
 * A task is up to 16 rows of one sequence with the query heads of one KV head. It walks the ranks in steps of 64, so that
 * an entry is decoded once for all its rows; nothing but speed depends on that. */
#include <math.h>

#include "ref.h"
#include "ref/attend.h"

enum { PASS_MAX, PASS_SUM, PASS_SHARE };

typedef struct task {
  ref_look look;
  tnk_softmax *st; /* [REF_TASK_ROWS][rep] */
} task;

/* ---------------------------------------------------------------- scratch */

static uint64_t state_bytes(uint64_t rep, uint64_t d_v)
{
  return REF_TASK_ROWS * rep * (sizeof(tnk_softmax) + d_v * sizeof(double));
}

uint64_t tn_ref_attend_bytes(const ref_group *g, const tn_op *op, bool f32)
{
  const uint64_t rep = op->p.attend.n_heads / op->p.attend.n_kv_heads;
  return tn_ref_look_bytes(g) + (f32 ? tn_ref_order_attend_bytes(g, rep) : state_bytes(rep, g->d_v));
}

/* Divides a worker's scratch: softmax states, their outputs, then what rows see. */
static void lay_out(task *t, uint8_t *work)
{
  const uint64_t states = (uint64_t)REF_TASK_ROWS * t->look.rep, d_v = t->look.g->d_v;
  t->st = (tnk_softmax *)(void *)work;
  double *o = (double *)(void *)(t->st + states);
  for (uint64_t i = 0; i < states; i++) t->st[i].o = o + i * d_v;
  tn_ref_look_lay_out(&t->look, (uint8_t *)(o + states * d_v));
}

/* ---------------------------------------------------------------- passes */

static void head_pass(const task *t, int64_t row, uint32_t h, const ref_seen *s, int pass)
{
  const ref_call *c = t->look.c;
  const tn_op_attend *a = &c->op->p.attend;
  const int64_t head = (int64_t)t->look.kv_head * t->look.rep + h;
  const float *q = c->x.p + row * c->x.stride + head * a->d_head;
  const float *q_sink = c->x2.p ? c->x2.p + row * c->x2.stride + head * a->d_head : q;
  tnk_softmax *st = &t->st[(row - t->look.row0) * t->look.rep + h];
  int64_t *signal = pass == PASS_SHARE ? tn_ref_look_signal(&t->look, row) : NULL;
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
  ref_look *l = &t->look;
  const int64_t steps = tn_ref_look_steps(l);
  ref_seen s;
  l->with_v = pass == PASS_SUM;
  for (l->step = 0; l->step < steps; l->step++) {
    l->have = 0;
    for (int64_t r = l->row0; r < l->row1; r++) {
      if (pass == PASS_SHARE && !tn_ref_look_signal(l, r)) continue;
      tn_ref_look(l, r, &s);
      for (uint32_t h = 0; h < l->rep; h++) head_pass(t, r, h, &s, pass);
    }
  }
}

static void finish(const task *t)
{
  const ref_look *l = &t->look;
  const ref_call *c = l->c;
  const tn_op_attend *a = &c->op->p.attend;
  for (int64_t r = l->row0; r < l->row1; r++) {
    for (uint32_t h = 0; h < l->rep; h++) {
      const int64_t head = (int64_t)l->kv_head * l->rep + h;
      float *lse = c->y2.p ? c->y2.p + r * c->y2.stride + head : NULL;
      tnk_ref_softmax_end(&t->st[(r - l->row0) * l->rep + h], a->d_v, c->y.p + r * c->y.stride + head * a->d_v, lse);
    }
  }
}

static tn_status run_task(const ref_look *look, uint8_t *work)
{
  task t = {.look = *look};
  lay_out(&t, work);
  tn_status st = tn_ref_look_sights(&t.look);
  if (st) return st;
  for (int64_t i = 0; i < (look->row1 - look->row0) * look->rep; i++) {
    tnk_ref_softmax_begin(&t.st[i], t.st[i].o, look->g->d_v);
  }
  walk(&t, PASS_MAX);
  walk(&t, PASS_SUM);
  finish(&t);
  if (look->c->op->flags & TN_OPF_COLSUM) walk(&t, PASS_SHARE);
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
  ref_look t = {.c = c, .rep = a->n_heads / a->n_kv_heads};
  uint64_t index = 0;
  for (int64_t r = 0; r < c->n; r = t.row1) {
    const int64_t end = tn_ref_same_seq(c->b, r);
    t.row0 = r;
    t.row1 = end - r < REF_TASK_ROWS ? end : r + REF_TASK_ROWS;
    for (t.kv_head = 0; t.kv_head < a->n_kv_heads; t.kv_head++) {
      if (index++ % n_workers != worker) continue;
      t.at = &c->heads[t.kv_head];
      t.g = &c->p->kv->groups[t.at->group];
      t.view = c->b->seqs[c->b->seq[r]]->kv[t.at->group];
      const tn_status st = (c->f32 ? tn_ref_order_attend : run_task)(&t, c->p->work + worker * c->p->work_bytes);
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
