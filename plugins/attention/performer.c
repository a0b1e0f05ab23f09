/* performer: softmax attention estimated by positive random features, so that a layer keeps one state.
 *
 * Paper    Choromanski et al., Rethinking Attention with Performers, ICLR 2021, sections 2.3 and 2.4 (FAVOR+)
 * Maths    x' = x / dh^(1/4);  phi(x)_f = exp(w_f . x' - |x'|^2 / 2) / sqrt(m), E phi(q) . phi(k) = exp(q . k / sqrt(dh));
 *          S += phi(k) v^T,  z += phi(k);  o = phi(q)^T S / (phi(q)^T z + 1e-6).  w: blocks of dh orthonormal rows, each
 *          row with the norm of a Gaussian one; the same for queries and keys. Neither is rotated
 * Result   approximate: the error of a weight falls as 1 / sqrt(m); without rotation a model has to be tuned for it
 * Cost     O(m dh) a head and token; m (dh + 1) numbers a KV head and layer, whatever the text's length
 * Needs    attn.state/1        Conflicts  what acts on cached entries, where no layer keeps any (kv.entries/1)
 * Options  features [m, 1..4096, default 256]   orthogonal [default yes; no: independent rows]
 *          seed [0..2^31-1, default 1]
 * Tests    tests/policy/test_recurrent.c, tests/engine/test_attention_bits.c
 */
#include <math.h>
#include <stdio.h>

#include <tenon/plugin_api.h>

enum { P_FEATURES, P_ORTHOGONAL, P_SEED };
enum { DRAW_ROW = 0, DRAW_NORM = 1 };

struct tn_inst {
  const tn_host *host;
  const tn_svc_rng *rng;
  uint64_t seed;
  uint32_t n_features;
  int32_t orthogonal;
  float *w; /* [n_features][dh], made when the width of heads is known */
  tn_state_spec state;
};

/* A normal deviate, by Box and Muller: number i of row `row`. */
static double normal(const tn_inst *self, uint32_t draw, uint32_t row, uint32_t i)
{
  double u = self->rng->uniform(self->host->ctx, self->seed, row, draw, 2 * i);
  double v = self->rng->uniform(self->host->ctx, self->seed, row, draw, 2 * i + 1);
  return sqrt(-2 * log(1 - u)) * cos(2 * 3.14159265358979323846 * v);
}

static double norm(const double *x, uint32_t d)
{
  double sum = 0;
  for (uint32_t i = 0; i < d; i++) sum += x[i] * x[i];
  return sqrt(sum);
}

/* Takes out of x what lies along the n orthonormal rows of q, twice against rounding, and makes it of length 1. */
static void orthonormal(const double *q, uint32_t n, uint32_t d, double *x)
{
  for (uint32_t k = 0; k < 2 * n; k++) {
    const double *row = q + (uint64_t)(k % n) * d;
    double dot = 0;
    for (uint32_t i = 0; i < d; i++) dot += row[i] * x[i];
    for (uint32_t i = 0; i < d; i++) x[i] -= dot * row[i];
  }
  double length = norm(x, d);
  for (uint32_t i = 0; i < d; i++) x[i] /= length;
}

/* block [d][d]: the orthonormal rows of the block at hand. len [d]. */
static void fill(tn_inst *self, uint32_t d, double *block, double *len)
{
  for (uint32_t f = 0; f < self->n_features; f++) {
    double *x = block + (uint64_t)(f % d) * d, scale = 1;
    for (uint32_t i = 0; i < d; i++) x[i] = normal(self, DRAW_ROW, f, i);
    if (self->orthogonal) {
      for (uint32_t i = 0; i < d; i++) len[i] = normal(self, DRAW_NORM, f, i);
      scale = norm(len, d);
      orthonormal(block, f % d, d, x);
    }
    for (uint32_t i = 0; i < d; i++) self->w[(uint64_t)f * d + i] = (float)(scale * x[i]);
  }
}

static tn_status make(tn_inst *self, uint32_t d)
{
  const tn_host *host = self->host;
  double *block = host->alloc(host->ctx, ((uint64_t)d * d + d) * sizeof *block, 64);
  self->w = host->alloc(host->ctx, (uint64_t)self->n_features * d * sizeof *self->w, 64);
  if (block && self->w) {
    fill(self, d, block, block + (uint64_t)d * d);
    self->state = (tn_state_spec){.struct_size = sizeof self->state,
                                  .phi = TN_PHI_FAVOR,
                                  .n_features = self->n_features,
                                  .fold = 64,
                                  .eps = 1e-6,
                                  .features = self->w};
  }
  host->free_(host->ctx, block);
  if (self->state.features) return TN_OK;
  host->free_(host->ctx, self->w);
  self->w = NULL;
  return TN_E_NOMEM;
}

static tn_status describe(tn_inst *self, const tn_plan *plan, uint32_t layer, uint32_t kv_head, tn_attn_spec *out,
                          tn_err *err)
{
  (void)layer, (void)kv_head;
  tn_status st = self->w ? TN_OK : make(self, plan->model->d_head);
  if (st != TN_OK) {
    snprintf(err->msg, sizeof err->msg, "no memory for %u features", self->n_features);
    return err->code = st;
  }
  out->kind = TN_AT_STATE;
  out->state = &self->state;
  self->host->count(self->host->ctx, 0, 1);
  return TN_OK;
}

static tn_status create(const tn_host *host, const tn_value *values, tn_inst **out, tn_err *err)
{
  *out = NULL;
  const tn_svc_rng *rng = host->service(host->ctx, "tenon.rng/1");
  if (!rng) {
    snprintf(err->msg, sizeof err->msg, "performer draws its features by the host's tenon.rng/1, which is not offered");
    return err->code = TN_E_UNSUPPORTED;
  }
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  **out = (struct tn_inst){.host = host,
                           .rng = rng,
                           .seed = (uint64_t)values[P_SEED].v.i,
                           .n_features = (uint32_t)values[P_FEATURES].v.i,
                           .orthogonal = values[P_ORTHOGONAL].v.i != 0};
  return TN_OK;
}

static void destroy(tn_inst *self)
{
  self->host->free_(self->host->ctx, self->w);
  self->host->free_(self->host->ctx, self);
}

static const tn_param p_features = {.struct_size = sizeof p_features,
                                    .type = TN_T_I64,
                                    .flags = TN_P_OUTPUT,
                                    .key = "features",
                                    .help = "random features of a head; about dh ln dh and more",
                                    .def = "256",
                                    .imin = 1,
                                    .imax = 4096};
static const tn_param p_orthogonal = {.struct_size = sizeof p_orthogonal,
                                      .type = TN_T_BOOL,
                                      .flags = TN_P_OUTPUT,
                                      .key = "orthogonal",
                                      .help = "rows of a block at right angles, which lowers the variance",
                                      .def = "yes"};
static const tn_param p_seed = {.struct_size = sizeof p_seed,
                                .type = TN_T_I64,
                                .flags = TN_P_OUTPUT,
                                .key = "seed",
                                .help = "another seed draws other features",
                                .def = "1",
                                .imin = 0,
                                .imax = INT32_MAX};
static const tn_param *const params[] = {
    [P_FEATURES] = &p_features, [P_ORTHOGONAL] = &p_orthogonal, [P_SEED] = &p_seed, NULL};
static const tn_attention_v1 vtable = {.struct_size = sizeof vtable, .describe = describe};

static const char *const provides[] = {"attn.untrained/1", NULL};
static const char *const needs[] = {"attn.state/1", NULL};
static const char *const counters[] = {"heads", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_ATTENTION,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC,
                             .id = "org.tenon.performer",
                             .name = "performer",
                             .version = "1.0.0",
                             .summary = "softmax by random features (Performer, Choromanski et al. 2021)",
                             .provides = provides,
                             .needs = needs,
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(performer, "org.tenon.performer", TN_SLOT_ATTENTION, "1.0.0", "Tenon", "Apache-2.0", desc);
