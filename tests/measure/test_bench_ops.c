/* bench_ops: which kinds of records there are, and that their figures cover the program. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "measure/bench_ops.h"
#include "measure/bench_rig.h"

static const char *const cpu[] = {"compose.backend=cpu", NULL};

typedef struct seen {
  uint32_t n, stop_after;
  char name[64][64];
  tn_bench_op op[64];
} seen;

static bool on_figure(void *ctx, const tn_bench_op *op)
{
  seen *s = ctx;
  cr_assert(s->n < 64);
  snprintf(s->name[s->n], sizeof s->name[0], "%s", op->name);
  s->op[s->n++] = *op;
  cr_expect(op->seconds > 0 && op->cost.bytes > 0, "%s", op->name);
  return s->n != s->stop_after;
}

static tn_status run(bench_rig *r, seen *s, const uint32_t *rows, uint32_t n_rows, const int64_t *depths, uint32_t n,
                     tn_err *err)
{
  tn_bench_ops ops = {.rows = rows, .n_rows = n_rows, .depths = depths, .n_depths = n, .figure = on_figure, .ctx = s};
  return tn_bench_ops_run(r->e, &ops, err);
}

/* Index of the figure, or the end of the test. */
static uint32_t at(const seen *s, const char *name, uint32_t rows, int64_t depth)
{
  for (uint32_t i = 0; i < s->n; i++)
    if (strcmp(s->name[i], name) == 0 && s->op[i].rows == rows && s->op[i].depth == depth) return i;
  cr_assert(false, "no figure of %s with %u rows at depth %lld", name, rows, (long long)depth);
  return 0;
}

Test(bench_ops, kinds_cover_the_program)
{
  static const char *const linear[] = {"attn_q+attn_k+attn_v", "attn_out", "ffn_gate+ffn_up", "ffn_down", "output"};
  static const uint32_t rows[] = {1, 3};
  static const int64_t depths[] = {9, 70};
  static seen s;
  tn_err err = tn_err_init();
  bench_rig *r = bench_open("llama", cpu);
  uint32_t layers = r->s.model->shape.n_layers;
  cr_assert(run(r, &s, rows, 2, depths, 2, &err) == TN_OK, "%s", err.msg);
  cr_expect(eq(u32, s.n, 2 * 7 + 2 * 2), "matmuls at the first depth only");
  for (uint32_t k = 0; k < 2; k++) {
    double sum = 0;
    for (size_t i = 0; i < TN_ARRAY_LEN(linear); i++) {
      const tn_bench_op *op = &s.op[at(&s, linear[i], rows[k], 9)];
      cr_expect(eq(u32, op->n_records, i == 4 ? 1 : layers));
      sum += op->cost.bytes;
    }
    const tn_bench_op *step = &s.op[at(&s, "step", rows[k], 9)], *attend = &s.op[at(&s, "attend", rows[k], 9)];
    cr_expect(eq(dbl, attend->cost.bytes, (9 + rows[k]) * tn_cost_kv_token(r->e, -1)));
    double all = tn_cost_of(r->e, 0, UINT32_MAX, rows[k], rows[k]).bytes;
    cr_expect(eq(dbl, step->cost.bytes, all + attend->cost.bytes));
    cr_expect(sum < all && sum > 0.95 * all, "norms and the embedding's rows are the rest: %g of %g", sum, all);
  }
  cr_expect(eq(dbl, s.op[at(&s, "attend", 3, 70)].cost.bytes, 73 * tn_cost_kv_token(r->e, -1)));
  bench_close(r);
}

Test(bench_ops, windows_read_less)
{
  static const uint32_t rows[] = {1};
  static const int64_t depths[] = {200};
  static seen s;
  tn_err err = tn_err_init();
  bench_rig *r = bench_open("gemma3", cpu);
  cr_assert(run(r, &s, rows, 1, depths, 1, &err) == TN_OK, "%s", err.msg);
  double all = 201 * tn_cost_kv_token(r->e, -1), got = s.op[at(&s, "attend", 1, 200)].cost.bytes;
  cr_expect(got < all / 2 && got > all / 10, "%g of %g", got, all);
  bench_close(r);
}

Test(bench_ops, many_rows_and_an_early_end)
{
  static const uint32_t rows[] = {64, 4096};
  static const int64_t depths[] = {5};
  static seen s;
  tn_err err = tn_err_init();
  bench_rig *r = bench_open("llama", cpu);
  cr_assert(run(r, &s, rows, 2, depths, 1, &err) == TN_OK, "%s", err.msg);
  cr_expect(eq(u32, s.n, 6), "no head for a prompt, and no more rows than a step has");
  s.n = 0, s.stop_after = 2;
  cr_assert(run(r, &s, rows, 1, depths, 1, &err) == TN_OK, "%s", err.msg);
  cr_expect(eq(u32, s.n, 2));
  bench_close(r);
}

Test(bench_ops, a_context_too_small_is_refused)
{
  static const char *const small[] = {"compose.backend=cpu", "engine.ctx=64", NULL};
  static const uint32_t rows[] = {1, 32};
  static const int64_t depths[] = {60};
  static seen s;
  tn_err err = tn_err_init();
  bench_rig *r = bench_open("llama", small);
  cr_expect(eq(int, run(r, &s, rows, 2, depths, 1, &err), TN_E_NEVER), "%s", err.msg);
  cr_expect(strstr(err.msg, "64") != NULL, "%s", err.msg);
  bench_close(r);
}
