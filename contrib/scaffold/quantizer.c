/* my_plugin: weights rounded to nearest in 8 bits, one scale for each run of values.
 *
 * Paper    -
 * Maths    s = max|x| / 127, q = round(x / s), x^ = s q (stored as q + 128)
 * Result   approximate; |x - x^| <= s / 2
 * Cost     8 bits a value and one f32 scale a group
 * Needs    -        Conflicts  -
 * Options  group  [elements, 32 | 64 | 128, default 32]
 */
#include <math.h>

#include <tenon/plugin_api.h>

struct tn_inst {
  const tn_host *host;
  tn_layout layout; /* handed out, so it lives as long as the instance */
};

/* Matrices of the layers; norms, biases and embeddings stay as they are, and so does what a group does not divide. */
static tn_status take(tn_inst *self, const tn_tensor_info *t, const tn_layout **out, tn_err *err)
{
  (void)err;
  if (t->role < TN_ROLE_Q || t->role > TN_ROLE_DOWN) return TN_E_UNSUPPORTED;
  if (t->k % self->layout.group != 0) return TN_E_UNSUPPORTED;
  *out = &self->layout;
  return TN_OK;
}

static void encode_group(const float *x, uint32_t n, uint8_t *code, float *scale)
{
  float top = 0;
  for (uint32_t i = 0; i < n; i++) top = fmaxf(top, fabsf(x[i]));
  *scale = top / 127.0f;
  for (uint32_t i = 0; i < n; i++) {
    float q = *scale > 0 ? fminf(fmaxf(nearbyintf(x[i] / *scale), -127.0f), 127.0f) : 0.0f;
    code[i] = (uint8_t)((int)q + 128);
  }
}

/* Several threads encode blocks of rows at once: nothing of the instance is written. */
static tn_status encode(tn_inst *self, const tn_layout *layout, const tn_qblock *b)
{
  int64_t groups = b->info->k / layout->group;
  for (int64_t i = 0; i < b->n_rows * groups; i++)
    encode_group(b->w + i * layout->group, layout->group, b->codes + i * layout->group, &b->scale[i]);
  self->host->count(self->host->ctx, 0, (uint64_t)b->n_rows);
  return TN_OK;
}

static tn_status create(const tn_host *host, const tn_value *values, tn_inst **out, tn_err *err)
{
  static const tn_layout layout = {
      .struct_size = sizeof layout, .kind = TN_LAY_AFFINE, .bits = 8, .scale_type = TN_DT_F32, .offset = TN_OFF_NONE};
  (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  (*out)->host = host;
  (*out)->layout = layout;
  (*out)->layout.group = 32u << values[0].v.i;
  return TN_OK;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

static const char *const groups[] = {"32", "64", "128"};
static const tn_param p_group = {.struct_size = sizeof p_group,
                                 .type = TN_T_ENUM,
                                 .flags = TN_P_OUTPUT,
                                 .n_choices = 3,
                                 .key = "group",
                                 .help = "values that share a scale",
                                 .unit = "elements",
                                 .def = "32",
                                 .choices = groups};
static const tn_param *const params[] = {&p_group, NULL};
static const tn_quantizer_v1 vtable = {.struct_size = sizeof vtable, .take = take, .encode = encode};

static const char *const provides[] = {"q.weights/1", NULL};
static const char *const counters[] = {"rows_encoded", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_QUANTIZER,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC,
                             .id = "org.example.my_plugin",
                             .name = "my_plugin",
                             .version = "0.1.0",
                             .summary = "weights rounded to nearest in 8 bits",
                             .provides = provides,
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(my_plugin, "org.example.my_plugin", TN_SLOT_QUANTIZER, "0.1.0", "Example", "Apache-2.0", desc);
