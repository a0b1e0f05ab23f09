/* weights: kept as they come (bytes of the file in place where they stay mapped) and decoded a row at a time. */
#include <string.h>

#include "quant/dtype.h"
#include "ref.h"

_Static_assert((int)TNK_F16 == (int)TN_DT_F16 && (int)TNK_Q4_1 == (int)TN_DT_Q4_1 && (int)TNK_Q6_K == (int)TN_DT_Q6_K &&
                   (int)TNK_IQ4_XS == (int)TN_DT_IQ4_XS && (int)TNK_BF16 == (int)TN_DT_BF16,
               "kernels and plugin API number dtypes alike");

static void codes_free(tn_inst *in, ref_codes *c)
{
  if (!c) return;
  tn_ref_free(in, c->codes);
  tn_ref_free(in, c->sub_scale);
  tn_ref_free(in, c->sub_offset);
  tn_ref_free(in, c->scale);
  tn_ref_free(in, c->offset);
  tn_ref_free(in, c->d);
  tn_ref_free(in, c->dmin);
  tn_ref_free(in, c->table);
  tn_ref_free(in, c);
}

void tn_ref_weight_free(tn_inst *in, tn_tensor *w)
{
  if (!w || !w->buf) return;
  codes_free(in, w->buf->codes);
  tn_ref_buffer_free(in, w->buf);
  w->buf = NULL;
}

/* ---------------------------------------------------------------- bytes as in the file */

/* Vectors become f32 at once, so that norms and biases are plain arrays. */
static tn_status load_vector(tn_inst *in, const tn_weight_src *src, uint32_t dtype, tn_tensor *out, tn_err *err)
{
  const uint64_t n = (uint64_t)src->k * (uint64_t)src->n;
  tn_status st = tn_ref_buffer_new(in, n * sizeof(float), &out->buf, err);
  if (st) return st;
  tnk_decode(dtype, src->data, (float *)(void *)out->buf->data, (size_t)n);
  out->dtype = TN_DT_F32;
  out->nb[0] = sizeof(float);
  return TN_OK;
}

static tn_status load_bytes(tn_inst *in, const tn_weight_src *src, tn_tensor *out, tn_err *err)
{
  const uint32_t dtype = src->kind == TN_W_F32 ? (uint32_t)TN_DT_F32 : src->dtype;
  const tnk_dtype_info info = tnk_dtype(dtype);
  if (!info.decodes) {
    return tn_ref_fail(err, TN_E_UNSUPPORTED, "weight %s: dtype %u (%s) cannot be decoded", src->name, dtype,
                       info.name ? info.name : "unknown");
  }
  if (src->k % info.block) {
    return tn_ref_fail(err, TN_E_ARG, "weight %s: %lld columns are no multiple of the %u of a %s block", src->name,
                       (long long)src->k, info.block, info.name);
  }
  const uint64_t row = (uint64_t)src->k / info.block * info.block_bytes, bytes = row * (uint64_t)src->n;
  if (!src->data || src->bytes < bytes) {
    return tn_ref_fail(err, TN_E_ARG, "weight %s: %llu bytes given, %lld x %lld of %s take %llu", src->name,
                       (unsigned long long)(src->data ? src->bytes : 0), (long long)src->n, (long long)src->k,
                       info.name, (unsigned long long)bytes);
  }
  out->dtype = dtype;
  out->nb[0] = info.block_bytes;
  out->nb[1] = (int64_t)row;
  if (src->n == 1 || src->k == 1) return load_vector(in, src, dtype, out, err);
  tn_status st = tn_ref_buffer_new(in, src->flags & TN_WF_STABLE ? 0 : bytes, &out->buf, err);
  if (st) return st;
  if (src->flags & TN_WF_STABLE) {
    tn_ref_free(in, out->buf->data);
    *out->buf = (tn_buffer){.data = (uint8_t *)(uintptr_t)src->data, .bytes = bytes};
  } else {
    memcpy(out->buf->data, src->data, (size_t)bytes);
  }
  return TN_OK;
}

/* ---------------------------------------------------------------- codes of a quantizer */

static bool is_scale_type(uint32_t t) { return t == TN_DT_F32 || t == TN_DT_F16 || t == TN_DT_BF16; }

tn_status tn_ref_layout(const tn_layout *lay, const char *what, tnk_layout *out, tn_err *err)
{
  if (!lay) return tn_ref_fail(err, TN_E_ARG, "%s: no layout given", what);
  *out = (tnk_layout){.kind = lay->kind,
                      .dtype = lay->dtype,
                      .bits = lay->kind == TN_LAY_FLOAT8 ? 8 : lay->bits,
                      .group = lay->group,
                      .scale_type = lay->scale_type,
                      .offset = lay->kind == TN_LAY_AFFINE ? lay->offset : (uint32_t)TN_OFF_NONE,
                      .super = lay->super,
                      .fp8 = lay->fp8,
                      .table = lay->table};
  switch (lay->kind) {
    case TN_LAY_DENSE:
      if (is_scale_type(lay->dtype)) return TN_OK;
      return tn_ref_fail(err, TN_E_UNSUPPORTED, "%s: dense dtype %u, want f32, f16 or bf16", what, lay->dtype);
    case TN_LAY_AFFINE:
      if (lay->offset > TN_OFF_MIN) return tn_ref_fail(err, TN_E_ARG, "%s: offset kind %u", what, lay->offset);
      if (lay->super && lay->offset == TN_OFF_INT) {
        return tn_ref_fail(err, TN_E_ARG, "%s: two-level scales with integer zero points are not a layout", what);
      }
      break;
    case TN_LAY_FLOAT8:
      if (lay->fp8 == TN_FP8_E4M3 || lay->fp8 == TN_FP8_E5M2) break;
      return tn_ref_fail(err, TN_E_ARG, "%s: float8 format %u", what, lay->fp8);
    case TN_LAY_TABLE:
      if (lay->table) break;
      return tn_ref_fail(err, TN_E_ARG, "%s: table layout without a table", what);
    default: return tn_ref_fail(err, TN_E_UNSUPPORTED, "%s: layout kind %u", what, lay->kind);
  }
  if (out->bits < 1 || out->bits > 8) return tn_ref_fail(err, TN_E_ARG, "%s: %u bits, want 1 to 8", what, out->bits);
  if (!lay->super && !is_scale_type(lay->scale_type)) {
    return tn_ref_fail(err, TN_E_ARG, "%s: scale type %u, want f32, f16 or bf16", what, lay->scale_type);
  }
  return TN_OK;
}

/* Copies n rounded numbers; *out NULL when src is NULL. False without memory. */
static bool keep_scales(tn_inst *in, const float *src, int64_t n, uint32_t type, float **out)
{
  if (!src) return true;
  *out = tn_ref_copy(in, src, (uint64_t)n, sizeof **out);
  for (int64_t i = 0; *out && i < n; i++) (*out)[i] = tnk_ref_round(type, src[i]);
  return *out != NULL;
}

static bool keep_bytes(tn_inst *in, const uint8_t *src, int64_t n, uint8_t **out)
{
  if (src) *out = tn_ref_copy(in, src, (uint64_t)n, 1);
  return !src || *out;
}

static bool codes_copy(tn_inst *in, const tn_weight_src *src, ref_codes *c)
{
  const uint32_t offset_type = c->layout.offset == TNK_OFF_MIN ? c->layout.scale_type : (uint32_t)TNK_F32;
  const int64_t n = src->n, table = c->layout.kind == TNK_LAY_TABLE ? 1 << c->layout.bits : 0;
  if (!keep_bytes(in, src->codes, n * src->k, &c->codes)) return false;
  if (table) {
    c->table = tn_ref_copy(in, src->layout->table, (uint64_t)table, sizeof *c->table);
    if (!c->table) return false;
    c->layout.table = c->table;
    c->api.table = c->table;
  }
  if (!c->layout.super) {
    return keep_scales(in, src->scale, n * c->groups, c->layout.scale_type, &c->scale) &&
           keep_scales(in, src->offset, n * c->groups, offset_type, &c->offset);
  }
  return keep_bytes(in, src->sub_scale, n * c->groups, &c->sub_scale) &&
         keep_bytes(in, src->sub_offset, n * c->groups, &c->sub_offset) &&
         keep_scales(in, src->d, n * c->supers, TNK_F16, &c->d) &&
         keep_scales(in, src->dmin, n * c->supers, TNK_F16, &c->dmin);
}

/* Arrays that the layout needs are all there, and no code is out of range. */
static const char *codes_missing(const tn_weight_src *src, const tnk_layout *lay)
{
  const bool min = lay->offset == TNK_OFF_MIN;
  if (!src->codes) return "codes";
  for (int64_t i = 0; i < src->n * src->k; i++) {
    if (src->codes[i] >> lay->bits) return "codes in range";
  }
  if (!lay->super) return !src->scale ? "scales" : lay->offset && !src->offset ? "offsets" : NULL;
  if (!src->sub_scale || !src->d) return "two-level scales";
  return min && (!src->sub_offset || !src->dmin) ? "two-level offsets" : NULL;
}

static tn_status load_codes(tn_inst *in, const tn_weight_src *src, tn_tensor *out, tn_err *err)
{
  tnk_layout lay;
  tn_status st = tn_ref_layout(src->layout, src->name, &lay, err);
  if (st) return st;
  if (lay.kind == TNK_LAY_DENSE) {
    return tn_ref_fail(err, TN_E_ARG, "weight %s: a dense layout has no codes", src->name);
  }
  const char *missing = codes_missing(src, &lay);
  if (missing) return tn_ref_fail(err, TN_E_ARG, "weight %s: the layout wants %s", src->name, missing);
  st = tn_ref_buffer_new(in, 0, &out->buf, err);
  if (st) return st;
  ref_codes *c = tn_ref_zalloc(in, 1, sizeof *c);
  out->buf->codes = c;
  if (c) {
    c->layout = lay;
    c->api = *src->layout;
    c->n = src->n;
    c->k = src->k;
    c->groups = tnk_ref_groups(&lay, src->k);
    c->supers = lay.super ? (c->groups + lay.super - 1) / lay.super : 0;
  }
  if (!c || !codes_copy(in, src, c)) {
    tn_ref_weight_free(in, out);
    return tn_ref_fail(err, TN_E_NOMEM, "weight %s: no memory for its codes", src->name);
  }
  out->dtype = TN_DT_LAYOUT;
  out->layout = &c->api;
  out->nb[0] = 1;
  out->nb[1] = src->k;
  return TN_OK;
}

/* ---------------------------------------------------------------- the slot's calls */

tn_status tn_ref_weight_load(tn_inst *in, const tn_weight_src *src, tn_tensor *out, tn_err *err)
{
  *out = (tn_tensor){.struct_size = sizeof *out, .ne = {src->k, src->n, 1, 1}};
  if (src->n < 1 || src->k < 1 || src->n > INT64_MAX / 16 / src->k) {
    return tn_ref_fail(err, TN_E_ARG, "weight %s: shape %lld x %lld", src->name, (long long)src->n, (long long)src->k);
  }
  tn_status st;
  switch (src->kind) {
    case TN_W_FILE:
    case TN_W_F32: st = load_bytes(in, src, out, err); break;
    case TN_W_CODES: st = load_codes(in, src, out, err); break;
    default: st = tn_ref_fail(err, TN_E_ARG, "weight %s: source kind %u", src->name, src->kind); break;
  }
  if (st) return st;
  out->nb[1] = out->dtype == TN_DT_F32 ? src->k * (int64_t)sizeof(float) : out->nb[1];
  out->nb[2] = out->nb[3] = out->nb[1] * src->n;
  return TN_OK;
}

tn_status tn_ref_weight_read(tn_inst *in, const tn_tensor *w, int64_t row0, int64_t n_rows, float *dst)
{
  (void)in;
  if (!tn_ref_weight_ok(w) || row0 < 0 || n_rows < 0 || row0 > w->ne[1] - n_rows) return TN_E_ARG;
  for (int64_t r = 0; r < n_rows; r++) tn_ref_weight_row(w, row0 + r, dst + r * w->ne[0]);
  return TN_OK;
}

bool tn_ref_weight_ok(const tn_tensor *w)
{
  if (!w || !w->buf || w->ne[0] < 1 || w->ne[1] < 1 || w->ne[2] != 1 || w->ne[3] != 1 || w->nb[1] < 1) return false;
  const ref_codes *c = w->buf->codes;
  if (c) return c->k == w->ne[0] && w->nb[1] == c->k && (int64_t)(w->offset / (uint64_t)c->k) <= c->n - w->ne[1];
  const tnk_dtype_info info = tnk_dtype(w->dtype);
  if (!w->buf->data || !info.decodes || w->ne[0] % info.block) return false;
  const uint64_t row = (uint64_t)(w->ne[0] / info.block) * info.block_bytes;
  return w->offset + row <= w->buf->bytes &&
         (uint64_t)(w->ne[1] - 1) <= (w->buf->bytes - w->offset - row) / (uint64_t)w->nb[1];
}

void tn_ref_weight_row(const tn_tensor *w, int64_t row, float *dst)
{
  const ref_codes *c = w->buf->codes;
  if (!c) {
    tnk_decode(w->dtype, w->buf->data + w->offset + row * w->nb[1], dst, (size_t)w->ne[0]);
    return;
  }
  const int64_t r = row + (int64_t)w->offset / c->k;
  const tnk_codes one = {.codes = c->codes + r * c->k,
                         .scale = c->scale ? c->scale + r * c->groups : NULL,
                         .offset = c->offset ? c->offset + r * c->groups : NULL,
                         .sub_scale = c->sub_scale ? c->sub_scale + r * c->groups : NULL,
                         .sub_offset = c->sub_offset ? c->sub_offset + r * c->groups : NULL,
                         .d = c->d ? c->d + r * c->supers : NULL,
                         .dmin = c->dmin ? c->dmin + r * c->supers : NULL};
  tnk_ref_codes_decode(&c->layout, &one, c->k, dst);
}

const float *tn_ref_weight_vector(const tn_tensor *w, int64_t n)
{
  if (!w || !w->buf || w->buf->codes || w->dtype != TN_DT_F32 || w->ne[0] * w->ne[1] != n) return NULL;
  if (w->offset % sizeof(float) || w->offset + (uint64_t)n * sizeof(float) > w->buf->bytes) return NULL;
  return (const float *)(const void *)(w->buf->data + w->offset);
}
