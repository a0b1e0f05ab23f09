/* A llama-like program on the ref backend: ranges, batches, threads, two instances; what prepare() and run() refuse; and
 * every allocation failing in turn. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <string.h>

#include "attn_rig.h"

enum { LAYERS = 2, DM = 32, H = 4, G = 2, DH = 8, FF = 48, V = 50, T = 40, ROWS = 64 };

typedef struct llama {
  backend *be;
  tn_inst *inst; /* be's, or another one */
  prog p;
  tn_tensor w[RIG_WEIGHTS];
  tn_kv *kv;
  tn_prepared *prep;
  int32_t logits;
} llama;

static float cos_t[ROWS * DH / 2], sin_t[ROWS * DH / 2], numbers[V * DM];

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

static void build(llama *m)
{
  static const int32_t layers[LAYERS] = {0, 1}, heads[G] = {0, 1};
  static const uint32_t pools[1] = {0};
  static const tn_layout *const lay[1] = {&attn_f16};
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

static tn_status try_open(llama *m, uint32_t flags, tn_err *err)
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

static void model_open(llama *m, uint32_t threads, uint32_t flags)
{
  tn_err err;
  memset(m, 0, sizeof *m);
  m->be = backend_open("ref", threads, NULL, &err);
  cr_assert(m->be != NULL, "%s", err.msg);
  m->inst = m->be->inst;
  build(m);
  cr_assert(eq(i32, try_open(m, flags, &err), TN_OK), "%s", err.msg);
}

static void model_release(llama *m)
{
  m->be->v->prepared_free(m->inst, m->prep);
  m->be->v->kv_close(m->inst, m->kv);
  for (uint32_t i = 0; i < m->p.pr.n_weights; i++) m->be->v->weight_free(m->inst, &m->w[i]);
}

static void model_close(llama *m)
{
  model_release(m);
  cr_assert(eq(u64, backend_close(m->be), 0));
}

static void angles(step *s)
{
  static const float *cos_p[1] = {cos_t}, *sin_p[1] = {sin_t};
  for (uint32_t r = 0; r < s->b.n_rows; r++) {
    for (int i = 0; i < DH / 2; i++) {
      const double a = (double)s->text_pos[r] * pow(100, -i / 4.0);
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
static void feed(llama *m, int64_t chunk, uint32_t cut, float *logits)
{
  static step s;
  rig_seq q;
  rig_seq_init(&q, 1, 1, 0, 8);
  for (int64_t t = 0; t < T; t += chunk) {
    const int64_t n = T - t < chunk ? T - t : chunk;
    step_init(&s);
    const int32_t id = step_seq(&s, &q);
    for (int64_t i = 0; i < n; i++) step_want(&s, step_row(&s, id, token(t + i), t + i, (int32_t)i));
    angles(&s);
    cr_assert(eq(i32, m->be->v->run(m->inst, m->prep, 0, cut, &s.b), TN_OK));
    cr_assert(eq(i32, m->be->v->run(m->inst, m->prep, cut, m->p.pr.n_ops, &s.b), TN_OK));
    tn_tensor l;
    cr_assert(eq(i32, m->be->v->act(m->inst, m->prep, (uint32_t)m->logits, &l), TN_OK));
    cr_assert(eq(i32, m->be->v->download(m->inst, l.buf, 0, logits + t * V, (uint64_t)(n * V) * 4), TN_OK));
    rig_seq_commit(&q, n);
  }
}

static float one[T * V], two[T * V];

Test(ref_program, chunks_ranges_and_threads_change_no_bit)
{
  llama m;
  model_open(&m, 1, 0);
  feed(&m, 1, 0, one);
  for (int64_t i = 0; i < T * V; i++) cr_assert(isfinite(one[i]));
  cr_assert(ne(i32, memcmp(one, one + V, V * 4), 0));
  model_close(&m);
  for (uint32_t threads = 1; threads <= 4; threads++) {
    model_open(&m, threads, threads == 4 ? TN_PREP_UNFUSED | TN_PREP_NAIVE_ATTENTION : 0);
    feed(&m, 1 + 13 * (threads - 1), threads * 5, two);
    cr_assert(eq(i32, memcmp(one, two, sizeof one), 0), "%u threads", threads);
    cr_assert(gt(u64, backend_counter(m.be, 0), 0));
    model_close(&m);
  }
}

Test(ref_program, int8_activations_move_logits_a_little)
{
  llama m;
  double most = 0;
  model_open(&m, 2, 0);
  feed(&m, 10, 0, one);
  model_close(&m);
  model_open(&m, 2, TN_PREP_ACT_INT8);
  feed(&m, 10, 0, two);
  model_close(&m);
  for (int i = 0; i < T * V; i++) most = fmax(most, fabs((double)one[i] - (double)two[i]));
  cr_assert(gt(dbl, most, 1e-4));
  cr_assert(lt(dbl, most, 0.3));
}

/* No allocation while records run. */
Test(ref_program, runs_allocate_nothing)
{
  llama m;
  model_open(&m, 2, TN_PREP_ACT_INT8);
  const uint64_t before = backend_allocs(m.be);
  feed(&m, 7, 0, one);
  cr_assert(eq(u64, backend_allocs(m.be), before));
  model_close(&m);
}

Test(ref_program, two_instances_in_one_process)
{
  llama a, b;
  tn_err err;
  model_open(&a, 2, 0);
  memset(&b, 0, sizeof b);
  b.be = a.be;
  b.inst = backend_another(a.be, NULL, &err);
  cr_assert(b.inst != NULL);
  build(&b);
  cr_assert(eq(i32, try_open(&b, 0, &err), TN_OK));
  feed(&a, 9, 0, one);
  feed(&b, 4, 0, two);
  cr_assert(eq(i32, memcmp(one, two, sizeof one), 0));
  model_release(&b);
  a.be->desc->destroy(b.inst);
  model_close(&a);
}

/* ---------------------------------------------------------------- refusals */

/* prepare() of the program after `spoil` must fail with a sentence that holds `word`. */
static void refuse(void (*spoil)(llama *), const char *word)
{
  llama m;
  tn_err err = {.struct_size = sizeof err};
  model_open(&m, 1, 0);
  const uint64_t live = backend_live(m.be);
  tn_prepared *p = (tn_prepared *)&m;
  const tn_prepare how = {.struct_size = sizeof how, .max_rows = ROWS, .max_out = ROWS};
  spoil(&m);
  cr_assert(lt(i32, m.be->v->prepare(m.inst, &m.p.pr, &how, m.kv, &p, &err), 0), "%s", word);
  cr_assert(p == NULL);
  cr_assert(strstr(err.msg, word) != NULL, "'%s' lacks '%s'", err.msg, word);
  cr_assert(eq(u64, backend_live(m.be), live));
  model_close(&m);
}

static tn_op *find(llama *m, uint32_t kind)
{
  uint32_t i = 0;
  while (m->p.ops[i].kind != kind) i++;
  m->p.ops[i].name = "blk.0.it";
  return &m->p.ops[i];
}

static void bad_act(llama *m) { find(m, TN_OP_ADD)->in[1] = 99; }
static void bad_weight(llama *m) { find(m, TN_OP_LINEAR)->w[0] = (int32_t)m->p.pr.n_weights; }
static void no_input(llama *m) { find(m, TN_OP_ADD)->in[1] = -1; }
static void bad_k(llama *m) { find(m, TN_OP_LINEAR)->p.linear.k = 31; }
static void bad_n(llama *m) { find(m, TN_OP_LINEAR)->p.linear.n++; }
static void bad_segments(llama *m) { find(m, TN_OP_LINEAR)->p.linear.segments = 5; }
static void bad_span(llama *m) { find(m, TN_OP_NORM)->p.norm.span = 5; }
static void bad_act_kind(llama *m) { find(m, TN_OP_GLU)->p.glu.act = 9; }
static void bad_rope(llama *m) { find(m, TN_OP_ROPE)->p.rope.dims = 6; }
static void bad_table(llama *m) { find(m, TN_OP_ROPE)->p.rope.table = 1; }
static void bad_layer(llama *m) { find(m, TN_OP_KV_WRITE)->layer = 7; }
static void bad_heads(llama *m) { find(m, TN_OP_ATTEND)->p.attend.n_heads = 3; }
static void bad_masks(llama *m) { find(m, TN_OP_ATTEND)->p.attend.n_masks = 1; }
static void bad_rows(llama *m) { find(m, TN_OP_PICK)->out[0] = 0; }
static void bad_state(llama *m) { find(m, TN_OP_ATTEND)->kind = TN_OP_STATE_MIX; }
static void bad_kind(llama *m) { find(m, TN_OP_ADD)->kind = 77; }
static void bad_cols(llama *m) { m->p.acts[0].cols = 0; }
static void ext(llama *m)
{
  tn_op *op = find(m, TN_OP_GLU);
  op->kind = TN_OP_EXT;
  op->p.ext.id = "org.example.thing/1";
}

Test(ref_program, prepare_refuses_what_does_not_fit)
{
  refuse(bad_act, "blk.0.it: activation");
  refuse(bad_weight, "blk.0.it: weight");
  refuse(no_input, "blk.0.it: kind");
  refuse(bad_k, "blk.0.it: weight columns is 32, want 31");
  refuse(bad_n, "weight rows");
  refuse(bad_segments, "segments");
  refuse(bad_span, "span");
  refuse(bad_act_kind, "activation");
  refuse(bad_rope, "rotated columns");
  refuse(bad_table, "rope table");
  refuse(bad_layer, "layer 7");
  refuse(bad_heads, "KV heads");
  refuse(bad_masks, "masks");
  refuse(bad_rows, "rows");
  refuse(bad_state, "no state");
  refuse(bad_kind, "unknown kind 77");
  refuse(bad_cols, "0 columns");
  refuse(ext, "org.example.thing/1");
}

Test(ref_program, run_refuses_a_batch_out_of_range)
{
  llama m;
  rig_seq q;
  static step s;
  static const int32_t path[2] = {0, 200};
  model_open(&m, 1, 0);
  for (int i = 0; i < 12; i++) {
    rig_seq_init(&q, 1, 1, 0, 8);
    step_init(&s);
    const int32_t id = step_seq(&s, &q);
    step_want(&s, step_row(&s, id, 1, 0, 0));
    step_row(&s, id, 1, 1, 1);
    angles(&s);
    if (i == 1) s.token[0] = V;
    if (i == 2) s.token[1] = -1;
    if (i == 3) s.seq[1] = 1;
    if (i == 4) s.ord[1] = -1;
    if (i == 5) s.slot[1] = s.ord[1] = 128; /* behind the last page */
    if (i == 6) q.page[0][0] = 16;
    if (i == 7) q.page[0][0] = -1; /* a page to write to is freed */
    if (i == 8) s.signal[0] = 0;
    if (i == 9) s.out_row[0] = 2;
    if (i == 10) step_node(&s, id, 1, 2, 2, 2, path); /* an ancestor far behind the pages */
    if (i == 11) s.b.n_tables = 0;
    cr_assert(eq(i32, m.be->v->run(m.inst, m.prep, 0, m.p.pr.n_ops, &s.b), i ? TN_E_ARG : TN_OK), "case %d", i);
  }
  cr_assert(eq(i32, m.be->v->run(m.inst, m.prep, 0, m.p.pr.n_ops + 1, &s.b), TN_E_ARG));
  cr_assert(eq(i32, m.be->v->run(m.inst, m.prep, 3, 2, &s.b), TN_E_ARG));
  model_close(&m);
}

Test(ref_program, every_allocation_may_fail)
{
  llama m;
  tn_err err = {.struct_size = sizeof err};
  memset(&m, 0, sizeof m);
  m.be = backend_open("ref", 2, NULL, &err);
  m.inst = m.be->inst;
  build(&m);
  const uint64_t live = backend_live(m.be);
  uint64_t n = 1;
  for (;; n++) {
    backend_fail_at(m.be, n);
    const tn_status st = try_open(&m, TN_PREP_ACT_INT8, &err);
    if (st == TN_OK) break;
    cr_assert(eq(i32, st, TN_E_NOMEM), "allocation %d", (int)n);
    m.be->v->kv_close(m.inst, m.kv);
    m.kv = NULL;
    m.prep = NULL;
    /* Scratch for weight rows belongs to the instance and may have grown. */
    cr_assert(le(u64, backend_live(m.be), live + 2), "allocation %d", (int)n);
  }
  cr_assert(gt(u64, n, 50));
  backend_fail_at(m.be, 0);
  model_close(&m);
}

Test(ref_program, descriptor)
{
  tn_err err;
  backend *b = backend_open("ref", 1, NULL, &err);
  tn_backend_info info = {.struct_size = sizeof info};
  cr_assert(b != NULL, "%s", err.msg);
  cr_assert(eq(str, (char *)b->desc->id, (char *)"org.tenon.ref"));
  cr_assert(eq(str, (char *)b->desc->name, (char *)"ref"));
  int n = 0;
  while (b->desc->provides[n]) n++;
  cr_assert(eq(int, n, 18));
  cr_assert(eq(i32, b->v->info(b->inst, &info), TN_OK));
  cr_assert(eq(u32, info.max_rows, 0));
  backend_fail_at(b, 1);
  cr_assert(backend_another(b, NULL, &err) == NULL);
  cr_assert(eq(u64, backend_close(b), 0));
}
