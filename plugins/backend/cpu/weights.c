/* weights: vectors become f32; matrices become panels, packed on all threads; rows come back bit by bit. */
#include <string.h>

#include "cpu.h"
#include "quant/dtype.h"

_Static_assert((int)TNK_F16 == (int)TN_DT_F16 && (int)TNK_Q4_1 == (int)TN_DT_Q4_1 && (int)TNK_Q6_K == (int)TN_DT_Q6_K &&
                   (int)TNK_IQ4_XS == (int)TN_DT_IQ4_XS && (int)TNK_BF16 == (int)TN_DT_BF16,
               "kernels and plugin API number dtypes alike");

void tn_cpu_weight_free(tn_inst *in, tn_tensor *w)
{
  if (!w || !w->buf) return;
  tn_cpu_buffer_free(in, w->buf);
  w->buf = NULL;
}

/* ---------------------------------------------------------------- bytes as in the file */

/* Vectors become f32 at once, so that norms and biases are plain arrays. */
static tn_status load_vector(tn_inst *in, const tn_weight_src *src, uint32_t dtype, tn_tensor *out, tn_err *err)
{
  const uint64_t n = (uint64_t)src->k * (uint64_t)src->n;
  tn_status st = tn_cpu_buffer_new(in, n * sizeof(float), &out->buf, err);
  if (st) return st;
  tnk_decode(dtype, src->data, (float *)(void *)out->buf->data, (size_t)n);
  out->dtype = TN_DT_F32;
  out->nb[0] = sizeof(float);
  out->nb[1] = src->k * (int64_t)sizeof(float);
  return TN_OK;
}

/* An empty matrix of panels in p's format. */
static tn_status new_panels(tn_inst *in, const tn_weight_src *src, tnk_panels *p, tn_tensor *out, tn_err *err)
{
  const size_t bytes = tnk_panels_size(p);
  tn_buffer *b = tn_cpu_zalloc(in, 1, sizeof *b);
  if (b) p->data = tn_cpu_slab_take(in, bytes, &b->slab);
  if (!b || !p->data) {
    tn_cpu_free(in, b);
    return tn_cpu_fail(err, TN_E_NOMEM, "weight %s: no memory for %zu bytes", src->name, bytes);
  }
  b->panels = *p;
  out->buf = b;
  return TN_OK;
}

typedef struct pack_job {
  const tnk_panels *p;
  uint32_t dtype;
  const void *src;
} pack_job;

static void pack_share(void *arg, uint32_t worker, uint32_t n_workers)
{
  const pack_job *j = arg;
  int64_t first, last;
  tn_cpu_share(j->p->panels, worker, n_workers, &first, &last);
  for (int64_t i = first; i < last; i++) tnk_pack_file(j->p, i, j->dtype, j->src);
}

static tn_status load_bytes(tn_inst *in, const tn_weight_src *src, tn_tensor *out, tn_err *err)
{
  const uint32_t dtype = src->kind == TN_W_F32 ? (uint32_t)TN_DT_F32 : src->dtype;
  const tnk_dtype_info info = tnk_dtype(dtype);
  tnk_panels p = {.n = src->n, .k = src->k};
  if (!info.decodes || !tnk_fmt_of(dtype, &p.fmt)) {
    return tn_cpu_fail(err, TN_E_UNSUPPORTED, "weight %s: dtype %u (%s) cannot be decoded", src->name, dtype,
                       info.name ? info.name : "unknown");
  }
  if (src->k % info.block) {
    return tn_cpu_fail(err, TN_E_ARG, "weight %s: %lld columns are no multiple of the %u of a %s block", src->name,
                       (long long)src->k, info.block, info.name);
  }
  const uint64_t row = (uint64_t)src->k / info.block * info.block_bytes, bytes = row * (uint64_t)src->n;
  if (!src->data || src->bytes < bytes) {
    return tn_cpu_fail(err, TN_E_ARG, "weight %s: %llu bytes given, %lld x %lld of %s take %llu", src->name,
                       (unsigned long long)(src->data ? src->bytes : 0), (long long)src->n, (long long)src->k,
                       info.name, (unsigned long long)bytes);
  }
  if (src->n == 1 || src->k == 1) return load_vector(in, src, dtype, out, err);
  tn_status st = new_panels(in, src, &p, out, err);
  if (st) return st;
  pack_job job = {&p, dtype, src->data};
  tn_cpu_gang(in, pack_share, &job);
  out->dtype = dtype;
  out->nb[0] = info.block_bytes;
  out->nb[1] = (int64_t)row;
  return TN_OK;
}

/* ---------------------------------------------------------------- codes of a quantizer */

static bool is_scale_type(uint32_t t) { return t == TN_DT_F32 || t == TN_DT_F16 || t == TN_DT_BF16; }

tn_status tn_cpu_layout(const tn_layout *lay, const char *what, tnk_layout *out, tn_err *err)
{
  if (!lay) return tn_cpu_fail(err, TN_E_ARG, "%s: no layout given", what);
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
      return tn_cpu_fail(err, TN_E_UNSUPPORTED, "%s: dense dtype %u, want f32, f16 or bf16", what, lay->dtype);
    case TN_LAY_AFFINE:
      if (lay->offset > TN_OFF_MIN) return tn_cpu_fail(err, TN_E_ARG, "%s: offset kind %u", what, lay->offset);
      if (lay->super && lay->offset == TN_OFF_INT) {
        return tn_cpu_fail(err, TN_E_ARG, "%s: two-level scales with integer zero points are not a layout", what);
      }
      break;
    case TN_LAY_FLOAT8:
      if (lay->fp8 == TN_FP8_E4M3 || lay->fp8 == TN_FP8_E5M2) break;
      return tn_cpu_fail(err, TN_E_ARG, "%s: float8 format %u", what, lay->fp8);
    case TN_LAY_TABLE:
      if (lay->table) break;
      return tn_cpu_fail(err, TN_E_ARG, "%s: table layout without a table", what);
    default: return tn_cpu_fail(err, TN_E_UNSUPPORTED, "%s: layout kind %u", what, lay->kind);
  }
  if (out->bits < 1 || out->bits > 8) return tn_cpu_fail(err, TN_E_ARG, "%s: %u bits, want 1 to 8", what, out->bits);
  if (!lay->super && !is_scale_type(lay->scale_type)) {
    return tn_cpu_fail(err, TN_E_ARG, "%s: scale type %u, want f32, f16 or bf16", what, lay->scale_type);
  }
  return TN_OK;
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

/* Row r of the codes, scales rounded to the layout's types, to dst [k]; scales: scratch [4][groups]. */
static void decode_codes(const tn_weight_src *src, const tnk_layout *lay, int64_t r, float *scales, float *dst)
{
  const int64_t groups = tnk_ref_groups(lay, src->k), supers = lay->super ? (groups + lay->super - 1) / lay->super : 0;
  const uint32_t type = lay->super ? (uint32_t)TNK_F16 : lay->scale_type;
  float *s = scales, *o = s + groups, *d = o + groups, *m = d + groups;
  for (int64_t g = 0; src->scale && g < groups; g++) s[g] = tnk_ref_round(type, src->scale[r * groups + g]);
  for (int64_t g = 0; src->offset && g < groups; g++) {
    o[g] = tnk_ref_round(lay->offset == TNK_OFF_MIN ? type : (uint32_t)TNK_F32, src->offset[r * groups + g]);
  }
  for (int64_t g = 0; src->d && g < supers; g++) d[g] = tnk_ref_round(type, src->d[r * supers + g]);
  for (int64_t g = 0; src->dmin && g < supers; g++) m[g] = tnk_ref_round(type, src->dmin[r * supers + g]);
  const tnk_codes one = {.codes = src->codes + r * src->k,
                         .scale = src->scale ? s : NULL,
                         .offset = src->offset ? o : NULL,
                         .sub_scale = src->sub_scale ? src->sub_scale + r * groups : NULL,
                         .sub_offset = src->sub_offset ? src->sub_offset + r * groups : NULL,
                         .d = src->d ? d : NULL,
                         .dmin = src->dmin ? m : NULL};
  tnk_ref_codes_decode(lay, &one, src->k, dst);
}

static tn_status load_codes(tn_inst *in, const tn_weight_src *src, tn_tensor *out, tn_err *err)
{
  tnk_layout lay;
  tn_status st = tn_cpu_layout(src->layout, src->name, &lay, err);
  if (st) return st;
  if (lay.kind == TNK_LAY_DENSE) return tn_cpu_fail(err, TN_E_ARG, "weight %s: a dense layout has no codes", src->name);
  const char *missing = codes_missing(src, &lay);
  if (missing) return tn_cpu_fail(err, TN_E_ARG, "weight %s: the layout wants %s", src->name, missing);
  tnk_panels p = {.n = src->n, .k = src->k};
  (void)tnk_fmt_of(TNK_F32, &p.fmt);
  float *rows = tn_cpu_zalloc(in, (uint64_t)src->k, TNK_PANEL * sizeof *rows);
  float *scales = tn_cpu_zalloc(in, (uint64_t)tnk_ref_groups(&lay, src->k), 4 * sizeof *scales);
  st = rows && scales ? new_panels(in, src, &p, out, err)
                      : tn_cpu_fail(err, TN_E_NOMEM, "weight %s: no memory for its rows", src->name);
  for (int64_t i = 0; !st && i < p.panels; i++) {
    tnk_panels one = p;
    one.data += (size_t)i * p.panel_bytes;
    one.n = p.n - i * TNK_PANEL < TNK_PANEL ? p.n - i * TNK_PANEL : TNK_PANEL;
    for (int64_t r = 0; r < one.n; r++) decode_codes(src, &lay, i * TNK_PANEL + r, scales, rows + r * p.k);
    tnk_pack_file(&one, 0, TNK_F32, rows);
  }
  tn_cpu_free(in, rows);
  tn_cpu_free(in, scales);
  if (st) return st;
  out->buf->layout = *src->layout;
  out->buf->layout.table = NULL;
  out->dtype = TN_DT_LAYOUT;
  out->layout = &out->buf->layout;
  out->nb[0] = 1;
  out->nb[1] = src->k;
  return TN_OK;
}

/* ---------------------------------------------------------------- the slot's calls */

tn_status tn_cpu_weight_load(tn_inst *in, const tn_weight_src *src, tn_tensor *out, tn_err *err)
{
  *out = (tn_tensor){.struct_size = sizeof *out, .ne = {src->k, src->n, 1, 1}};
  if (src->n < 1 || src->k < 1 || src->n > INT64_MAX / 256 / src->k) {
    return tn_cpu_fail(err, TN_E_ARG, "weight %s: shape %lld x %lld", src->name, (long long)src->n, (long long)src->k);
  }
  tn_status st;
  switch (src->kind) {
    case TN_W_FILE:
    case TN_W_F32: st = load_bytes(in, src, out, err); break;
    case TN_W_CODES: st = load_codes(in, src, out, err); break;
    default: st = tn_cpu_fail(err, TN_E_ARG, "weight %s: source kind %u", src->name, src->kind); break;
  }
  out->nb[2] = out->nb[3] = out->nb[1] * src->n;
  return st;
}

bool tn_cpu_weight_panels(const tn_tensor *w, tnk_panels *out)
{
  if (!w || !w->buf || w->ne[0] < 1 || w->ne[1] < 1 || w->ne[2] != 1 || w->ne[3] != 1) return false;
  const tn_buffer *b = w->buf;
  if (!b->data) {
    *out = b->panels;
    return w->offset == 0 && b->panels.k == w->ne[0] && b->panels.n == w->ne[1];
  }
  const uint64_t row = (uint64_t)w->ne[0] * sizeof(float);
  if (w->dtype != TN_DT_F32 || (uint64_t)w->nb[1] != row || w->offset % sizeof(float)) return false;
  if (w->offset > b->bytes || (b->bytes - w->offset) / row < (uint64_t)w->ne[1]) return false;
  *out = (tnk_panels){.fmt = {.kind = TNK_MATRIX}, .n = w->ne[1], .k = w->ne[0], .data = b->data + w->offset};
  tnk_panels_size(out);
  return true;
}

tn_status tn_cpu_weight_read(tn_inst *in, const tn_tensor *w, int64_t row0, int64_t n_rows, float *dst)
{
  tnk_panels p;
  (void)in;
  if (!tn_cpu_weight_panels(w, &p) || row0 < 0 || n_rows < 0 || row0 > w->ne[1] - n_rows) return TN_E_ARG;
  for (int64_t r = 0; r < n_rows; r++) tnk_panel_row(&p, row0 + r, dst + r * w->ne[0]);
  return TN_OK;
}

const float *tn_cpu_weight_vector(const tn_tensor *w, int64_t n)
{
  if (!w || !w->buf || !w->buf->data || w->dtype != TN_DT_F32 || w->ne[0] * w->ne[1] != n) return NULL;
  if (w->offset % sizeof(float) || w->offset + (uint64_t)n * sizeof(float) > w->buf->bytes) return NULL;
  return (const float *)(const void *)(w->buf->data + w->offset);
}
