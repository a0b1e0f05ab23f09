/* llama_rig: see llama_rig.h. */
#include "llama_rig.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <string.h>

enum {
  LAYERS = LLAMA_LAYERS,
  DM = LLAMA_D,
  H = LLAMA_HEADS,
  G = LLAMA_KV,
  DH = LLAMA_DH,
  FF = LLAMA_FF,
  V = LLAMA_VOCAB,
  T = LLAMA_TEXT,
  ROWS = LLAMA_ROWS
};

_Static_assert(V <= H * DH && FF <= H * DH, "room for the largest weight");
static float cos_t[ROWS * DH / 2], sin_t[ROWS * DH / 2], numbers[DM * H * DH];

/* A weight of random numbers, made anew on each call with the same seed per index. */
static int32_t weight(llama *m, int64_t n, int64_t k)
{
  tn_err err = {.struct_size = sizeof err};
  const uint32_t i = m->p.pr.n_weights;
  rig_fill(numbers, n * k, 1000 + i);
  for (int64_t j = 0; j < n * k; j++) numbers[j] = n == 1 ? 1 + numbers[j] / 4 : numbers[j] / 3;
  const tn_weight_src src = {.struct_size = sizeof src,
                             .kind = TN_W_F32,
                             .name = "w",
                             .n = n,
                             .k = k,
                             .data = numbers,
                             .bytes = (uint64_t)(n * k) * 4};
  cr_assert(eq(i32, m->be->v->weight_load(m->inst, &src, &m->w[i], &err), TN_OK), "%s", err.msg);
  return prog_weight(&m->p, m->w[i]);
}

static int32_t linear(llama *m, int32_t x, int32_t y, int64_t n, int64_t k, uint32_t segments)
{
  tn_op *op = prog_op(&m->p, TN_OP_LINEAR, x, -1, y, weight(m, n, k), -1);
  op->p.linear = (tn_op_linear){.n = n, .k = k, .segments = segments};
  return y;
}

static void norm(llama *m, int32_t x, int32_t y)
{
  prog_op(&m->p, TN_OP_NORM, x, -1, y, weight(m, 1, DM), -1)->p.norm = (tn_op_norm){.eps = 1e-5, .span = DM};
}

static void rope(llama *m, int32_t x, uint32_t heads)
{
  prog_op(&m->p, TN_OP_ROPE, x, -1, x, -1, -1)->p.rope =
      (tn_op_rope){.n_heads = heads, .d_head = DH, .dims = DH, .style = TN_ROPE_HALF};
}

static void block(llama *m, int32_t layer, int32_t x, const int32_t *a)
{
  const int32_t h = a[0], q = a[1], k = a[2], v = a[3], o = a[4], y = a[5], gate = a[6], up = a[7], f = a[8];
  const uint32_t first = m->p.pr.n_ops;
  norm(m, x, h);
  linear(m, h, q, H * DH, DM, 1);
  linear(m, h, k, G * DH, DM, 1);
  linear(m, h, v, G * DH, DM, 1);
  rope(m, q, H);
  rope(m, k, G);
  const tn_op_attend at = {.n_heads = H, .n_kv_heads = G, .d_head = DH, .d_v = DH, .scale = 0.35f};
  prog_op(&m->p, TN_OP_KV_WRITE, k, v, -1, -1, -1)->p.attend = at;
  prog_op(&m->p, TN_OP_ATTEND, q, -1, o, -1, -1)->p.attend = at;
  linear(m, o, h, DM, H * DH, G);
  prog_op(&m->p, TN_OP_ADD, x, h, y, -1, -1);
  norm(m, y, h);
  linear(m, h, gate, FF, DM, 1);
  linear(m, h, up, FF, DM, 1);
  prog_op(&m->p, TN_OP_GLU, gate, up, gate, -1, -1)->p.glu.act = TN_ACT_SILU;
  linear(m, gate, f, DM, FF, 1);
  prog_op(&m->p, TN_OP_ADD, y, f, x, -1, -1);
  for (uint32_t i = first; i < m->p.pr.n_ops; i++) m->p.ops[i].layer = layer;
}

void llama_build(llama *m)
{
  static const int32_t layers[LAYERS] = {0, 1}, heads[G] = {0, 1};
  static const uint32_t pools[1] = {0};
  static const tn_layout f16 = {.struct_size = sizeof f16, .kind = TN_LAY_DENSE, .dtype = TN_DT_F16};
  static const tn_layout *const lay[1] = {&f16};
  static const int64_t cols[9] = {DM, H * DH, G * DH, G * DH, H * DH, DM, FF, FF, DM};
  int32_t a[9];
  prog_init(&m->p);
  prog_table(&m->p, DH);
  prog_group(&m->p, (tn_kv_group){.struct_size = sizeof(tn_kv_group),
                                  .kind = TN_KV_CACHE,
                                  .n_layers = LAYERS,
                                  .n_heads = G,
                                  .d_k = DH,
                                  .d_v = DH,
                                  .n_layouts = 1,
                                  .layers = layers,
                                  .heads = heads,
                                  .pools = pools,
                                  .k_layouts = lay,
                                  .v_layouts = lay});
  const int32_t x = prog_act(&m->p, TN_ROWS_ALL, DM);
  for (int i = 0; i < 9; i++) a[i] = prog_act(&m->p, TN_ROWS_ALL, cols[i]);
  prog_op(&m->p, TN_OP_EMBED, -1, -1, x, weight(m, V, DM), -1)->p.embed.scale = 1;
  for (int32_t l = 0; l < LAYERS; l++) block(m, l, x, a);
  const int32_t picked = prog_act(&m->p, TN_ROWS_OUT, DM), h = prog_act(&m->p, TN_ROWS_OUT, DM);
  prog_op(&m->p, TN_OP_PICK, x, -1, picked, -1, -1);
  norm(m, picked, h);
  m->logits = prog_act(&m->p, TN_ROWS_OUT, V);
  linear(m, h, m->logits, V, DM, 1);
}

tn_status llama_prepare(llama *m, uint32_t flags, tn_err *err)
{
  static const uint32_t pages[1] = {16};
  const tn_kv_plan plan = {.struct_size = sizeof plan,
                           .n_pools = 1,
                           .page_tokens = 16,
                           .n_groups = 1,
                           .pool_pages = pages,
                           .groups = m->p.pr.groups};
  const tn_prepare how = {.struct_size = sizeof how, .max_rows = ROWS, .max_out = ROWS, .flags = flags};
  tn_status st = m->be->v->kv_open(m->inst, &plan, &m->kv, err);
  return st ? st : m->be->v->prepare(m->inst, &m->p.pr, &how, m->kv, &m->prep, err);
}

void llama_open(llama *m, const char *name, uint32_t threads, uint32_t flags)
{
  tn_err err;
  memset(m, 0, sizeof *m);
  m->be = backend_open(name, threads, NULL, &err);
  cr_assert(m->be != NULL, "%s", err.msg);
  m->inst = m->be->inst;
  llama_build(m);
  cr_assert(eq(i32, llama_prepare(m, flags, &err), TN_OK), "%s", err.msg);
}

void llama_release(llama *m)
{
  m->be->v->prepared_free(m->inst, m->prep);
  m->be->v->kv_close(m->inst, m->kv);
  for (uint32_t i = 0; i < m->p.pr.n_weights; i++) m->be->v->weight_free(m->inst, &m->w[i]);
}

void llama_close(llama *m)
{
  llama_release(m);
  cr_assert(eq(u64, backend_close(m->be), 0));
}

void llama_angles(step *s)
{
  static const float *cos_p[1] = {cos_t}, *sin_p[1] = {sin_t};
  for (uint32_t r = 0; r < s->b.n_rows; r++) {
    for (int i = 0; i < DH / 2; i++) {
      const double a = (double)s->text_pos[r] * pow(100, -i / (DH / 2.0));
      cos_t[r * DH / 2 + (uint32_t)i] = (float)cos(a);
      sin_t[r * DH / 2 + (uint32_t)i] = (float)sin(a);
    }
  }
  s->b.n_tables = 1;
  s->b.cos = cos_p;
  s->b.sin = sin_p;
}

/* Token of a text that all tests feed. */
static int32_t token(int64_t t) { return (int32_t)(t * 7 + t * t) % V; }

/* Logits of T tokens fed in chunks; each step in two record ranges cut at `cut` (0: one range). */
void llama_feed(llama *m, int64_t chunk, uint32_t cut, float *logits)
{
  static step s;
  rig_seq q;
  rig_seq_init(&q, 1, 1, 0, 8);
  for (int64_t t = 0; t < T; t += chunk) {
    const int64_t n = T - t < chunk ? T - t : chunk;
    step_init(&s);
    const int32_t id = step_seq(&s, &q);
    for (int64_t i = 0; i < n; i++) step_want(&s, step_row(&s, id, token(t + i), t + i, (int32_t)i));
    llama_angles(&s);
    cr_assert(eq(i32, m->be->v->run(m->inst, m->prep, 0, cut, &s.b), TN_OK));
    cr_assert(eq(i32, m->be->v->run(m->inst, m->prep, cut, m->p.pr.n_ops, &s.b), TN_OK));
    tn_tensor l;
    cr_assert(eq(i32, m->be->v->act(m->inst, m->prep, (uint32_t)m->logits, &l), TN_OK));
    cr_assert(eq(i32, m->be->v->download(m->inst, l.buf, 0, logits + t * V, (uint64_t)(n * V) * 4), TN_OK));
    rig_seq_commit(&q, n);
  }
}
