/* mix: STATE_MIX and the folding of rows into recurrent states.
 *
 * A query at rank R reads the state with every block [64 b, 64 b + 64) that ends at or before R added, whether the host has
 * folded it yet or not, and the ranks behind the last such block one by one. So its numbers are those of decoding token by
 * token. */
#include <string.h>

#include "ref.h"
#include "ref/state.h"

typedef struct scratch {     /* of one worker */
  double *run, *block, *own; /* [n_features * (d_v + 1)] states: of the task, of one block, of one row on a path */
  double *phi_k;             /* [n_features] */
  double *phi_q;             /* [rep][n_features] */
  double *num, *den;         /* [rep][d_v], [rep] */
  float *k, *v;              /* [d_k], [d_v] */
} scratch;

static int64_t state_size(const ref_group *g) { return g->n_features * (g->d_v + 1); }

uint64_t tn_ref_mix_bytes(const ref_group *g, uint32_t heads_per_kv)
{
  const uint64_t rep = heads_per_kv, f = (uint64_t)g->n_features;
  const uint64_t doubles = 3 * (uint64_t)state_size(g) + f + rep * (f + g->d_v + 1);
  return doubles * sizeof(double) + ((uint64_t)g->d_k + g->d_v) * sizeof(float);
}

static scratch lay_out(const ref_group *g, uint32_t rep, uint8_t *work)
{
  scratch s;
  s.run = (double *)(void *)work;
  s.block = s.run + state_size(g);
  s.own = s.block + state_size(g);
  s.phi_k = s.own + state_size(g);
  s.phi_q = s.phi_k + g->n_features;
  s.num = s.phi_q + rep * g->n_features;
  s.den = s.num + (uint64_t)rep * g->d_v;
  s.k = (float *)(void *)(s.den + rep);
  s.v = s.k + g->d_k;
  return s;
}

/* One KV head of one sequence. b NULL and row -1: committed entries only. */
typedef struct source {
  const tn_kv *kv;
  const ref_group *g;
  const tn_kv_view *view;
  uint32_t layer, head;
  const tn_batch *b;
} source;

/* Features of the key at a rank as the row sees it, and the value; false: nothing there. */
static bool row_at(const source *src, int64_t row, int64_t rank, const scratch *s)
{
  const int64_t n = src->view->n;
  if (rank < n && tn_ref_kv_pos(src->kv, src->view, rank) < 0) return false;
  const int64_t entry = rank < n ? rank : n + tn_ref_slot_at(src->b, row, rank - n);
  tn_ref_kv_load(src->kv, src->g, src->view, entry, src->layer, src->head, s->k, s->v);
  tnk_ref_phi(src->g->features, src->g->n_features, s->k, src->g->d_k, s->phi_k);
  return true;
}

/* state += the block of ranks [from, from + fold), summed from zero. */
static void add_block(const source *src, int64_t row, int64_t from, double *state, const scratch *s)
{
  const ref_group *g = src->g;
  memset(s->block, 0, (size_t)state_size(g) * sizeof *s->block);
  for (int64_t rank = from; rank < from + g->fold; rank++) {
    if (row_at(src, row, rank, s)) tnk_ref_state_add(s->block, s->phi_k, g->n_features, s->v, g->d_v);
  }
  for (int64_t i = 0; i < state_size(g); i++) state[i] += s->block[i];
}

/* ---------------------------------------------------------------- STATE_MIX */

typedef struct task {
  const ref_call *c;
  source src;
  scratch s;
  uint32_t kv_head, rep;
  const double *base; /* the state in the cache */
  int64_t upto;       /* ranks that s.run contains */
} task;

static void restart(task *t)
{
  memcpy(t->s.run, t->base, (size_t)state_size(t->src.g) * sizeof *t->s.run);
  t->upto = t->src.view->folded;
}

/* The state that the row reads, and the first rank behind it. */
static const double *state_of(task *t, int64_t row, int64_t *behind)
{
  const int64_t fold = t->src.g->fold, n = t->src.view->n, need = (n + t->c->b->ord[row]) / fold * fold;
  const bool straight = t->c->b->path_off[row] < 0;
  /* Blocks of this step's rows are common to straight rows only. */
  if (need < t->upto || (!straight && t->upto > n)) restart(t);
  for (; t->upto < need && (straight || t->upto + fold <= n); t->upto += fold) {
    add_block(&t->src, row, t->upto, t->s.run, &t->s);
  }
  *behind = need;
  if (t->upto == need) return t->s.run;
  memcpy(t->s.own, t->s.run, (size_t)state_size(t->src.g) * sizeof *t->s.own);
  for (int64_t from = t->upto; from < need; from += fold) add_block(&t->src, row, from, t->s.own, &t->s);
  return t->s.own;
}

static void mix_row(task *t, int64_t row)
{
  const ref_group *g = t->src.g;
  const scratch *s = &t->s;
  const int64_t f = g->n_features, d_v = g->d_v, own = t->src.view->n + t->c->b->ord[row];
  int64_t rank;
  const double *state = state_of(t, row, &rank);
  const float *q = t->c->x.p + row * t->c->x.stride + (int64_t)t->kv_head * t->rep * g->d_k;
  float *y = t->c->y.p + row * t->c->y.stride + (int64_t)t->kv_head * t->rep * d_v;
  for (uint32_t h = 0; h < t->rep; h++) {
    tnk_ref_phi(g->features, f, q + (int64_t)h * g->d_k, g->d_k, s->phi_q + h * f);
    tnk_ref_state_read(state, s->phi_q + h * f, f, d_v, s->num + h * d_v, &s->den[h]);
  }
  for (; rank <= own; rank++) {
    if (!row_at(&t->src, row, rank, s)) continue;
    for (uint32_t h = 0; h < t->rep; h++) {
      tnk_ref_state_tail(s->phi_q + h * f, s->phi_k, f, s->v, d_v, s->num + h * d_v, &s->den[h]);
    }
  }
  for (uint32_t h = 0; h < t->rep; h++) {
    for (int64_t j = 0; j < d_v; j++) y[h * d_v + j] = (float)(s->num[h * d_v + j] / (s->den[h] + g->eps));
  }
}

static void tasks_of_worker(void *arg, uint32_t worker, uint32_t n_workers)
{
  const ref_call *c = arg;
  const tn_op_attend *a = &c->op->p.attend;
  task t = {.c = c, .rep = a->n_heads / a->n_kv_heads};
  uint64_t index = 0;
  for (int64_t first = 0, last; first < c->n; first = last) {
    last = tn_ref_same_seq(c->b, first);
    for (t.kv_head = 0; t.kv_head < a->n_kv_heads; t.kv_head++) {
      if (index++ % n_workers != worker) continue;
      const ref_head *at = &c->heads[t.kv_head];
      const ref_group *g = &c->p->kv->groups[at->group];
      t.src = (source){c->p->kv, g, c->b->seqs[c->b->seq[first]]->kv[at->group], at->layer, at->head, c->b};
      t.s = lay_out(g, t.rep, c->p->work + worker * c->p->work_bytes);
      t.base = tn_ref_kv_state(c->p->kv, g, t.src.view->state, at->layer, at->head);
      restart(&t);
      for (int64_t r = first; r < last; r++) mix_row(&t, r);
    }
  }
}

tn_status tn_ref_do_state_mix(ref_call *c)
{
  tn_status st = tn_ref_view_check(c);
  if (!st) tn_ref_gang(c->in, tasks_of_worker, c, c->n * c->x.cols * c->x.cols);
  return st;
}

/* ---------------------------------------------------------------- the slot's calls */

static bool is_state(const tn_kv *kv, uint32_t group, int32_t state)
{
  return group < kv->n_groups && kv->groups[group].kind == TN_KV_STATE && state >= 0 &&
         (uint32_t)state < kv->pools[kv->groups[group].state_pool].n_pages;
}

tn_status tn_ref_state_reset(tn_inst *in, tn_kv *kv, uint32_t group, int32_t state)
{
  (void)in;
  if (!is_state(kv, group, state)) return TN_E_ARG;
  const ref_group *g = &kv->groups[group];
  double *s = tn_ref_kv_state(kv, g, state, 0, 0);
  memset(s, 0, (size_t)state_size(g) * g->n_layers * g->n_heads * sizeof *s);
  return TN_OK;
}

tn_status tn_ref_state_fold(tn_inst *in, tn_kv *kv, uint32_t group, const tn_kv_view *view)
{
  (void)in;
  if (!is_state(kv, group, view->state)) return TN_E_ARG;
  const ref_group *g = &kv->groups[group];
  if (view->folded < 0 || view->folded % g->fold || view->folded > view->n - g->fold || !tn_ref_view_ok(kv, g, view)) {
    return TN_E_ARG;
  }
  const scratch s = lay_out(g, 0, kv->fold);
  for (uint32_t l = 0; l < g->n_layers; l++) {
    for (uint32_t h = 0; h < g->n_heads; h++) {
      const source src = {kv, g, view, l, h, NULL};
      add_block(&src, -1, view->folded, tn_ref_kv_state(kv, g, view->state, l, h), &s);
    }
  }
  return TN_OK;
}
