/* draft probe: every hook of the slot, every kind of law, chains and trees, taps, and state for each sequence.
 *
 * mode    wrong    a chain that is wrong from its first token on, by the script
 *         script   a chain that is right, by the script
 *         random   a random tree of up to `nodes`; with a script about half of its nodes are right
 *         iid      chains and branches drawn independently from the record's law
 *         wor      siblings drawn from it without replacement
 *         deep     a random tree of one token everywhere, deeper than declared: the host cuts it
 *         broken   what `fault` says, which the host must refuse
 * taps    1: asks for the normed rows, those of layer 0 and of the last layer, and keeps them in the record
 * Draws come from tenon.rng/1. What outcome() and rows() say is held against what propose() is told next. */
#include <string.h>

#include "probe.h"

enum { P_MODE, P_NODES, P_DEPTH, P_TAPS, P_FAULT };
enum { WRONG, SCRIPT, RANDOM, IID, WOR, DEEP, BROKEN };
enum { F_PARENT, F_TOKEN, F_LAW, F_BRANCH, F_MANY, F_STATUS, F_DESCRIBE };
enum { SLOTS = 256, MAX_NODES = 64 };

typedef struct told { /* of one sequence; id 0: free */
  uint64_t id;
  int64_t n;      /* committed tokens, -1: not known; behind them stands the pending one */
  int32_t next;   /* the pending token, -1: not known */
  int32_t ran;    /* 1: rows() was the last call, so that the pending token's row is among those n */
  uint32_t nodes; /* proposed last */
  int32_t token[MAX_NODES], parent[MAX_NODES];
} told;

struct tn_inst {
  const tn_host *host;
  const tn_svc_rng *rng;
  const tn_svc_ops *ops;
  const tn_model_shape *shape;
  int64_t mode, nodes, depth, taps, fault;
  int32_t tap[3];
  probe_draft seen;
  told of[SLOTS];
};

static told *find(tn_inst *self, uint64_t id)
{
  for (int i = 0; i < SLOTS; i++)
    if (self->of[i].id == id) return &self->of[i];
  return NULL;
}

/* ---------------------------------------------------------------- tenon.sequence/1 */

static tn_status begin(tn_inst *self, uint64_t seq, const tn_value *values)
{
  told *t = find(self, seq) ? NULL : find(self, 0);
  if (!t || values[P_MODE].v.i != self->mode) return TN_E_STATE;
  *t = (told){.id = seq, .n = -1, .next = -1};
  self->seen.lives.begins++;
  return TN_OK;
}

static void end(tn_inst *self, uint64_t seq)
{
  told *t = find(self, seq);
  self->seen.lives.ends++;
  if (t)
    t->id = 0;
  else
    self->seen.lives.strays++;
}

static tn_status fork_one(tn_inst *self, uint64_t parent, uint64_t child)
{
  told *from = find(self, parent), *to = find(self, child);
  self->seen.lives.forks++;
  if (!from || !to) return TN_E_STATE;
  to->n = from->n;
  return TN_OK;
}

static tn_status save(tn_inst *self, uint64_t seq, const tn_writer *w)
{
  told *t = find(self, seq);
  self->seen.lives.saves++;
  return t ? w->write(w->ctx, &t->n, sizeof t->n) : TN_E_STATE;
}

static tn_status load(tn_inst *self, uint64_t seq, const void *p, uint64_t n, tn_err *err)
{
  told *t = find(self, seq);
  (void)err;
  self->seen.lives.loads++;
  if (!t || n != sizeof t->n) return TN_E_IO;
  memcpy(&t->n, p, sizeof t->n);
  return TN_OK;
}

static const tn_ext_sequence sequence = {sizeof sequence, 0, begin, end, fork_one, save, load};

static const void *ext(tn_inst *self, const char *id)
{
  if (strcmp(id, "tenon.sequence/1") == 0) return &sequence;
  return strcmp(id, PROBE_EXT) == 0 ? &self->seen : NULL;
}

/* ---------------------------------------------------------------- trees */

static int is_tree(const tn_inst *self)
{
  return self->mode >= RANDOM && !(self->mode == BROKEN && self->fault == F_BRANCH);
}

static tn_status describe(tn_inst *self, const tn_plan *plan, tn_draft_spec *out, tn_err *err)
{
  (void)plan, (void)err;
  out->max_nodes = self->mode == BROKEN && self->fault == F_DESCRIBE ? 0 : (uint32_t)self->nodes;
  out->max_depth = (uint32_t)self->depth;
  out->tree = (uint32_t)is_tree(self);
  out->q_kind = self->mode == IID || (self->mode == BROKEN && self->fault == F_LAW) ? TN_Q_IID
                : self->mode == WOR                                                 ? TN_Q_WOR
                                                                                    : TN_Q_DELTA;
  out->n_taps = self->taps ? 3 : 0;
  out->taps = self->tap;
  self->seen.n_taps = out->n_taps;
  return TN_OK;
}

static int32_t right(const tn_inst *self, int64_t pos)
{
  return self->seen.script && pos < self->seen.n_script ? self->seen.script[pos] : -1;
}

static double uniform(const tn_inst *self, const tn_draft_req *r, uint32_t purpose, uint32_t index)
{
  return self->rng->uniform(self->host->ctx, r->request, (uint64_t)r->n, purpose, index);
}

static void add(tn_draft_tree *t, int32_t token, int32_t parent)
{
  t->token[t->n] = token;
  t->parent[t->n] = parent;
  t->q[t->n++] = NULL;
}

static void chain(const tn_inst *self, const tn_draft_req *r, uint32_t most, tn_draft_tree *t)
{
  uint32_t depth = most < (uint32_t)self->depth ? most : (uint32_t)self->depth;
  for (uint32_t i = 0; i < depth; i++) {
    int32_t token = right(self, r->n + i);
    if (token < 0) return;
    if (self->mode == WRONG && i == 0) token = (token + 1) % (int32_t)self->shape->n_vocab;
    add(t, token, (int32_t)i - 1);
  }
}

static void random_tree(const tn_inst *self, const tn_draft_req *r, uint32_t most, tn_draft_tree *t)
{
  int32_t depth[MAX_NODES];
  uint32_t n = most / 2 + (uint32_t)(uniform(self, r, 1, 0) * (most - most / 2 + 1));
  for (uint32_t i = 0; i < n && i < most; i++) {
    int32_t parent = (int32_t)(uniform(self, r, 2, i) * (i + 1)) - 1, d = parent < 0 ? 1 : depth[parent] + 1;
    if (self->mode == DEEP)
      parent = i % 3 == 2 ? -1 : (int32_t)i - 1, d = 1;
    else if (d > self->depth)
      parent = -1, d = 1;
    int32_t token = (int32_t)(uniform(self, r, 3, i) * self->shape->n_vocab), good = right(self, r->n + d - 1);
    if (good >= 0 && uniform(self, r, 4, i) < 0.5) token = good;
    depth[i] = d;
    add(t, token, parent);
  }
}

/* Token that u falls on under the weights left of a law; -1: nothing is left. */
static int32_t draw(const tn_inst *self, const float *law, const tn_draft_tree *t, int32_t parent, double u)
{
  uint32_t V = self->shape->n_vocab;
  double sum = 0, at = 0;
  int32_t last = -1;
  for (int pass = 0; pass < 2; pass++)
    for (uint32_t v = 0; v < V; v++) {
      int taken = 0;
      for (uint32_t k = 0; self->mode == WOR && k < t->n; k++)
        taken |= t->parent[k] == parent && t->token[k] == (int32_t)v;
      if (taken || law[v] <= 0) continue;
      if (pass == 0) sum += (double)law[v];
      if (pass == 1 && (at += (double)law[v]) > u * sum) return (int32_t)v;
      last = (int32_t)v;
    }
  return last;
}

/* Three children of the pending token; then two of the first, and so on, while there is room. */
static void drawn_tree(const tn_inst *self, const tn_draft_req *r, uint32_t most, tn_draft_tree *t)
{
  int32_t parent = -1, at_parent = 0;
  for (uint32_t i = 0; i < most; i++) {
    const float *from = self->seen.drawn ? self->seen.drawn : self->seen.law;
    if (at_parent == (parent < 0 ? 3 : 2)) parent++, at_parent = 0;
    int32_t token = draw(self, from, t, parent, uniform(self, r, 5, i));
    if (token < 0) return;
    add(t, token, parent);
    t->q[i] = self->seen.law;
    at_parent++;
  }
}

static tn_status broken_tree(const tn_inst *self, uint32_t most, tn_draft_tree *t)
{
  add(t, 1, -1);
  if (most > 1) add(t, 1, 0);
  switch (self->fault) {
    case F_PARENT: t->parent[0] = 0; break;
    case F_TOKEN: t->token[0] = (int32_t)self->shape->n_vocab; break;
    case F_BRANCH: t->parent[t->n - 1] = -1; break;
    case F_MANY: t->n = most + 1; break;
    case F_STATUS: return TN_E_DEVICE;
    default: break;
  }
  return TN_OK;
}

static tn_status propose_one(tn_inst *self, const tn_draft_req *r, tn_draft_tree *t)
{
  told *h = find(self, r->seq);
  uint32_t most = r->max_nodes < MAX_NODES ? r->max_nodes : MAX_NODES;
  if (!h) return TN_E_STATE;
  self->seen.bad += r->max_nodes < 1 || r->max_nodes > (uint32_t)self->nodes;
  self->seen.bad += (h->next >= 0 && r->tokens[r->n - 1] != h->next) || (h->n >= 0 && r->n != h->n + 1);
  t->n = 0;
  if (self->mode == BROKEN) return broken_tree(self, most, t);
  if (self->mode <= SCRIPT)
    chain(self, r, most, t);
  else if (self->mode == RANDOM || self->mode == DEEP)
    random_tree(self, r, most, t);
  else
    drawn_tree(self, r, most, t);
  h->n = r->n - 1;
  h->ran = 0;
  h->nodes = t->n;
  memcpy(h->token, t->token, t->n * sizeof *t->token);
  memcpy(h->parent, t->parent, t->n * sizeof *t->parent);
  self->seen.nodes += t->n;
  return TN_OK;
}

static tn_status propose(tn_inst *self, uint32_t n, const tn_draft_req *const *reqs, tn_draft_tree *const *trees)
{
  self->seen.proposes++;
  self->host->count(self->host->ctx, 0, n);
  for (uint32_t i = 0; i < n; i++) {
    tn_status st = propose_one(self, reqs[i], trees[i]);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

/* ---------------------------------------------------------------- what came of them */

/* Keeps tap row `row` as that of text position pos of the first sequence. */
static tn_status keep(tn_inst *self, uint64_t seq, const tn_tensor *const *taps, int32_t row, int64_t pos)
{
  probe_draft *s = &self->seen;
  if (seq != 1 || !s->taps || pos >= s->cap) return TN_OK;
  s->bad += pos > s->n_tapped;
  for (uint32_t i = 0; i < s->n_taps; i++) {
    tn_tensor one = *taps[i];
    uint64_t bytes = (uint64_t)one.ne[0] * sizeof(float);
    one.offset += (uint64_t)row * (uint64_t)one.nb[1];
    float *to = s->taps + ((int64_t)i * s->cap + pos) * one.ne[0];
    tn_status st = self->ops->download(self->host->ctx, &one, to, bytes);
    if (st == TN_OK) st = self->ops->sync(self->host->ctx);
    if (st != TN_OK) return st;
  }
  s->n_tapped = pos + 1;
  return TN_OK;
}

static tn_status rows(tn_inst *self, const tn_draft_rows *r)
{
  told *h = find(self, r->seq);
  self->seen.rows++;
  if (!h) return TN_E_STATE;
  self->seen.bad += r->n_taps != self->seen.n_taps || r->n_rows < 1 || r->pos0 < h->n;
  for (uint32_t i = 0; i < r->n_rows; i++) {
    tn_status st = keep(self, r->seq, r->taps, r->row0 + (int32_t)i, r->pos0 + i);
    if (st != TN_OK) return st;
  }
  h->n = r->pos0 + r->n_rows;
  h->next = -1;
  h->ran = 1;
  h->nodes = 0;
  return TN_OK;
}

static tn_status outcome_one(tn_inst *self, const tn_draft_outcome *o)
{
  told *h = find(self, o->seq);
  int32_t before = -1;
  if (!h) return TN_E_STATE;
  int64_t pos = h->ran ? h->n - 1 : h->n; /* of the pending token; without taps nothing tells of prompts */
  tn_status st = self->taps ? keep(self, o->seq, o->taps, o->row0, pos) : TN_OK;
  for (uint32_t i = 0; i < o->n_path && st == TN_OK; i++) {
    int32_t node = o->path[i];
    if (node < 0 || (uint32_t)node >= h->nodes || h->parent[node] != before) {
      self->seen.bad++;
      return TN_OK;
    }
    if (self->taps) st = keep(self, o->seq, o->taps, o->row0 + 1 + node, pos + 1 + i);
    before = node;
  }
  if (h->n >= 0) h->n = pos + 1 + o->n_path;
  h->next = o->next;
  h->ran = 0;
  h->nodes = 0;
  self->seen.accepted += o->n_path;
  return st;
}

static tn_status outcome(tn_inst *self, uint32_t n, const tn_draft_outcome *const *outs)
{
  self->seen.outcomes++;
  for (uint32_t i = 0; i < n; i++) {
    tn_status st = outcome_one(self, outs[i]);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

/* ---------------------------------------------------------------- life and options */

static tn_status create(const tn_host *host, const tn_value *v, tn_inst **out, tn_err *err)
{
  (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  memset(*out, 0, sizeof **out);
  (*out)->host = host;
  (*out)->rng = host->service(host->ctx, "tenon.rng/1");
  (*out)->ops = host->service(host->ctx, "tenon.ops/1");
  (*out)->shape = ((const tn_svc_model *)host->service(host->ctx, "tenon.model/1"))->shape;
  (*out)->mode = v[P_MODE].v.i;
  (*out)->nodes = v[P_NODES].v.i;
  (*out)->depth = v[P_DEPTH].v.i;
  (*out)->taps = v[P_TAPS].v.i;
  (*out)->fault = v[P_FAULT].v.i;
  (*out)->tap[0] = TN_TAP_POST_NORM;
  (*out)->tap[2] = (int32_t)(*out)->shape->n_layers - 1;
  return TN_OK;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

static const char *const modes[] = {"wrong", "script", "random", "iid", "wor", "deep", "broken"};
static const char *const faults[] = {"parent", "token", "law", "branch", "many", "status", "describe"};
#define HEAD(key_, type_, def_) .struct_size = sizeof(tn_param), .key = key_, .help = key_, .type = type_, .def = def_
static const tn_param p_mode = {HEAD("mode", TN_T_ENUM, "random"), .choices = modes, .n_choices = 7};
static const tn_param p_nodes = {HEAD("nodes", TN_T_I64, "7"), .imin = 1, .imax = MAX_NODES};
static const tn_param p_depth = {HEAD("depth", TN_T_I64, "5"), .imin = 1, .imax = 63};
static const tn_param p_taps = {HEAD("taps", TN_T_BOOL, "0")};
static const tn_param p_fault = {HEAD("fault", TN_T_ENUM, "parent"), .choices = faults, .n_choices = 7};
static const tn_param *const params[] = {&p_mode, &p_nodes, &p_depth, &p_taps, &p_fault, NULL};
static const tn_draft_v1 vtable = {
    .struct_size = sizeof vtable, .describe = describe, .propose = propose, .outcome = outcome, .rows = rows};

static const char *const provides[] = {"draft.tree/1", "draft.lossless/1", NULL};
static const char *const needs[] = {"hidden.tap/1", "kv.rollback/1", NULL};
static const char *const counters[] = {"requests", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_DRAFT,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC | TN_F_EXACT,
                             .id = "org.tenon.test.draft",
                             .name = "probe",
                             .version = "1.0.0",
                             .summary = "every hook of the slot draft",
                             .provides = provides,
                             .needs = needs,
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .ext = ext,
                             .vtable = &vtable};

TN_PLUGIN(draft_probe, "org.tenon.test.draft", TN_SLOT_DRAFT, "1.0.0", "Tenon", "Apache-2.0", desc);
