/* Programs on the cpu backend: near ref's logits; the same bits for any range, chunk, thread, fusion and instruction set;
 * what prepare(), run() and create() refuse; every allocation failing in turn. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <string.h>

#include "cpu/isa.h"
#include "llama_rig.h"

enum { V = LLAMA_VOCAB, T = LLAMA_TEXT, ROWS = LLAMA_ROWS };

static float one[T * V], two[T * V];

static void feed(const char *name, uint32_t threads, uint32_t flags, int64_t chunk, uint32_t cut, float *logits)
{
  llama m;
  llama_open(&m, name, threads, flags);
  llama_feed(&m, chunk, cut, logits);
  llama_close(&m);
}

/* 8-bit rounding turns the last bits of two ways to sum into steps, so only f32 activations are compared with ref. */
Test(cpu_program, logits_near_ref)
{
  double most = 0, scale = 0;
  feed("ref", 1, 0, 7, 0, one);
  feed("cpu", 2, 0, 11, 0, two);
  for (int i = 0; i < T * V; i++) {
    most = fmax(most, fabs((double)one[i] - (double)two[i]));
    scale = fmax(scale, fabs((double)one[i]));
  }
  cr_assert(le(dbl, most, 1e-5 * scale));
}

Test(cpu_program, chunks_ranges_threads_and_fusion_change_no_bit)
{
  for (uint32_t int8 = 0; int8 < 2; int8++) {
    const uint32_t flags = int8 ? TN_PREP_ACT_INT8 : 0;
    feed("cpu", 1, flags, 1, 0, one);
    for (int64_t i = 0; i < T * V; i++) cr_assert(isfinite(one[i]));
    cr_assert(ne(i32, memcmp(one, one + V, V * 4), 0));
    for (uint32_t n = 0; n < 24; n++) {
      const uint32_t more = n % 3 == 1 ? TN_PREP_UNFUSED : n % 3 == 2 ? TN_PREP_NAIVE_ATTENTION : 0;
      feed("cpu", 1 + n % 4, flags | more, 1 + n * 5 % T, n * 3 % 37, two);
      cr_assert(eq(i32, memcmp(one, two, sizeof one), 0), "case %u, int8 %u", n, int8);
    }
  }
}

Test(cpu_program, runs_allocate_nothing)
{
  llama m;
  llama_open(&m, "cpu", 2, TN_PREP_ACT_INT8);
  const uint64_t before = backend_allocs(m.be);
  llama_feed(&m, 7, 0, one);
  cr_assert(eq(u64, backend_allocs(m.be), before));
  cr_assert(gt(u64, backend_counter(m.be, 0), 0));
  cr_assert(gt(u64, backend_counter(m.be, 1), backend_counter(m.be, 0)));
  cr_assert(eq(u64, backend_counter(m.be, 2), 2 * T)); /* each step in two ranges */
  llama_close(&m);
}

Test(cpu_program, two_instances_in_one_process)
{
  llama a, b;
  tn_err err = {.struct_size = sizeof err};
  llama_open(&a, "cpu", 2, 0);
  memset(&b, 0, sizeof b);
  b.be = a.be;
  b.inst = backend_another(a.be, NULL, &err);
  cr_assert(b.inst != NULL);
  llama_build(&b);
  cr_assert(eq(i32, llama_prepare(&b, 0, &err), TN_OK));
  llama_feed(&a, 9, 0, one);
  llama_feed(&b, 4, 0, two);
  cr_assert(eq(i32, memcmp(one, two, sizeof one), 0));
  llama_release(&b);
  a.be->desc->destroy(b.inst);
  llama_close(&a);
}

/* ---------------------------------------------------------------- refusals */

/* prepare() of the program after `spoil` must fail with a sentence that holds `word`. */
static void refuse(void (*spoil)(llama *), const char *word)
{
  llama m;
  tn_err err = {.struct_size = sizeof err};
  llama_open(&m, "cpu", 1, 0);
  const uint64_t live = backend_live(m.be);
  tn_prepared *p = (tn_prepared *)&m;
  const tn_prepare how = {.struct_size = sizeof how, .max_rows = ROWS, .max_out = ROWS};
  spoil(&m);
  cr_assert(lt(i32, m.be->v->prepare(m.inst, &m.p.pr, &how, m.kv, &p, &err), 0), "%s", word);
  cr_assert(p == NULL);
  cr_assert(strstr(err.msg, word) != NULL, "'%s' lacks '%s'", err.msg, word);
  cr_assert(eq(u64, backend_live(m.be), live));
  llama_close(&m);
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
static void bad_segments(llama *m) { find(m, TN_OP_LINEAR)->p.linear.segments = 5; }
static void bad_span(llama *m) { find(m, TN_OP_NORM)->p.norm.span = 5; }
static void bad_rope(llama *m) { find(m, TN_OP_ROPE)->p.rope.dims = 6; }
static void bad_layer(llama *m) { find(m, TN_OP_KV_WRITE)->layer = 7; }
static void bad_heads(llama *m) { find(m, TN_OP_ATTEND)->p.attend.n_heads = 3; }
static void bad_rows(llama *m) { find(m, TN_OP_PICK)->out[0] = 0; }
static void state(llama *m) { find(m, TN_OP_ATTEND)->kind = TN_OP_STATE_MIX; }
static void tiles(llama *m) { find(m, TN_OP_ATTEND)->p.attend.tiles = 1; }
static void bad_kind(llama *m) { find(m, TN_OP_ADD)->kind = 77; }
static void ext(llama *m)
{
  tn_op *op = find(m, TN_OP_GLU);
  op->kind = TN_OP_EXT;
  op->p.ext.id = "org.example.thing/1";
}

Test(cpu_program, prepare_refuses_what_does_not_fit)
{
  refuse(bad_act, "blk.0.it: activation");
  refuse(bad_weight, "blk.0.it: weight");
  refuse(no_input, "blk.0.it: kind");
  refuse(bad_k, "blk.0.it: weight columns is 32, want 31");
  refuse(bad_segments, "segments");
  refuse(bad_span, "span");
  refuse(bad_rope, "rotated columns");
  refuse(bad_layer, "layer 7");
  refuse(bad_heads, "KV heads");
  refuse(bad_rows, "rows");
  refuse(state, "recurrent");
  refuse(tiles, "tile lists");
  refuse(bad_kind, "unknown kind 77");
  refuse(ext, "org.example.thing/1");
}

Test(cpu_program, run_refuses_a_batch_out_of_range)
{
  llama m;
  rig_seq q;
  static step s;
  static const int32_t path[2] = {0, 200}, near[2] = {0, 1};
  llama_open(&m, "cpu", 1, 0);
  for (int i = 0; i < 13; i++) {
    rig_seq_init(&q, 1, 1, 0, 8);
    step_init(&s);
    const int32_t id = step_seq(&s, &q);
    step_want(&s, step_row(&s, id, 1, 0, 0));
    step_row(&s, id, 1, 1, 1);
    llama_angles(&s);
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
    if (i == 12) s.ord[step_node(&s, id, 1, 2, 2, 2, near)] = -1;
    cr_assert(eq(i32, m.be->v->run(m.inst, m.prep, 0, m.p.pr.n_ops, &s.b), i ? TN_E_ARG : TN_OK), "case %d", i);
  }
  cr_assert(eq(i32, m.be->v->run(m.inst, m.prep, 0, m.p.pr.n_ops + 1, &s.b), TN_E_ARG));
  cr_assert(eq(i32, m.be->v->run(m.inst, m.prep, 3, 2, &s.b), TN_E_ARG));
  llama_close(&m);
}

Test(cpu_program, every_allocation_may_fail)
{
  llama m;
  tn_err err = {.struct_size = sizeof err};
  memset(&m, 0, sizeof m);
  m.be = backend_open("cpu", 2, NULL, &err);
  m.inst = m.be->inst;
  llama_build(&m);
  const uint64_t live = backend_live(m.be);
  uint64_t n = 1;
  for (;; n++) {
    backend_fail_at(m.be, n);
    const tn_status st = llama_prepare(&m, TN_PREP_ACT_INT8, &err);
    if (st == TN_OK) break;
    cr_assert(eq(i32, st, TN_E_NOMEM), "allocation %d", (int)n);
    m.be->v->kv_close(m.inst, m.kv);
    m.kv = NULL;
    m.prep = NULL;
    cr_assert(eq(u64, backend_live(m.be), live), "allocation %d", (int)n);
  }
  cr_assert(gt(u64, n, 50));
  backend_fail_at(m.be, 0);
  llama_close(&m);
}

/* A weight's memory fails in turn too, and so does an instance's. */
Test(cpu_program, weights_without_memory)
{
  static float w[40 * 64];
  tn_err err = {.struct_size = sizeof err};
  tn_inst *other = NULL;
  backend *b = backend_open("cpu", 2, NULL, &err);
  const tn_weight_src src = {
      .struct_size = sizeof src, .kind = TN_W_F32, .name = "w", .n = 40, .k = 64, .data = w, .bytes = sizeof w};
  const uint64_t live = backend_live(b);
  for (uint64_t n = 1;; n++) {
    tn_tensor t;
    backend_fail_at(b, n);
    const tn_status st = b->v->weight_load(b->inst, &src, &t, &err);
    if (st == TN_OK) {
      cr_assert(gt(u64, n, 2));
      b->v->weight_free(b->inst, &t);
      break;
    }
    cr_assert(eq(i32, st, TN_E_NOMEM));
    cr_assert(eq(u64, backend_live(b), live), "allocation %d", (int)n);
  }
  for (uint64_t n = 1; !other; n++) {
    backend_fail_at(b, n);
    other = backend_another(b, NULL, &err);
    if (!other) cr_assert(eq(i32, err.code, TN_E_NOMEM));
  }
  backend_fail_at(b, 0);
  b->desc->destroy(other);
  cr_assert(eq(u64, backend_live(b), live));
  cr_assert(eq(u64, backend_close(b), 0));
}

/* ---------------------------------------------------------------- instruction sets */

Test(cpu_program, descriptor)
{
  tn_err err = {.struct_size = sizeof err};
  backend *b = backend_open("cpu", 3, NULL, &err);
  tn_backend_info info = {.struct_size = sizeof info};
  cr_assert(b != NULL, "%s", err.msg);
  cr_assert(eq(str, (char *)b->desc->id, "org.tenon.cpu"));
  cr_assert(eq(str, (char *)b->desc->name, "cpu"));
  cr_assert(b->desc->flags & TN_F_DETERMINISTIC);
  cr_assert(eq(i32, b->v->info(b->inst, &info), TN_OK));
  cr_assert(strstr(info.device, tnk_isa_name(tnk_isa_best())) != NULL);
  cr_assert(strstr(info.device, "3 threads") != NULL);
  cr_assert(eq(i32, b->v->sync(b->inst), TN_OK));
  cr_assert(eq(i32, b->v->state_reset(b->inst, NULL, 0, 0), TN_E_UNSUPPORTED));
  cr_assert(eq(i32, b->v->state_fold(b->inst, NULL, 0, NULL), TN_E_UNSUPPORTED));
  cr_assert(eq(u64, backend_close(b), 0));
}

/* The option names each instruction set; one that the processor lacks is refused by name. */
Test(cpu_program, isa_option)
{
  tn_err err = {.struct_size = sizeof err};
  for (int isa = 0; isa < TNK_ISA_COUNT; isa++) {
    const tn_value values[] = {{.type = TN_T_ENUM, .v = {.i = 1 + isa}}, {.type = TN_T_BOOL}};
    backend *b = backend_open("cpu", 1, values, &err);
    if (tnk_isa_runs(isa)) {
      tn_backend_info info = {.struct_size = sizeof info};
      cr_assert(b != NULL, "%s", err.msg);
      cr_assert(eq(str, (char *)b->desc->params[0]->choices[1 + isa], (char *)tnk_isa_name(isa)));
      cr_assert(eq(i32, b->v->info(b->inst, &info), TN_OK));
      cr_assert(strstr(info.device, tnk_isa_name(isa)) == info.device);
      backend_close(b);
    } else {
      cr_assert(b == NULL);
      cr_assert(strstr(err.msg, tnk_isa_name(isa)) != NULL, "%s", err.msg);
      cr_assert(strstr(err.msg, tnk_isa_name(tnk_isa_best())) != NULL, "%s", err.msg);
    }
  }
}
