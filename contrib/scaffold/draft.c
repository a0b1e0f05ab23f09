/* my_plugin: what followed the last token before, may follow again.
 *
 * Paper    -
 * Maths    the latest m with x[m - 1] = x[n - 1], m < n; draft x[m], x[m + 1], ... up to the text's end
 * Result   exact: the host verifies every drafted token
 * Cost     O(n) comparisons a step, no weights
 * Needs    kv.rollback/1        Conflicts  -
 * Options  k  [tokens, 1..16, default 4]
 */
#include <tenon/plugin_api.h>

struct tn_inst {
  const tn_host *host;
  uint32_t k;
};

static tn_status describe(tn_inst *self, const tn_plan *plan, tn_draft_spec *out, tn_err *err)
{
  (void)plan, (void)err;
  out->max_nodes = self->k;
  out->max_depth = self->k;
  out->tree = 0;
  out->q_kind = TN_Q_DELTA;
  return TN_OK;
}

/* A chain: the parent of node i is node i - 1, and of node 0 the pending token. */
static void draft(tn_inst *self, const tn_draft_req *r, tn_draft_tree *t)
{
  int64_t m = r->n - 1;
  while (m > 0 && r->tokens[m - 1] != r->tokens[r->n - 1]) m--;
  t->n = 0;
  for (; m > 0 && m < r->n && t->n < self->k && t->n < r->max_nodes; m++, t->n++) {
    t->token[t->n] = r->tokens[m];
    t->parent[t->n] = (int32_t)t->n - 1;
  }
}

static tn_status propose(tn_inst *self, uint32_t n, const tn_draft_req *const *reqs, tn_draft_tree *const *trees)
{
  for (uint32_t i = 0; i < n; i++) {
    draft(self, reqs[i], trees[i]);
    self->host->count(self->host->ctx, 0, trees[i]->n);
  }
  return TN_OK;
}

static tn_status create(const tn_host *host, const tn_value *values, tn_inst **out, tn_err *err)
{
  (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  (*out)->host = host;
  (*out)->k = (uint32_t)values[0].v.i;
  return TN_OK;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

static const tn_param p_k = {.struct_size = sizeof p_k,
                             .type = TN_T_I64,
                             .key = "k",
                             .help = "tokens to draft",
                             .unit = "tokens",
                             .def = "4",
                             .imin = 1,
                             .imax = 16};
static const tn_param *const params[] = {&p_k, NULL};
static const tn_draft_v1 vtable = {.struct_size = sizeof vtable, .describe = describe, .propose = propose};

static const char *const provides[] = {"draft.lossless/1", NULL};
static const char *const needs[] = {"kv.rollback/1", NULL};
static const char *const counters[] = {"drafted", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_DRAFT,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC | TN_F_EXACT,
                             .id = "org.example.my_plugin",
                             .name = "my_plugin",
                             .version = "0.1.0",
                             .summary = "drafts what followed the last token before",
                             .provides = provides,
                             .needs = needs,
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(my_plugin, "org.example.my_plugin", TN_SLOT_DRAFT, "0.1.0", "Example", "Apache-2.0", desc);
