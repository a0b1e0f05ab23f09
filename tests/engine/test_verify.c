/* The rules of acceptance, enumerated: over all children that a drafter can draw and all decisions, the token that comes
 * out has the target's law, to rounding. A rule that does not fit how the children were made must show. */
#include "engine/verify.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <string.h>

#include "stats.h"

#define V 5
#define MAX_CHILDREN 4

typedef struct node { /* one pending token with its children */
  double p[V];        /* target */
  float q[MAX_CHILDREN][V];
  uint32_t n, drawn_as, verified_as; /* TN_Q_* */
} node;

/* Is child `at` accepted when all before it are refused and its own draw is u? p receives what the rule leaves. */
static bool stands(const node *x, const int32_t *child, uint32_t at, double u, double *p)
{
  const float *q[MAX_CHILDREN];
  double draw[MAX_CHILDREN], work[V];
  for (uint32_t i = 0; i < x->n; i++) {
    q[i] = x->q[x->verified_as == TN_Q_WOR ? 0 : i];
    draw[i] = i == at ? u : 1; /* 1 is past every threshold of a child that can be refused */
  }
  memcpy(p, x->p, sizeof x->p);
  return tn_accept_child(p, V, x->verified_as, at + 1, child, q, work, draw) == (int32_t)at;
}

/* Probability of accepting child `at` once all before it are refused: the threshold of its draw. */
static double acceptance(const node *x, const int32_t *child, uint32_t at, double *p)
{
  double low = 0, high = 1;
  if (stands(x, child, at, 1 - 0x1p-53, p)) return 1;
  if (!stands(x, child, at, 0, p)) return 0;
  for (int i = 0; i < 60; i++) {
    double mid = (low + high) / 2;
    if (stands(x, child, at, mid, p))
      low = mid;
    else
      high = mid;
  }
  stands(x, child, at, 1, p);
  return low;
}

/* Adds what one tuple of children, drawn with probability weight, contributes to the law. */
static void add_tuple(const node *x, const int32_t *child, double weight, double *law)
{
  double p[V];
  for (uint32_t i = 0; i < x->n && weight > 0; i++) {
    double a = acceptance(x, child, i, p);
    law[child[i]] += weight * a;
    weight *= 1 - a;
  }
  for (int t = 0; t < V && weight > 0; t++) law[t] += weight * p[t];
}

static void add_children(const node *x, uint32_t at, int32_t *child, double weight, double *law)
{
  if (at == x->n) {
    add_tuple(x, child, weight, law);
    return;
  }
  double left = 1;
  bool used[V] = {false};
  for (uint32_t i = 0; x->drawn_as == TN_Q_WOR && i < at; i++) {
    left -= (double)x->q[0][child[i]];
    used[child[i]] = true;
  }
  for (int t = 0; t < V; t++) {
    double q = (double)x->q[x->drawn_as == TN_Q_WOR ? 0 : at][t];
    if (used[t] || q <= 0) continue;
    child[at] = t;
    add_children(x, at + 1, child, weight * q / left, law);
  }
}

/* Largest distance between the enumerated law and the target's. */
static double error_of(const node *x)
{
  int32_t child[MAX_CHILDREN];
  double law[V] = {0}, worst = 0, sum = 0;
  add_children(x, 0, child, 1, law);
  for (int t = 0; t < V; t++) {
    double d = fabs(law[t] - x->p[t]);
    worst = d > worst ? d : worst;
    sum += law[t];
  }
  cr_assert(fabs(sum - 1) < 1e-9, "the law sums to %.12g", sum);
  return worst;
}

static node random_node(uint64_t *state, uint32_t n, uint32_t kind)
{
  node x = {.n = n, .drawn_as = kind, .verified_as = kind};
  random_law(state, V, x.p);
  for (uint32_t i = 0; i < MAX_CHILDREN; i++) dyadic_law(state, V, x.q[i]);
  return x;
}

Test(engine_verify, independent_children_give_the_target_law)
{
  uint64_t state = 1;
  for (uint32_t n = 1; n <= 3; n++)
    for (int c = 0; c < 12; c++) {
      node x = random_node(&state, n, TN_Q_IID); /* each child from a law of its own */
      cr_expect(error_of(&x) <= 1e-12, "%u children: off by %g", n, error_of(&x));
    }
}

Test(engine_verify, children_without_replacement_give_the_target_law)
{
  uint64_t state = 2;
  for (uint32_t n = 1; n <= 4; n++)
    for (int c = 0; c < 12; c++) {
      node x = random_node(&state, n, TN_Q_WOR);
      cr_expect(error_of(&x) <= 1e-12, "%u children: off by %g", n, error_of(&x));
    }
}

Test(engine_verify, zeros_in_either_law)
{
  uint64_t state = 3;
  for (int c = 0; c < 40; c++) {
    node x = random_node(&state, 2, c % 2 ? TN_Q_IID : TN_Q_WOR);
    for (int zero = 0; zero < 2; zero++) { /* tokens that the target never says, and that the drafter never drafts */
      int t = (c + zero) % V, to = (t + 2) % V;
      x.p[to] += x.p[t], x.p[t] = 0;
      for (uint32_t i = 0; i < 2; i++) x.q[i][to] += x.q[i][(t + 1) % V], x.q[i][(t + 1) % V] = 0;
    }
    cr_expect(error_of(&x) <= 1e-12, "case %d: off by %g", c, error_of(&x));
  }
}

/* A child that its own law cannot have drawn, or that the target never says. */
Test(engine_verify, impossible_children_are_refused)
{
  static const float q[V] = {0.5f, 0.5f};
  const float *const law[1] = {q};
  for (int32_t t = 1; t < 4; t++) {
    double p[V] = {0.5, 0, 0.25, 0.25}, work[V], u = 0;
    cr_expect(eq(i32, tn_accept_child(p, V, TN_Q_IID, 1, &t, law, work, &u), -1), "token %d", t);
  }
}

Test(engine_verify, equal_laws_are_always_accepted)
{
  uint64_t state = 4;
  node x = random_node(&state, 1, TN_Q_IID);
  for (int t = 0; t < V; t++) x.p[t] = (double)x.q[0][t];
  for (int32_t t = 0; t < V; t++) {
    double p[V];
    cr_expect(acceptance(&x, &t, 0, p) == 1);
  }
}

/* A law in f32 rarely sums to 1: what counts is the law it is drawn from, the normalised one. */
Test(engine_verify, the_drafters_law_is_normalised)
{
  uint64_t state = 5;
  for (int c = 0; c < 10; c++) {
    node x = random_node(&state, 2, c % 2 ? TN_Q_IID : TN_Q_WOR), scaled = x;
    double p[V], q[V];
    const int32_t child[2] = {c % V, (c + 1) % V};
    for (uint32_t i = 0; i < MAX_CHILDREN; i++)
      for (int t = 0; t < V; t++) scaled.q[i][t] *= 4;
    for (uint32_t at = 0; at < 2; at++) {
      double want = acceptance(&x, child, at, p), got = acceptance(&scaled, child, at, q);
      cr_expect(fabs(want - got) < 1e-15);
      for (int t = 0; t < V; t++) cr_expect(fabs(p[t] - q[t]) < 1e-15);
    }
  }
}

/* The wrong rule for how the children were made: the enumeration must see it. */
Test(engine_verify, a_wrong_rule_is_seen)
{
  uint64_t state = 6;
  double iid_as_wor = 0, wor_as_iid = 0, chosen_as_drawn = 0;
  for (int c = 0; c < 12; c++) {
    node x = random_node(&state, 3, TN_Q_IID);
    memcpy(x.q[1], x.q[0], sizeof x.q[0]);
    memcpy(x.q[2], x.q[0], sizeof x.q[0]);
    cr_expect(error_of(&x) <= 1e-12);
    x.verified_as = TN_Q_WOR;
    iid_as_wor = fmax(iid_as_wor, error_of(&x));
    x.drawn_as = TN_Q_WOR, x.verified_as = TN_Q_IID;
    wor_as_iid = fmax(wor_as_iid, error_of(&x));
    double law[V] = {0}; /* the drafter's two best tokens, always the same, tested as if drawn */
    int32_t best[2] = {0, 0};
    for (int32_t t = 1; t < V; t++) best[0] = x.q[0][t] > x.q[0][best[0]] ? t : best[0];
    best[1] = best[0] == 0 ? 1 : 0;
    x.n = 2;
    add_tuple(&x, best, 1, law);
    for (int t = 0; t < V; t++) chosen_as_drawn = fmax(chosen_as_drawn, fabs(law[t] - x.p[t]));
  }
  cr_expect(iid_as_wor > 0.01, "%g", iid_as_wor);
  cr_expect(wor_as_iid > 0.01, "%g", wor_as_iid);
  cr_expect(chosen_as_drawn > 0.1, "%g", chosen_as_drawn);
}
