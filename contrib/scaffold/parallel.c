/* my_plugin: layers shared among ranks in equal runs; one rank has them all.
 *
 * Paper    -
 * Maths    rank r computes layers [r L / n, (r + 1) L / n)
 * Result   exact
 * Cost     weights and KV of L / n layers a rank; one exchange of d floats a row between neighbours
 * Needs    collective/1        Conflicts  -
 * Options  world  [1..16, default 1]
 */
#include <tenon/plugin_api.h>

struct tn_inst {
  const tn_host *host;
  uint32_t ranks;
};

static uint32_t world(tn_inst *self) { return self->ranks; }

static tn_status plan_rank(tn_inst *self, const tn_plan *plan, uint32_t rank, tn_par_plan *out, tn_err *err)
{
  const tn_model_shape *m = plan->model;
  (void)err;
  out->world = self->ranks;
  out->rank = rank;
  out->layer0 = rank * m->n_layers / self->ranks;
  out->layer1 = (rank + 1) * m->n_layers / self->ranks;
  out->head0 = out->kv_head0 = 0;
  out->n_heads = m->n_heads;
  out->n_kv_heads = m->n_kv_heads;
  out->ff0 = 0;
  out->n_ff = m->d_ff;
  out->vocab0 = 0;
  out->n_vocab = m->n_vocab;
  out->in_flight = 1;
  out->sequence = TN_SEQ_WHOLE;
  self->host->count(self->host->ctx, 0, 1);
  return TN_OK;
}

/* Before any instance exists: what tokens cannot say. */
static tn_status validate(const tn_plan *plan, const tn_value *values, tn_err *err)
{
  static const char msg[] = "world is larger than the number of layers";
  if (!plan->model || values[0].v.i <= (int64_t)plan->model->n_layers) return TN_OK;
  err->code = TN_E_ARG;
  for (unsigned i = 0; i < sizeof msg; i++) err->msg[i] = msg[i];
  return TN_E_ARG;
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

static const tn_param p_world = {.struct_size = sizeof p_world,
                                 .type = TN_T_I64,
                                 .key = "world",
                                 .help = "ranks that share the layers",
                                 .def = "1",
                                 .imin = 1,
                                 .imax = 16};
static const tn_param *const params[] = {&p_world, NULL};
static const tn_parallel_v1 vtable = {.struct_size = sizeof vtable, .world = world, .plan = plan_rank};

static const char *const needs[] = {"collective/1", NULL};
static const char *const counters[] = {"ranks_planned", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_PARALLEL,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC | TN_F_EXACT,
                             .id = "org.example.my_plugin",
                             .name = "my_plugin",
                             .version = "0.1.0",
                             .summary = "layers shared among ranks",
                             .needs = needs,
                             .params = params,
                             .counters = counters,
                             .validate = validate,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(my_plugin, "org.example.my_plugin", TN_SLOT_PARALLEL, "0.1.0", "Example", "Apache-2.0", desc);
