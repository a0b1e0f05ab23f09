/* quantizer probe: every hook of the slot and every kind of layout.
 *
 * layout     what take() answers; the codes come from probe_hash, not from the tensor
 * kv         what kv_layout() answers: keys and values in that layout; mixed: keys in bf16, values in affine
 * calibrate  what calibrate() asks for
 * embeddings 1: the token embedding as well */
#include <string.h>

#include "probe.h"

enum { P_LAYOUT, P_KV, P_CALIBRATE, P_EMBEDDINGS };
enum {
  L_AFFINE,
  L_AFFINE_INT,
  L_AFFINE_MIN,
  L_TWO_LEVEL,
  L_TWO_LEVEL_MIN,
  L_TABLE,
  L_E4M3,
  L_E5M2,
  L_EXOTIC,
  N_LAYOUTS
};
enum { KV_NONE, KV_F32, KV_BF16, KV_AFFINE, KV_MIN, KV_INT, KV_E4M3, KV_TABLE, KV_MIXED, KV_EXOTIC, N_KV };

struct tn_inst {
  const tn_host *host;
  int64_t kind, kv, calibrate, embeddings;
  tn_layout layout, keys, values;
  probe_quantizer seen;
};

static const float table16[16] = {-1.0f,   -0.75f, -0.5f, -0.375f, -0.25f, -0.125f, -0.0625f, 0,
                                  0.0625f, 0.125f, 0.25f, 0.375f,  0.5f,   0.75f,   1.0f,     1.5f};
#define AFFINE(bits_, group_, scale_, offset_, super_, sub_)                                                       \
  {                                                                                                                \
    .struct_size = sizeof(tn_layout), .kind = TN_LAY_AFFINE, .bits = bits_, .group = group_, .scale_type = scale_, \
    .offset = offset_, .super = super_, .sub_bits = sub_                                                           \
  }
#define FP8(format_, group_)                                                                                          \
  {                                                                                                                   \
    .struct_size = sizeof(tn_layout), .kind = TN_LAY_FLOAT8, .fp8 = format_, .group = group_, .scale_type = TN_DT_F32 \
  }
#define DENSE(dtype_)                                                       \
  {                                                                         \
    .struct_size = sizeof(tn_layout), .kind = TN_LAY_DENSE, .dtype = dtype_ \
  }
#define TABLE(scale_)                                                                                     \
  {                                                                                                       \
    .struct_size = sizeof(tn_layout), .kind = TN_LAY_TABLE, .bits = 4, .group = 32, .scale_type = scale_, \
    .table = table16                                                                                      \
  }
#define EXOTIC                                                                                               \
  {                                                                                                          \
    .struct_size = sizeof(tn_layout), .kind = TN_LAY_EXOTIC, .bits = 8, .exotic = "org.tenon.test.flipped/1" \
  }
static const tn_layout layouts[N_LAYOUTS] = {
    [L_AFFINE] = AFFINE(4, 32, TN_DT_F32, TN_OFF_NONE, 0, 0),
    [L_AFFINE_INT] = AFFINE(3, 16, TN_DT_F16, TN_OFF_INT, 0, 0),
    [L_AFFINE_MIN] = AFFINE(8, 0, TN_DT_F32, TN_OFF_MIN, 0, 0),
    [L_TWO_LEVEL] = AFFINE(4, 32, TN_DT_F16, TN_OFF_NONE, 2, 6),
    [L_TWO_LEVEL_MIN] = AFFINE(2, 16, TN_DT_F16, TN_OFF_MIN, 4, 4),
    [L_TABLE] = TABLE(TN_DT_BF16),
    [L_E4M3] = FP8(TN_FP8_E4M3, 0),
    [L_E5M2] = FP8(TN_FP8_E5M2, 64),
    [L_EXOTIC] = EXOTIC,
};
static const tn_layout kv_layouts[N_KV] = {
    [KV_F32] = DENSE(TN_DT_F32),
    [KV_BF16] = DENSE(TN_DT_BF16),
    [KV_AFFINE] = AFFINE(8, 0, TN_DT_F16, TN_OFF_NONE, 0, 0),
    [KV_MIN] = AFFINE(4, 16, TN_DT_F16, TN_OFF_MIN, 0, 0),
    [KV_INT] = AFFINE(6, 32, TN_DT_F32, TN_OFF_INT, 0, 0),
    [KV_E4M3] = FP8(TN_FP8_E4M3, 0),
    [KV_TABLE] = TABLE(TN_DT_F16),
    [KV_MIXED] = DENSE(TN_DT_BF16),
    [KV_EXOTIC] = EXOTIC,
};

static tn_status say(tn_err *err, tn_status st, const char *text)
{
  err->code = st;
  strncpy(err->msg, text, sizeof err->msg - 1);
  return st;
}

static tn_status take(tn_inst *self, const tn_tensor_info *t, const tn_layout **out, tn_err *err)
{
  (void)err;
  __atomic_fetch_add(&self->seen.takes, 1, __ATOMIC_RELAXED);
  if (t->role == TN_ROLE_NORM || t->role == TN_ROLE_BIAS || t->role == TN_ROLE_OTHER) return TN_E_UNSUPPORTED;
  if (t->role == TN_ROLE_EMBED && !self->embeddings) return TN_E_UNSUPPORTED;
  *out = &self->layout;
  return TN_OK;
}

/* Small numbers that f16 and bf16 hold exactly: (1 + n / 8) 2^-shift. */
static float small(const tn_qblock *b, int64_t r, int64_t g, uint32_t what, int shift)
{
  return (1.0f + (float)(probe_hash(b->info->name, b->row0 + r, g, what) % 8) / 8) / (float)(1 << shift);
}

static uint8_t code_of(const tn_layout *l, const tn_qblock *b, int64_t r, int64_t c)
{
  uint32_t h = probe_hash(b->info->name, b->row0 + r, c, PROBE_CODE);
  if (l->kind == TN_LAY_FLOAT8)
    return (uint8_t)(h % 0x40 | (h >> 8 & 1) << 7); /* finite and moderate in both formats */
  return (uint8_t)(h % (1u << l->bits));
}

static void scales_of(const tn_layout *l, const tn_qblock *b, int64_t r)
{
  int64_t groups = l->group ? b->info->k / l->group : 1, supers = l->super ? groups / l->super : 0;
  const char *name = b->info->name;
  for (int64_t s = 0; s < supers; s++) {
    b->d[r * supers + s] = small(b, r, s, PROBE_SUPER, 11);
    if (b->dmin) b->dmin[r * supers + s] = small(b, r, s, PROBE_SUPER_MIN, 10);
  }
  for (int64_t g = 0; g < groups; g++) {
    int64_t at = r * groups + g;
    if (l->super) {
      b->sub_scale[at] = (uint8_t)(probe_hash(name, b->row0 + r, g, PROBE_SUB_SCALE) % (1u << l->sub_bits));
      if (b->sub_offset)
        b->sub_offset[at] = (uint8_t)(probe_hash(name, b->row0 + r, g, PROBE_SUB_OFFSET) % (1u << l->sub_bits));
      continue;
    }
    b->scale[at] = small(b, r, g, PROBE_SCALE,
                         l->kind == TN_LAY_TABLE || l->kind == TN_LAY_FLOAT8 ? 5
                         : l->bits > 6                                       ? 10
                                                                             : 6);
    if (b->offset)
      b->offset[at] = l->offset == TN_OFF_INT ? (float)(probe_hash(name, b->row0 + r, g, PROBE_OFFSET) % 8)
                                              : -small(b, r, g, PROBE_OFFSET, 3);
  }
}

static tn_status encode(tn_inst *self, const tn_layout *l, const tn_qblock *b)
{
  if (l != &self->layout || !b->w || b->stats) return TN_E_ARG;
  for (int64_t r = 0; r < b->n_rows; r++) {
    for (int64_t c = 0; c < b->info->k; c++) b->codes[r * b->info->k + c] = code_of(l, b, r, c);
    scales_of(l, b, r);
  }
  __atomic_fetch_add(&self->seen.encodes, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&self->seen.rows, (uint64_t)b->n_rows, __ATOMIC_RELAXED);
  self->host->count(self->host->ctx, 0, 1);
  return TN_OK;
}

/* x = s ((code ^ 0x55) - 128) */
static tn_status dequantize(tn_inst *self, const tn_layout *l, const tn_qblock *b, float *w)
{
  if (l->kind != TN_LAY_EXOTIC) return TN_E_ARG;
  for (int64_t r = 0; r < b->n_rows; r++)
    for (int64_t c = 0; c < b->info->k; c++)
      w[r * b->info->k + c] = b->scale[r] * (float)((int)(b->codes[r * b->info->k + c] ^ 0x55) - 128);
  __atomic_fetch_add(&self->seen.dequantizes, 1, __ATOMIC_RELAXED);
  return TN_OK;
}

static tn_status kv_layout(tn_inst *self, const tn_model_shape *m, const tn_layout **k, const tn_layout **v,
                           tn_err *err)
{
  (void)m;
  self->seen.kv_layouts++;
  if (self->kv == KV_NONE) return say(err, TN_E_UNSUPPORTED, "kv = none: no layout of keys and values");
  self->keys = kv_layouts[self->kv];
  self->values = kv_layouts[self->kv == KV_MIXED ? KV_AFFINE : self->kv];
  *k = &self->keys;
  *v = &self->values;
  self->host->count(self->host->ctx, 0, 1);
  return TN_OK;
}

static uint32_t calibrate(tn_inst *self, const tn_tensor_info *t)
{
  (void)t;
  self->seen.calibrates++;
  return (uint32_t)self->calibrate;
}

static tn_status observe(tn_inst *self, const tn_tensor_info *t, const float *x, int64_t n)
{
  (void)t, (void)x, (void)n;
  self->seen.observes++;
  return TN_OK;
}

static tn_status fold(tn_inst *self, const tn_qpair *p, const float *absmean, float *out)
{
  (void)p, (void)absmean, (void)out;
  self->seen.folds++;
  return TN_E_UNSUPPORTED;
}

static const void *ext(tn_inst *self, const char *id) { return strcmp(id, PROBE_EXT) == 0 ? &self->seen : NULL; }

static tn_status create(const tn_host *host, const tn_value *v, tn_inst **out, tn_err *err)
{
  (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  memset(*out, 0, sizeof **out);
  (*out)->host = host;
  (*out)->kind = v[P_LAYOUT].v.i;
  (*out)->kv = v[P_KV].v.i;
  (*out)->calibrate = v[P_CALIBRATE].v.i;
  (*out)->embeddings = v[P_EMBEDDINGS].v.i;
  (*out)->layout = layouts[(*out)->kind];
  return TN_OK;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

static const char *const kinds[] = {"affine", "affine_int", "affine_min", "two_level", "two_level_min",
                                    "table",  "e4m3",       "e5m2",       "exotic"};
static const char *const kvs[] = {"none", "f32", "bf16", "affine", "min", "int", "e4m3", "table", "mixed", "exotic"};
static const char *const calibrations[] = {"none", "hessian", "absmean", "rows"};
#define CHOICE(key_, def_, list_)                                                                                     \
  {                                                                                                                   \
    .struct_size = sizeof(tn_param), .type = TN_T_ENUM, .flags = TN_P_OUTPUT, .key = key_, .help = key_, .def = def_, \
    .choices = list_, .n_choices = sizeof list_ / sizeof *list_                                                       \
  }
static const tn_param p_layout = CHOICE("layout", "affine", kinds), p_kv = CHOICE("kv", "none", kvs),
                      p_cal = CHOICE("calibrate", "none", calibrations);
static const tn_param p_embeddings = {.struct_size = sizeof p_embeddings,
                                      .type = TN_T_BOOL,
                                      .flags = TN_P_OUTPUT,
                                      .key = "embeddings",
                                      .help = "the token embedding as well",
                                      .def = "0"};
static const tn_param *const params[] = {&p_layout, &p_kv, &p_cal, &p_embeddings, NULL};
static const tn_quantizer_v1 vtable = {.struct_size = sizeof vtable,
                                       .take = take,
                                       .encode = encode,
                                       .kv_layout = kv_layout,
                                       .calibrate = calibrate,
                                       .observe = observe,
                                       .fold = fold,
                                       .dequantize = dequantize};
static const char *const needs[] = {"weight.affine/1", "weight.fp8/1", "weight.table/1", "kv.layouts/1", NULL};
static const char *const counters[] = {"calls", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_QUANTIZER,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC,
                             .id = "org.tenon.test.quantizer",
                             .name = "probe",
                             .version = "1.0.0",
                             .summary = "every hook of the slot quantizer",
                             .needs = needs,
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .ext = ext,
                             .vtable = &vtable};

TN_PLUGIN(quantizer_probe, "org.tenon.test.quantizer", TN_SLOT_QUANTIZER, "1.0.0", "Tenon", "Apache-2.0", desc);
