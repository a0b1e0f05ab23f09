/* rope: plain rotary position embedding, as the model was trained.
 *
 * Paper    Su et al., RoFormer, 2021, section 3.2
 * Maths    angle_i(p) = p / base^(2i/d), i = 0 .. d/2-1; divided by the file's own factor of that pair, if it has any
 * Result   exact
 * Cost     d/2 frequencies a layer class
 * Needs    -        Conflicts  -
 * Options  base  [0..1e12, default 0: the file's]
 * Tests    tests/policy/test_position.c
 */
#include <math.h>

#include <tenon/plugin_api.h>

struct tn_inst {
  const tn_host *host;
  double base;
};

static tn_status table(tn_inst *self, const tn_rope_query *q, tn_rope_spec *out, tn_err *err)
{
  (void)err;
  double base = self->base > 0 ? self->base : q->base;
  for (uint32_t i = 0; i < q->dims / 2; i++) {
    out->inv_freq[i] = pow(base, -2.0 * i / q->dims);
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
  (*out)->base = values[0].v.f;
  return TN_OK;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

static const tn_param p_base = {.struct_size = sizeof p_base,
                                .type = TN_T_F64,
                                .flags = TN_P_OUTPUT,
                                .key = "base",
                                .help = "frequency base; 0: the model file's",
                                .def = "0",
                                .fmin = 0,
                                .fmax = 1e12};
static const tn_param *const params[] = {&p_base, NULL};
static const tn_position_v1 vtable = {.struct_size = sizeof vtable, .table = table};

static const char *const counters[] = {"tables", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_POSITION,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC | TN_F_EXACT,
                             .id = "org.tenon.rope",
                             .name = "rope",
                             .version = "1.0.0",
                             .summary = "plain rotary position embedding (Su et al. 2021)",
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(rope, "org.tenon.rope", TN_SLOT_POSITION, "1.0.0", "Tenon", "Apache-2.0", desc);
