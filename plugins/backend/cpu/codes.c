/* codes: a quantizer's codes to panels: rows are decoded to f32 and packed, on all threads. */
#include <string.h>

#include "cpu.h"

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

/* No code has more than `bits` bits. */
static bool in_range(const uint8_t *codes, int64_t n, uint32_t bits)
{
  const uint64_t above = 0x0101010101010101u * (0xffu & ~((1u << bits) - 1));
  uint64_t seen = 0, eight;
  for (; n >= 8; n -= 8, codes += 8) {
    memcpy(&eight, codes, 8);
    seen |= eight;
  }
  for (; n > 0; n--) seen |= *codes++;
  return (seen & above) == 0;
}

/* Arrays that the layout needs are all there, and no code is out of range. */
static const char *codes_missing(const tn_weight_src *src, const tnk_layout *lay)
{
  const bool min = lay->offset == TNK_OFF_MIN;
  if (!src->codes) return "codes";
  if (!in_range(src->codes, src->n * src->k, lay->bits)) return "codes in range";
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

typedef struct code_job {
  const tnk_panels *p;
  const tn_weight_src *src;
  const tnk_layout *lay;
  float *rows;        /* [workers][16][k] */
  float *scales;      /* [workers][4][groups] */
  int64_t per_scales; /* numbers of a worker's scales */
} code_job;

static void code_share(void *arg, uint32_t worker, uint32_t n_workers)
{
  const code_job *j = arg;
  float *rows = j->rows + (int64_t)worker * TNK_PANEL * j->p->k, *scales = j->scales + worker * j->per_scales;
  int64_t first, last;
  tn_cpu_share(j->p->panels, worker, n_workers, &first, &last);
  for (int64_t i = first; i < last; i++) {
    tnk_panels one = *j->p;
    one.data += (size_t)i * one.panel_bytes;
    one.n = one.n - i * TNK_PANEL < TNK_PANEL ? one.n - i * TNK_PANEL : TNK_PANEL;
    for (int64_t r = 0; r < one.n; r++) decode_codes(j->src, j->lay, i * TNK_PANEL + r, scales, rows + r * one.k);
    tnk_pack_file(&one, 0, TNK_F32, rows);
  }
}

static tn_status fill(tn_inst *in, const tn_weight_src *src, const tnk_layout *lay, const tnk_panels *p, tn_err *err)
{
  code_job j = {.p = p, .src = src, .lay = lay, .per_scales = 4 * tnk_ref_groups(lay, src->k)};
  j.rows = tn_cpu_zalloc(in, (uint64_t)src->k * in->n_workers, TNK_PANEL * sizeof *j.rows);
  j.scales = tn_cpu_zalloc(in, (uint64_t)j.per_scales * in->n_workers, sizeof *j.scales);
  const bool room = j.rows && j.scales;
  if (room) tn_cpu_gang(in, code_share, &j);
  tn_cpu_free(in, j.rows);
  tn_cpu_free(in, j.scales);
  if (room) return TN_OK;
  return tn_cpu_fail(err, TN_E_NOMEM, "weight %s: no memory for its rows", src->name);
}

tn_status tn_cpu_codes_load(tn_inst *in, const tn_weight_src *src, tn_tensor *out, tn_err *err)
{
  tnk_layout lay;
  bool kept;
  tnk_panels p = {.n = src->n, .k = src->k};
  tn_status st = tn_cpu_layout(src->layout, src->name, &lay, err);
  if (st) return st;
  if (lay.kind == TNK_LAY_DENSE) return tn_cpu_fail(err, TN_E_ARG, "weight %s: a dense layout has no codes", src->name);
  const char *missing = src->flags & TN_WF_KEPT ? NULL : codes_missing(src, &lay);
  if (missing) return tn_cpu_fail(err, TN_E_ARG, "weight %s: the layout wants %s", src->name, missing);
  (void)tnk_fmt_of(TNK_F32, &p.fmt);
  st = tn_cpu_panels_new(in, src, &p, out, &kept, err);
  if (st) return st;
  if (!kept) st = fill(in, src, &lay, &p, err);
  if (st) {
    tn_cpu_weight_free(in, out);
    return st;
  }
  if (!kept) tn_cpu_panels_keep(in, src, &p);
  out->buf->layout = *src->layout;
  out->buf->layout.table = NULL;
  out->dtype = TN_DT_LAYOUT;
  out->layout = &out->buf->layout;
  out->nb[0] = 1;
  out->nb[1] = src->k;
  return TN_OK;
}
