/* The ref backend's cache: holes, layouts side by side, moves, raw keys, groups of single heads, pages out and in. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <string.h>

#include "attn_rig.h"
#include "quant/dtype.h"

enum { T = 90, H = 4, G = 2, D = 8, QW = H * D, KW = G * D };

static float q[T * QW], k[T * KW], v[T * KW], fed[T * QW], out[QW], other[QW];
static step st;

static const tn_layout int8_lay = {
    .struct_size = sizeof(tn_layout), .kind = TN_LAY_AFFINE, .bits = 8, .scale_type = TN_DT_F16};
static const tn_layout int4_lay = {.struct_size = sizeof(tn_layout),
                                   .kind = TN_LAY_AFFINE,
                                   .bits = 4,
                                   .group = 4,
                                   .scale_type = TN_DT_F16,
                                   .offset = TN_OFF_MIN};
static const tn_layout fp8_lay = {
    .struct_size = sizeof(tn_layout), .kind = TN_LAY_FLOAT8, .fp8 = TN_FP8_E4M3, .scale_type = TN_DT_F32};

static void data(void)
{
  rig_fill(q, T * QW, 1);
  rig_fill(k, T * KW, 2);
  rig_fill(v, T * KW, 3);
}

/* Row T - 1 asked again behind T - 1 committed entries, with whatever the test did to the view. */
static void ask(attn *a, const rig_seq *s, float *o)
{
  step_init(&st);
  step_row(&st, step_seq(&st, s), 0, T - 1, 0);
  attn_step(a, &st, q + (T - 1) * QW, NULL, k + (T - 1) * KW, v + (T - 1) * KW, o, NULL);
}

/* o against the dense softmax of row T - 1 over keys kk, values vv [T][KW] of which sees[j]. */
static void expect(const attn_cfg *c, const float *o, const float *kk, const float *vv, const uint8_t *sees, double eps)
{
  for (int h = 0; h < H; h++) {
    double want[D];
    attn_dense(q + (T - 1) * QW + h * D, NULL, NULL, kk + h / 2 * D, KW, vv + h / 2 * D, KW, sees, T, c, want, NULL);
    for (int d = 0; d < D; d++) cr_assert(epsilon_eq(dbl, (double)o[h * D + d], want[d], eps));
  }
}

static void open_with_prefix(attn *a, rig_seq *s, const attn_cfg *c)
{
  data();
  attn_open(a, c);
  rig_seq_init(s, 1, a->p.pr.n_groups, 0, 8);
  attn_feed(a, s, T - 1, 20, q, NULL, k, v, fed, NULL);
}

Test(ref_cache, holes_are_skipped)
{
  attn a;
  rig_seq s;
  int64_t pos[T];
  uint8_t sees[T];
  open_with_prefix(&a, &s, &(attn_cfg){0});
  for (int64_t j = 0; j < T; j++) {
    sees[j] = j % 3 != 1 || j == T - 1;
    pos[j] = sees[j] ? j : -1;
  }
  s.view[0].text_pos = pos;
  ask(&a, &s, other);
  expect(&a.cfg, other, k, v, sees, 1e-6);
  attn_close(&a);
}

/* Text positions decide visibility, not ranks: entries renumbered by a compaction. */
Test(ref_cache, text_positions_decide)
{
  attn a;
  rig_seq s;
  int64_t pos[T];
  uint8_t sees[T];
  open_with_prefix(&a, &s, &(attn_cfg){.masks = {{0, 40, 1, 0, 0}}, .n_masks = 1});
  for (int64_t j = 0; j < T; j++) {
    pos[j] = j / 2;
    sees[j] = (T - 1) - j / 2 < 40 || j == T - 1;
  }
  sees[T - 1] = 1;
  s.view[0].text_pos = pos;
  ask(&a, &s, other);
  expect(&a.cfg, other, k, v, sees, 1e-6);
  attn_close(&a);
}

Test(ref_cache, dense_layouts_round_as_they_say)
{
  static float k16[T * KW], v16[T * KW];
  uint8_t sees[T];
  memset(sees, 1, sizeof sees);
  for (int bf = 0; bf < 2; bf++) {
    attn a;
    rig_seq s;
    attn_cfg c = {.k_lay = {bf ? &attn_bf16 : &attn_f16}, .v_lay = {bf ? &attn_bf16 : &attn_f16}};
    open_with_prefix(&a, &s, &c);
    for (int i = 0; i < T * KW; i++) {
      k16[i] = bf ? tnk_bf16_to_f32(tnk_f32_to_bf16(k[i])) : tnk_f16_to_f32(tnk_f32_to_f16(k[i]));
      v16[i] = bf ? tnk_bf16_to_f32(tnk_f32_to_bf16(v[i])) : tnk_f16_to_f32(tnk_f32_to_f16(v[i]));
    }
    ask(&a, &s, other);
    expect(&a.cfg, other, k16, v16, sees, 1e-6);
    cr_assert(eq(u64, a.be->v->kv_page_bytes(a.be->inst, a.kv, 0), 16 * G * 2 * D * 2));
    attn_close(&a);
  }
}

/* Demotes pages 1 and 3 to layout 1 by kv_move, in the view too. */
static void demote(attn *a, rig_seq *s, uint8_t *layout)
{
  int32_t sp[32], ss[32], dp[32], ds[32];
  uint8_t sl[32], dl[32];
  memset(sl, 0, sizeof sl);
  memset(dl, 1, sizeof dl);
  for (int i = 0; i < 32; i++) {
    sp[i] = s->page[0][i < 16 ? 1 : 3];
    dp[i] = i < 16 ? 40 : 41;
    ss[i] = ds[i] = i % 16;
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
  layout[1] = layout[3] = 1;
  s->page[0][1] = 40;
  s->page[0][3] = 41;
  s->view[0].layout = layout;
}

/* Pages of two widths in one sequence; a lossless second layout changes no bit, a narrow one a little. */
Test(ref_cache, layouts_side_by_side)
{
  static const tn_layout *const second[5] = {&attn_f32, &attn_f16, &int8_lay, &int4_lay, &fp8_lay};
  static const double eps[5] = {1e-6, 1e-3, 1e-2, 0.1, 0.05};
  uint8_t sees[T], layout[8];
  memset(sees, 1, sizeof sees);
  for (int i = 0; i < 5; i++) {
    attn a;
    rig_seq s;
    attn_cfg c = {.n_layouts = 2, .k_lay = {&attn_f32, second[i]}, .v_lay = {&attn_f32, second[i]}};
    open_with_prefix(&a, &s, &c);
    ask(&a, &s, out);
    demote(&a, &s, layout);
    ask(&a, &s, other);
    expect(&a.cfg, other, k, v, sees, eps[i]);
    cr_assert(eq(i32, memcmp(out, other, sizeof out) == 0, i == 0), "layout %d", i);
    if (i > 0)
      cr_assert(lt(u64, a.be->v->kv_page_bytes(a.be->inst, a.kv, 1), a.be->v->kv_page_bytes(a.be->inst, a.kv, 0)));
    attn_close(&a);
  }
}

Test(ref_cache, moves_within_a_layout_change_no_bit)
{
  attn a;
  rig_seq s;
  int32_t sp[96], ss[96], dp[96], ds[96];
  open_with_prefix(&a, &s, &(attn_cfg){.k_lay = {&int8_lay}, .v_lay = {&int4_lay}});
  ask(&a, &s, out);
  for (int i = 0; i < 96; i++) {
    sp[i] = s.page[0][i / 16];
    dp[i] = 20 + (i / 16 * 5) % 6;
    ss[i] = ds[i] = i % 16;
  }
  tn_kv_moves m = {.struct_size = sizeof m, .n = 96, .src_page = sp, .src_slot = ss, .dst_page = dp, .dst_slot = ds};
  cr_assert(eq(i32, a.be->v->kv_move(a.be->inst, a.kv, &m), TN_OK));
  cr_assert(eq(u64, backend_counter(a.be, 3), 96));
  for (int i = 0; i < 6; i++) s.page[0][i] = 20 + (i * 5) % 6;
  ask(&a, &s, other);
  cr_assert(eq(i32, memcmp(out, other, sizeof out), 0));
  dp[95] = 64;
  cr_assert(eq(i32, a.be->v->kv_move(a.be->inst, a.kv, &m), TN_E_ARG));
  m.group = 1;
  cr_assert(eq(i32, a.be->v->kv_move(a.be->inst, a.kv, &m), TN_E_ARG));
  attn_close(&a);
}

Test(ref_cache, pages_out_and_in)
{
  attn a;
  rig_seq s;
  static uint8_t page[8][4096];
  open_with_prefix(&a, &s, &(attn_cfg){0});
  ask(&a, &s, out);
  cr_assert(eq(u64, a.be->v->kv_page_bytes(a.be->inst, a.kv, 0), sizeof page[0] / 2));
  for (int i = 0; i < 8; i++) cr_assert(eq(i32, a.be->v->kv_page_read(a.be->inst, a.kv, 0, i, page[i]), TN_OK));
  for (int i = 0; i < 8; i++) cr_assert(eq(i32, a.be->v->kv_page_write(a.be->inst, a.kv, 0, 63 - i, page[i]), TN_OK));
  for (int i = 0; i < 8; i++) s.page[0][i] = 63 - i;
  ask(&a, &s, other);
  cr_assert(eq(i32, memcmp(out, other, sizeof out), 0));
  cr_assert(eq(i32, a.be->v->kv_page_read(a.be->inst, a.kv, 0, 64, page[0]), TN_E_ARG));
  cr_assert(eq(i32, a.be->v->kv_page_write(a.be->inst, a.kv, 1, 0, page[0]), TN_E_ARG));
  attn_close(&a);
}

/* Keys stored raw and rotated by the view's tables equal keys that were rotated before. */
Test(ref_cache, raw_keys)
{
  static float cos_t[T * 2], sin_t[T * 2], rotated[T * KW];
  uint8_t sees[T];
  memset(sees, 1, sizeof sees);
  for (uint32_t style = TN_ROPE_INTERLEAVED; style <= TN_ROPE_HALF; style++) {
    attn a;
    rig_seq s;
    data();
    memcpy(rotated, k, sizeof k);
    for (int j = 0; j < T; j++) {
      for (int i = 0; i < 2; i++) {
        const float angle = (float)(2 * j % 31) * (i ? 0.1f : 1.0f); /* any rope position */
        cos_t[j * 2 + i] = cosf(angle), sin_t[j * 2 + i] = sinf(angle);
        for (int g = 0; g < G; g++) {
          float *r = rotated + j * KW + g * D;
          const int x = style == TN_ROPE_HALF ? i : 2 * i, y = style == TN_ROPE_HALF ? i + 2 : 2 * i + 1;
          const float rx = r[x] * cosf(angle) - r[y] * sinf(angle);
          r[y] = r[y] * cosf(angle) + r[x] * sinf(angle);
          r[x] = rx;
        }
      }
    }
    attn_open(&a, &(attn_cfg){.keys = TN_KEYS_RAW, .rope_dims = 4, .rope_style = style});
    rig_seq_init(&s, 1, 1, 0, 8);
    s.view[0].cos = cos_t;
    s.view[0].sin = sin_t;
    attn_feed(&a, &s, T - 1, 20, q, NULL, k, v, fed, NULL);
    ask(&a, &s, other);
    expect(&a.cfg, other, rotated, v, sees, 1e-6);
    s.view[0].cos = NULL;
    cr_assert(eq(i32, a.be->v->run(a.be->inst, a.prep, 0, 2, &st.b), TN_E_ARG));
    attn_close(&a);
  }
}

/* Each KV head in a group of its own: the same bits, and each head keeps what it likes. */
Test(ref_cache, a_group_for_each_head)
{
  attn a;
  rig_seq s;
  int64_t pos[T];
  uint8_t some[T];
  open_with_prefix(&a, &s, &(attn_cfg){0});
  ask(&a, &s, out);
  attn_close(&a);
  open_with_prefix(&a, &s, &(attn_cfg){.per_head = 1});
  ask(&a, &s, other);
  cr_assert(eq(u32, s.sv.n_groups, 2));
  cr_assert(eq(i32, memcmp(out, other, sizeof out), 0));
  for (int64_t j = 0; j < T; j++) {
    some[j] = j % 2 == 0 || j == T - 1;
    pos[j] = some[j] ? j : -1;
  }
  s.view[1].text_pos = pos;
  ask(&a, &s, other);
  cr_assert(eq(i32, memcmp(out, other, sizeof(float) * 2 * D), 0)); /* KV head 0 serves heads 0 and 1 */
  for (int h = 2; h < H; h++) {
    double want[D];
    attn_dense(q + (T - 1) * QW + h * D, NULL, NULL, k + D, KW, v + D, KW, some, T, &a.cfg, want, NULL);
    for (int d = 0; d < D; d++) cr_assert(epsilon_eq(dbl, (double)other[h * D + d], want[d], 1e-6));
  }
  attn_close(&a);
}

/* A record per KV head on the same activations equals one record for both. */
Test(ref_cache, records_of_single_heads)
{
  attn a;
  rig_seq s;
  open_with_prefix(&a, &s, &(attn_cfg){0});
  ask(&a, &s, out);
  for (int i = 0; i < 2; i++) {
    tn_op *op = &a.p.ops[i];
    tn_op *second = prog_op(&a.p, op->kind, op->in[0], op->in[1], op->out[0], -1, -1);
    second->out[1] = op->out[1];
    op->p.attend.n_kv_heads = 1;
    op->p.attend.n_heads = 2;
    second->p = op->p;
    second->p.attend.head0 = 2;
    second->p.attend.kv_head0 = 1;
  }
  const tn_op *swap = a.p.op_ptr[1]; /* both writes before both reads */
  a.p.op_ptr[1] = a.p.op_ptr[2];
  a.p.op_ptr[2] = swap;
  tn_err err;
  tn_prepared *two;
  const tn_prepare how = {.struct_size = sizeof how, .max_rows = RIG_ROWS, .max_out = 1};
  cr_assert(eq(i32, a.be->v->prepare(a.be->inst, &a.p.pr, &how, a.kv, &two, &err), TN_OK), "%s", err.msg);
  a.be->v->prepared_free(a.be->inst, a.prep);
  a.prep = two;
  ask(&a, &s, other);
  cr_assert(eq(i32, memcmp(out, other, sizeof out), 0));
  attn_close(&a);
}
