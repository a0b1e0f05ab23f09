/* roofline: bytes and operations against what the file's tensors say; the measured rates are rates. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "measure/bench_rig.h"

static const char *const cpu[] = {"compose.backend=cpu", "engine.threads=2", NULL};
static const char *const ref[] = {"compose.backend=ref", NULL};
static const char *const eight[] = {"compose.backend=cpu", "compose.weights=int8", "compose.kv=int8", NULL};

Test(roofline, weights_are_the_files_bytes)
{
  bench_rig *r = bench_open("llama", cpu);
  double all = bench_file_bytes(r, NULL), embedding = bench_file_bytes(r, "token_embd.weight");
  double row = embedding / r->s.model->shape.n_vocab, head = bench_file_bytes(r, "output.weight");
  double norm = bench_file_bytes(r, "output_norm.weight");
  tn_cost one = tn_cost_of(r->e, 0, UINT32_MAX, 1, 1), more = tn_cost_of(r->e, 0, UINT32_MAX, 7, 2);
  tn_cost none = tn_cost_of(r->e, 0, UINT32_MAX, 7, 0), empty = tn_cost_of(r->e, 3, 3, 7, 2);
  cr_expect(eq(dbl, one.bytes, all - embedding + row));
  cr_expect(eq(dbl, more.bytes, all - embedding + 7 * row), "a weight is read once for all rows");
  cr_expect(eq(dbl, none.bytes, all - embedding + 7 * row - head - norm), "the head is for rows with logits");
  cr_expect(eq(dbl, empty.bytes, 0));
  cr_expect(eq(dbl, one.int_ops, 0), "the file's matrices are f16");
  bench_close(r);
}

Test(roofline, tied_head_is_read_whole)
{
  bench_rig *r = bench_open("qwen3", cpu);
  double all = bench_file_bytes(r, NULL), row = bench_file_bytes(r, "token_embd.weight") / r->s.model->shape.n_vocab;
  cr_expect(eq(dbl, tn_cost_of(r->e, 0, UINT32_MAX, 3, 1).bytes, all + 3 * row));
  bench_close(r);
}

Test(roofline, ranks_add_up)
{
  static const char *const two[] = {"compose.backend=cpu", "compose.parallel=tensor", "parallel.tensor.world=2", NULL};
  bench_rig *a = bench_open("llama", cpu), *b = bench_open("llama", two);
  tn_cost x = tn_cost_of(a->e, 0, UINT32_MAX, 4, 4), y = tn_cost_of(b->e, 0, UINT32_MAX, 4, 4);
  cr_expect(y.bytes >= x.bytes && y.bytes < 1.35 * x.bytes, "%g of one rank, %g of two", x.bytes, y.bytes);
  cr_expect(eq(dbl, tn_cost_kv_token(a->e, -1), tn_cost_kv_token(b->e, -1)));
  bench_close(a);
  bench_close(b);
}

Test(roofline, codes_count_as_operations)
{
  bench_rig *r = bench_open("llama", eight);
  const tn_model_shape *m = &r->s.model->shape;
  double d = m->d_model, q = (double)m->n_heads * m->d_head, kv = (double)m->n_kv_heads * m->d_head;
  double layer = 2 * d * q + 2 * d * kv + 3 * d * m->d_ff, weights = m->n_layers * layer + d * m->n_vocab;
  double norms = (2.0 * m->n_layers + 1) * d * 4, row = bench_file_bytes(r, "token_embd.weight") / m->n_vocab;
  tn_cost c = tn_cost_of(r->e, 0, UINT32_MAX, 5, 5);
  cr_expect(eq(dbl, c.byte_ops, 2 * 5 * weights));
  cr_expect(eq(dbl, c.int_ops, 0), "all of them have 8 bits");
  cr_expect(eq(dbl, c.bytes, weights + weights / 32 * 4 + norms + 5 * row),
            "a byte a weight and an f32 for 32 of them");
  cr_expect(eq(dbl, tn_cost_kv_token(r->e, 1), 2 * kv * (1 + 2.0 / 32)));
  cr_expect(eq(dbl, tn_cost_kv_token(r->e, -1), m->n_layers * 2 * kv * (1 + 2.0 / 32)));
  bench_close(r);
}

Test(roofline, cache_by_layer_and_sequence)
{
  bench_rig *r = bench_open("gemma3", cpu);
  const tn_model_shape *m = &r->s.model->shape;
  double token = 2.0 * m->n_kv_heads * m->d_head * 2;
  cr_expect(eq(dbl, tn_cost_kv_token(r->e, 0), token));
  cr_expect(eq(dbl, tn_cost_kv_token(r->e, -1), m->n_layers * token));
  int32_t prompt[64] = {0};
  uint64_t id;
  tn_err err = tn_err_init();
  tn_request q = {.prompt = prompt, .n_prompt = 64, .max_new = 8, .sampling = tn_sampling_default(), .ignore_eog = 1};
  cr_assert(tn_engine_submit(r->e, &q, &id, &err) == TN_OK, "%s", err.msg);
  cr_expect(eq(dbl, tn_cost_kv(r->e, tn_engine_seq(r->e, id), -1), 0), "it waits");
  cr_assert(tn_engine_step(r->e, &err) == TN_OK, "%s", err.msg);
  double near = 0, all = 0;
  for (uint32_t l = 0; l < m->n_layers; l++) {
    double bytes = tn_cost_kv(r->e, tn_engine_seq(r->e, id), (int32_t)l);
    all += bytes;
    if (m->class_window[m->layer_class[l]] == 0)
      cr_expect(eq(dbl, bytes, 64 * token));
    else
      near = bytes;
  }
  cr_expect(near >= 8 * token && near <= 24 * token, "a window of 8 keeps %g tokens", near / token);
  cr_expect(eq(dbl, tn_cost_kv(r->e, tn_engine_seq(r->e, id), -1), all));
  tn_engine_cancel(r->e, id);
  cr_assert(tn_engine_step(r->e, &err) == TN_OK, "%s", err.msg);
  bench_close(r);
}

Test(roofline, bound_is_the_larger)
{
  tn_bounds b = {.read = 100, .int_ops = 1000, .byte_ops = 500};
  cr_expect(eq(dbl, tn_cost_bound(&(tn_cost){500, 1000, 0}, &b), 5));
  cr_expect(eq(dbl, tn_cost_bound(&(tn_cost){500, 7000, 0}, &b), 7));
  cr_expect(eq(dbl, tn_cost_bound(&(tn_cost){500, 7000, 1000}, &b), 9), "codes of 8 bits have a rate of their own");
  cr_expect(eq(dbl, tn_cost_bound(&(tn_cost){500, 7000, 7000}, &(tn_bounds){.read = 100}), 5), "no rate, no bound");
}

Test(roofline, rates)
{
  bench_rig *a = bench_open("llama", cpu), *b = bench_open("llama", ref);
  tn_err err = tn_err_init();
  double read;
  tn_bounds ops;
  for (uint32_t threads = 1; threads <= 3; threads++) {
    cr_assert(tn_roofline_read(threads, &read, &err) == TN_OK, "%s", err.msg);
    cr_expect(read > 1e8 && read < 1e13, "%g bytes a second", read);
  }
  cr_assert(tn_roofline_int_ops(a->e, &ops, &err) == TN_OK, "%s", err.msg);
  cr_expect(ops.int_ops > 1e8 && ops.int_ops < 1e15, "%g operations a second", ops.int_ops);
  cr_expect(ops.byte_ops > 1e8 && ops.byte_ops < 1e15, "%g operations a second", ops.byte_ops);
  cr_assert(tn_roofline_int_ops(b->e, &ops, &err) == TN_OK, "%s", err.msg);
  cr_expect(ops.int_ops == 0 && ops.byte_ops == 0, "ref does not say");
  cr_expect(ne(int, tn_roofline_read(0, &read, &err), TN_OK));
  bench_close(a);
  bench_close(b);
}
