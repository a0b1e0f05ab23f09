/* same_inputs: see same_inputs.h. */
#include "same_inputs.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/mini_forward.h"

typedef struct side {
  backend *b;
  mini_forward *f;
} side;

typedef struct input { /* [n][cols] of one matrix product */
  float *x;
  int64_t cols;
} input;

struct same_inputs {
  tn_model *model;
  side ref, cpu;
  input *inputs; /* [n_inputs] in the program's order */
  uint32_t n_inputs, at;
  double worst;
  char worst_name[64];
};

/* n rows of x to or from the host's memory. */
static tn_status move_rows(const backend *b, const tn_tensor *x, uint32_t n, float *rows, bool read)
{
  tn_status st = TN_OK;
  for (uint32_t r = 0; r < n && st == TN_OK; r++) {
    uint64_t at = x->offset + r * (uint64_t)x->nb[1], bytes = (uint64_t)x->ne[0] * sizeof *rows;
    float *row = rows + r * x->ne[0];
    st = read ? b->v->download(b->inst, x->buf, at, row, bytes) : b->v->upload(b->inst, x->buf, at, row, bytes);
  }
  return st == TN_OK ? b->v->sync(b->inst) : st;
}

static tn_status keep(void *ctx, const tn_op *op, const tn_tensor *x, uint32_t n)
{
  same_inputs *s = ctx;
  (void)op;
  if (s->at == s->n_inputs) {
    s->inputs = realloc(s->inputs, (s->n_inputs + 1) * sizeof *s->inputs);
    s->inputs[s->n_inputs++] = (input){NULL, x->ne[0]};
  }
  input *in = &s->inputs[s->at++];
  in->x = realloc(in->x, (size_t)n * (size_t)in->cols * sizeof *in->x);
  return move_rows(s->ref.b, x, n, in->x, true);
}

static void compare(same_inputs *s, const char *name, const float *want, const float *have, int64_t cols)
{
  double error = 0, size = 0;
  for (int64_t i = 0; i < cols; i++) {
    double w = (double)want[i], e = (double)have[i] - w;
    error += e * e;
    size += w * w;
  }
  double part = sqrt(error / size);
  if (part <= s->worst) return;
  s->worst = part;
  snprintf(s->worst_name, sizeof s->worst_name, "%s", name);
}

static tn_status replace(void *ctx, const tn_op *op, const tn_tensor *x, uint32_t n)
{
  same_inputs *s = ctx;
  cr_assert_lt(s->at, s->n_inputs, "%s: cpu has more matrix products than ref", op->name);
  const input *in = &s->inputs[s->at++];
  cr_assert_eq(in->cols, x->ne[0], "%s", op->name);
  float *have = malloc((size_t)n * (size_t)in->cols * sizeof *have);
  tn_status st = move_rows(s->cpu.b, x, n, have, true);
  for (uint32_t r = 0; r < n && st == TN_OK; r++)
    compare(s, op->name, in->x + r * in->cols, have + r * in->cols, in->cols);
  free(have);
  return st == TN_OK ? move_rows(s->cpu.b, x, n, in->x, false) : st;
}

static side open_side(same_inputs *s, const char *name, uint32_t n,
                      tn_status (*observe)(void *, const tn_op *, const tn_tensor *, uint32_t))
{
  tn_err err = tn_err_init();
  side x = {.b = backend_open(name, 2, NULL, &err)};
  cr_assert(x.b, "%s: %s", name, err.msg);
  const mini_cfg cfg = {.backend = x.b,
                        .model = s->model,
                        .build = {.flags = TN_BUILD_OBSERVE_ALL},
                        .kv_dtype = TN_DT_F16,
                        .prepare = TN_PREP_ACT_INT8,
                        .max_tokens = n,
                        .observe = observe,
                        .observe_ctx = s};
  x.f = mini_open(&cfg, &err);
  cr_assert(x.f, "%s: %s", name, err.msg);
  return x;
}

same_inputs *same_inputs_open(const char *file, uint32_t n)
{
  tn_err err = tn_err_init();
  same_inputs *s = calloc(1, sizeof *s);
  cr_assert_eq(tn_model_open(file, NULL, NULL, &s->model, &err), TN_OK, "%s", err.msg);
  s->ref = open_side(s, "ref", n, keep);
  s->cpu = open_side(s, "cpu", n, replace);
  return s;
}

void same_inputs_close(same_inputs *s)
{
  if (!s) return;
  mini_close(s->ref.f);
  mini_close(s->cpu.f);
  backend_close(s->ref.b);
  backend_close(s->cpu.b);
  for (uint32_t i = 0; i < s->n_inputs; i++) free(s->inputs[i].x);
  free(s->inputs);
  tn_model_close(s->model);
  free(s);
}

uint32_t same_inputs_vocab(const same_inputs *s) { return s->model->shape.n_vocab; }

void same_inputs_run(same_inputs *s, const int32_t *ids, uint32_t n, float *ref, float *cpu)
{
  mini_restart(s->ref.f);
  mini_restart(s->cpu.f);
  s->at = 0;
  cr_assert_eq(mini_run(s->ref.f, ids, n, ref), TN_OK);
  s->at = 0;
  cr_assert_eq(mini_run(s->cpu.f, ids, n, cpu), TN_OK);
  cr_assert(s->n_inputs > 0 && s->at == s->n_inputs, "%u of %u inputs", s->at, s->n_inputs);
}

double same_inputs_worst(const same_inputs *s, const char **name)
{
  *name = s->worst_name;
  return s->worst;
}
