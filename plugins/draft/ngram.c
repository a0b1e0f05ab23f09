/* ngram: what followed the last time these tokens came, may follow again.
 *
 * Paper    prompt lookup decoding (Saxena 2023); lossless by Leviathan et al., ICML 2023, section 2.3
 * Maths    longest g <= max_n with x[n-g .. n) = x[m-g .. m) for some m < n, the latest m; draft x[m .. m+k), going on
 *          with the draft itself where m + k runs past n
 * Result   exact: greedy text unchanged; with temperature the law is unchanged (the draft is a point mass)
 * Cost     O(n max_n) comparisons a step, no weights
 * Needs    kv.rollback/1        Conflicts  -
 * Options  k [tokens, 1..32, default 4]   max_n [tokens, 1..16, default 3]   min_n [tokens, 1..16, default 1]
 * Tests    tests/policy/test_ngram.c, tests/engine/test_speculation.c
 */
#include <tenon/plugin_api.h>

struct tn_inst {
  const tn_host *host;
  int64_t k, max_n, min_n;
};

static tn_status describe(tn_inst *self, const tn_plan *plan, tn_draft_spec *out, tn_err *err)
{
  (void)plan, (void)err;
  out->max_nodes = (uint32_t)self->k;
  out->max_depth = (uint32_t)self->k;
  out->q_kind = TN_Q_DELTA;
  return TN_OK;
}

/* End of the latest earlier occurrence of the last g tokens, or -1. */
static int64_t find(const int32_t *x, int64_t n, int64_t g)
{
  for (int64_t m = n - 1; m >= g; m--) {
    int64_t i = 1;
    while (i <= g && x[m - i] == x[n - i]) i++;
    if (i > g) return m;
  }
  return -1;
}

static void draft(tn_inst *self, const tn_draft_req *r, tn_draft_tree *t)
{
  int64_t from = -1, k = self->k < (int64_t)r->max_nodes ? self->k : (int64_t)r->max_nodes;
  for (int64_t g = self->max_n < r->n - 1 ? self->max_n : r->n - 1; from < 0 && g >= self->min_n; g--)
    from = find(r->tokens, r->n, g);
  t->n = 0;
  if (from < 0) return;
  for (int64_t i = 0; i < k; i++) {
    int64_t at = from + i;
    t->token[i] = at < r->n ? r->tokens[at] : t->token[at - r->n];
    t->parent[i] = (int32_t)i - 1;
  }
  t->n = (uint32_t)k;
}

static tn_status propose(tn_inst *self, uint32_t n, const tn_draft_req *const *reqs, tn_draft_tree *const *trees)
{
  uint64_t drafted = 0;
  for (uint32_t i = 0; i < n; i++) {
    draft(self, reqs[i], trees[i]);
    drafted += trees[i]->n;
  }
  self->host->count(self->host->ctx, 0, drafted);
  return TN_OK;
}

static tn_status outcome(tn_inst *self, uint32_t n, const tn_draft_outcome *const *outs)
{
  uint64_t accepted = 0;
  for (uint32_t i = 0; i < n; i++) accepted += outs[i]->n_path;
  self->host->count(self->host->ctx, 1, accepted);
  return TN_OK;
}

static tn_status validate(const tn_plan *plan, const tn_value *values, tn_err *err)
{
  (void)plan;
  if (values[2].v.i <= values[1].v.i) return TN_OK;
  static const char msg[] = "min_n is larger than max_n";
  err->code = TN_E_ARG;
  for (unsigned i = 0; i < sizeof msg; i++) err->msg[i] = msg[i];
  return TN_E_ARG;
}

static tn_status create(const tn_host *host, const tn_value *values, tn_inst **out, tn_err *err)
{
  (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  **out = (struct tn_inst){.host = host, .k = values[0].v.i, .max_n = values[1].v.i, .min_n = values[2].v.i};
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
                             .imax = 32};
static const tn_param p_max = {.struct_size = sizeof p_max,
                               .type = TN_T_I64,
                               .key = "max_n",
                               .help = "longest run of tokens that is looked up",
                               .unit = "tokens",
                               .def = "3",
                               .imin = 1,
                               .imax = 16};
static const tn_param p_min = {.struct_size = sizeof p_min,
                               .type = TN_T_I64,
                               .key = "min_n",
                               .help = "shortest run of tokens that is looked up",
                               .unit = "tokens",
                               .def = "1",
                               .imin = 1,
                               .imax = 16};
static const tn_param *const params[] = {&p_k, &p_max, &p_min, NULL};
static const tn_draft_v1 vtable = {
    .struct_size = sizeof vtable, .describe = describe, .propose = propose, .outcome = outcome};

static const char *const provides[] = {"draft.lossless/1", NULL};
static const char *const needs[] = {"kv.rollback/1", NULL};
static const char *const counters[] = {"drafted", "accepted", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_DRAFT,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC | TN_F_EXACT,
                             .id = "org.tenon.ngram",
                             .name = "ngram",
                             .version = "1.0.0",
                             .summary = "looks up what followed the last tokens before (prompt lookup, Saxena 2023)",
                             .provides = provides,
                             .needs = needs,
                             .params = params,
                             .counters = counters,
                             .validate = validate,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(ngram, "org.tenon.ngram", TN_SLOT_DRAFT, "1.0.0", "Tenon", "Apache-2.0", desc);
