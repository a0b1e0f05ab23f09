/* my_plugin: rotary angles, slowed down by a factor.
 *
 * Paper    -
 * Maths    angle_i(p) = p / (factor base^(2i/d)), i = 0 .. d/2-1
 * Result   exact at factor 1
 * Cost     d/2 frequencies a layer class
 * Needs    -        Conflicts  -
 * Options  factor  [1..1024, default 1]
 */
#include <math.h>

#include <tenon/plugin_api.h>

struct tn_inst {
  const tn_host *host;
  double factor;
};

static tn_status table(tn_inst *self, const tn_rope_query *q, tn_rope_spec *out, tn_err *err)
{
  (void)err;
  for (uint32_t i = 0; i < q->dims / 2; i++) out->inv_freq[i] = pow(q->base, -2.0 * i / q->dims) / self->factor;
  out->mscale = 1;
  self->host->count(self->host->ctx, 0, 1);
  return TN_OK;
}

static tn_status create(const tn_host *host, const tn_value *values, tn_inst **out, tn_err *err)
{
  (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  (*out)->host = host;
  (*out)->factor = values[0].v.f;
  return TN_OK;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

static const tn_param p_factor = {.struct_size = sizeof p_factor,
                                  .type = TN_T_F64,
                                  .flags = TN_P_OUTPUT,
                                  .key = "factor",
                                  .help = "how much slower positions turn",
                                  .def = "1",
                                  .fmin = 1,
                                  .fmax = 1024};
static const tn_param *const params[] = {&p_factor, NULL};
static const tn_position_v1 vtable = {.struct_size = sizeof vtable, .table = table};

static const char *const counters[] = {"tables", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_POSITION,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC,
                             .id = "org.example.my_plugin",
                             .name = "my_plugin",
                             .version = "0.1.0",
                             .summary = "rotary angles, slowed down by a factor",
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(my_plugin, "org.example.my_plugin", TN_SLOT_POSITION, "0.1.0", "Example", "Apache-2.0", desc);
