/* The cpu backend's cache: layouts side by side, moves, pages out and in, signals, and what it refuses. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn_rig.h"

enum { T = 90, H = 4, G = 2, D = 16, QW = H * D, KW = G * D };

static float q[T * QW], k[T * KW], v[T * KW], fed[T * QW], out[QW], other[QW];
static step st;

static const tn_layout int8_lay = {
    .struct_size = sizeof(tn_layout), .kind = TN_LAY_AFFINE, .bits = 8, .scale_type = TN_DT_F16};
static const tn_layout fp8_lay = {
    .struct_size = sizeof(tn_layout), .kind = TN_LAY_FLOAT8, .fp8 = TN_FP8_E4M3, .scale_type = TN_DT_F32};

static const attn_cfg base = {
    .backend = "cpu", .n_heads = H, .n_kv = G, .d_head = D, .d_v = D, .k_lay = {&attn_f16}, .v_lay = {&attn_f16}};

/* Row T - 1 asked again behind T - 1 committed entries, with whatever the test did to the view. */
static void ask(attn *a, const rig_seq *s, float *o)
{
  step_init(&st);
  step_row(&st, step_seq(&st, s), 0, T - 1, 0);
  attn_step(a, &st, q + (T - 1) * QW, NULL, k + (T - 1) * KW, v + (T - 1) * KW, o, NULL);
}

static void open_with_prefix(attn *a, rig_seq *s, const attn_cfg *c)
{
  rig_fill(q, T * QW, 1);
  rig_fill(k, T * KW, 2);
  rig_fill(v, T * KW, 3);
  attn_open(a, c);
  rig_seq_init(s, 1, a->p.pr.n_groups, 0, 8);
  attn_feed(a, s, T - 1, 20, q, NULL, k, v, fed, NULL);
}

/* Moves entries [first, first + n) of pages 1.. to page `to`.. of a layout, and points the view at them. */
static void demote(attn *a, rig_seq *s, int32_t to, uint8_t *layout, uint8_t lay)
{
  int32_t sp[32], ss[32], dp[32], ds[32];
  uint8_t sl[32], dl[32];
  for (int i = 0; i < 32; i++) {
    sp[i] = s->page[0][i < 16 ? 1 : 3];
    dp[i] = to + i / 16;
    ss[i] = ds[i] = i % 16;
    sl[i] = 0;
    dl[i] = lay;
  }
  const tn_kv_moves m = {.struct_size = sizeof m,
                         .n = 32,
                         .src_page = sp,
                         .src_slot = ss,
                         .dst_page = dp,
                         .dst_slot = ds,
                         .src_layout = sl,
                         .dst_layout = dl};
  cr_assert(eq(i32, a->be->v->kv_move(a->be->inst, a->kv, &m), TN_OK));
  memset(layout, 0, 8);
  layout[1] = layout[3] = lay;
  s->page[0][1] = to;
  s->page[0][3] = to + 1;
  s->view[0].layout = layout;
}

/* A second layout that can hold f16 exactly changes no bit, a narrow one a little. */
Test(cpu_cache, layouts_side_by_side)
{
  static const tn_layout *const second[4] = {&attn_f16, &attn_f32, &int8_lay, &fp8_lay};
  static const double eps[4] = {0, 0, 1e-2, 0.05};
  uint8_t layout[8];
  for (int i = 0; i < 4; i++) {
    attn a;
    rig_seq s;
    attn_cfg c = base;
    c.n_layouts = 2;
    c.k_lay[1] = c.v_lay[1] = second[i];
    open_with_prefix(&a, &s, &c);
    ask(&a, &s, out);
    demote(&a, &s, 40, layout, 1);
    ask(&a, &s, other);
    for (int j = 0; j < QW; j++) cr_assert(le(dbl, fabs((double)out[j] - (double)other[j]), eps[i]), "layout %d", i);
    cr_assert(eq(i32, memcmp(out, other, sizeof out) == 0, i < 2), "layout %d", i);
    cr_assert(eq(u64, backend_counter(a.be, 3), 32));
    attn_close(&a);
  }
}

/* Moves inside a layout copy codes as they are; a move out of range moves nothing. */
Test(cpu_cache, moves_within_a_layout_change_no_bit)
{
  static const tn_layout *const lays[2] = {&attn_f16, &int8_lay};
  for (int i = 0; i < 2; i++) {
    attn a;
    rig_seq s;
    uint8_t layout[8];
    attn_cfg c = base;
    c.k_lay[0] = c.v_lay[0] = lays[i];
    open_with_prefix(&a, &s, &c);
    ask(&a, &s, out);
    demote(&a, &s, 20, layout, 0);
    ask(&a, &s, other);
    cr_assert(eq(i32, memcmp(out, other, sizeof out), 0));
    const int32_t page[2] = {20, 64}, slot[2] = {0, 1};
    tn_kv_moves m = {
        .struct_size = sizeof m, .n = 2, .src_page = page, .src_slot = slot, .dst_page = page, .dst_slot = slot};
    cr_assert(eq(i32, a.be->v->kv_move(a.be->inst, a.kv, &m), TN_E_ARG));
    m.group = 1;
    cr_assert(eq(i32, a.be->v->kv_move(a.be->inst, a.kv, &m), TN_E_ARG));
    attn_close(&a);
  }
}

Test(cpu_cache, pages_out_and_in)
{
  attn a;
  rig_seq s;
  open_with_prefix(&a, &s, &base);
  ask(&a, &s, out);
  const uint64_t bytes = a.be->v->kv_page_bytes(a.be->inst, a.kv, 0);
  cr_assert(eq(u64, bytes, 16 * G * 2 * D * 2));
  cr_assert(eq(u64, a.be->v->kv_page_bytes(a.be->inst, a.kv, 9), 0));
  uint8_t *swap = malloc(bytes);
  cr_assert(swap != NULL);
  for (int i = 0; i < 6; i++) {
    cr_assert(eq(i32, a.be->v->kv_page_read(a.be->inst, a.kv, 0, s.page[0][i], swap), TN_OK));
    cr_assert(eq(i32, a.be->v->kv_page_write(a.be->inst, a.kv, 0, 50 - i, swap), TN_OK));
    s.page[0][i] = 50 - i;
  }
  ask(&a, &s, other);
  cr_assert(eq(i32, memcmp(out, other, sizeof out), 0));
  cr_assert(eq(i32, a.be->v->kv_page_read(a.be->inst, a.kv, 0, 64, swap), TN_E_ARG));
  cr_assert(eq(i32, a.be->v->kv_page_write(a.be->inst, a.kv, 1, 0, swap), TN_E_ARG));
  free(swap);
  attn_close(&a);
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

/* Attention received and key norms of a plain sequence, by backend and threads: near ref's, and the same on any number. */
Test(cpu_cache, signals)
{
  static signal_store kept[4];
  static float o[T * QW];
  rig_fill(q, T * QW, 1);
  rig_fill(k, T * KW, 2);
  rig_fill(v, T * KW, 3);
  for (uint32_t i = 0; i < 4; i++) {
    attn a;
    rig_seq s;
    attn_cfg c = base;
    c.backend = i ? "cpu" : "ref";
    c.threads = i ? i : 1;
    c.attend_flags = TN_OPF_COLSUM;
    c.write_flags = TN_OPF_KNORM;
    attn_open(&a, &c);
    rig_seq_init(&s, 1, 1, 0, 8);
    step_init(&st);
    const int32_t id = step_seq(&st, &s);
    st.signals[0] = new_signal(&kept[i]);
    st.b.n_signals = 1;
    for (int32_t t = 0; t < T; t++) {
      step_row(&st, id, 0, t, t);
      st.signal[t] = t % 2 ? 0 : -1;
    }
    attn_step(&a, &st, q, NULL, k, v, o, NULL);
    attn_close(&a);
    for (int j = 0; j < T; j++) {
      cr_assert(epsilon_eq(dbl, ldexp((double)kept[i].attn[j], -32), ldexp((double)kept[0].attn[j], -32), 2e-5));
      cr_assert(epsilon_eq(dbl, (double)kept[i].knorm[j], (double)kept[0].knorm[j], 1));
    }
    if (i > 1) cr_assert(eq(i32, memcmp(kept[i].attn, kept[1].attn, sizeof kept[i].attn), 0));
    if (i > 1) cr_assert(eq(i32, memcmp(kept[i].knorm, kept[1].knorm, sizeof kept[i].knorm), 0));
  }
  cr_assert(gt(i64, kept[1].attn[0], 0));
}

/* ---------------------------------------------------------------- refusals */

static void refuse(const tn_kv_group *g, uint32_t page_tokens, const char *word)
{
  tn_err err = {.struct_size = sizeof err};
  const tn_kv_group *groups[1] = {g};
  const uint32_t pages[1] = {4};
  const tn_kv_plan plan = {.struct_size = sizeof plan,
                           .n_pools = 1,
                           .page_tokens = page_tokens,
                           .n_groups = 1,
                           .pool_pages = pages,
                           .groups = groups};
  tn_kv *kv = (tn_kv *)&err;
  backend *b = backend_open("cpu", 1, NULL, &err);
  cr_assert(b != NULL, "%s", err.msg);
  cr_assert(lt(i32, b->v->kv_open(b->inst, &plan, &kv, &err), 0), "%s", word);
  cr_assert(kv == NULL);
  cr_assert(strstr(err.msg, word) != NULL, "'%s' lacks '%s'", err.msg, word);
  cr_assert(eq(u64, backend_close(b), 0));
}

Test(cpu_cache, refusals)
{
  static const int32_t list[1] = {0};
  static const uint32_t pools[1] = {0}, far[1] = {1};
  static const tn_layout *const lay[1] = {&attn_f16};
  static const tn_layout odd = {.struct_size = sizeof odd, .kind = TN_LAY_DENSE, .dtype = TN_DT_Q4_0};
  static const tn_layout *const odd_lay[1] = {&odd};
  const tn_kv_group good = {.struct_size = sizeof good,
                            .kind = TN_KV_CACHE,
                            .n_layers = 1,
                            .n_heads = 1,
                            .d_k = 8,
                            .d_v = 8,
                            .n_layouts = 1,
                            .layers = list,
                            .heads = list,
                            .pools = pools,
                            .k_layouts = lay,
                            .v_layouts = lay};
  tn_kv_group g = good;
  refuse(&g, 0, "0 tokens");
  g.keys = TN_KEYS_RAW;
  refuse(&g, 16, "raw keys");
  g = good;
  g.kind = TN_KV_STATE;
  refuse(&g, 16, "recurrent");
  g = good;
  g.d_k = 0;
  refuse(&g, 16, "heads of 0");
  g = good;
  g.pools = far;
  refuse(&g, 16, "pool 1, there are 1");
  g = good;
  g.v_layouts = odd_lay;
  refuse(&g, 16, "layout of values");
}
