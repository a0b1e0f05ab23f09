/* linear_scaling: positions divided by a factor, so that a longer text fits the trained range.
 *
 * Paper    Chen et al., Extending Context Window of Large Language Models via Positional Interpolation, 2023, section 3
 * Maths    angle_i(p) = (p / s) / base^(2i/d), i = 0 .. d/2-1; divided by the file's own factor of that pair, if it has
 *          any; s = 1 is plain rotation, bitwise
 * Result   exact for that embedding; another function than the one that was trained, unless the model was tuned for s
 * Cost     d/2 frequencies a layer class
 * Needs    -        Conflicts  -
 * Options  factor [0..1024, default 0: the file's, or 1]
 * Tests    tests/policy/test_position.c
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
  double s = self->factor > 0 ? self->factor : q->factor > 0 ? q->factor : 1;
  for (uint32_t i = 0; i < q->dims / 2; i++) {
    out->inv_freq[i] = pow(q->base, -2.0 * i / q->dims) / s;
    if (q->factors_short) out->inv_freq[i] /= (double)q->factors_short[i];
  }
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
                                  .help = "context stretch; 0: the model file's",
                                  .def = "0",
                                  .fmin = 0,
                                  .fmax = 1024};
static const tn_param *const params[] = {&p_factor, NULL};
static const tn_position_v1 vtable = {.struct_size = sizeof vtable, .table = table};

static const char *const provides[] = {"rope.stretch/1", NULL};
static const char *const counters[] = {"tables", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_POSITION,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC,
                             .id = "org.tenon.linear_scaling",
                             .name = "linear_scaling",
                             .version = "1.0.0",
                             .summary = "rotary positions divided by a factor (Chen et al. 2023)",
                             .provides = provides,
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(linear_scaling, "org.tenon.linear_scaling", TN_SLOT_POSITION, "1.0.0", "Tenon", "Apache-2.0", desc);
