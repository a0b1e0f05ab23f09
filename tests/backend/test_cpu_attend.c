/* ATTEND of the cpu backend: against the ref backend and a dense masked softmax; and what must change no bit: chunks,
 * batches, threads, cuts of long sequences, pages, trees. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <string.h>

#include "attn_rig.h"

enum { T = 200, H = 6, G = 2, D = 32, QW = H * D, KW = G * D };

static float q[T * QW], qs[T * QW], k[T * KW], v[T * KW], out[T * QW], other[T * QW], lse[T * H], other_lse[T * H];

static const tn_layout int8_lay = {
    .struct_size = sizeof(tn_layout), .kind = TN_LAY_AFFINE, .bits = 8, .scale_type = TN_DT_F16};
static const tn_layout int4_lay = {.struct_size = sizeof(tn_layout),
                                   .kind = TN_LAY_AFFINE,
                                   .bits = 4,
                                   .group = 16,
                                   .scale_type = TN_DT_F16,
                                   .offset = TN_OFF_MIN};

static void data(void)
{
  rig_fill(q, T * QW, 1);
  rig_fill(qs, T * QW, 4);
  rig_fill(k, T * KW, 2);
  rig_fill(v, T * KW, 3);
  for (int i = 0; i < T * QW; i++) q[i] *= 3, qs[i] *= 3; /* sharper than uniform */
}

static const attn_cfg base = {.backend = "cpu",
                              .n_heads = H,
                              .n_kv = G,
                              .d_head = D,
                              .d_v = D,
                              .scale = 0.2f,
                              .k_lay = {&attn_f16},
                              .v_lay = {&attn_f16}};

static void feed(const attn_cfg *c, int64_t chunk, float *o, float *l)
{
  attn a;
  rig_seq s;
  attn_open(&a, c);
  rig_seq_init(&s, 7, a.p.pr.n_groups, 0, (T + a.cfg.page_tokens - 1) / a.cfg.page_tokens);
  attn_feed(&a, &s, T, chunk, q, c->n_sinks ? qs : NULL, k, v, o, l);
  attn_close(&a);
}

/* cpu in chunks of 33 against ref, whose cache holds the same numbers. */
static void check_ref(const attn_cfg *c, double eps)
{
  attn_cfg r = *c;
  r.backend = "ref";
  feed(&r, T, other, other_lse);
  feed(c, 33, out, lse);
  for (int i = 0; i < T * QW; i++) cr_assert(epsilon_eq(dbl, (double)out[i], (double)other[i], eps), "number %d", i);
  for (int i = 0; i < T * H; i++) {
    if (isinf(other_lse[i]))
      cr_assert(eq(flt, lse[i], -INFINITY));
    else
      cr_assert(epsilon_eq(dbl, (double)lse[i], (double)other_lse[i], 2e-5));
  }
}

static attn_cfg with_masks(const tn_mask *masks, uint32_t n, uint32_t n_sinks, float softcap)
{
  attn_cfg c = base;
  memcpy(c.masks, masks, n * sizeof *masks);
  c.n_masks = n;
  c.n_sinks = n_sinks;
  c.softcap = softcap;
  return c;
}

Test(cpu_attend, masks)
{
  static const tn_mask all = TN_MASK_ALL, window = {0, 20, 1, 0, 0}, sinks = {0, 16, 1, 0, 4},
                       dilated = {0, 90, 4, 0, 0}, odd = {3, 50, 5, 2, 1}, nothing = {500, 501, 1, 0, 0},
                       never = {0, 30, 1, 1, 2};
  const attn_cfg cases[] = {with_masks(&all, 0, 0, 0),
                            with_masks(&window, 1, 0, 0),
                            with_masks(&sinks, 1, 4, 0),
                            with_masks(&dilated, 1, 0, 2.5f),
                            with_masks((const tn_mask[]){window, sinks, dilated}, 3, 2, 0),
                            with_masks(&odd, 1, 0, 0),
                            with_masks(&nothing, 1, 0, 0),
                            with_masks(&never, 1, 0, 0)};
  data();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_ref(&cases[i], 3e-6);
}

Test(cpu_attend, random_masks)
{
  uint64_t seed = 99;
  data();
  for (int n = 0; n < 8; n++) {
    tn_mask m[2];
    for (int i = 0; i < 2; i++) {
      m[i].stride = 1 + (int64_t)((rig_random(&seed) + 1) * 2);
      m[i].residue = (int64_t)((rig_random(&seed) + 1) * 50) % m[i].stride;
      m[i].lo = (int64_t)((rig_random(&seed) + 1) * 3);
      m[i].hi = m[i].lo + 1 + (int64_t)((rig_random(&seed) + 1) * 90);
      m[i].sinks = (int64_t)((rig_random(&seed) + 1) * 4);
    }
    const attn_cfg c = with_masks(m, 2, (uint32_t)n % 3, n % 2 ? 3.0f : 0.0f);
    check_ref(&c, 3e-6);
  }
}

/* Layouts of the cache, sizes of pages and heads. */
Test(cpu_attend, layouts_and_shapes)
{
  const tn_layout *const lays[] = {&attn_f32, &attn_f16, &attn_bf16, &int8_lay, &int4_lay};
  data();
  for (size_t i = 0; i < sizeof lays / sizeof *lays; i++) {
    attn_cfg c = base;
    c.k_lay[0] = lays[i];
    c.v_lay[0] = lays[(i + 1) % 5];
    check_ref(&c, 3e-6);
    c.k_lay[0] = c.v_lay[0] = lays[i];
    c.page_tokens = 64;
    c.per_head = 1;
    check_ref(&c, 3e-6);
  }
  attn_cfg c = base;
  c.page_tokens = 5;
  check_ref(&c, 3e-6);
  c.page_tokens = 32;
  c.d_head = 20; /* no whole vectors; the rows of q, k and v are read shorter */
  c.d_v = 24;
  check_ref(&c, 3e-6);
  c.n_heads = c.n_kv = 2;
  check_ref(&c, 3e-6);
}

Test(cpu_attend, chunks_and_threads_change_no_bit)
{
  static const int64_t chunks[5] = {1, 7, 64, 100, T};
  const attn_cfg cases[3] = {base, with_masks(&(const tn_mask){0, 70, 1, 0, 3}, 1, 3, 0),
                             with_masks(&(const tn_mask){0, 120, 3, 0, 1}, 1, 0, 0)};
  data();
  for (int n = 0; n < 3; n++) {
    attn_cfg c = cases[n];
    c.threads = 1;
    feed(&c, 33, out, lse);
    for (int i = 0; i < 10; i++) {
      c.threads = 1 + (uint32_t)(i % 4);
      c.page_tokens = i < 5 ? 16 : 7; /* where entries are gathered */
      feed(&c, chunks[i % 5], other, other_lse);
      cr_assert(eq(i32, memcmp(out, other, sizeof out), 0), "chunk %d case %d", (int)chunks[i % 5], n);
      cr_assert(eq(i32, memcmp(lse, other_lse, sizeof lse), 0));
    }
  }
}

/* A long sequence token by token, cut into subtrees for the threads, and beside another one: the same bits. */
Test(cpu_attend, cuts_and_batches_change_no_bit)
{
  static step st;
  static float q2[2 * QW], k2[2 * KW], v2[2 * KW], o2[2 * QW];
  attn_cfg c = base;
  data();
  c.threads = 1;
  feed(&c, 1, out, lse);
  for (uint32_t threads = 2; threads <= 4; threads++) {
    attn a;
    rig_seq s, s2;
    c.threads = threads;
    attn_open(&a, &c);
    rig_seq_init(&s, 1, 1, 0, 13);
    rig_seq_init(&s2, 2, 1, 13, 13);
    for (int64_t t = 0; t < T; t++) {
      step_init(&st);
      const int32_t one = step_seq(&st, &s), two = step_seq(&st, &s2);
      step_row(&st, t % 2 ? one : two, 0, t, 0);
      step_row(&st, t % 2 ? two : one, 0, t, 0);
      for (int64_t i = 0; i < 2; i++) {
        memcpy(q2 + i * QW, q + t * QW, QW * sizeof *q);
        memcpy(k2 + i * KW, k + t * KW, KW * sizeof *k);
        memcpy(v2 + i * KW, v + t * KW, KW * sizeof *v);
      }
      attn_step(&a, &st, q2, NULL, k2, v2, o2, NULL);
      cr_assert(eq(i32, memcmp(o2, out + t * QW, QW * sizeof *out), 0), "token %d of %u threads", (int)t, threads);
      cr_assert(eq(i32, memcmp(o2 + QW, out + t * QW, QW * sizeof *out), 0));
      rig_seq_commit(&s, 1);
      rig_seq_commit(&s2, 1);
    }
    attn_close(&a);
  }
}

Test(cpu_attend, freed_pages_change_no_bit)
{
  attn a;
  rig_seq s;
  const attn_cfg c = with_masks(&(const tn_mask){0, 30, 1, 0, 2}, 1, 0, 0);
  data();
  feed(&c, 1, out, lse);
  attn_open(&a, &c);
  rig_seq_init(&s, 1, 1, 0, 16);
  for (int64_t t = 0; t < T; t++) {
    static step st;
    step_init(&st);
    step_row(&st, step_seq(&st, &s), 0, t, 0);
    for (int64_t p = 1; (p + 1) * 16 <= t - 30; p++) s.page[0][p] = -1; /* page 0 holds the sinks */
    attn_step(&a, &st, q + t * QW, NULL, k + t * KW, v + t * KW, other + t * QW, NULL);
    rig_seq_commit(&s, 1);
  }
  cr_assert(eq(i32, memcmp(out, other, sizeof out), 0));
  attn_close(&a);
}

/* ---------------------------------------------------------------- trees */

enum { PREFIX = 61, NODES = 20, DEPTH = 12 };

static int32_t parent[NODES];

/* The ancestors of a node in order and the node. Returns how many. */
static int32_t root_path(int32_t node, int32_t *path)
{
  int32_t n = 1;
  for (int32_t p = parent[node]; p >= 0; p = parent[p]) n++;
  for (int32_t i = n - 1; i >= 0; i--, node = parent[node]) path[i] = node;
  return n;
}

/* Every node equals its root path run as a plain sequence, wherever it is stored. Node i has the data of row PREFIX + i. */
static void check_tree(const attn_cfg *cfg, uint64_t seed)
{
  attn a;
  rig_seq s;
  static step st;
  int32_t path[DEPTH];
  for (int32_t i = 0; i < NODES; i++) {
    parent[i] = (int32_t)((rig_random(&seed) + 1) / 2 * (float)(i + 1)) - 1;
    if (parent[i] >= i) parent[i] = i - 1;
    if (parent[i] >= 0 && root_path(parent[i], path) + 2 > DEPTH) parent[i] = -1;
  }
  attn_open(&a, cfg);
  rig_seq_init(&s, 1, a.p.pr.n_groups, 0, 8);
  attn_feed(&a, &s, PREFIX, 10, q, cfg->n_sinks ? qs : NULL, k, v, other, NULL);
  step_init(&st);
  const int32_t id = step_seq(&st, &s);
  for (int32_t i = 0; i < NODES; i++) {
    const int32_t n = root_path(i, path);
    for (int32_t o = 0; o < n; o++) path[o] = (path[o] * 7 + 3) % NODES;
    step_node(&st, id, 0, PREFIX + n - 1, n - 1, path[n - 1], path);
  }
  attn_step(&a, &st, q + PREFIX * QW, cfg->n_sinks ? qs + PREFIX * QW : NULL, k + PREFIX * KW, v + PREFIX * KW, out,
            NULL);
  for (int32_t i = 0; i < NODES; i++) {
    static float cq[DEPTH * QW], cqs[DEPTH * QW], ck[DEPTH * KW], cv[DEPTH * KW], co[DEPTH * QW];
    const int32_t n = root_path(i, path);
    step_init(&st);
    const int32_t chain = step_seq(&st, &s);
    for (int32_t r = 0; r < n; r++) {
      memcpy(cq + r * QW, q + (PREFIX + path[r]) * QW, sizeof(float) * QW);
      memcpy(cqs + r * QW, qs + (PREFIX + path[r]) * QW, sizeof(float) * QW);
      memcpy(ck + r * KW, k + (PREFIX + path[r]) * KW, sizeof(float) * KW);
      memcpy(cv + r * KW, v + (PREFIX + path[r]) * KW, sizeof(float) * KW);
      step_row(&st, chain, 0, PREFIX + r, r);
    }
    attn_step(&a, &st, cq, cfg->n_sinks ? cqs : NULL, ck, cv, co, NULL);
    cr_assert(eq(i32, memcmp(co + (n - 1) * QW, out + i * QW, sizeof(float) * QW), 0), "node %d", i);
  }
  attn_close(&a);
}

Test(cpu_attend, tree_nodes_equal_their_root_paths)
{
  data();
  for (uint64_t seed = 0; seed < 12; seed++) {
    attn_cfg c = seed % 2 ? with_masks(&(const tn_mask){0, 30, 1, 0, 2}, 1, 2, 0) : base;
    c.threads = 1 + seed % 3;
    if (seed % 4 > 1) c.k_lay[0] = &int8_lay;
    check_tree(&c, seed);
  }
}

/* ---------------------------------------------------------------- views */

/* Holes are skipped, text positions decide what is visible: the last row asked again behind T - 1 entries. */
Test(cpu_attend, holes_and_text_positions)
{
  attn a;
  rig_seq s;
  static step st;
  int64_t pos[T];
  uint8_t sees[T];
  attn_cfg c = with_masks(&(const tn_mask){0, 120, 1, 0, 0}, 1, 0, 0);
  c.k_lay[0] = c.v_lay[0] = &attn_f32;
  data();
  attn_open(&a, &c);
  rig_seq_init(&s, 1, 1, 0, 16);
  attn_feed(&a, &s, T - 1, 50, q, NULL, k, v, out, NULL);
  for (int64_t j = 0; j < T; j++) {
    pos[j] = j % 3 == 1 && j < T - 1 ? -1 : j / 2 + 20;
    sees[j] = pos[j] >= 0 && T - 1 - pos[j] < 120;
  }
  sees[T - 1] = 1;
  s.view[0].text_pos = pos;
  step_init(&st);
  step_row(&st, step_seq(&st, &s), 0, T - 1, 0);
  attn_step(&a, &st, q + (T - 1) * QW, NULL, k + (T - 1) * KW, v + (T - 1) * KW, other, NULL);
  for (int h = 0; h < H; h++) {
    double want[D];
    attn_dense(q + (T - 1) * QW + h * D, NULL, NULL, k + h / 3 * D, KW, v + h / 3 * D, KW, sees, T, &c, want, NULL);
    for (int d = 0; d < D; d++) cr_assert(epsilon_eq(dbl, (double)other[h * D + d], want[d], 3e-6));
  }
  attn_close(&a);
}

/* A huge scale: no overflow, one key takes all. */
Test(cpu_attend, huge_scores)
{
  attn_cfg c = base;
  c.scale = 1e4f;
  data();
  feed(&c, T, out, lse);
  for (int i = 0; i < T * QW; i++) cr_assert(isfinite(out[i]));
  c.backend = "ref";
  feed(&c, T, other, other_lse);
  for (int i = 0; i < T * H; i++) cr_assert(epsilon_eq(dbl, (double)lse[i], (double)other_lse[i], 0.05));
}
