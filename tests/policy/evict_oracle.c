/* evict_oracle: see evict_oracle.h. */
#include "evict_oracle.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint32_t n_cells(const oracle *o) { return o->x->m->shape.n_layers * o->x->m->shape.n_kv_heads; }

static uint32_t layer_of(const oracle *o, uint32_t cell) { return cell / o->x->m->shape.n_kv_heads; }

static bool together(const oracle *o, uint32_t a, uint32_t b)
{
  const tn_model_shape *m = &o->x->m->shape;
  uint32_t la = layer_of(o, a), lb = layer_of(o, b), skip = (uint32_t)o->rule.skip_layers;
  if (o->rule.unit == ORACLE_HEAD) return a == b;
  if (o->rule.unit == ORACLE_LAYER) return la == lb;
  return m->layer_class[la] == m->layer_class[lb] && (la < skip) == (lb < skip);
}

/* The model's own window has passed entry j. */
static bool passed(const oracle *o, uint32_t cell, int64_t j, int64_t next)
{
  const tn_model_shape *m = &o->x->m->shape;
  int64_t window = m->class_window[m->layer_class[layer_of(o, cell)]];
  return window > 0 && next - j >= window;
}

/* ---------------------------------------------------------------- hooks of the forward pass */

static bool sees(void *ctx, uint32_t layer, uint32_t head, int64_t i, int64_t j)
{
  const oracle *o = ctx;
  return j == i || o->cell[layer * o->x->m->shape.n_kv_heads + head].alive[j];
}

static void share(void *ctx, uint32_t layer, uint32_t q_head, int64_t i, int64_t j, double p)
{
  oracle *o = ctx;
  const tn_model_shape *m = &o->x->m->shape;
  oracle_cell *c = &o->cell[layer * m->n_kv_heads + q_head / (m->n_heads / m->n_kv_heads)];
  c->attn[j] += p;
  if (i < o->n_prompt && i >= o->n_prompt - o->rule.window) c->window[j] += p;
}

static void take_norms(oracle *o, int64_t j)
{
  const tn_model_shape *m = &o->x->m->shape;
  float k[TN_MAX_HEAD_DIM];
  for (uint32_t c = 0; c < n_cells(o); c++) {
    double sum = 0;
    naive_key(o->x, c / m->n_kv_heads, c % m->n_kv_heads, j, k);
    for (uint32_t d = 0; d < m->d_head; d++) sum += (double)k[d] * (double)k[d];
    o->cell[c].norm[j] = ldexp(rint(ldexp(sqrt(sum), 16)), -16); /* as signalled: equal keys are equal */
  }
}

/* ---------------------------------------------------------------- the policies */

static double sum_of(const oracle *o, uint32_t cell, int64_t j)
{
  double sum = 0;
  for (uint32_t c = 0; c < n_cells(o); c++) {
    const oracle_cell *x = &o->cell[c];
    if (!together(o, cell, c)) continue;
    sum += o->rule.policy == ORACLE_H2O ? x->attn[j] : o->rule.policy == ORACLE_SNAPKV ? x->window[j] : -x->norm[j];
  }
  return sum;
}

/* How much the policy wants entry j of a text of n tokens. */
static double worth(const oracle *o, uint32_t cell, int64_t j, int64_t n)
{
  if (o->rule.policy != ORACLE_SNAPKV) return sum_of(o, cell, j);
  double sum = 0;
  for (int64_t k = j - o->rule.kernel / 2; k <= j + o->rule.kernel / 2; k++)
    if (k >= 0 && k < n - o->rule.window && o->cell[cell].alive[k] && !passed(o, cell, k, n)) sum += sum_of(o, cell, k);
  return sum / (double)o->rule.kernel;
}

static bool must_stay(const oracle *o, int64_t j, int64_t n)
{
  if (o->rule.policy == ORACLE_SNAPKV) return j >= n - o->rule.window;
  return j < o->rule.sinks || j >= n - o->rule.recent;
}

/* The entry to take next: one that must stay, else the most wanted, the later of two alike; -1: none is left. */
static int64_t pick(const oracle *o, const double *worths, const bool *left, int64_t n)
{
  int64_t best = -1;
  for (int64_t j = 0; j < n; j++) {
    if (!left[j]) continue;
    if (best < 0 || must_stay(o, j, n) > must_stay(o, best, n)) best = j;
    if (must_stay(o, j, n) == must_stay(o, best, n) && worths[j] >= worths[best]) best = j;
  }
  return best;
}

static void note_distance(oracle *o, const double *worths, int64_t in, int64_t out, int64_t n)
{
  if (in < 0 || out < 0 || must_stay(o, in, n) || worths[in] == worths[out]) return;
  o->tightest = fmin(o->tightest, (worths[in] - worths[out]) / fabs(worths[in]));
}

static void decide_cell(oracle *o, uint32_t cell, int64_t n, bool *kept, bool *narrow)
{
  double worths[ORACLE_T];
  bool left[ORACLE_T];
  int64_t took = 0, last = -1, most = o->rule.budget + o->rule.demoted;
  memset(kept, 0, ORACLE_T * sizeof *kept);
  for (int64_t j = 0; j < n; j++) {
    left[j] = o->cell[cell].alive[j] && !passed(o, cell, j, n);
    worths[j] = left[j] ? worth(o, cell, j, n) : 0;
  }
  for (;; took++) {
    int64_t j = pick(o, worths, left, n);
    if (took == most || (took == o->rule.budget && o->rule.demoted > 0)) note_distance(o, worths, last, j, n);
    if (took == most || j < 0) return;
    left[j] = false;
    kept[j] = true;
    narrow[j] = narrow[j] || took >= o->rule.budget;
    last = j;
  }
}

static void decide(oracle *o, int64_t n)
{
  static bool kept[ORACLE_CELLS][ORACLE_T], narrow[ORACLE_CELLS][ORACLE_T];
  for (uint32_t c = 0; c < n_cells(o); c++) {
    memcpy(narrow[c], o->cell[c].narrow, sizeof narrow[c]);
    if (layer_of(o, c) >= o->rule.skip_layers) decide_cell(o, c, n, kept[c], narrow[c]);
  }
  for (uint32_t c = 0; c < n_cells(o); c++) { /* all at once: units look at other cells */
    oracle_cell *x = &o->cell[c];
    if (layer_of(o, c) < o->rule.skip_layers) continue;
    for (int64_t j = 0; j < n; j++) {
      o->n_dropped += x->alive[j] && !kept[c][j] && !passed(o, c, j, n);
      x->alive[j] = x->alive[j] && kept[c][j];
      o->n_narrow += x->alive[j] && narrow[c][j] && !x->narrow[j];
      x->narrow[j] = narrow[c][j];
    }
  }
  o->decisions++;
}

/* ---------------------------------------------------------------- life */

oracle *oracle_open(const tn_model *m, const oracle_rule *rule, int64_t n_prompt)
{
  oracle *o = calloc(1, sizeof *o);
  cr_assert(o && m->shape.n_layers * m->shape.n_kv_heads <= ORACLE_CELLS);
  naive_hooks hooks = {.ctx = o, .sees = sees, .share = share};
  o->rule = *rule;
  o->n_prompt = n_prompt;
  o->tightest = INFINITY;
  o->x = naive_open(m, &hooks, ORACLE_T);
  return o;
}

void oracle_close(oracle *o)
{
  naive_close(o->x);
  free(o);
}

void oracle_push(oracle *o, int32_t token)
{
  int64_t j = o->x->n, n = j + 1, start = o->rule.always ? 1 : o->n_prompt;
  naive_push(o->x, token);
  take_norms(o, j);
  for (uint32_t c = 0; c < n_cells(o); c++) o->cell[c].alive[j] = true;
  bool acts = o->rule.policy == ORACLE_SNAPKV ? n == o->n_prompt : n >= start && n % o->rule.every == 0;
  if (acts || (n == o->n_prompt && !o->rule.always)) decide(o, n);
}

int64_t oracle_positions(const oracle *o, uint32_t cell, int64_t next, const bool *narrow, int64_t *out)
{
  const oracle_cell *x = &o->cell[cell];
  int64_t n = 0;
  for (int64_t j = 0; j < o->x->n; j++)
    if (x->alive[j] && !passed(o, cell, j, next) && (!narrow || x->narrow[j] == *narrow)) out[n++] = j;
  return n;
}

bool oracle_heads_differ(const oracle *o)
{
  uint32_t heads = o->x->m->shape.n_kv_heads;
  for (uint32_t c = 0; c < n_cells(o); c++)
    if (c % heads > 0 && memcmp(o->cell[c].alive, o->cell[c - 1].alive, sizeof o->cell[c].alive) != 0) return true;
  return false;
}
