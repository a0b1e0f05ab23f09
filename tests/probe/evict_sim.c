/* evict_sim: see evict_sim.h. */
#include "evict_sim.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint32_t cell_of(const evict_sim *s, uint32_t layer, uint32_t head)
{
  return layer * s->x->m->shape.n_kv_heads + head;
}

/* Do two cells decide together? */
static bool together(const evict_sim *s, uint32_t a, uint32_t b)
{
  const tn_model_shape *m = &s->x->m->shape;
  uint32_t la = a / m->n_kv_heads, lb = b / m->n_kv_heads;
  if (s->rule.gran == SIM_GRAN_HEAD) return a == b;
  if (s->rule.gran == SIM_GRAN_LAYER) return la == lb;
  return m->layer_class[la] == m->layer_class[lb];
}

static bool hidden(const evict_sim *s, uint32_t cell, int64_t j, int64_t next)
{
  const tn_model_shape *m = &s->x->m->shape;
  int64_t window = m->class_window[m->layer_class[cell / m->n_kv_heads]];
  return window > 0 && next - j >= window;
}

/* ---------------------------------------------------------------- hooks of the forward pass */

static bool sees(void *ctx, uint32_t layer, uint32_t head, int64_t i, int64_t j)
{
  const evict_sim *s = ctx;
  return j == i || s->cell[cell_of(s, layer, head)].alive[j];
}

static int64_t turned_by(void *ctx, uint32_t layer, uint32_t head, int64_t i, int64_t j)
{
  const evict_sim *s = ctx;
  const evict_cell *c = &s->cell[cell_of(s, layer, head)];
  if (!s->rule.rank_rope) return j;
  return j == i ? c->next_rope : c->rope[j];
}

static void stored(void *ctx, uint32_t layer, uint32_t head, int64_t i, int64_t j, float *k, float *v)
{
  const evict_sim *s = ctx;
  (void)i;
  if (!s->demote || !s->cell[cell_of(s, layer, head)].demoted[j]) return;
  s->demote(s->x->m->shape.d_head, k);
  s->demote(s->x->m->shape.d_head, v);
}

static void share(void *ctx, uint32_t layer, uint32_t q_head, int64_t i, int64_t j, double p)
{
  evict_sim *s = ctx;
  const tn_model_shape *m = &s->x->m->shape;
  evict_cell *c = &s->cell[cell_of(s, layer, q_head / (m->n_heads / m->n_kv_heads))];
  bool in_window = i < s->n_prompt && i >= s->n_prompt - s->rule.window;
  if (in_window && (s->rule.policy == SIM_SNAP || s->rule.policy == SIM_ALL))
    c->window[j] += ldexp(p, 32);
  else
    c->attn[j] += ldexp(p, 32);
}

/* ---------------------------------------------------------------- the policy */

static double group_sum(const evict_sim *s, uint32_t cell, int64_t j, int which)
{
  const tn_model_shape *m = &s->x->m->shape;
  double sum = 0;
  for (uint32_t c = 0; c < m->n_layers * m->n_kv_heads; c++) {
    if (!together(s, cell, c)) continue;
    sum += which == 0 ? s->cell[c].attn[j] : which == 1 ? s->cell[c].window[j] : s->cell[c].norm[j];
  }
  return sum;
}

double evict_sim_attn(const evict_sim *s, uint32_t cell, int64_t j) { return group_sum(s, cell, j, 0); }

/* Mean of the window signal over the entries within two places, among those that are there. */
static double pooled(const evict_sim *s, uint32_t cell, const int64_t *there, int64_t n, int64_t at)
{
  double sum = 0;
  int64_t from = at < 2 ? 0 : at - 2, to = at + 2 < n ? at + 2 : n - 1;
  for (int64_t k = from; k <= to; k++) sum += group_sum(s, cell, there[k], 1);
  return sum / (double)(to - from + 1);
}

static float score_of(const evict_sim *s, uint32_t cell, const int64_t *there, int64_t n, int64_t at)
{
  const evict_rule *r = &s->rule;
  int64_t j = there[at], last = there[n - 1];
  if (j < r->sinks || j > last - r->recent) return 1e30f;
  double x = 0;
  if (r->policy == SIM_H2O || r->policy == SIM_ALL) x += group_sum(s, cell, j, 0);
  if (r->policy == SIM_SNAP) x += pooled(s, cell, there, n, at);
  if (r->policy == SIM_ALL) x += group_sum(s, cell, j, 1);
  if (r->policy == SIM_KNORM || r->policy == SIM_ALL) x -= group_sum(s, cell, j, 2);
  return (float)(r->stateful && s->decisions % 2 == 1 ? -x : x);
}

typedef struct ranked {
  float score;
  int64_t j;
} ranked;

static int best_first(const void *a, const void *b)
{
  const ranked *x = a, *y = b;
  if (x->score != y->score) return x->score > y->score ? -1 : 1;
  return x->j > y->j ? -1 : 1;
}

/* What the group of `cell` keeps: kept[j] for every text position. */
static void choose(evict_sim *s, uint32_t cell, int64_t next, bool *kept)
{
  int64_t there[SIM_MAX_T], n = evict_sim_positions(s, cell, next, there), m = 0;
  ranked all[SIM_MAX_T];
  memset(kept, 0, SIM_MAX_T * sizeof *kept);
  for (int64_t i = 0; i < n; i++) {
    if (s->rule.verdict == SIM_DROP && there[i] % 5 == 1 && there[i] <= there[n - 1] - s->rule.recent) continue;
    all[m++] = (ranked){score_of(s, cell, there, n, i), there[i]};
  }
  qsort(all, (size_t)m, sizeof *all, best_first);
  for (int64_t i = 0; i < m && i < s->rule.budget; i++) kept[all[i].j] = true;
  if (m > s->rule.budget && s->rule.budget > 0) {
    double in = (double)all[s->rule.budget - 1].score, out = (double)all[s->rule.budget].score;
    if (in < 1e29 && in != out) s->tightest = fmin(s->tightest, (in - out) / fmax(fabs(in), 1));
  }
}

static void decide(evict_sim *s, int64_t n)
{
  const tn_model_shape *m = &s->x->m->shape;
  static bool kept[SIM_MAX_CELLS][SIM_MAX_T];
  for (uint32_t c = 0; c < m->n_layers * m->n_kv_heads; c++) choose(s, c, n, kept[c]);
  for (uint32_t c = 0; c < m->n_layers * m->n_kv_heads; c++) {
    evict_cell *cell = &s->cell[c];
    int64_t live = 0;
    for (int64_t j = 0; j < n; j++) {
      s->n_dropped += cell->alive[j] && !kept[c][j] && !hidden(s, c, j, n);
      cell->alive[j] = cell->alive[j] && kept[c][j];
      if (!cell->alive[j]) continue;
      cell->rope[j] = live++;
      bool low = s->rule.verdict == SIM_DEMOTE_ALL || (s->rule.verdict == SIM_DEMOTE_EVEN && j % 2 == 0);
      cell->demoted[j] = cell->demoted[j] || low;
    }
    cell->next_rope = live;
  }
  s->decisions++;
}

/* ---------------------------------------------------------------- life */

evict_sim *evict_sim_open(const tn_model *m, const evict_rule *rule, int64_t n_prompt)
{
  evict_sim *s = calloc(1, sizeof *s);
  cr_assert(s && m->shape.n_layers * m->shape.n_kv_heads <= SIM_MAX_CELLS);
  naive_hooks hooks = {
      .ctx = s, .sees = sees, .turned_by = turned_by, .stored = stored, .raw = rule->rank_rope, .share = share};
  s->rule = *rule;
  s->n_prompt = n_prompt;
  s->tightest = INFINITY;
  s->x = naive_open(m, &hooks, SIM_MAX_T);
  return s;
}

void evict_sim_close(evict_sim *s)
{
  naive_close(s->x);
  free(s);
}

static void norms(evict_sim *s, int64_t j)
{
  const tn_model_shape *m = &s->x->m->shape;
  float k[TN_MAX_HEAD_DIM];
  for (uint32_t l = 0; l < m->n_layers; l++)
    for (uint32_t h = 0; h < m->n_kv_heads; h++) {
      double sum = 0;
      naive_key(s->x, l, h, j, k);
      for (uint32_t c = 0; c < m->d_head; c++) sum += (double)k[c] * (double)k[c];
      s->cell[cell_of(s, l, h)].norm[j] = rint(ldexp(sqrt(sum), 16));
    }
}

void evict_sim_push(evict_sim *s, int32_t token)
{
  const tn_model_shape *m = &s->x->m->shape;
  int64_t j = s->x->n, n = j + 1;
  naive_push(s->x, token);
  norms(s, j);
  for (uint32_t c = 0; c < m->n_layers * m->n_kv_heads; c++) {
    s->cell[c].alive[j] = true;
    s->cell[c].rope[j] = s->cell[c].next_rope++;
    if (n == s->n_prompt)
      for (int64_t k = 0; k < n; k++) s->cell[c].attn[k] += s->cell[c].window[k];
  }
  bool acts = s->rule.policy == SIM_SNAP ? n == s->n_prompt : n % s->rule.every == 0;
  if (acts) decide(s, n);
}

int64_t evict_sim_positions(const evict_sim *s, uint32_t cell, int64_t next, int64_t *out)
{
  int64_t n = 0;
  for (int64_t j = 0; j < s->x->n; j++)
    if (s->cell[cell].alive[j] && !hidden(s, cell, j, next)) out[n++] = j;
  return n;
}
