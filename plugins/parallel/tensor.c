/* tensor: every rank holds some KV heads and their query heads, and a part of the feed-forward channels.
 *
 * Paper    Shoeybi et al., Megatron-LM, 2019, section 3
 * Maths    q, k, v, gate, up by rows; y = sum_r x_r W_r^T for attn_out and down, the parts of all ranks gathered and added
 *          in the model's fixed segments, so n ranks give the bits of one (NUMERICS.md)
 * Result   exact, bitwise
 * Cost     weights and KV / ranks each; two exchanges of segments x d floats a row and layer
 * Needs    collective/1        Conflicts  kv.history/1 (scores would be gathered on several ranks)
 * Options  world  [1..16, default 2]: must divide the KV heads; the feed-forward must split at its segments
 * Tests    tests/policy/test_tensor.c, tests/engine/test_tensor_parallel.c
 */
#include <stdio.h>

#include <tenon/plugin_api.h>

struct tn_inst {
  const tn_host *host;
  uint32_t ranks;
};

static tn_status refuse(tn_err *err, const char *what, uint32_t have, uint32_t ranks)
{
  err->code = TN_E_ARG;
  snprintf(err->msg, sizeof err->msg, "world = %u does not divide %s (%u)", ranks, what, have);
  return TN_E_ARG;
}

static tn_status check(const tn_model_shape *m, uint32_t ranks, tn_err *err)
{
  if (!m || ranks == 1) return TN_OK;
  if (m->n_kv_heads % ranks != 0) return refuse(err, "the model's KV heads", m->n_kv_heads, ranks);
  uint32_t parts = m->d_ff % (m->n_kv_heads * 32) == 0 ? m->n_kv_heads : 1;
  if (parts % ranks != 0) return refuse(err, "the segments of the feed-forward sum", parts, ranks);
  uint32_t heads = m->n_heads * m->d_head % (m->n_kv_heads * 32) == 0 ? m->n_kv_heads : 1;
  if (heads % ranks != 0) return refuse(err, "the segments of the attention output sum", heads, ranks);
  return TN_OK;
}

static tn_status validate(const tn_plan *plan, const tn_value *values, tn_err *err)
{
  return check(plan->model, (uint32_t)values[0].v.i, err);
}

static uint32_t world(tn_inst *self) { return self->ranks; }

static tn_status plan_rank(tn_inst *self, const tn_plan *plan, uint32_t rank, tn_par_plan *out, tn_err *err)
{
  const tn_model_shape *m = plan->model;
  tn_status st = check(m, self->ranks, err);
  if (st != TN_OK) return st;
  out->world = self->ranks;
  out->rank = rank;
  out->layer0 = 0;
  out->layer1 = m->n_layers;
  out->n_kv_heads = m->n_kv_heads / self->ranks;
  out->kv_head0 = rank * out->n_kv_heads;
  out->n_heads = m->n_heads / self->ranks;
  out->head0 = rank * out->n_heads;
  out->n_ff = m->d_ff / self->ranks;
  out->ff0 = rank * out->n_ff;
  out->vocab0 = 0;
  out->n_vocab = m->n_vocab;
  out->in_flight = 1;
  out->sequence = TN_SEQ_WHOLE;
  self->host->count(self->host->ctx, 0, 1);
  return TN_OK;
}

static tn_status create(const tn_host *host, const tn_value *values, tn_inst **out, tn_err *err)
{
  (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  (*out)->host = host;
  (*out)->ranks = (uint32_t)values[0].v.i;
  return TN_OK;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

static const tn_param p_ranks = {.struct_size = sizeof p_ranks,
                                 .type = TN_T_I64,
                                 .key = "world",
                                 .help = "ranks that share the model, as threads of this process",
                                 .def = "2",
                                 .imin = 1,
                                 .imax = 16};
static const tn_param *const params[] = {&p_ranks, NULL};
static const tn_parallel_v1 vtable = {.struct_size = sizeof vtable, .world = world, .plan = plan_rank};

static const char *const needs[] = {"collective/1", NULL};
static const char *const conflicts[] = {"kv.history/1", NULL};
static const char *const counters[] = {"ranks_planned", NULL};

static const tn_desc desc = {
    .struct_size = sizeof desc,
    .slot = TN_SLOT_PARALLEL,
    .slot_version = TN_SLOT_VERSION,
    .flags = TN_F_DETERMINISTIC | TN_F_EXACT,
    .id = "org.tenon.tensor",
    .name = "tensor",
    .version = "1.0.0",
    .summary = "heads and feed-forward channels shared among ranks (Megatron-LM, Shoeybi et al. 2019)",
    .needs = needs,
    .conflicts = conflicts,
    .params = params,
    .counters = counters,
    .validate = validate,
    .create = create,
    .destroy = destroy,
    .vtable = &vtable};

TN_PLUGIN(tensor, "org.tenon.tensor", TN_SLOT_PARALLEL, "1.0.0", "Tenon", "Apache-2.0", desc);
