/* A llama-like program on the ref backend: ranges, batches, threads, two instances; what prepare() and run() refuse; and
 * every allocation failing in turn. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <string.h>

#include "llama_rig.h"

enum { V = LLAMA_VOCAB, T = LLAMA_TEXT, ROWS = LLAMA_ROWS };

static float one[T * V], two[T * V];

Test(ref_program, chunks_ranges_and_threads_change_no_bit)
{
  llama m;
  llama_open(&m, "ref", 1, 0);
  llama_feed(&m, 1, 0, one);
  for (int64_t i = 0; i < T * V; i++) cr_assert(isfinite(one[i]));
  cr_assert(ne(i32, memcmp(one, one + V, V * 4), 0));
  llama_close(&m);
  for (uint32_t threads = 1; threads <= 4; threads++) {
    llama_open(&m, "ref", threads, threads == 4 ? TN_PREP_UNFUSED | TN_PREP_NAIVE_ATTENTION : 0);
    llama_feed(&m, 1 + 13 * (threads - 1), threads * 5, two);
    cr_assert(eq(i32, memcmp(one, two, sizeof one), 0), "%u threads", threads);
    cr_assert(gt(u64, backend_counter(m.be, 0), 0));
    llama_close(&m);
  }
}

Test(ref_program, int8_activations_move_logits_a_little)
{
  llama m;
  double most = 0;
  llama_open(&m, "ref", 2, 0);
  llama_feed(&m, 10, 0, one);
  llama_close(&m);
  llama_open(&m, "ref", 2, TN_PREP_ACT_INT8);
  llama_feed(&m, 10, 0, two);
  llama_close(&m);
  for (int i = 0; i < T * V; i++) most = fmax(most, fabs((double)one[i] - (double)two[i]));
  cr_assert(gt(dbl, most, 1e-4));
  cr_assert(lt(dbl, most, 0.3));
}

/* No allocation while records run. */
Test(ref_program, runs_allocate_nothing)
{
  llama m;
  llama_open(&m, "ref", 2, TN_PREP_ACT_INT8);
  const uint64_t before = backend_allocs(m.be);
  llama_feed(&m, 7, 0, one);
  cr_assert(eq(u64, backend_allocs(m.be), before));
  llama_close(&m);
}

Test(ref_program, two_instances_in_one_process)
{
  llama a, b;
  tn_err err;
  llama_open(&a, "ref", 2, 0);
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
  llama_open(&m, "ref", 1, 0);
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
  static const int32_t path[2] = {0, 200}, near[2] = {0, 1};
  llama_open(&m, "ref", 1, 0);
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

Test(ref_program, every_allocation_may_fail)
{
  llama m;
  tn_err err = {.struct_size = sizeof err};
  memset(&m, 0, sizeof m);
  m.be = backend_open("ref", 2, NULL, &err);
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
    /* Scratch for weight rows belongs to the instance and may have grown. */
    cr_assert(le(u64, backend_live(m.be), live + 2), "allocation %d", (int)n);
  }
  cr_assert(gt(u64, n, 50));
  backend_fail_at(m.be, 0);
  llama_close(&m);
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
