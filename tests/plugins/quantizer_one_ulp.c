/* one_ulp: weights in 8 bits, and one scale of one tensor a single float apart from what it should be.
 *
 * layer   the layer whose ffn_up.weight is quantized; all other tensors stay as they are
 * plant   yes: the scale of row 5's first group is the next larger float */
#include <math.h>
#include <string.h>

#include <tenon/plugin_api.h>

enum { GROUP = 32, ROW = 5 };

struct tn_inst {
  const tn_host *host;
  int64_t layer, plant;
};

static const tn_layout layout = {.struct_size = sizeof layout,
                                 .kind = TN_LAY_AFFINE,
                                 .bits = 8,
                                 .group = GROUP,
                                 .scale_type = TN_DT_F32,
                                 .offset = TN_OFF_NONE};

static tn_status take(tn_inst *self, const tn_tensor_info *t, const tn_layout **out, tn_err *err)
{
  (void)err;
  if (t->role != TN_ROLE_UP || t->layer != self->layer) return TN_E_UNSUPPORTED;
  *out = &layout;
  return TN_OK;
}

static void encode_group(const float *w, uint8_t *codes, float *scale)
{
  float most = 0;
  for (int i = 0; i < GROUP; i++) most = fmaxf(most, fabsf(w[i]));
  *scale = most > 0 ? most / 127 : 1;
  for (int i = 0; i < GROUP; i++) codes[i] = (uint8_t)(lrintf(w[i] / *scale) + 128);
}

static tn_status encode(tn_inst *self, const tn_layout *l, const tn_qblock *b)
{
  (void)l;
  int64_t k = b->info->k, groups = k / GROUP;
  for (int64_t r = 0; r < b->n_rows; r++) {
    for (int64_t g = 0; g < groups; g++)
      encode_group(b->w + r * k + g * GROUP, b->codes + r * k + g * GROUP, &b->scale[r * groups + g]);
    if (self->plant && b->row0 + r == ROW) b->scale[r * groups] = nextafterf(b->scale[r * groups], INFINITY);
  }
  self->host->count(self->host->ctx, 0, (uint64_t)b->n_rows);
  return TN_OK;
}

static tn_status create(const tn_host *host, const tn_value *v, tn_inst **out, tn_err *err)
{
  (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  **out = (struct tn_inst){.host = host, .layer = v[0].v.i, .plant = v[1].v.i};
  return TN_OK;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

static const tn_param p_layer = {.struct_size = sizeof p_layer,
                                 .type = TN_T_I64,
                                 .flags = TN_P_OUTPUT,
                                 .key = "layer",
                                 .help = "the layer",
                                 .def = "17",
                                 .imax = 1024};
static const tn_param p_plant = {.struct_size = sizeof p_plant,
                                 .type = TN_T_BOOL,
                                 .flags = TN_P_OUTPUT,
                                 .key = "plant",
                                 .help = "one scale a float apart",
                                 .def = "no"};
static const tn_param *const params[] = {&p_layer, &p_plant, NULL};
static const tn_quantizer_v1 vtable = {.struct_size = sizeof vtable, .take = take, .encode = encode};
static const char *const needs[] = {"weight.affine/1", NULL};
static const char *const counters[] = {"rows", NULL};
static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_QUANTIZER,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC,
                             .id = "org.tenon.test.one_ulp",
                             .name = "one_ulp",
                             .version = "1.0.0",
                             .summary = "one scale of one tensor, one float apart",
                             .needs = needs,
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(quantizer_one_ulp, "org.tenon.test.one_ulp", TN_SLOT_QUANTIZER, "1.0.0", "Tenon", "Apache-2.0", desc);
