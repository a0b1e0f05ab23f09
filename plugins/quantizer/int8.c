/* int8: round to nearest in 8 bits, by row or by group; for weights and for cached keys and values.
 *
 * Paper    Jacob et al., Quantization and Training of Neural Networks for Integer-Arithmetic-Only Inference, CVPR 2018
 * Maths    symmetric: s = max|x| / 127, q = clip(rne(x / s), -127, 127), x^ = s q (stored as q + 128)
 *          asymmetric: lo <= 0 <= hi, s = (hi - lo) / 255, z = rne(-lo / s), q = clip(rne(x / s) + z, 0, 255)
 * Result   approximate; |x - x^| <= s / 2
 * Cost     8 bits a value and one f16 or f32 scale a group
 * Needs    weight.affine/1 under weights=, kv.layouts/1 under kv=        Conflicts  -
 * Options  group [elements, 0 (the whole row), 16..256, default 32]   scheme [symmetric | asymmetric]
 *          embeddings [0 | 1, default 0]: also the token embedding (and a tied head)
 * Tests    tests/policy/test_int8.c
 */
#include <math.h>
#include <stdio.h>

#include <tenon/plugin_api.h>

struct tn_inst {
  const tn_host *host;
  uint32_t group;
  int asymmetric, embeddings;
  tn_layout layout, kv; /* handed out, so they live as long as the instance */
};

static tn_status bad_group(const tn_inst *self, const char *what, int64_t k, tn_err *err)
{
  err->code = TN_E_ARG;
  snprintf(err->msg, sizeof err->msg, "group = %u does not divide the %lld columns of %s", self->group, (long long)k,
           what);
  return TN_E_ARG;
}

static tn_status take(tn_inst *self, const tn_tensor_info *t, const tn_layout **out, tn_err *err)
{
  if (t->role < TN_ROLE_EMBED || t->role > TN_ROLE_HEAD || t->role == TN_ROLE_NORM) return TN_E_UNSUPPORTED;
  if (t->role == TN_ROLE_EMBED && !self->embeddings) return TN_E_UNSUPPORTED;
  if (self->group && t->k % self->group != 0) return bad_group(self, t->name, t->k, err);
  *out = &self->layout;
  return TN_OK;
}

static void encode_symmetric(const float *x, int64_t n, uint8_t *code, float *scale)
{
  float top = 0;
  for (int64_t i = 0; i < n; i++) top = fmaxf(top, fabsf(x[i]));
  float s = top / 127.0f;
  *scale = s;
  for (int64_t i = 0; i < n; i++) {
    float q = s > 0 ? fminf(fmaxf(nearbyintf(x[i] / s), -127.0f), 127.0f) : 0.0f;
    code[i] = (uint8_t)((int)q + 128);
  }
}

static void encode_asymmetric(const float *x, int64_t n, uint8_t *code, float *scale, float *zero)
{
  float lo = 0, hi = 0;
  for (int64_t i = 0; i < n; i++) lo = fminf(lo, x[i]), hi = fmaxf(hi, x[i]);
  float s = (hi - lo) / 255.0f, z = s > 0 ? nearbyintf(-lo / s) : 0.0f;
  *scale = s;
  *zero = z;
  for (int64_t i = 0; i < n; i++) {
    float q = s > 0 ? fminf(fmaxf(nearbyintf(x[i] / s) + z, 0.0f), 255.0f) : z;
    code[i] = (uint8_t)q;
  }
}

static tn_status encode(tn_inst *self, const tn_layout *l, const tn_qblock *b)
{
  int64_t k = b->info->k, g = l->group ? l->group : k, groups = k / g;
  for (int64_t r = 0; r < b->n_rows; r++)
    for (int64_t i = 0; i < groups; i++) {
      int64_t at = r * k + i * g, s = r * groups + i;
      if (self->asymmetric)
        encode_asymmetric(b->w + at, g, b->codes + at, b->scale + s, b->offset + s);
      else
        encode_symmetric(b->w + at, g, b->codes + at, b->scale + s);
    }
  self->host->count(self->host->ctx, 0, (uint64_t)b->n_rows);
  return TN_OK;
}

static tn_status kv_layout(tn_inst *self, const tn_model_shape *m, const tn_layout **k, const tn_layout **v,
                           tn_err *err)
{
  if (self->group && m->d_head % self->group != 0) return bad_group(self, "a head", m->d_head, err);
  self->kv = self->layout;
  self->kv.scale_type = TN_DT_F16;
  if (self->asymmetric) self->kv.offset = TN_OFF_MIN;
  *k = *v = &self->kv;
  self->host->count(self->host->ctx, 1, 1);
  return TN_OK;
}

static tn_status validate(const tn_plan *plan, const tn_value *values, tn_err *err)
{
  (void)plan;
  int64_t g = values[0].v.i;
  if (g == 0 || (g >= 16 && g % 16 == 0)) return TN_OK;
  err->code = TN_E_ARG;
  snprintf(err->msg, sizeof err->msg, "group = %lld: must be 0 (the whole row) or a multiple of 16 up to 256",
           (long long)g);
  return TN_E_ARG;
}

static tn_status create(const tn_host *host, const tn_value *values, tn_inst **out, tn_err *err)
{
  (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  **out = (struct tn_inst){.host = host,
                           .group = (uint32_t)values[0].v.i,
                           .asymmetric = values[1].v.i == 1,
                           .embeddings = values[2].v.i != 0};
  (*out)->layout = (tn_layout){.struct_size = sizeof(tn_layout),
                               .kind = TN_LAY_AFFINE,
                               .bits = 8,
                               .group = (*out)->group,
                               .scale_type = TN_DT_F32,
                               .offset = (*out)->asymmetric ? TN_OFF_INT : TN_OFF_NONE};
  return TN_OK;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

static const char *const schemes[] = {"symmetric", "asymmetric"};
static const tn_param p_group = {.struct_size = sizeof p_group,
                                 .type = TN_T_I64,
                                 .flags = TN_P_OUTPUT,
                                 .key = "group",
                                 .help = "values that share a scale; 0: the whole row (weights) or head (KV)",
                                 .unit = "elements",
                                 .def = "32",
                                 .imin = 0,
                                 .imax = 256};
static const tn_param p_scheme = {.struct_size = sizeof p_scheme,
                                  .type = TN_T_ENUM,
                                  .flags = TN_P_OUTPUT,
                                  .n_choices = 2,
                                  .key = "scheme",
                                  .help = "zero in the middle of the codes, or a zero point",
                                  .def = "symmetric",
                                  .choices = schemes};
static const tn_param p_embeddings = {.struct_size = sizeof p_embeddings,
                                      .type = TN_T_BOOL,
                                      .flags = TN_P_OUTPUT,
                                      .key = "embeddings",
                                      .help = "quantize the token embedding (and a tied head) as well",
                                      .def = "0"};
static const tn_param *const params[] = {&p_group, &p_scheme, &p_embeddings, NULL};
static const tn_quantizer_v1 vtable = {
    .struct_size = sizeof vtable, .take = take, .encode = encode, .kv_layout = kv_layout};

static const char *const provides[] = {"q.weights/1", "q.kv/1", NULL};
static const char *const needs[] = {"weight.affine/1", "kv.layouts/1", NULL};
static const char *const counters[] = {"rows_encoded", "kv_layouts", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_QUANTIZER,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC,
                             .id = "org.tenon.int8",
                             .name = "int8",
                             .version = "1.0.0",
                             .summary = "round to nearest in 8 bits, for weights and KV (Jacob et al. 2018)",
                             .provides = provides,
                             .needs = needs,
                             .params = params,
                             .counters = counters,
                             .validate = validate,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(int8, "org.tenon.int8", TN_SLOT_QUANTIZER, "1.0.0", "Tenon", "Apache-2.0", desc);
