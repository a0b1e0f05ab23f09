/* attention probe: both hooks of the slot and every kind of pattern.
 *
 * kind     mask      one mask for all heads: lo, hi, stride, residue, sinks
 *          masks     another one for each layer and KV head, from probe_hash
 *          tiles     lists of key tiles from probe_hash: full, by the mask, by bitmap; the diagonal tile is always there
 *          elu       recurrent, ELU1 features         favor  recurrent, FAVOR features
 *          halves    even KV heads by the mask, odd ones recurrent
 * softcap  of scores; 0: the model's own
 * seed     of hashes and features
 * fault    none, or: order (tiles not ascending), future, kind, many, cap, status, no_state, mask, describe */
#include <string.h>

#include "probe.h"

enum { P_KIND, P_LO, P_HI, P_STRIDE, P_RESIDUE, P_SINKS, P_SOFTCAP, P_SEED, P_FAULT };
enum { MASK, MASKS, TILES, ELU, FAVOR, HALVES };
enum { NONE, ORDER, FUTURE, KIND, CAP, STATUS, NO_STATE, BAD_MASK, DESCRIBE, N_FAULTS };

struct tn_inst {
  const tn_host *host;
  int64_t kind, fault;
  tn_mask mask;
  float softcap;
  uint32_t seed;
  tn_state_spec elu, favor;
  float *features;
  probe_attention seen;
};

static tn_status describe(tn_inst *self, const tn_plan *plan, uint32_t layer, uint32_t head, tn_attn_spec *out,
                          tn_err *err)
{
  self->seen.describes++;
  self->seen.bad += layer >= plan->model->n_layers || head >= plan->model->n_kv_heads;
  if (self->fault == DESCRIBE) {
    err->code = TN_E_UNSUPPORTED;
    strcpy(err->msg, "this layer is not for sale");
    return TN_E_UNSUPPORTED;
  }
  int recurrent = self->kind == ELU || self->kind == FAVOR || (self->kind == HALVES && head % 2 == 1);
  out->kind = recurrent ? TN_AT_STATE : self->kind == TILES ? TN_AT_TILES : TN_AT_MASK;
  out->mask = self->kind == MASKS ? probe_mask(self->seed, layer, head) : self->mask;
  if (self->fault == BAD_MASK) out->mask.stride = 0;
  if (recurrent && self->fault != NO_STATE) out->state = self->kind == FAVOR ? &self->favor : &self->elu;
  out->softcap = self->softcap;
  self->host->count(self->host->ctx, 0, 1);
  return TN_OK;
}

static tn_status tiles(tn_inst *self, uint32_t layer, uint32_t head, int64_t qtile, int64_t last, tn_tile_list *out)
{
  self->seen.tiles++;
  self->seen.bad += last < qtile * 64 || last > qtile * 64 + 63 || (int64_t)out->cap <= qtile;
  if (self->fault == STATUS) return TN_E_DEVICE;
  out->n = 0;
  for (int64_t t = 0; t <= qtile; t++) {
    uint32_t kind = probe_tile(self->seed, layer, head, qtile, t);
    if (kind == PROBE_NO_TILE) continue;
    out->tile[out->n] = (int32_t)t;
    out->kind[out->n] = (uint8_t)kind;
    for (int64_t q = 0; q < 64 && kind == TN_TILE_BITMAP; q++)
      out->bitmap[out->n * 64 + q] = probe_bits(self->seed, layer, head, qtile * 64 + q, t);
    out->n++;
  }
  if (self->fault == ORDER && out->n > 1) out->tile[1] = out->tile[0];
  if (self->fault == FUTURE) out->tile[out->n - 1] = (int32_t)qtile + 1;
  if (self->fault == KIND) out->kind[0] = 7;
  if (self->fault == CAP) out->n = out->cap + 1;
  return TN_OK;
}

static const void *ext(tn_inst *self, const char *id) { return strcmp(id, PROBE_EXT) == 0 ? &self->seen : NULL; }

static tn_status create(const tn_host *host, const tn_value *v, tn_inst **out, tn_err *err)
{
  (void)err;
  const tn_svc_model *model = host->service(host->ctx, "tenon.model/1");
  uint32_t n = PROBE_FEATURES * model->shape->d_head;
  tn_inst *self = *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!self) return TN_E_NOMEM;
  memset(self, 0, sizeof *self);
  self->host = host;
  self->kind = v[P_KIND].v.i;
  self->mask = (tn_mask){v[P_LO].v.i, v[P_HI].v.i, v[P_STRIDE].v.i, v[P_RESIDUE].v.i, v[P_SINKS].v.i};
  self->softcap = (float)v[P_SOFTCAP].v.f;
  self->seed = (uint32_t)v[P_SEED].v.i;
  self->fault = v[P_FAULT].v.i;
  self->features = host->alloc(host->ctx, n * sizeof *self->features, 64);
  if (!self->features) {
    host->free_(host->ctx, self);
    *out = NULL;
    return TN_E_NOMEM;
  }
  for (uint32_t i = 0; i < n; i++) self->features[i] = probe_feature(self->seed, i);
  self->elu = (tn_state_spec){.struct_size = sizeof self->elu, .phi = TN_PHI_ELU1, .fold = 64, .eps = 1e-6};
  self->favor = (tn_state_spec){.struct_size = sizeof self->favor,
                                .phi = TN_PHI_FAVOR,
                                .n_features = PROBE_FEATURES,
                                .fold = 64,
                                .eps = 1e-6,
                                .features = self->features};
  return TN_OK;
}

static void destroy(tn_inst *self)
{
  self->host->free_(self->host->ctx, self->features);
  self->host->free_(self->host->ctx, self);
}

static const char *const kinds[] = {"mask", "masks", "tiles", "elu", "favor", "halves"};
static const char *const faults[N_FAULTS] = {"none",   "order",    "future", "kind",    "cap",
                                             "status", "no_state", "mask",   "describe"};
#define HEAD(key_, type_, def_) \
  .struct_size = sizeof(tn_param), .key = key_, .help = key_, .type = type_, .def = def_, .flags = TN_P_OUTPUT
#define COUNT(name_, key_, def_, lo_) \
  static const tn_param name_ = {HEAD(key_, TN_T_I64, def_), .imin = lo_, .imax = TN_POS_INF}
static const tn_param p_kind = {HEAD("kind", TN_T_ENUM, "mask"), .choices = kinds, .n_choices = 6};
COUNT(p_lo, "lo", "0", 0);
COUNT(p_hi, "hi", "4611686018427387903", 1);
COUNT(p_stride, "stride", "1", 1);
COUNT(p_residue, "residue", "0", 0);
COUNT(p_sinks, "sinks", "0", 0);
static const tn_param p_softcap = {HEAD("softcap", TN_T_F64, "0"), .fmin = 0, .fmax = 1000};
COUNT(p_seed, "seed", "1", 0);
static const tn_param p_fault = {HEAD("fault", TN_T_ENUM, "none"), .choices = faults, .n_choices = N_FAULTS};
static const tn_param *const params[] = {&p_kind,  &p_lo,      &p_hi,   &p_stride, &p_residue,
                                         &p_sinks, &p_softcap, &p_seed, &p_fault,  NULL};
static const tn_attention_v1 vtable = {.struct_size = sizeof vtable, .describe = describe, .tiles = tiles};

static const char *const needs[] = {"attn.mask/1", "attn.tiles/1", NULL};
static const char *const counters[] = {"heads", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_ATTENTION,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC,
                             .id = "org.tenon.test.attention",
                             .name = "probe",
                             .version = "1.0.0",
                             .summary = "every hook of the slot attention",
                             .needs = needs,
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .ext = ext,
                             .vtable = &vtable};

TN_PLUGIN(attention_probe, "org.tenon.test.attention", TN_SLOT_ATTENTION, "1.0.0", "Tenon", "Apache-2.0", desc);
