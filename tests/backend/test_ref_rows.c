/* Records of the ref backend that treat each row on its own, each against a formula written out here. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <string.h>

#include "rig.h"

enum { ROWS = 5, COLS = 12 };

static float x[ROWS * COLS], x2[ROWS * COLS], w[COLS], y[ROWS * COLS];

/* A program of one record on two inputs of ROWS x COLS (seeds 1 and 2), output y. Fill op in `fill`. */
typedef struct one_record {
  backend *b;
  prog p;
  step s;
  tn_prepared *prep;
  tn_tensor w;
  tn_op *op;
  int32_t in0, in1, out;
  tn_prepare how;
} one_record;

static void begin(one_record *o, uint32_t kind, int64_t out_cols, uint32_t out_rows)
{
  tn_err err;
  memset(o, 0, sizeof *o);
  rig_fill(x, ROWS * COLS, 1);
  rig_fill(x2, ROWS * COLS, 2);
  rig_fill(w, COLS, 3);
  o->b = backend_open("ref", 2, NULL, &err);
  cr_assert(o->b != NULL, "%s", err.msg);
  prog_init(&o->p);
  step_init(&o->s);
  o->in0 = prog_act(&o->p, TN_ROWS_ALL, COLS);
  o->in1 = prog_act(&o->p, TN_ROWS_ALL, COLS);
  o->out = prog_act(&o->p, out_rows, out_cols);
  o->op = prog_op(&o->p, kind, o->in0, -1, o->out, -1, -1);
  o->how = (tn_prepare){.struct_size = sizeof o->how, .max_rows = ROWS, .max_out = ROWS};
  for (int32_t r = 0; r < ROWS; r++) step_row(&o->s, 0, r, r, r);
}

static void run(one_record *o, int64_t n_out)
{
  tn_err err = {.struct_size = sizeof err};
  cr_assert(eq(i32, o->b->v->prepare(o->b->inst, &o->p.pr, &o->how, NULL, &o->prep, &err), TN_OK), "%s", err.msg);
  rig_put(o->b, o->prep, o->in0, x, ROWS);
  rig_put(o->b, o->prep, o->in1, x2, ROWS);
  cr_assert(eq(i32, o->b->v->run(o->b->inst, o->prep, 0, 1, &o->s.b), TN_OK));
  if (n_out) rig_get(o->b, o->prep, o->out, y, n_out);
}

static void end(one_record *o)
{
  o->b->v->prepared_free(o->b->inst, o->prep);
  o->b->v->weight_free(o->b->inst, &o->w);
  cr_assert(eq(u64, backend_close(o->b), 0));
}

Test(ref_rows, embed)
{
  static float table[7 * COLS];
  static const int32_t tokens[ROWS] = {6, 0, 3, 3, 1};
  one_record o;
  begin(&o, TN_OP_EMBED, COLS, TN_ROWS_ALL);
  rig_fill(table, 7 * COLS, 4);
  o.w = rig_weight(o.b, table, 7, COLS);
  o.op->in[0] = -1;
  o.op->w[0] = prog_weight(&o.p, o.w);
  o.op->p.embed.scale = 1.75;
  memcpy(o.s.token, tokens, sizeof tokens);
  run(&o, ROWS);
  for (int r = 0; r < ROWS; r++) {
    for (int i = 0; i < COLS; i++) cr_assert(eq(flt, y[r * COLS + i], table[tokens[r] * COLS + i] * 1.75f));
  }
  o.s.token[1] = 7;
  cr_assert(eq(i32, o.b->v->run(o.b->inst, o.prep, 0, 1, &o.s.b), TN_E_ARG));
  end(&o);
}

static void check_norm(int span, bool weighted)
{
  one_record o;
  begin(&o, TN_OP_NORM, COLS, TN_ROWS_ALL);
  o.op->p.norm = (tn_op_norm){.eps = 1e-3, .span = span};
  if (weighted) {
    o.w = rig_weight(o.b, w, 1, span);
    o.op->w[0] = prog_weight(&o.p, o.w);
  }
  run(&o, ROWS);
  for (int r = 0; r < ROWS; r++) {
    for (int i = 0; i < COLS; i++) {
      double ss = 0;
      for (int j = i / span * span; j < (i / span + 1) * span; j++) ss += pow((double)x[r * COLS + j], 2);
      const double want = (double)x[r * COLS + i] / sqrt(ss / span + 1e-3) * (weighted ? (double)w[i % span] : 1);
      cr_assert(epsilon_eq(dbl, (double)y[r * COLS + i], want, 1e-6));
    }
  }
  end(&o);
}

Test(ref_rows, norm)
{
  check_norm(COLS, true);
  check_norm(4, true);
  check_norm(6, false);
}

Test(ref_rows, add_glu_scale_softcap)
{
  one_record o;
  static const uint32_t acts[3] = {TN_ACT_SILU, TN_ACT_GELU_TANH, TN_ACT_NONE};
  for (int k = 0; k < 6; k++) {
    static const uint32_t kinds[6] = {TN_OP_ADD, TN_OP_GLU, TN_OP_GLU, TN_OP_GLU, TN_OP_SCALE, TN_OP_SOFTCAP};
    begin(&o, kinds[k], COLS, TN_ROWS_ALL);
    if (kinds[k] == TN_OP_ADD || kinds[k] == TN_OP_GLU) o.op->in[1] = o.in1;
    if (kinds[k] == TN_OP_GLU) o.op->p.glu.act = acts[k - 1];
    if (k >= 4) o.op->p.scale.x = 0.3;
    run(&o, ROWS);
    for (int i = 0; i < ROWS * COLS; i++) {
      const double a = x[i], b = x2[i];
      const double gelu = 0.5 * a * (1 + tanh(sqrt(2 / M_PI) * (a + 0.044715 * a * a * a)));
      const double want[6] = {a + b, a / (1 + exp(-a)) * b, gelu * b, a * b, a * 0.3, 0.3 * tanh(a / 0.3)};
      cr_assert(epsilon_eq(dbl, (double)y[i], want[k], 1e-6), "case %d", k);
    }
    end(&o);
  }
}

/* Two heads of 6 columns, 4 of them rotated. */
static void check_rope(uint32_t style, uint32_t sink)
{
  one_record o;
  static float cos_t[ROWS * 2], sin_t[ROWS * 2];
  const float *cos_p[1] = {cos_t}, *sin_p[1] = {sin_t};
  begin(&o, TN_OP_ROPE, COLS, TN_ROWS_ALL);
  for (int r = 0; r < ROWS; r++) {
    for (int i = 0; i < 2; i++) cos_t[r * 2 + i] = cosf((float)(r + i)), sin_t[r * 2 + i] = sinf((float)(r + i));
  }
  prog_table(&o.p, 4);
  o.op->p.rope = (tn_op_rope){.n_heads = 2, .d_head = 6, .dims = 4, .style = style, .sink = sink};
  o.s.b.n_tables = 1;
  if (sink)
    o.s.b.sink_cos = cos_p, o.s.b.sink_sin = sin_p;
  else
    o.s.b.cos = cos_p, o.s.b.sin = sin_p;
  run(&o, ROWS);
  for (int r = 0; r < ROWS; r++) {
    for (int h = 0; h < 2; h++) {
      const float *a = x + r * COLS + h * 6, *b = y + r * COLS + h * 6;
      for (int i = 0; i < 2; i++) {
        const int p = style == TN_ROPE_HALF ? i : 2 * i, q = style == TN_ROPE_HALF ? i + 2 : 2 * i + 1;
        const double c = cos(r + i), s = sin(r + i);
        cr_assert(epsilon_eq(dbl, (double)b[p], a[p] * c - a[q] * s, 1e-6));
        cr_assert(epsilon_eq(dbl, (double)b[q], a[q] * c + a[p] * s, 1e-6));
      }
      cr_assert(eq(flt, b[4], a[4]));
      cr_assert(eq(flt, b[5], a[5]));
    }
  }
  end(&o);
}

Test(ref_rows, rope)
{
  check_rope(TN_ROPE_HALF, 0);
  check_rope(TN_ROPE_INTERLEAVED, 0);
  check_rope(TN_ROPE_HALF, 1);
}

Test(ref_rows, pick)
{
  one_record o;
  begin(&o, TN_OP_PICK, COLS, TN_ROWS_OUT);
  step_want(&o.s, 1);
  step_want(&o.s, 4);
  run(&o, 2);
  cr_assert(eq(i32, memcmp(y, x + COLS, COLS * sizeof *y), 0));
  cr_assert(eq(i32, memcmp(y + COLS, x + 4 * COLS, COLS * sizeof *y), 0));
  o.s.out_row[0] = ROWS;
  cr_assert(eq(i32, o.b->v->run(o.b->inst, o.prep, 0, 1, &o.s.b), TN_E_ARG));
  end(&o);
}

/* Three parts of two heads of two columns. */
Test(ref_rows, merge)
{
  one_record o;
  static float lse[ROWS * 6], merged[ROWS * 2];
  begin(&o, TN_OP_MERGE, 4, TN_ROWS_ALL);
  const int32_t l = prog_act(&o.p, TN_ROWS_ALL, 6), out_lse = prog_act(&o.p, TN_ROWS_ALL, 2);
  tn_err err;
  o.op->in[1] = l;
  o.op->out[1] = out_lse;
  o.op->p.merge = (tn_op_merge){.parts = 3, .n_heads = 2};
  rig_fill(lse, ROWS * 6, 9);
  lse[2] = -INFINITY;
  for (int p = 0; p < 3; p++) lse[6 + p * 2] = -INFINITY; /* row 1, head 0: nobody saw anything */
  cr_assert(eq(i32, o.b->v->prepare(o.b->inst, &o.p.pr, &o.how, NULL, &o.prep, &err), TN_OK));
  rig_put(o.b, o.prep, o.in0, x, ROWS);
  rig_put(o.b, o.prep, l, lse, ROWS);
  cr_assert(eq(i32, o.b->v->run(o.b->inst, o.prep, 0, 1, &o.s.b), TN_OK));
  rig_get(o.b, o.prep, o.out, y, ROWS);
  rig_get(o.b, o.prep, out_lse, merged, ROWS);
  for (int r = 0; r < ROWS; r++) {
    for (int i = 0; i < 4; i++) {
      double sum = 0, total = 0;
      for (int p = 0; p < 3; p++) {
        const double e = exp((double)lse[r * 6 + p * 2 + i / 2]);
        total += e;
        sum += e * (double)x[r * COLS + p * 4 + i];
      }
      cr_assert(epsilon_eq(dbl, (double)y[r * 4 + i], total > 0 ? sum / total : 0, 1e-6));
      if (total > 0)
        cr_assert(epsilon_eq(dbl, (double)merged[r * 2 + i / 2], log(total), 1e-6));
      else
        cr_assert(eq(flt, merged[r * 2 + i / 2], -INFINITY));
    }
  }
  end(&o);
}

/* ---------------------------------------------------------------- hooks */

typedef struct seen {
  const tn_op *op;
  int64_t cols;
  uint32_t rows, calls;
  backend *b;
} seen;

static tn_status on_observe(void *ctx, const tn_op *op, const tn_tensor *t, uint32_t n_rows)
{
  seen *s = ctx;
  s->op = op;
  s->cols = t->ne[0];
  s->rows = n_rows;
  s->calls++;
  return TN_OK;
}

/* A world of one: what comes in goes out, doubled. */
static tn_status on_collective(void *ctx, const tn_op *op, const tn_tensor *in, const tn_tensor *out, uint32_t n_rows)
{
  seen *s = ctx;
  (void)op;
  if (!in || !out) return TN_E_INTERNAL;
  for (uint32_t r = 0; r < n_rows; r++) {
    float row[COLS];
    s->b->v->download(s->b->inst, in->buf, in->offset + r * (uint64_t)in->nb[1], row, sizeof row);
    for (int i = 0; i < COLS; i++) row[i] *= 2;
    s->b->v->upload(s->b->inst, out->buf, out->offset + r * (uint64_t)out->nb[1], row, sizeof row);
  }
  return TN_OK;
}

Test(ref_rows, tap)
{
  one_record o;
  tn_err err;
  begin(&o, TN_OP_TAP, COLS, TN_ROWS_ALL);
  tn_tensor tap = {.struct_size = sizeof tap, .ne = {COLS, ROWS, 1, 1}, .nb = {4, COLS * 4}};
  const tn_tensor *taps[1] = {&tap};
  cr_assert(eq(i32, o.b->v->buffer_new(o.b->inst, sizeof y, &tap.buf, &err), TN_OK));
  o.op->out[0] = -1;
  o.how.n_taps = 1;
  o.how.taps = taps;
  run(&o, 0);
  cr_assert(eq(i32, o.b->v->download(o.b->inst, tap.buf, 0, y, sizeof y), TN_OK));
  cr_assert(eq(i32, memcmp(y, x, sizeof y), 0));
  o.b->v->buffer_free(o.b->inst, tap.buf);
  end(&o);
}

Test(ref_rows, observe_and_collective)
{
  one_record o;
  begin(&o, TN_OP_OBSERVE, COLS, TN_ROWS_ALL);
  seen s = {.b = o.b};
  o.op->out[0] = -1;
  o.op->p.tap.index = 5;
  o.how.ctx = &s;
  o.how.observe = on_observe;
  run(&o, 0);
  cr_assert(eq(u32, s.calls, 1));
  cr_assert(eq(u32, s.rows, ROWS));
  cr_assert(eq(i64, s.cols, COLS));
  cr_assert(eq(u32, s.op->p.tap.index, 5));
  end(&o);

  begin(&o, TN_OP_COLLECTIVE, COLS, TN_ROWS_ALL);
  s = (seen){.b = o.b};
  o.how.ctx = &s;
  o.how.collective = on_collective;
  run(&o, ROWS);
  for (int i = 0; i < ROWS * COLS; i++) cr_assert(eq(flt, y[i], 2 * x[i]));
  end(&o);
}
