/* ntk: a larger frequency base, so that the slowest pair is stretched by the factor and the fastest not at all.
 *
 * Source   "NTK-aware scaled RoPE" and its dynamic form, public notes of 2023; Peng et al., YaRN, 2024, appendix A
 * Maths    base' = base r^(d/(d-2)), f_i = base'^(-2i/d), divided by the file's own factor of that pair, if it has any;
 *          static: r = s;  dynamic: r = s T / L0 - (s - 1) for T > L0, else 1: T what the sequence may reach when it is
 *          admitted, rounded up to `step`, so that its keys never change their angles; L0 the trained context
 * Result   exact for that embedding; another function than the one that was trained. Dynamic: as trained while T <= L0
 * Cost     d/2 frequencies a layer class, and in dynamic mode for each rounded length that occurs
 * Needs    -        Conflicts  -
 * Options  mode [static, dynamic; default static]   factor [0..1024, default 0: the file's, or 1]
 *          original_ctx [tokens, 0..2^30, default 0: the file's]   step [tokens, 1..2^20, default 256]
 * Tests    tests/policy/test_position.c, tests/policy/test_regime.c
 */
#include <math.h>

#include <tenon/plugin_api.h>

enum { P_MODE, P_FACTOR, P_CTX, P_STEP };
enum { STATIC, DYNAMIC };

struct tn_inst {
  const tn_host *host;
  double factor;
  int64_t mode, original_ctx, step;
};

static tn_status table(tn_inst *self, const tn_rope_query *q, tn_rope_spec *out, tn_err *err)
{
  (void)err;
  double s = self->factor > 0 ? self->factor : q->factor > 0 ? q->factor : 1, r = s, d = q->dims;
  double ctx = (double)(self->original_ctx > 0 ? self->original_ctx : q->n_ctx_orig), len = (double)q->regime;
  if (self->mode == DYNAMIC) r = len > ctx ? s * len / ctx - (s - 1) : 1;
  double base = q->dims > 2 ? q->base * pow(r, d / (d - 2)) : q->base;
  for (uint32_t i = 0; i < q->dims / 2; i++) {
    out->inv_freq[i] = pow(base, -2.0 * i / d);
    if (q->factors_short) out->inv_freq[i] /= (double)q->factors_short[i];
  }
  out->mscale = 1;
  self->host->count(self->host->ctx, 0, 1);
  return TN_OK;
}

/* The length rounded up: few lengths, few tables. */
static int64_t regime(tn_inst *self, int64_t n_prompt, int64_t max_len)
{
  (void)n_prompt;
  if (self->mode == STATIC || max_len > TN_POS_INF - self->step) return 0;
  return (max_len + self->step - 1) / self->step * self->step;
}

static tn_status create(const tn_host *host, const tn_value *values, tn_inst **out, tn_err *err)
{
  (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  **out = (struct tn_inst){.host = host,
                           .factor = values[P_FACTOR].v.f,
                           .mode = values[P_MODE].v.i,
                           .original_ctx = values[P_CTX].v.i,
                           .step = values[P_STEP].v.i};
  return TN_OK;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

static const char *const modes[] = {"static", "dynamic"};
static const tn_param p_mode = {.struct_size = sizeof p_mode,
                                .type = TN_T_ENUM,
                                .flags = TN_P_OUTPUT,
                                .n_choices = 2,
                                .choices = modes,
                                .key = "mode",
                                .help = "one base for all sequences, or one that follows from a sequence's length",
                                .def = "static"};
static const tn_param p_factor = {.struct_size = sizeof p_factor,
                                  .type = TN_T_F64,
                                  .flags = TN_P_OUTPUT,
                                  .key = "factor",
                                  .help = "context stretch; 0: the model file's",
                                  .def = "0",
                                  .fmin = 0,
                                  .fmax = 1024};
static const tn_param p_ctx = {.struct_size = sizeof p_ctx,
                               .type = TN_T_I64,
                               .flags = TN_P_OUTPUT,
                               .key = "original_ctx",
                               .help = "dynamic: context that the model was trained on; 0: the file's",
                               .unit = "tokens",
                               .def = "0",
                               .imin = 0,
                               .imax = 1 << 30};
static const tn_param p_step = {.struct_size = sizeof p_step,
                                .type = TN_T_I64,
                                .flags = TN_P_OUTPUT,
                                .key = "step",
                                .help = "dynamic: lengths are rounded up to a multiple of this",
                                .unit = "tokens",
                                .def = "256",
                                .imin = 1,
                                .imax = 1 << 20};
static const tn_param *const params[] = {
    [P_MODE] = &p_mode, [P_FACTOR] = &p_factor, [P_CTX] = &p_ctx, [P_STEP] = &p_step, NULL};
static const tn_position_v1 vtable = {.struct_size = sizeof vtable, .table = table, .regime = regime};

static const char *const provides[] = {"rope.stretch/1", NULL};
static const char *const counters[] = {"tables", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_POSITION,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC,
                             .id = "org.tenon.ntk",
                             .name = "ntk",
                             .version = "1.0.0",
                             .summary = "rotary positions of a larger base, fixed or by length (NTK-aware, 2023)",
                             .provides = provides,
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(ntk, "org.tenon.ntk", TN_SLOT_POSITION, "1.0.0", "Tenon", "Apache-2.0", desc);
