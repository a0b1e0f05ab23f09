/* Drafted trees on the ref backend: every node equals its root path run as a plain sequence, bit by bit, wherever it is
 * stored; and the signals that rows leave. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn_rig.h"

enum { H = 4, G = 2, D = 8, QW = H * D, KW = G * D, PREFIX = 61, NODES = 20, DEPTH = 12 };

static float pq[PREFIX * QW], pk[PREFIX * KW], pv[PREFIX * KW];               /* the prefix */
static float nq[NODES * QW], nk[NODES * KW], nv[NODES * KW], out[NODES * QW]; /* the nodes */
static int32_t parent[NODES];

static int32_t depth(int32_t node)
{
  int32_t d = 0;
  for (int32_t p = parent[node]; p >= 0; p = parent[p]) d++;
  return d;
}

/* The ancestors of a node in order and the node, as node numbers. Returns how many. */
static int32_t root_path(int32_t node, int32_t *path)
{
  const int32_t n = depth(node) + 1;
  for (int32_t i = n - 1; i >= 0; i--, node = parent[node]) path[i] = node;
  return n;
}

/* A random tree; it begins with a chain of `chain` nodes. */
static void data(uint64_t seed, int32_t chain)
{
  rig_fill(pq, PREFIX * QW, 1);
  rig_fill(pk, PREFIX * KW, 2);
  rig_fill(pv, PREFIX * KW, 3);
  rig_fill(nq, NODES * QW, 4 + seed);
  rig_fill(nk, NODES * KW, 5 + seed);
  rig_fill(nv, NODES * KW, 6 + seed);
  for (int32_t i = 0; i < NODES; i++) {
    parent[i] = (int32_t)((rig_random(&seed) + 1) / 2 * (float)(i + 1)) - 1;
    if (parent[i] >= i) parent[i] = i - 1;
    if (i < chain) parent[i] = i - 1;
    if (parent[i] >= 0 && depth(parent[i]) + 2 > DEPTH) parent[i] = -1;
  }
}

static void feed_prefix(attn *a, rig_seq *s)
{
  static float o[PREFIX * QW];
  rig_seq_init(s, 1, a->p.pr.n_groups, 0, 8);
  if (a->cfg.state) {
    s->view[0].state = 0;
    cr_assert(eq(i32, a->be->v->state_reset(a->be->inst, a->kv, 0, 0), TN_OK));
  }
  attn_feed(a, s, PREFIX, 10, pq, a->cfg.n_sinks ? pq : NULL, pk, pv, o, NULL);
}

/* All nodes in one step: node i at slot slot_of[i]. Slots that are 0, 1, 2, ... along a path need no path. */
static void run_tree(const rig_seq *s, const int32_t *slot_of, step *st)
{
  step_init(st);
  const int32_t id = step_seq(st, s);
  for (int32_t i = 0; i < NODES; i++) {
    int32_t path[DEPTH];
    const int32_t n = root_path(i, path);
    bool straight = true;
    for (int32_t o = 0; o < n; o++) {
      path[o] = slot_of[path[o]];
      straight = straight && path[o] == o;
    }
    if (straight)
      step_row(st, id, 0, PREFIX + n - 1, n - 1);
    else
      step_node(st, id, 0, PREFIX + n - 1, n - 1, slot_of[i], path);
  }
}

/* scatter: nodes are stored in an order of their own. */
static void check_tree(const attn_cfg *cfg, uint64_t seed, bool scatter)
{
  attn a;
  rig_seq s;
  static step st;
  int32_t slot_of[NODES];
  data(seed, scatter ? 0 : 7);
  for (int32_t i = 0; i < NODES; i++) slot_of[i] = scatter ? (i * 7 + 3) % NODES : i;
  attn_open(&a, cfg);
  feed_prefix(&a, &s);
  run_tree(&s, slot_of, &st);
  attn_step(&a, &st, nq, cfg->n_sinks ? nq : NULL, nk, nv, out, NULL);
  for (int32_t i = 0; i < NODES; i++) { /* each root path as a chain of its own */
    int32_t path[DEPTH];
    float q[DEPTH * QW], k[DEPTH * KW], v[DEPTH * KW], o[DEPTH * QW];
    const int32_t n = root_path(i, path);
    step_init(&st);
    const int32_t id = step_seq(&st, &s);
    for (int32_t r = 0; r < n; r++) {
      memcpy(q + r * QW, nq + path[r] * QW, sizeof(float) * QW);
      memcpy(k + r * KW, nk + path[r] * KW, sizeof(float) * KW);
      memcpy(v + r * KW, nv + path[r] * KW, sizeof(float) * KW);
      step_row(&st, id, 0, PREFIX + r, r);
    }
    attn_step(&a, &st, q, cfg->n_sinks ? q : NULL, k, v, o, NULL);
    cr_assert(eq(i32, memcmp(o + (n - 1) * QW, out + i * QW, sizeof(float) * QW), 0), "node %d of tree %d", i,
              (int)seed);
  }
  attn_close(&a);
}

Test(ref_tree, nodes_equal_their_root_paths)
{
  for (uint64_t seed = 0; seed < 25; seed++) {
    attn_cfg c = {.threads = 1 + seed % 3};
    if (seed % 2) c.masks[0] = (tn_mask){0, 30, 1, 0, 2}, c.n_masks = 1, c.n_sinks = 2;
    check_tree(&c, seed, seed % 4 < 2);
  }
}

/* A tree over the boundary at 64: ancestors are folded on the way. */
Test(ref_tree, recurrent_nodes_equal_their_root_paths)
{
  static const tn_state_spec elu = {.struct_size = sizeof elu, .phi = TN_PHI_ELU1, .fold = 64, .eps = 1e-6};
  for (uint64_t seed = 0; seed < 10; seed++) check_tree(&(attn_cfg){.state = &elu}, seed, seed % 2);
}

/* ---------------------------------------------------------------- signals */

typedef struct signal_store {
  int64_t attn[128], knorm[128];
  int64_t *attn_p[1], *knorm_p[1];
  tn_signal s;
} signal_store;

static const tn_signal *new_signal(signal_store *s)
{
  memset(s, 0, sizeof *s);
  s->attn_p[0] = s->attn;
  s->knorm_p[0] = s->knorm;
  s->s = (tn_signal){sizeof(tn_signal), 1, s->attn_p, s->knorm_p};
  return &s->s;
}

static int64_t total(const int64_t *x)
{
  int64_t sum = 0;
  for (int i = 0; i < 128; i++) sum += x[i];
  return sum;
}

/* What rows of a plain sequence give sums to the number of queries and heads, and equals the dense probabilities. */
Test(ref_tree, column_sums)
{
  attn a;
  rig_seq s;
  static step st;
  static signal_store one, two;
  static float o[PREFIX * QW];
  double want[PREFIX] = {0}, share[PREFIX], dummy[D];
  uint8_t seen[PREFIX];
  attn_cfg c = {.attend_flags = TN_OPF_COLSUM, .write_flags = TN_OPF_KNORM, .masks = {{0, 40, 1, 0, 0}}, .n_masks = 1};
  data(0, 0);
  attn_open(&a, &c);
  rig_seq_init(&s, 1, 1, 0, 8);
  step_init(&st);
  const int32_t id = step_seq(&st, &s);
  st.signals[0] = new_signal(&one);
  st.signals[1] = new_signal(&two);
  st.b.n_signals = 2;
  for (int32_t t = 0; t < PREFIX; t++) {
    step_row(&st, id, 0, t, t);
    st.signal[t] = t < 50 ? 0 : t < 60 ? 1 : -1;
  }
  attn_step(&a, &st, pq, NULL, pk, pv, o, NULL);
  for (int64_t i = 0; i < 50; i++) {
    for (int64_t h = 0; h < H; h++) {
      for (int64_t j = 0; j < PREFIX; j++) seen[j] = attn_sees(c.masks, 1, i, j);
      attn_dense(pq + i * QW + h * D, NULL, NULL, pk + h / 2 * D, KW, pv + h / 2 * D, KW, seen, PREFIX, &a.cfg, dummy,
                 share);
      for (int64_t j = 0; j < PREFIX; j++) want[j] += share[j];
    }
  }
  for (int j = 0; j < PREFIX; j++) {
    double norms = 0;
    for (int g = 0; g < G; g++) {
      double ss = 0;
      for (int i = 0; i < D; i++) ss += pow((double)pk[j * KW + g * D + i], 2);
      norms += sqrt(ss);
    }
    cr_assert(epsilon_eq(dbl, ldexp((double)one.attn[j], -32), want[j], 1e-7));
    if (j < 50)
      cr_assert(epsilon_eq(dbl, ldexp((double)one.knorm[j], -16), norms, 1e-4));
    else
      cr_assert(eq(i64, one.knorm[j], 0));
  }
  cr_assert(epsilon_eq(dbl, ldexp((double)total(one.attn), -32), 50.0 * H, 1e-6));
  cr_assert(epsilon_eq(dbl, ldexp((double)total(two.attn), -32), 10.0 * H, 1e-6));
  cr_assert(eq(i64, two.attn[60], 0)); /* the row that signals nothing */
  attn_close(&a);
}

/* Drafted rows signal apart, at the entries where they are stored; sums do not depend on threads. */
Test(ref_tree, node_signals_by_entry)
{
  static signal_store kept[3][NODES];
  data(3, 0);
  for (int run = 0; run < 3; run++) {
    attn a;
    rig_seq s;
    static step st;
    int32_t slot_of[NODES];
    attn_cfg c = {.attend_flags = TN_OPF_COLSUM, .write_flags = TN_OPF_KNORM, .threads = 1 + (uint32_t)run};
    for (int32_t i = 0; i < NODES; i++) slot_of[i] = (i * 7 + 3) % NODES;
    attn_open(&a, &c);
    feed_prefix(&a, &s);
    run_tree(&s, slot_of, &st);
    for (int32_t i = 0; i < NODES; i++) {
      st.signals[i] = new_signal(&kept[run][i]);
      st.signal[i] = i;
    }
    st.b.n_signals = NODES;
    attn_step(&a, &st, nq, NULL, nk, nv, out, NULL);
    for (int32_t i = 0; i < NODES; i++) {
      int32_t path[DEPTH];
      const int32_t n = root_path(i, path);
      const signal_store *m = &kept[run][i];
      int64_t at_path = 0;
      for (int32_t o = 0; o < n; o++) at_path += m->attn[PREFIX + slot_of[path[o]]];
      for (int32_t r = 0; r < PREFIX; r++) at_path += m->attn[r];
      cr_assert(eq(i64, at_path, total(m->attn)));
      cr_assert(epsilon_eq(dbl, ldexp((double)total(m->attn), -32), H, 1e-7));
      cr_assert(eq(i64, total(m->knorm), m->knorm[PREFIX + slot_of[i]]));
      cr_assert(eq(i32, memcmp(m->attn, kept[0][i].attn, sizeof m->attn), 0));
    }
    attn_close(&a);
  }
}
