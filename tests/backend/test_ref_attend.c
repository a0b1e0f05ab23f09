/* ATTEND of the ref backend against a dense masked softmax, and what must change no bit: chunks, batches, threads, pages. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <string.h>

#include "attn_rig.h"

enum { T = 190, H = 4, G = 2, D = 8, QW = H * D, KW = G * D };

static float q[T * QW], qs[T * QW], k[T * KW], v[T * KW], out[T * QW], other[T * QW], lse[T * H], other_lse[T * H];

static void data(void)
{
  rig_fill(q, T * QW, 1);
  rig_fill(qs, T * QW, 4);
  rig_fill(k, T * KW, 2);
  rig_fill(v, T * KW, 3);
  for (int i = 0; i < T * QW; i++) q[i] *= 4, qs[i] *= 4; /* sharper than uniform */
}

/* Output and lse of every row against the dense formula with visibility sees(i, j). */
static void check_dense(const attn_cfg *c, bool (*sees)(const attn_cfg *, int64_t i, int64_t j, uint32_t kv_head))
{
  for (int64_t i = 0; i < T; i++) {
    for (uint32_t h = 0; h < H; h++) {
      uint8_t seen[T], sink[T];
      double want[D];
      const int64_t g = h / (H / G);
      for (int64_t j = 0; j < T; j++) {
        seen[j] = sees(c, i, j, (uint32_t)g);
        sink[j] = j < c->n_sinks;
      }
      const double l = attn_dense(q + i * QW + h * D, qs + i * QW + h * D, sink, k + g * D, KW, v + g * D, KW, seen, T,
                                  c, want, NULL);
      for (int d = 0; d < D; d++) {
        cr_assert(epsilon_eq(dbl, (double)out[i * QW + h * D + d], want[d], 1e-6), "row %d head %d", (int)i, (int)h);
      }
      if (l > -INFINITY)
        cr_assert(epsilon_eq(dbl, (double)lse[i * H + h], l, 1e-5 + fabs(l) * 1e-7));
      else
        cr_assert(eq(flt, lse[i * H + h], -INFINITY));
    }
  }
}

static bool by_masks(const attn_cfg *c, int64_t i, int64_t j, uint32_t kv_head)
{
  (void)kv_head;
  return attn_sees(c->masks, c->n_masks, i, j);
}

static void feed(const attn_cfg *c, int64_t chunk, float *o, float *l)
{
  attn a;
  rig_seq s;
  attn_open(&a, c);
  rig_seq_init(&s, 7, a.p.pr.n_groups, 0, 16);
  attn_feed(&a, &s, T, chunk, q, c->n_sinks ? qs : NULL, k, v, o, l);
  attn_close(&a);
}

static const attn_cfg base = {.scale = 0.35f, .d_head = D, .d_v = D};

static void check_masks(const tn_mask *masks, uint32_t n, uint32_t n_sinks, float softcap)
{
  attn_cfg c = base;
  memcpy(c.masks, masks, n * sizeof *masks);
  c.n_masks = n;
  c.n_sinks = n_sinks;
  c.softcap = softcap;
  feed(&c, 37, out, lse);
  check_dense(&c, by_masks);
}

Test(ref_attend, masks_against_the_dense_softmax)
{
  static const tn_mask all = TN_MASK_ALL, window = {0, 20, 1, 0, 0}, sinks = {0, 16, 1, 0, 4},
                       dilated = {0, 40, 4, 0, 0}, odd = {3, 50, 5, 2, 1}, nothing = {500, 501, 1, 0, 0};
  data();
  check_masks(&all, 0, 0, 0);
  check_masks(&all, 1, 0, 0);
  check_masks(&window, 1, 0, 0);
  check_masks(&sinks, 1, 4, 0);
  check_masks(&dilated, 1, 0, 2.5f);
  check_masks((const tn_mask[]){window, sinks, dilated}, 3, 2, 0);
  check_masks(&odd, 1, 0, 0); /* some rows see nothing */
  check_masks(&nothing, 1, 0, 0);
}

Test(ref_attend, random_masks)
{
  uint64_t seed = 99;
  data();
  for (int n = 0; n < 12; n++) {
    tn_mask m[2];
    for (int i = 0; i < 2; i++) {
      m[i].stride = 1 + (int64_t)((rig_random(&seed) + 1) * 2);
      m[i].residue = (int64_t)((rig_random(&seed) + 1) * 50) % m[i].stride;
      m[i].lo = (int64_t)((rig_random(&seed) + 1) * 3);
      m[i].hi = m[i].lo + 1 + (int64_t)((rig_random(&seed) + 1) * 70);
      m[i].sinks = (int64_t)((rig_random(&seed) + 1) * 4);
    }
    check_masks(m, 2, n % 3, n % 2 ? 3.0f : 0.0f);
  }
}

/* ---------------------------------------------------------------- what changes no bit */

Test(ref_attend, chunks_and_threads_change_no_bit)
{
  static const int64_t chunks[4] = {1, 7, 64, T};
  attn_cfg c = base;
  c.masks[0] = (tn_mask){0, 70, 1, 0, 3};
  c.n_masks = 1;
  c.n_sinks = 3;
  data();
  feed(&c, 33, out, lse);
  check_dense(&c, by_masks);
  for (int i = 0; i < 4; i++) {
    c.threads = 1 + (uint32_t)i;
    feed(&c, chunks[i], other, other_lse);
    cr_assert(eq(i32, memcmp(out, other, sizeof out), 0), "chunk %d", (int)chunks[i]);
    cr_assert(eq(i32, memcmp(lse, other_lse, sizeof lse), 0));
  }
}

/* The same sequence in pages of another order and size, and beside another sequence in one batch. */
Test(ref_attend, pages_and_batches_change_no_bit)
{
  attn a;
  rig_seq s, s2;
  static step st;
  attn_cfg c = base;
  data();
  feed(&c, T, out, lse);
  c.page_tokens = 5;
  c.pages = 80;
  attn_open(&a, &c);
  rig_seq_init(&s, 1, 1, 0, 38);
  rig_seq_init(&s2, 2, 1, 38, 38);
  for (int i = 0; i < 38; i++) s.page[0][i] = (i * 17 + 5) % 38;
  step_init(&st);
  const int32_t one = step_seq(&st, &s), two = step_seq(&st, &s2);
  for (int32_t t = 0; t < T; t++) step_row(&st, one, 0, t, t);
  for (int32_t t = 0; t < T; t++) step_row(&st, two, 0, t, t);
  static float q2[2 * T * QW], k2[2 * T * KW], v2[2 * T * KW], o2[2 * T * QW];
  memcpy(q2, q, sizeof q);
  memcpy(k2, k, sizeof k);
  memcpy(v2, v, sizeof v);
  rig_fill(q2 + T * QW, T * QW, 50);
  rig_fill(k2 + T * KW, T * KW, 51);
  rig_fill(v2 + T * KW, T * KW, 52);
  attn_step(&a, &st, q2, NULL, k2, v2, o2, NULL);
  cr_assert(eq(i32, memcmp(o2, out, sizeof out), 0));
  cr_assert(ne(i32, memcmp(o2 + T * QW, out, sizeof out), 0));
  attn_close(&a);
}

/* Pages that a window hides can be given away. */
Test(ref_attend, freed_pages_change_no_bit)
{
  attn a;
  rig_seq s;
  attn_cfg c = base;
  c.masks[0] = (tn_mask){0, 30, 1, 0, 2};
  c.n_masks = 1;
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
  cr_assert(eq(i32, s.page[0][3], -1));
  attn_close(&a);
}

/* ---------------------------------------------------------------- tile lists */

/* Whether the bitmap shows key j of the tile before to query i. */
static bool bit_of(int64_t i, int64_t j) { return (uint32_t)((i % 64) * 2654435761u + (j % 64) * 40503u) >> 7 & 1; }

/* Per KV head: key tile 0 in full; its own tile by the mask; head 1 also the tile before, by a bitmap. */
static bool by_tiles(const attn_cfg *c, int64_t i, int64_t j, uint32_t kv_head)
{
  if (j > i || !attn_sees(c->masks + 1, 1, i, j)) return false;
  if (j / 64 == i / 64) return attn_sees(c->masks, 1, i, j);
  if (j / 64 == 0) return true;
  return kv_head == 1 && j / 64 == i / 64 - 1 && bit_of(i, j);
}

Test(ref_attend, tiles)
{
  enum { Q = 3 };
  attn a;
  rig_seq s;
  static step st;
  static int32_t tile[G][Q][3];
  static uint8_t kind[G][Q][3];
  static uint64_t bits[G][Q][3][64];
  tn_tile_list list[G][Q];
  const tn_tile_list *lists[G][Q];
  tn_tile_set set[G];
  const tn_tile_set *sets[2 * G];
  attn_cfg c = base;
  c.tiles = 2; /* set 1 */
  c.masks[0] = (tn_mask){0, 25, 1, 0, 0};
  c.masks[1] = (tn_mask){0, 120, 1, 0, 0}; /* another owner's: counts in every tile */
  c.n_masks = 2;
  data();
  for (int g = 0; g < G; g++) {
    for (int i = 0; i < Q; i++) {
      int n = 0;
      if (i > 0) tile[g][i][n] = 0, kind[g][i][n++] = TN_TILE_FULL;
      if (g == 1 && i > 1) {
        for (int j = 0; j < 64 * 64; j++) bits[g][i][n][j / 64] |= (uint64_t)bit_of(j / 64, j % 64) << j % 64;
        tile[g][i][n] = i - 1, kind[g][i][n++] = TN_TILE_BITMAP;
      }
      tile[g][i][n] = i, kind[g][i][n++] = TN_TILE_MASK;
      list[g][i] = (tn_tile_list){sizeof(tn_tile_list), (uint32_t)n, 3, 0, tile[g][i], kind[g][i], bits[g][i][0]};
      lists[g][i] = &list[g][i];
    }
    set[g] = (tn_tile_set){.struct_size = sizeof(tn_tile_set), .n = Q, .lists = lists[g]};
    sets[g] = NULL;
    sets[G + g] = &set[g];
  }
  attn_open(&a, &c);
  rig_seq_init(&s, 1, 1, 0, 16);
  step_init(&st);
  const int32_t id = step_seq(&st, &s);
  for (int32_t t = 0; t < T; t++) step_row(&st, id, 0, t, t);
  st.b.n_tile_sets = 2;
  st.b.tile_sets = sets;
  attn_step(&a, &st, q, NULL, k, v, out, lse);
  check_dense(&c, by_tiles);
  lists[1][2] = NULL; /* a list that a row needs */
  cr_assert(eq(i32, a.be->v->run(a.be->inst, a.prep, 0, 2, &st.b), TN_E_ARG));
  attn_close(&a);
}

/* ---------------------------------------------------------------- parts joined by lse */

Test(ref_attend, two_halves_merge_to_the_whole)
{
  static float o1[T * QW], o2[T * QW], l1[T * H], l2[T * H];
  attn_cfg c = base;
  data();
  feed(&c, T, out, lse);
  c.n_masks = 1;
  c.masks[0] = (tn_mask){0, 11, 1, 0, 0};
  feed(&c, T, o1, l1);
  c.masks[0] = (tn_mask){11, TN_POS_INF, 1, 0, 0};
  feed(&c, T, o2, l2);
  for (int i = 0; i < T * QW; i++) {
    const int h = i / D;
    const double a = exp((double)l1[h]), b = exp((double)l2[h]);
    cr_assert(epsilon_eq(dbl, (a * (double)o1[i] + b * (double)o2[i]) / (a + b), (double)out[i], 1e-6));
    cr_assert(epsilon_eq(dbl, log(a + b), (double)lse[h], 1e-5));
  }
}

/* Huge scores do not overflow; a constant added to all scores changes nothing. */
Test(ref_attend, huge_scores)
{
  attn_cfg c = base;
  data();
  c.scale = 1e4f;
  feed(&c, T, out, lse);
  check_dense(&c, by_masks);
  for (int i = 0; i < T * QW; i++) cr_assert(isfinite(out[i]));
}
