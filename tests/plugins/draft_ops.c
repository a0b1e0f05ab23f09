/* draft ops: single records on tensors of its own, facts of the model, draws and time: "tenon.ops/1", "tenon.rng/1",
 * "tenon.clock/1" and the part of "tenon.model/1" that asks. Drafts nothing. What came back stands in the record; answers
 * other than those the contract promises are counted there. */
#include <math.h>
#include <string.h>

#include "probe.h"

struct tn_inst {
  const tn_host *host;
  const tn_svc_model *model;
  const tn_svc_ops *ops;
  tn_tensor own[3]; /* [8][d] */
  probe_service seen;
};

static void expect(tn_inst *self, int good)
{
  self->seen.checks++;
  self->seen.bad += !good;
}

static void ask_facts(tn_inst *self, const tn_draft_req *r)
{
  const tn_svc_model *m = self->model;
  const tn_svc_rng *rng = self->host->service(self->host->ctx, "tenon.rng/1");
  const tn_svc_clock *clock = self->host->service(self->host->ctx, "tenon.clock/1");
  tn_hctx *ctx = self->host->ctx;
  const char *s;
  uint64_t n;
  double x;
  uint32_t index;
  tn_tensor t;
  expect(self, m->meta_str(ctx, "general.architecture", &s, &n) == TN_OK && n == strlen(m->shape->arch) &&
                   memcmp(s, m->shape->arch, n) == 0);
  expect(self, m->meta_str(ctx, "no.such.key", &s, &n) != TN_OK);
  expect(self, m->meta_f64(ctx, "llama.embedding_length", &x) == TN_OK && x == m->shape->d_model);
  expect(self, m->meta_f64(ctx, "general.architecture", &x) != TN_OK);
  expect(self, m->record(ctx, "no.such.record", &index) != TN_OK);
  expect(self, m->weight(ctx, "no.such.weight", &t) != TN_OK);
  expect(self, m->weight(ctx, "blk.0.attn_q.weight", &t) == TN_OK && t.ne[0] == m->shape->d_model);
  expect(self, self->host->service(ctx, "tenon.nothing/1") == NULL);
  uint64_t before = clock->now_ns(ctx);
  expect(self, clock->now_ns(ctx) >= before);
  for (uint32_t i = 0; i < 4; i++) self->seen.uniform[i] = rng->uniform(ctx, r->request, (uint64_t)r->n, 5, i);
}

/* ---------------------------------------------------------------- single records */

enum { ROWS = 3 };

static tn_status fill(tn_inst *self, tn_tensor *t, int64_t cols, float scale)
{
  float x[8 * 512];
  for (int64_t i = 0; i < ROWS * cols; i++) x[i] = scale * (float)((i * 37 + 11) % 64 - 32) / 32;
  tn_tensor to = *t;
  return self->ops->upload(self->host->ctx, &to, x, (uint64_t)(ROWS * cols) * sizeof *x);
}

/* Runs one record from own[0] (and own[1]) to own[2] and reads ROWS rows of it. */
static tn_status one(tn_inst *self, tn_op *op, const tn_tensor *w, int64_t cols_out, float *out)
{
  tn_tensor y = self->own[2];
  y.ne[0] = cols_out;
  y.nb[1] = cols_out * (int64_t)sizeof(float);
  const tn_tensor *ins[] = {&self->own[0], &self->own[1]}, *outs[] = {&y}, *ws[] = {w};
  op->struct_size = sizeof *op;
  op->name = "own";
  op->layer = -1;
  op->in[0] = 0;
  op->in[1] = op->kind == TN_OP_ADD || op->kind == TN_OP_GLU ? 1 : -1;
  op->in[2] = op->in[3] = op->out[1] = op->w[1] = -1;
  op->out[0] = 0;
  op->w[0] = w ? 0 : -1;
  tn_status st = self->ops->run(self->host->ctx, op, ins, outs, ws, ROWS);
  if (st == TN_OK) st = self->ops->download(self->host->ctx, &y, out, (uint64_t)(ROWS * cols_out) * sizeof *out);
  return st == TN_OK ? self->ops->sync(self->host->ctx) : st;
}

static float at(int64_t i, float scale) { return scale * (float)((i * 37 + 11) % 64 - 32) / 32; }

static void near(tn_inst *self, double got, double want)
{
  expect(self, fabs(got - want) <= 2e-6 * fmax(1, fabs(want)));
}

static tn_status simple_ops(tn_inst *self)
{
  int64_t d = self->model->shape->d_model, n = ROWS * d;
  float y[8 * 512];
  tn_op add = {.kind = TN_OP_ADD}, glu = {.kind = TN_OP_GLU, .p.glu.act = TN_ACT_SILU},
        scale = {.kind = TN_OP_SCALE, .p.scale.x = 3}, cap = {.kind = TN_OP_SOFTCAP, .p.scale.x = 0.5},
        sum = {.kind = TN_OP_SEGSUM, .p.linear = {d / 2, 0, 2, 0}}, rope = {.kind = TN_OP_ROPE};
  tn_status st = fill(self, &self->own[0], d, 1);
  if (st == TN_OK) st = fill(self, &self->own[1], d, 2);
  if (st == TN_OK) st = one(self, &add, NULL, d, y);
  for (int64_t i = 0; st == TN_OK && i < n; i++) near(self, (double)y[i], (double)at(i, 1) + (double)at(i, 2));
  if (st == TN_OK) st = one(self, &glu, NULL, d, y);
  for (int64_t i = 0; st == TN_OK && i < n; i++) {
    double x = (double)at(i, 1);
    near(self, (double)y[i], x / (1 + exp(-x)) * (double)at(i, 2));
  }
  if (st == TN_OK) st = one(self, &scale, NULL, d, y);
  for (int64_t i = 0; st == TN_OK && i < n; i++) near(self, (double)y[i], 3 * (double)at(i, 1));
  if (st == TN_OK) st = one(self, &cap, NULL, d, y);
  for (int64_t i = 0; st == TN_OK && i < n; i++) near(self, (double)y[i], 0.5 * tanh((double)at(i, 1) / 0.5));
  if (st == TN_OK) st = one(self, &sum, NULL, d / 2, y);
  for (int64_t r = 0; st == TN_OK && r < ROWS; r++)
    for (int64_t c = 0; c < d / 2; c++)
      near(self, (double)y[r * d / 2 + c], (double)at(r * d + c, 1) + (double)at(r * d + d / 2 + c, 1));
  expect(self, one(self, &rope, NULL, d, y) != TN_OK); /* needs a batch: no single record */
  return st;
}

/* Embedding, norm and projection of the pending token's row: what the model's first records make of it. */
static tn_status weight_ops(tn_inst *self, const tn_draft_req *r)
{
  tn_hctx *ctx = self->host->ctx;
  int64_t d = self->model->shape->d_model, q = (int64_t)self->model->shape->n_heads * self->model->shape->d_head;
  const int64_t three[4] = {ROWS, 1, 1, 1};
  int32_t token[ROWS] = {r->tokens[0], r->tokens[1], r->tokens[r->n - 1]};
  tn_tensor ids = {.struct_size = sizeof ids}, embed, norm, proj;
  tn_err err = {.struct_size = sizeof err};
  tn_status st = self->ops->tensor_new(ctx, TN_DT_I32, three, &ids, &err);
  if (st == TN_OK) st = self->ops->upload(ctx, &ids, token, sizeof token);
  if (st == TN_OK) st = self->model->weight(ctx, "token_embd.weight", &embed);
  if (st == TN_OK) st = self->model->weight(ctx, "blk.0.attn_norm.weight", &norm);
  if (st == TN_OK) st = self->model->weight(ctx, "blk.0.attn_q.weight", &proj);
  tn_op e = {.struct_size = sizeof e,
             .kind = TN_OP_EMBED,
             .name = "own",
             .layer = -1,
             .in = {0, -1, -1, -1},
             .out = {0, -1},
             .w = {0, -1},
             .p.embed.scale = 1},
        m = {.struct_size = sizeof m,
             .kind = TN_OP_NORM,
             .name = "own",
             .layer = -1,
             .in = {0, -1, -1, -1},
             .out = {0, -1},
             .w = {0, -1},
             .p.norm = {1e-5, d}},
        l = {.struct_size = sizeof l,
             .kind = TN_OP_LINEAR,
             .name = "own",
             .layer = -1,
             .in = {0, -1, -1, -1},
             .out = {0, -1},
             .w = {0, -1},
             .p.linear = {q, d, 1, 0}};
  const tn_tensor *a[] = {&ids}, *x[] = {&self->own[0]}, *h[] = {&self->own[1]}, *y[] = {&self->own[2]};
  const tn_tensor *we[] = {&embed}, *wn[] = {&norm}, *wp[] = {&proj};
  if (st == TN_OK) st = self->ops->run(ctx, &e, a, x, we, ROWS);
  if (st == TN_OK) st = self->ops->run(ctx, &m, x, h, wn, ROWS);
  if (st == TN_OK) st = self->ops->run(ctx, &l, h, y, wp, ROWS);
  if (st == TN_OK && self->seen.logits && q == d)
    st = self->ops->download(ctx, &self->own[2], self->seen.logits, (uint64_t)(ROWS * q) * sizeof(float));
  if (st == TN_OK) st = self->ops->sync(ctx);
  self->ops->tensor_free(ctx, &ids);
  self->seen.n = r->n;
  return st;
}

static tn_status first(tn_inst *self, const tn_draft_req *r)
{
  const int64_t none[4] = {0, 1, 1, 1}, some[4] = {4, 1, 1, 1}, rows[4] = {self->model->shape->d_model, 8, 1, 1};
  tn_tensor t;
  tn_err err = {.struct_size = sizeof err};
  ask_facts(self, r);
  expect(self, self->ops->tensor_new(self->host->ctx, TN_DT_F32, none, &t, &err) == TN_E_ARG);
  expect(self, self->ops->tensor_new(self->host->ctx, TN_DT_Q4_K, some, &t, &err) == TN_E_UNSUPPORTED);
  tn_status st = TN_OK;
  for (int i = 0; st == TN_OK && i < 3; i++)
    st = self->ops->tensor_new(self->host->ctx, TN_DT_F32, rows, &self->own[i], &err);
  if (st == TN_OK) st = simple_ops(self);
  return st == TN_OK ? weight_ops(self, r) : st;
}

/* ---------------------------------------------------------------- the slot */

static tn_status describe(tn_inst *self, const tn_plan *plan, tn_draft_spec *out, tn_err *err)
{
  (void)self, (void)plan, (void)err;
  out->max_nodes = out->max_depth = 1;
  out->q_kind = TN_Q_DELTA;
  return TN_OK;
}

static tn_status propose(tn_inst *self, uint32_t n, const tn_draft_req *const *reqs, tn_draft_tree *const *trees)
{
  tn_status st = self->seen.proposes++ == 0 ? first(self, reqs[0]) : TN_OK;
  for (uint32_t i = 0; i < n; i++) trees[i]->n = 0;
  self->host->count(self->host->ctx, 0, n);
  return st;
}

static const void *ext(tn_inst *self, const char *id) { return strcmp(id, PROBE_EXT) == 0 ? &self->seen : NULL; }

static void destroy(tn_inst *self)
{
  for (int i = 0; i < 3; i++) self->ops->tensor_free(self->host->ctx, &self->own[i]);
  self->host->free_(self->host->ctx, self);
}

static tn_status create(const tn_host *host, const tn_value *values, tn_inst **out, tn_err *err)
{
  (void)values, (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  memset(*out, 0, sizeof **out);
  (*out)->host = host;
  (*out)->model = host->service(host->ctx, "tenon.model/1");
  (*out)->ops = host->service(host->ctx, "tenon.ops/1");
  return TN_OK;
}

static const tn_draft_v1 vtable = {.struct_size = sizeof vtable, .describe = describe, .propose = propose};
static const char *const provides[] = {"draft.lossless/1", NULL};
static const char *const counters[] = {"requests", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_DRAFT,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC | TN_F_EXACT,
                             .id = "org.tenon.test.ops",
                             .name = "ops",
                             .version = "1.0.0",
                             .summary = "single records, facts, draws and time",
                             .provides = provides,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .ext = ext,
                             .vtable = &vtable};

TN_PLUGIN(draft_ops, "org.tenon.test.ops", TN_SLOT_DRAFT, "1.0.0", "Tenon", "Apache-2.0", desc);
