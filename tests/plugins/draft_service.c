/* draft service: a drafter that lives on the host's services alone.
 *
 * mode   exit    the target's own layers 0 .. exit, then its head: tenon.model/1 run() on ranges of records
 *        second  another model's greedy text: tenon.model/1 open(), eval(), close()
 * model  file of the second one       exit  last layer before the early exit       nodes  length of a draft
 * What came back stands in the record; refusals that the contract promises are counted where they fail to come. */
#include <string.h>

#include "probe.h"

enum { P_MODE, P_PATH, P_EXIT, P_NODES };
enum { EXIT, SECOND };
enum { MAX_NODES = 16 };

struct tn_inst {
  const tn_host *host;
  const tn_svc_model *model;
  const tn_svc_ops *ops;
  int64_t mode, exit, nodes;
  void *second;
  int ready;
  uint32_t exit_end, head, end; /* records: behind the exit layer; the head's first; behind the head's last */
  tn_tensor own;                /* [8][d] */
  float *host_rows;             /* [MAX_NODES][V] */
  probe_service seen;
};

static void expect(tn_inst *self, int good)
{
  self->seen.checks++;
  self->seen.bad += !good;
}

static int32_t arg_max(const float *x, uint32_t n)
{
  uint32_t best = 0;
  for (uint32_t i = 1; i < n; i++)
    if (x[i] > x[best]) best = i;
  return (int32_t)best;
}

/* ---------------------------------------------------------------- once, when the engine is open */

static tn_status prepare(tn_inst *self)
{
  static const char digits[] = "0123456789";
  char name[] = "blk.0.ffn_add";
  tn_hctx *ctx = self->host->ctx;
  const int64_t ne[4] = {self->model->shape->d_model, 8, 1, 1};
  tn_err err = {.struct_size = sizeof err};
  if (self->ready) return TN_OK;
  name[4] = digits[self->exit];
  tn_status st = self->model->record(ctx, name, &self->exit_end);
  if (st == TN_OK) st = self->model->record(ctx, "pick", &self->head);
  if (st == TN_OK) st = self->model->record(ctx, "output", &self->end);
  if (st == TN_OK) st = self->ops->tensor_new(ctx, TN_DT_F32, ne, &self->own, &err);
  self->exit_end++;
  self->end++;
  self->ready = st == TN_OK;
  return st;
}

/* ---------------------------------------------------------------- early exit */

/* Logits of n rows as a chain behind the committed text, into host_rows. */
static tn_status exit_logits(tn_inst *self, uint64_t seq, uint32_t n, const int32_t *token)
{
  tn_hctx *ctx = self->host->ctx;
  int32_t parent[MAX_NODES];
  tn_tensor hidden = {.struct_size = sizeof hidden}, logits = {.struct_size = sizeof logits};
  for (uint32_t i = 0; i < n; i++) parent[i] = (int32_t)i - 1;
  tn_run_rows body = {
      .struct_size = sizeof body, .n_rows = n, .seq = seq, .token = token, .parent = parent, .act_out = &hidden};
  tn_status st = self->model->run(ctx, 0, self->exit_end, &body);
  tn_run_rows head = {.struct_size = sizeof head,
                      .n_rows = n,
                      .seq = seq,
                      .token = token,
                      .parent = parent,
                      .hidden_in = &hidden,
                      .act_out = &logits};
  if (st == TN_OK) st = self->model->run(ctx, self->head, self->end, &head);
  uint64_t bytes = (uint64_t)n * self->model->shape->n_vocab * sizeof(float);
  if (st == TN_OK) st = self->ops->download(ctx, &logits, self->host_rows, bytes);
  return st == TN_OK ? self->ops->sync(ctx) : st;
}

static void wrong_runs(tn_inst *self, uint64_t seq, int32_t token)
{
  tn_hctx *ctx = self->host->ctx;
  int32_t parent = -1, late = 0, outside = (int32_t)self->model->shape->n_vocab;
  tn_tensor narrow = self->own;
  narrow.ne[0]--;
  const tn_run_rows good = {.struct_size = sizeof good, .n_rows = 1, .seq = seq, .token = &token, .parent = &parent};
  tn_run_rows bad = good;
  bad.seq = seq + 1000;
  expect(self, self->model->run(ctx, 0, 1, &bad) == TN_E_ARG);
  bad = good, bad.n_rows = 0;
  expect(self, self->model->run(ctx, 0, 1, &bad) == TN_E_ARG);
  bad = good, bad.parent = &late;
  expect(self, self->model->run(ctx, 0, 1, &bad) == TN_E_ARG);
  bad = good, bad.token = &outside;
  expect(self, self->model->run(ctx, 0, 1, &bad) == TN_E_ARG);
  bad = good, bad.hidden_in = &narrow;
  expect(self, self->model->run(ctx, self->head, self->end, &bad) == TN_E_ARG);
  expect(self, self->model->run(ctx, 3, 3, &good) == TN_E_ARG);
  expect(self, self->model->run(ctx, 0, self->end + 100, &good) == TN_E_ARG);
}

static tn_status propose_exit(tn_inst *self, const tn_draft_req *r, uint32_t most, tn_draft_tree *t)
{
  uint32_t V = self->model->shape->n_vocab;
  int32_t token[MAX_NODES] = {r->tokens[r->n - 1]};
  if (self->seen.proposes == 1) wrong_runs(self, r->seq, token[0]);
  for (uint32_t i = 0; i < most; i++) {
    tn_status st = exit_logits(self, r->seq, i + 1, token);
    if (st != TN_OK) return st;
    if (i == 0 && self->seen.logits && self->seen.proposes == 1) {
      memcpy(self->seen.logits, self->host_rows, V * sizeof(float));
      self->seen.n = r->n;
    }
    t->token[i] = arg_max(self->host_rows + (uint64_t)i * V, V);
    t->parent[i] = (int32_t)i - 1;
    t->n = i + 1;
    if (i + 1 < MAX_NODES) token[i + 1] = t->token[i];
  }
  return TN_OK;
}

/* ---------------------------------------------------------------- second model */

static tn_status propose_second(tn_inst *self, const tn_draft_req *r, uint32_t most, tn_draft_tree *t)
{
  uint32_t V = self->model->shape->n_vocab;
  tn_hctx *ctx = self->host->ctx;
  const float *logits;
  int64_t keep = self->seen.proposes == 1 || r->seq != self->seen.seq ? 0 : self->seen.n - 1;
  int32_t outside = (int32_t)V;
  tn_status st = self->model->eval(ctx, self->second, r->seq, keep, r->tokens + keep, r->n - keep, &logits);
  if (st == TN_OK && self->seen.logits) memcpy(self->seen.logits, logits, V * sizeof(float));
  self->seen.n = r->n;
  self->seen.seq = r->seq;
  for (uint32_t i = 0; st == TN_OK && i < most; i++) {
    t->token[i] = arg_max(logits, V);
    t->parent[i] = (int32_t)i - 1;
    t->n = i + 1;
    if (i + 1 < most) st = self->model->eval(ctx, self->second, r->seq, r->n + i, &t->token[i], 1, &logits);
  }
  if (self->seen.proposes == 1) {
    expect(self, self->model->eval(ctx, self->second, r->seq, 0, &outside, 1, &logits) == TN_E_ARG);
    expect(self, self->model->eval(ctx, self->second, r->seq, 0, r->tokens, 0, &logits) == TN_E_ARG);
    expect(self, self->model->eval(ctx, self->second, r->seq, 1 << 20, r->tokens, 1, &logits) == TN_E_ARG);
  }
  return st;
}

/* ---------------------------------------------------------------- the slot */

static tn_status describe(tn_inst *self, const tn_plan *plan, tn_draft_spec *out, tn_err *err)
{
  (void)plan, (void)err;
  out->max_nodes = out->max_depth = (uint32_t)self->nodes;
  out->q_kind = TN_Q_DELTA;
  return TN_OK;
}

static tn_status propose(tn_inst *self, uint32_t n, const tn_draft_req *const *reqs, tn_draft_tree *const *trees)
{
  for (uint32_t i = 0; i < n; i++) {
    uint32_t most = reqs[i]->max_nodes < (uint32_t)self->nodes ? reqs[i]->max_nodes : (uint32_t)self->nodes;
    tn_status st = prepare(self);
    self->seen.proposes++;
    trees[i]->n = 0;
    if (st == TN_OK && self->mode == EXIT) st = propose_exit(self, reqs[i], most, trees[i]);
    if (st == TN_OK && self->mode == SECOND) st = propose_second(self, reqs[i], most, trees[i]);
    if (st != TN_OK) return st;
    self->seen.nodes += trees[i]->n;
  }
  self->host->count(self->host->ctx, 0, n);
  return TN_OK;
}

static const void *ext(tn_inst *self, const char *id) { return strcmp(id, PROBE_EXT) == 0 ? &self->seen : NULL; }

static void destroy(tn_inst *self)
{
  self->ops->tensor_free(self->host->ctx, &self->own);
  if (self->second) self->model->close(self->host->ctx, self->second);
  self->host->free_(self->host->ctx, self->host_rows);
  self->host->free_(self->host->ctx, self);
}

static tn_status create(const tn_host *host, const tn_value *v, tn_inst **out, tn_err *err)
{
  tn_inst *self = host->alloc(host->ctx, sizeof *self, 8);
  *out = NULL;
  if (!self) return TN_E_NOMEM;
  memset(self, 0, sizeof *self);
  self->host = host;
  self->model = host->service(host->ctx, "tenon.model/1");
  self->ops = host->service(host->ctx, "tenon.ops/1");
  self->mode = v[P_MODE].v.i;
  self->exit = v[P_EXIT].v.i;
  self->nodes = v[P_NODES].v.i;
  self->host_rows = host->alloc(host->ctx, (uint64_t)MAX_NODES * self->model->shape->n_vocab * sizeof(float), 64);
  tn_status st = self->host_rows ? TN_OK : TN_E_NOMEM;
  if (st == TN_OK && self->mode == SECOND) st = self->model->open(host->ctx, v[P_PATH].v.s, &self->second, err);
  if (st != TN_OK) {
    destroy(self);
    return st;
  }
  *out = self;
  return TN_OK;
}

static const char *const modes[] = {"exit", "second"};
#define HEAD(key_, type_, def_) .struct_size = sizeof(tn_param), .key = key_, .help = key_, .type = type_, .def = def_
static const tn_param p_mode = {HEAD("mode", TN_T_ENUM, "exit"), .choices = modes, .n_choices = 2};
static const tn_param p_path = {HEAD("model", TN_T_PATH, "")};
static const tn_param p_exit = {HEAD("exit", TN_T_I64, "0"), .imin = 0, .imax = 9};
static const tn_param p_nodes = {HEAD("nodes", TN_T_I64, "4"), .imin = 1, .imax = MAX_NODES};
static const tn_param *const params[] = {&p_mode, &p_path, &p_exit, &p_nodes, NULL};
static const tn_draft_v1 vtable = {.struct_size = sizeof vtable, .describe = describe, .propose = propose};

static const char *const provides[] = {"draft.lossless/1", NULL};
static const char *const needs[] = {"run.range/1", NULL};
static const char *const counters[] = {"requests", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_DRAFT,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC | TN_F_EXACT,
                             .id = "org.tenon.test.service",
                             .name = "service",
                             .version = "1.0.0",
                             .summary = "a drafter on the host's services",
                             .provides = provides,
                             .needs = needs,
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .ext = ext,
                             .vtable = &vtable};

TN_PLUGIN(draft_service, "org.tenon.test.service", TN_SLOT_DRAFT, "1.0.0", "Tenon", "Apache-2.0", desc);
