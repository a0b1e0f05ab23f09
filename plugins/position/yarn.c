/* yarn: rotary positions stretched by parts: fast pairs as trained, slow pairs interpolated, a ramp between.
 *
 * Paper    Peng et al., YaRN, ICLR 2024, sections 3.2 to 3.4
 * Maths    c(r) = d ln(L0 / (2 pi r)) / (2 ln base); low = floor(c(beta_fast)), high = ceil(c(beta_slow));
 *          ramp_i = clip((i - low) / (high - low), 0, 1); f_i = base^(-2i/d) (1 - ramp_i + ramp_i / s);
 *          cos and sin times attn_factor (0.1 ln s + 1)
 * Result   exact for that embedding; another function than the one that was trained beyond the low pairs
 * Cost     d/2 frequencies a layer class
 * Needs    -        Conflicts  -
 * Options  factor [0..1024, default 0: the file's]   original_ctx [tokens, 0..2^30, default 0: the file's]
 *          beta_fast [0..1e6, default 0: the file's, or 32]   beta_slow [0..1e6, default 0: the file's, or 1]
 *          attn_factor [0..100, default 0: the file's, or 1]
 * Tests    tests/policy/test_position.c, tests/engine/test_golden.c
 */
#include <math.h>

#include <tenon/plugin_api.h>

struct tn_inst {
  const tn_host *host;
  double factor, beta_fast, beta_slow, attn_factor;
  int64_t original_ctx;
};

static double choose(double option, double file, double otherwise)
{
  return option > 0 ? option : file > 0 ? file : otherwise;
}

/* The pair that turns r times over the original context. */
static double pair_of(double r, double d, double ctx, double base)
{
  return d * log(ctx / (2 * 3.14159265358979323846 * r)) / (2 * log(base));
}

static tn_status table(tn_inst *self, const tn_rope_query *q, tn_rope_spec *out, tn_err *err)
{
  (void)err;
  double s = choose(self->factor, q->factor, 1), d = q->dims;
  double ctx = self->original_ctx > 0 ? (double)self->original_ctx : (double)q->n_ctx_orig;
  double low = floor(pair_of(choose(self->beta_fast, q->beta_fast, 32), d, ctx, q->base));
  double high = ceil(pair_of(choose(self->beta_slow, q->beta_slow, 1), d, ctx, q->base));
  low = fmax(low, 0);
  high = fmin(high, d - 1);
  for (uint32_t i = 0; i < q->dims / 2; i++) {
    double ramp = fmin(fmax((i - low) / fmax(high - low, 0.001), 0), 1);
    out->inv_freq[i] = pow(q->base, -2.0 * i / d) * (1 - ramp + ramp / s);
  }
  out->mscale = s > 1 ? choose(self->attn_factor, q->attn_factor, 1) * (0.1 * log(s) + 1) : 1;
  self->host->count(self->host->ctx, 0, 1);
  return TN_OK;
}

static tn_status create(const tn_host *host, const tn_value *values, tn_inst **out, tn_err *err)
{
  (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  **out = (struct tn_inst){.host = host,
                           .factor = values[0].v.f,
                           .original_ctx = values[1].v.i,
                           .beta_fast = values[2].v.f,
                           .beta_slow = values[3].v.f,
                           .attn_factor = values[4].v.f};
  return TN_OK;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

#define YARN_F64(name_, key_, help_, max_)                        \
  static const tn_param name_ = {.struct_size = sizeof(tn_param), \
                                 .type = TN_T_F64,                \
                                 .flags = TN_P_OUTPUT,            \
                                 .key = key_,                     \
                                 .help = help_,                   \
                                 .def = "0",                      \
                                 .fmin = 0,                       \
                                 .fmax = max_}
YARN_F64(p_factor, "factor", "context stretch; 0: the model file's", 1024);
YARN_F64(p_fast, "beta_fast", "turns over the original context from which pairs stay; 0: the file's, or 32", 1e6);
YARN_F64(p_slow, "beta_slow", "turns under which pairs are interpolated; 0: the file's, or 1", 1e6);
YARN_F64(p_attn, "attn_factor", "further factor of cos and sin; 0: the file's, or 1", 100);
static const tn_param p_ctx = {.struct_size = sizeof p_ctx,
                               .type = TN_T_I64,
                               .flags = TN_P_OUTPUT,
                               .key = "original_ctx",
                               .help = "context that the model was trained on; 0: the file's",
                               .unit = "tokens",
                               .def = "0",
                               .imin = 0,
                               .imax = 1 << 30};
static const tn_param *const params[] = {&p_factor, &p_ctx, &p_fast, &p_slow, &p_attn, NULL};
static const tn_position_v1 vtable = {.struct_size = sizeof vtable, .table = table};

static const char *const provides[] = {"rope.stretch/1", NULL};
static const char *const counters[] = {"tables", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_POSITION,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC,
                             .id = "org.tenon.yarn",
                             .name = "yarn",
                             .version = "1.0.0",
                             .summary = "rotary positions stretched by parts (YaRN, Peng et al. 2024)",
                             .provides = provides,
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(yarn, "org.tenon.yarn", TN_SLOT_POSITION, "1.0.0", "Tenon", "Apache-2.0", desc);
