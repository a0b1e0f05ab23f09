/* KV_WRITE and ATTEND of the ref backend in f32 against the cpu backend: outputs, lse and column sums are the same bits,
 * whatever the masks, layouts, shapes, chunks and trees. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <string.h>

#include "attn_rig.h"
#include "order_rig.h"

enum { T = 330, H = 6, G = 2, D = 32, QW = H * D, KW = G * D }; /* six tiles: the tree is no full one */

static float q[T * QW], qs[T * QW], k[T * KW], v[T * KW], out[2][T * QW], lse[2][T * H];

static const tn_layout int8_lay = {
    .struct_size = sizeof(tn_layout), .kind = TN_LAY_AFFINE, .bits = 8, .scale_type = TN_DT_F16};
static const tn_layout int4_lay = {.struct_size = sizeof(tn_layout),
                                   .kind = TN_LAY_AFFINE,
                                   .bits = 4,
                                   .group = 16,
                                   .scale_type = TN_DT_F16,
                                   .offset = TN_OFF_MIN};

/* With 8-bit activations ref accumulates in f32. */
static const attn_cfg base = {.n_heads = H,
                              .n_kv = G,
                              .d_head = D,
                              .d_v = D,
                              .scale = 0.2f,
                              .prep_flags = TN_PREP_ACT_INT8,
                              .k_lay = {&attn_f16},
                              .v_lay = {&attn_f16}};

static void data(void)
{
  rig_fill(q, T * QW, 1);
  rig_fill(qs, T * QW, 4);
  rig_fill(k, T * KW, 2);
  rig_fill(v, T * KW, 3);
  for (int i = 0; i < T * QW; i++) q[i] *= 3, qs[i] *= 3; /* sharper than uniform */
  for (int i = 0; i < KW; i++) k[77 * KW + i] *= 1e5f;    /* beyond f16, and a key that takes all */
}

static void compare(int64_t rows)
{
  order_equal(out[0], out[1], rows * QW, "output");
  order_equal(lse[0], lse[1], rows * H, "lse");
}

static void same(const attn_cfg *c)
{
  static const char *const names[2] = {"ref", "cpu"};
  memset(out, 0, sizeof out);
  for (int i = 0; i < 2; i++) {
    attn a;
    rig_seq s;
    attn_cfg one = *c;
    one.backend = names[i];
    attn_open(&a, &one);
    rig_seq_init(&s, 7, a.p.pr.n_groups, 0, (T + a.cfg.page_tokens - 1) / a.cfg.page_tokens);
    attn_feed(&a, &s, T, i ? 33 : T, q, c->n_sinks ? qs : NULL, k, v, out[i], lse[i]);
    attn_close(&a);
  }
  compare(T);
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

Test(ref_order_attend, masks_sinks_softcap)
{
  static const tn_mask all = TN_MASK_ALL, window = {0, 20, 1, 0, 0}, sinks = {0, 70, 1, 0, 4},
                       dilated = {0, 290, 4, 0, 0}, odd = {3, 150, 5, 2, 1}, nothing = {500, 501, 1, 0, 0},
                       far = {200, 400, 1, 0, 2};
  const attn_cfg cases[] = {
      with_masks(&all, 0, 0, 0),        with_masks(&all, 0, 0, 2.5f),
      with_masks(&window, 1, 0, 0),     with_masks(&sinks, 1, 4, 0),
      with_masks(&dilated, 1, 0, 1.5f), with_masks((const tn_mask[]){window, sinks, dilated}, 3, 2, 0),
      with_masks(&odd, 1, 1, 0.3f),     with_masks(&nothing, 1, 0, 0),
      with_masks(&far, 1, 0, 0)};
  data();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) same(&cases[i]);
}

Test(ref_order_attend, layouts)
{
  const tn_layout *const lays[] = {&attn_f32, &attn_f16, &attn_bf16, &int8_lay, &int4_lay};
  data();
  for (size_t i = 0; i < sizeof lays / sizeof *lays; i++) {
    attn_cfg c = base;
    c.k_lay[0] = lays[i];
    c.v_lay[0] = lays[(i + 1) % 5];
    same(&c);
    c.k_lay[0] = c.v_lay[0] = lays[i];
    c.per_head = 1;
    same(&c);
  }
}

Test(ref_order_attend, shapes)
{
  static const uint32_t heads[][2] = {{6, 2}, {2, 2}, {6, 1}, {3, 3}},
                        widths[][2] = {{32, 32}, {20, 24}, {7, 9}, {1, 1}};
  data();
  for (size_t i = 0; i < 16; i++) {
    attn_cfg c = base;
    c.page_tokens = i % 3 == 0 ? 16 : i % 3 == 1 ? 48 : 11;
    c.n_heads = heads[i / 4][0];
    c.n_kv = heads[i / 4][1];
    c.d_head = widths[i % 4][0];
    c.d_v = widths[i % 4][1];
    if (c.n_kv == 3) c.d_head = c.d_v = 16; /* as wide as the rows of k and v */
    same(&c);
  }
}

/* Scores so large that all but the best keys vanish, and so small that none differs. */
Test(ref_order_attend, scales)
{
  static const float scales[] = {1e4f, 30, 1e-3f, 1e-20f};
  data();
  for (size_t i = 0; i < 4; i++) {
    attn_cfg c = base;
    c.scale = scales[i];
    same(&c);
  }
}

/* ---------------------------------------------------------------- trees and signals */

enum { PREFIX = 125, NODES = 20, DEPTH = 12 };

typedef struct tally {
  int64_t attn[256], knorm[256];
  int64_t *attn_p[1], *knorm_p[1];
  tn_signal s;
} tally;

static void tally_init(tally *t)
{
  memset(t, 0, sizeof *t);
  t->attn_p[0] = t->attn;
  t->knorm_p[0] = t->knorm;
  t->s = (tn_signal){sizeof(tn_signal), 1, t->attn_p, t->knorm_p};
}

/* A random tree of nodes behind the prefix, stored in mixed order. */
static void add_tree(step *s, int32_t id, uint64_t seed)
{
  static int32_t parent[NODES], depth[NODES];
  for (int32_t i = 0; i < NODES; i++) {
    int32_t path[DEPTH];
    parent[i] = (int32_t)((rig_random(&seed) + 1) / 2 * (float)(i + 1)) - 1;
    if (parent[i] >= i) parent[i] = i - 1;
    if (parent[i] >= 0 && depth[parent[i]] + 1 >= DEPTH) parent[i] = -1;
    depth[i] = parent[i] < 0 ? 0 : depth[parent[i]] + 1;
    for (int32_t o = depth[i] - 1, p = parent[i]; o >= 0; o--, p = parent[p]) path[o] = (p * 7 + 3) % NODES;
    step_node(s, id, 0, PREFIX + depth[i], depth[i], (i * 7 + 3) % NODES, path);
  }
}

static void same_tree(const attn_cfg *c, uint64_t seed)
{
  static const char *const names[2] = {"ref", "cpu"};
  static tally given[2], drafted[2];
  static step st;
  for (int i = 0; i < 2; i++) {
    attn a;
    rig_seq s;
    attn_cfg one = *c;
    one.backend = names[i];
    one.attend_flags = TN_OPF_COLSUM;
    one.write_flags = TN_OPF_KNORM;
    attn_open(&a, &one);
    rig_seq_init(&s, 1, a.p.pr.n_groups, 0, 12);
    tally_init(&given[i]);
    tally_init(&drafted[i]);
    step_init(&st);
    int32_t id = step_seq(&st, &s);
    st.signals[0] = &given[i].s;
    st.b.n_signals = 1;
    for (int32_t t = 0; t < PREFIX; t++) st.signal[step_row(&st, id, 0, t, t)] = t % 9 ? 0 : -1;
    attn_step(&a, &st, q, c->n_sinks ? qs : NULL, k, v, out[i], lse[i]);
    rig_seq_commit(&s, PREFIX);
    step_init(&st);
    id = step_seq(&st, &s);
    add_tree(&st, id, seed);
    st.signals[0] = &drafted[i].s;
    st.b.n_signals = 1;
    for (int32_t r = 0; r < NODES; r++) st.signal[r] = r % 4 ? 0 : -1;
    attn_step(&a, &st, q + PREFIX * QW, c->n_sinks ? qs + PREFIX * QW : NULL, k + PREFIX * KW, v + PREFIX * KW,
              out[i] + PREFIX * QW, lse[i] + PREFIX * H);
    attn_close(&a);
  }
  compare(PREFIX + NODES);
  for (int j = 0; j < 256; j++) {
    cr_assert(eq(i64, given[0].attn[j], given[1].attn[j]), "attention of entry %d", j);
    cr_assert(eq(i64, given[0].knorm[j], given[1].knorm[j]), "norm of entry %d", j);
    cr_assert(eq(i64, drafted[0].attn[j], drafted[1].attn[j]), "drafted rows' attention of entry %d", j);
  }
  cr_assert(gt(i64, given[0].attn[3], 0));
  cr_assert(gt(i64, drafted[0].attn[PREFIX + 3], 0));
}

Test(ref_order_attend, trees_and_column_sums)
{
  data();
  for (uint64_t seed = 0; seed < 12; seed++) {
    attn_cfg c = seed % 2 ? with_masks(&(const tn_mask){0, 90, 1, 0, 2}, 1, 2, 0) : base;
    c.threads = 1 + seed % 3;
    if (seed % 4 > 1) c.k_lay[0] = &int8_lay;
    if (seed % 3 == 1) c.softcap = 4;
    same_tree(&c, seed);
  }
}

/* Holes and freed pages: the last row asked again behind entries that are not all there. */
Test(ref_order_attend, holes_and_freed_pages)
{
  static const char *const names[2] = {"ref", "cpu"};
  static step st;
  int64_t pos[T];
  data();
  for (int64_t j = 0; j < T; j++) pos[j] = j % 3 == 1 && j < T - 1 ? -1 : j / 2 + T / 2;
  for (int i = 0; i < 2; i++) {
    attn a;
    rig_seq s;
    attn_cfg c = with_masks(&(const tn_mask){0, 250, 1, 0, 0}, 1, 0, 0);
    c.backend = names[i];
    attn_open(&a, &c);
    rig_seq_init(&s, 1, 1, 0, 22);
    attn_feed(&a, &s, T - 1, 50, q, NULL, k, v, out[i], lse[i]);
    s.view[0].text_pos = pos;
    for (int p = 4; p < 9; p++) s.page[0][p] = -1; /* all of one tile, and more */
    step_init(&st);
    step_row(&st, step_seq(&st, &s), 0, T - 1, 0);
    attn_step(&a, &st, q + (T - 1) * QW, NULL, k + (T - 1) * KW, v + (T - 1) * KW, out[i], lse[i]);
    attn_close(&a);
  }
  compare(1);
}
