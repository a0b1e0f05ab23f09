/* The ref backend's layouts: float8 codes, cache entries of every width and offset kind, and weights of codes. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quant/dtype.h"
#include "ref/fp8.h"
#include "ref/layout.h"
#include "rig.h"

/* ---------------------------------------------------------------- float8 */

Test(ref_layout, fp8_codes_come_back)
{
  for (uint32_t f = TNK_E4M3; f <= TNK_E5M2; f++) {
    int finite = 0;
    for (int c = 0; c < 256; c++) {
      const float x = tnk_ref_fp8_decode(f, (uint8_t)c);
      if (isnan(x)) {
        cr_assert(isnan(tnk_ref_fp8_decode(f, tnk_ref_fp8_encode(f, x))));
      } else if (isfinite(x)) {
        finite++;
        cr_assert(eq(u8, tnk_ref_fp8_encode(f, x), (uint8_t)c));
      }
    }
    cr_assert(eq(int, finite, f == TNK_E4M3 ? 254 : 248));
  }
  cr_assert(eq(flt, tnk_ref_fp8_decode(TNK_E4M3, 0x7e), 448.0f));
  cr_assert(eq(flt, tnk_ref_fp8_decode(TNK_E4M3, 0x01), 0x1p-9f));
  cr_assert(eq(flt, tnk_ref_fp8_decode(TNK_E4M3, 0x08), 0x1p-6f));
  cr_assert(eq(flt, tnk_ref_fp8_decode(TNK_E5M2, 0x7b), 57344.0f));
  cr_assert(eq(flt, tnk_ref_fp8_decode(TNK_E5M2, 0x01), 0x1p-16f));
  cr_assert(eq(flt, tnk_ref_fp8_decode(TNK_E5M2, 0xfc), -INFINITY));
}

/* Against a scan of all codes: nearest, ties to the even code. */
Test(ref_layout, fp8_encodes_to_the_nearest)
{
  uint64_t seed = 5;
  for (uint32_t f = TNK_E4M3; f <= TNK_E5M2; f++) {
    for (int i = 0; i < 20000; i++) {
      const float x = ldexpf(rig_random(&seed), (int)(rig_random(&seed) * 12) + (f == TNK_E4M3 ? 0 : -4));
      double best = INFINITY;
      uint8_t want = 0;
      for (int c = 0; c < 256; c++) {
        const float y = tnk_ref_fp8_decode(f, (uint8_t)c);
        if (!isfinite(y) || signbit(y) != signbit(x)) continue;
        const double d = fabs((double)y - (double)x);
        if (d < best || (d == best && c % 2 == 0)) best = d, want = (uint8_t)c;
      }
      cr_assert(eq(u8, tnk_ref_fp8_encode(f, x), want), "%a", (double)x);
    }
    const float max = tnk_ref_fp8_max(f);
    cr_assert(eq(flt, tnk_ref_fp8_decode(f, tnk_ref_fp8_encode(f, max * 100)), max));
    cr_assert(eq(flt, tnk_ref_fp8_decode(f, tnk_ref_fp8_encode(f, -INFINITY)), -max));
  }
  cr_assert(eq(u8, tnk_ref_fp8_encode(TNK_E4M3, 17.0f), tnk_ref_fp8_encode(TNK_E4M3, 16.0f))); /* a tie */
  cr_assert(eq(u8, tnk_ref_fp8_encode(TNK_E4M3, 19.0f), tnk_ref_fp8_encode(TNK_E4M3, 20.0f)));
}

/* ---------------------------------------------------------------- entries */

enum { D = 37 };

static void check_entry(const tnk_layout *l, double steps)
{
  float x[D], y[D];
  uint8_t e[512];
  const size_t bytes = tnk_ref_entry_bytes(l, D);
  cr_assert(lt(sz, bytes, sizeof e));
  for (uint64_t seed = 0; seed < 20; seed++) {
    rig_fill(x, D, seed);
    if (seed == 3) memset(x, 0, sizeof x);
    if (seed == 4)
      for (int i = 0; i < D; i++) x[i] = fabsf(x[i]) + 1;
    memset(e, 0xee, sizeof e);
    tnk_ref_entry_encode(l, x, D, e);
    for (size_t i = bytes; i < sizeof e; i++) cr_assert(eq(u8, e[i], 0xee));
    tnk_ref_entry_decode(l, e, D, y);
    const int64_t group = l->group ? l->group : D;
    for (int64_t i = 0; i < D; i++) {
      double lo = 0, hi = 0;
      for (int64_t j = i / group * group; j < D && j < (i / group + 1) * group; j++) {
        lo = fmin(lo, (double)x[j]);
        hi = fmax(hi, (double)x[j]);
      }
      const double span = l->offset == TNK_OFF_NONE ? 2 * fmax(-lo, hi) : hi - lo;
      cr_assert(epsilon_eq(dbl, (double)y[i], (double)x[i], span / steps * 0.51 + 1e-7), "bits %u offset %u", l->bits,
                l->offset);
      if (x[i] == 0 && l->offset != TNK_OFF_MIN) cr_assert(eq(flt, y[i], 0.0f));
    }
  }
}

Test(ref_layout, affine_entries_of_every_width)
{
  static const uint32_t groups[3] = {0, 16, 5}, types[2] = {TNK_F32, TNK_F16};
  for (uint32_t bits = 1; bits <= 8; bits++) {
    for (uint32_t offset = TNK_OFF_NONE; offset <= TNK_OFF_MIN; offset++) {
      if (bits == 1 && offset == TNK_OFF_NONE) continue; /* codes 0 and 1 of zero point 1 have no positive value */
      for (int g = 0; g < 6; g++) {
        const tnk_layout l = {
            .kind = TNK_LAY_AFFINE, .bits = bits, .group = groups[g % 3], .scale_type = types[g / 3], .offset = offset};
        /* An integer zero point is rounded too, so the ends may be off by one step more. */
        const double levels = offset == TNK_OFF_NONE ? (1 << bits) - 2 : (1 << bits) - 1;
        check_entry(&l, offset == TNK_OFF_INT ? levels / 2.02 : types[g / 3] == TNK_F16 ? levels / 1.3 : levels);
        const size_t per = types[g / 3] == TNK_F32 ? 4 : 2;
        const size_t head = per + (offset == TNK_OFF_INT ? 1 : offset == TNK_OFF_MIN ? per : 0);
        const size_t n = l.group ? (D + l.group - 1) / l.group : 1;
        cr_assert(eq(sz, tnk_ref_entry_bytes(&l, D), n * head + (D * bits + 7) / 8));
      }
    }
  }
}

Test(ref_layout, float8_table_and_dense_entries)
{
  static const float table[4] = {-1.5f, -0.5f, 0.5f, 1.5f};
  const tnk_layout fp8 = {.kind = TNK_LAY_FLOAT8, .bits = 8, .fp8 = TNK_E4M3, .scale_type = TNK_F32};
  const tnk_layout tab = {.kind = TNK_LAY_TABLE, .bits = 2, .table = table, .scale_type = TNK_F32};
  const tnk_layout f16 = {.kind = TNK_LAY_DENSE, .dtype = TNK_F16};
  float x[D], y[D];
  uint8_t e[512];
  rig_fill(x, D, 1);
  tnk_ref_entry_encode(&fp8, x, D, e);
  tnk_ref_entry_decode(&fp8, e, D, y);
  for (int i = 0; i < D; i++) cr_assert(epsilon_eq(flt, y[i], x[i], fabsf(x[i]) / 15 + 1e-5f));
  tnk_ref_entry_encode(&tab, x, D, e);
  tnk_ref_entry_decode(&tab, e, D, y);
  float a = 0;
  for (int i = 0; i < D; i++) a = fmaxf(a, fabsf(x[i]));
  for (int i = 0; i < D; i++) {
    cr_assert(epsilon_eq(flt, y[i], x[i], a / 3 + 1e-6f));
    cr_assert(epsilon_eq(flt, fabsf(fabsf(y[i]) / a - 2.0f / 3), 1.0f / 3, 1e-5f));
  }
  x[0] = 1e6f;
  x[1] = -1e6f;
  tnk_ref_entry_encode(&f16, x, D, e);
  tnk_ref_entry_decode(&f16, e, D, y);
  cr_assert(eq(flt, y[0], 65504.0f));
  cr_assert(eq(flt, y[1], -65504.0f));
}

/* ---------------------------------------------------------------- weights */

enum { N = 5, K = 48 };

typedef struct coded { /* everything a quantizer may give */
  uint8_t codes[N * K], sub_scale[N * 3], sub_offset[N * 3];
  float scale[N * 3], offset[N * 3], d[N * 2], dmin[N * 2];
} coded;

static void fill_codes(coded *c, uint32_t bits, uint64_t seed)
{
  for (int i = 0; i < N * K; i++) c->codes[i] = (uint8_t)((int)((rig_random(&seed) + 1) * 128) & ((1 << bits) - 1));
  for (int i = 0; i < N * 3; i++) {
    c->scale[i] = rig_random(&seed);
    c->offset[i] = (float)(i % 7);
    c->sub_scale[i] = (uint8_t)(i * 5 % 64);
    c->sub_offset[i] = (uint8_t)(i * 3 % 64);
  }
  for (int i = 0; i < N * 2; i++) c->d[i] = rig_random(&seed), c->dmin[i] = rig_random(&seed);
}

static float f16(float x) { return tnk_f16_to_f32(tnk_f32_to_f16(x)); }

static const float table16[16] = {-8, -5, -3, -2, -1.5f, -1, -0.5f, 0, 0.25f, 0.5f, 1, 2, 3, 4, 6, 9};

/* What the layout's definition says of element (r, i). */
static double decoded(const tn_layout *l, const coded *c, int r, int i)
{
  const int g = r * 3 + i / 16, s = r * 2 + i / 16 / 2, code = c->codes[r * K + i];
  const double scale = l->super ? (double)f16(c->d[s]) * c->sub_scale[g]
                                : (double)(l->scale_type == TN_DT_F16 ? f16(c->scale[g]) : c->scale[g]);
  if (l->kind == TN_LAY_TABLE) return scale * (double)table16[code];
  if (l->kind == TN_LAY_FLOAT8) return scale * (double)tnk_ref_fp8_decode(l->fp8, (uint8_t)code);
  if (l->offset == TN_OFF_NONE) return scale * (code - ldexp(1, (int)l->bits - 1));
  if (l->offset == TN_OFF_INT) return scale * (code - (double)c->offset[g]);
  if (l->super) return scale * code - (double)f16(c->dmin[s]) * c->sub_offset[g];
  return scale * code + (double)(l->scale_type == TN_DT_F16 ? f16(c->offset[g]) : c->offset[g]);
}

static tn_weight_src source(const tn_layout *l, const coded *c)
{
  const bool two = l->super > 0;
  return (tn_weight_src){.struct_size = sizeof(tn_weight_src),
                         .kind = TN_W_CODES,
                         .name = "blk.0.w",
                         .n = N,
                         .k = K,
                         .layout = l,
                         .codes = c->codes,
                         .scale = two ? NULL : c->scale,
                         .offset = two || l->kind != TN_LAY_AFFINE || !l->offset ? NULL : c->offset,
                         .sub_scale = two ? c->sub_scale : NULL,
                         .sub_offset = two ? c->sub_offset : NULL,
                         .d = two ? c->d : NULL,
                         .dmin = two ? c->dmin : NULL};
}

#define AFFINE(b, off, type, sup)                                                                        \
  {                                                                                                      \
    .struct_size = sizeof(tn_layout), .kind = TN_LAY_AFFINE, .bits = b, .group = 16, .scale_type = type, \
    .offset = off, .super = sup, .sub_bits = 6                                                           \
  }
static const tn_layout layouts[] = {
    AFFINE(8, TN_OFF_NONE, TN_DT_F32, 0),
    AFFINE(4, TN_OFF_INT, TN_DT_F16, 0),
    AFFINE(3, TN_OFF_MIN, TN_DT_F16, 0),
    AFFINE(1, TN_OFF_MIN, TN_DT_F32, 0),
    AFFINE(4, TN_OFF_MIN, TN_DT_F16, 2),
    AFFINE(6, TN_OFF_NONE, TN_DT_F16, 2),
    {.struct_size = sizeof(tn_layout), .kind = TN_LAY_FLOAT8, .fp8 = TN_FP8_E5M2, .group = 16, .scale_type = TN_DT_F32},
    {.struct_size = sizeof(tn_layout),
     .kind = TN_LAY_TABLE,
     .bits = 4,
     .group = 16,
     .scale_type = TN_DT_F32,
     .table = table16},
};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0] };

/* Every layout reads back as defined, and a LINEAR multiplies with the same numbers. */
Test(ref_layout, weights_of_codes)
{
  for (int l = 0; l < N_LAYOUTS; l++) {
    static coded c;
    static float w[N * K], x[3 * K], y[3 * N];
    tn_err err;
    tn_tensor t, tx = {.struct_size = sizeof tx, .ne = {K, 3, 1, 1}, .nb = {4, K * 4}},
                 ty = {.struct_size = sizeof ty, .ne = {N, 3, 1, 1}, .nb = {4, N * 4}};
    backend *b = backend_open("ref", 2, NULL, &err);
    cr_assert(b != NULL, "%s", err.msg);
    fill_codes(&c, layouts[l].kind == TN_LAY_FLOAT8 ? 6 : layouts[l].bits, (uint64_t)l);
    const tn_weight_src src = source(&layouts[l], &c);
    cr_assert(eq(i32, b->v->weight_load(b->inst, &src, &t, &err), TN_OK), "%s", err.msg);
    cr_assert(eq(i32, b->v->weight_read(b->inst, &t, 0, N, w), TN_OK));
    for (int r = 0; r < N; r++) {
      for (int i = 0; i < K; i++)
        cr_assert(eq(flt, w[r * K + i], (float)decoded(&layouts[l], &c, r, i)), "layout %d", l);
    }
    cr_assert(eq(i32, b->v->weight_read(b->inst, &t, 3, 3, w), TN_E_ARG));
    cr_assert(eq(i32, b->v->buffer_new(b->inst, sizeof x, &tx.buf, &err), TN_OK));
    cr_assert(eq(i32, b->v->buffer_new(b->inst, sizeof y, &ty.buf, &err), TN_OK));
    rig_fill(x, 3 * K, 8);
    cr_assert(eq(i32, b->v->upload(b->inst, tx.buf, 0, x, sizeof x), TN_OK));
    tn_op op = {.struct_size = sizeof op, .kind = TN_OP_LINEAR, .name = "l"};
    op.in[1] = op.in[2] = op.in[3] = op.out[1] = op.w[1] = -1;
    op.p.linear = (tn_op_linear){.n = N, .k = K, .segments = 1};
    const tn_tensor *in[1] = {&tx}, *out[1] = {&ty}, *ws[1] = {&t};
    cr_assert(eq(i32, b->v->op(b->inst, &op, in, out, ws, 3), TN_OK));
    cr_assert(eq(i32, b->v->download(b->inst, ty.buf, 0, y, sizeof y), TN_OK));
    for (int r = 0; r < 3 * N; r++) {
      double sum = 0, size = 0;
      for (int i = 0; i < K; i++) {
        sum += (double)x[r / N * K + i] * (double)w[r % N * K + i];
        size += fabs((double)x[r / N * K + i] * (double)w[r % N * K + i]);
      }
      cr_assert(epsilon_eq(dbl, (double)y[r], sum, size * 1e-7 + 1e-9));
    }
    b->v->buffer_free(b->inst, tx.buf);
    b->v->buffer_free(b->inst, ty.buf);
    b->v->weight_free(b->inst, &t);
    cr_assert(eq(u64, backend_close(b), 0));
  }
}

/* Bytes of a file: used in place when they stay mapped, copied otherwise; each dtype decodes as dtype.h says. */
Test(ref_layout, weights_of_a_file)
{
  static const uint32_t dtypes[] = {TN_DT_F32,  TN_DT_F16,  TN_DT_BF16, TN_DT_Q4_0,
                                    TN_DT_Q4_1, TN_DT_Q8_0, TN_DT_Q4_K, TN_DT_Q6_K};
  for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
    static uint8_t bytes[2 * 256 * 4];
    static float want[2 * 256], got[2 * 256];
    const tnk_dtype_info info = tnk_dtype(dtypes[i]);
    uint64_t seed = i;
    tn_err err;
    tn_tensor t;
    backend *b = backend_open("ref", 1, NULL, &err);
    cr_assert(b != NULL, "%s", err.msg);
    for (size_t j = 0; j < sizeof bytes; j++) bytes[j] = (uint8_t)((int)((rig_random(&seed) + 1) * 128) & 0x3b);
    tn_weight_src src = {.struct_size = sizeof src,
                         .kind = TN_W_FILE,
                         .name = "w",
                         .dtype = dtypes[i],
                         .n = 2,
                         .k = 256,
                         .data = bytes,
                         .bytes = 2 * 256 / info.block * info.block_bytes,
                         .flags = i % 2 ? TN_WF_STABLE : 0};
    cr_assert(eq(i32, b->v->weight_load(b->inst, &src, &t, &err), TN_OK), "%s", err.msg);
    cr_assert(eq(i32, b->v->weight_read(b->inst, &t, 0, 2, got), TN_OK));
    cr_assert(tnk_decode(dtypes[i], bytes, want, 2 * 256));
    cr_assert(eq(i32, memcmp(want, got, sizeof got), 0), "%s", info.name);
    memset(bytes, 0, sizeof bytes);
    cr_assert(eq(i32, b->v->weight_read(b->inst, &t, 0, 2, got), TN_OK));
    cr_assert(eq(i32, memcmp(want, got, sizeof got) == 0, i % 2 == 0)); /* a copy keeps its numbers */
    b->v->weight_free(b->inst, &t);
    src.bytes--;
    cr_assert(eq(i32, b->v->weight_load(b->inst, &src, &t, &err), TN_E_ARG));
    src.dtype = TN_DT_I32;
    cr_assert(eq(i32, b->v->weight_load(b->inst, &src, &t, &err), TN_E_UNSUPPORTED));
    cr_assert(eq(u64, backend_close(b), 0));
  }
}

/* Sources that cannot be a weight are refused with a sentence, and leave nothing behind. */
Test(ref_layout, broken_sources)
{
  static coded c;
  tn_err err;
  tn_tensor t;
  backend *b = backend_open("ref", 1, NULL, &err);
  cr_assert(b != NULL, "%s", err.msg);
  fill_codes(&c, 4, 1);
  tn_layout l = layouts[1];
  tn_weight_src src = source(&l, &c);
  src.offset = NULL;
  cr_assert(eq(i32, b->v->weight_load(b->inst, &src, &t, &err), TN_E_ARG));
  cr_assert(strstr(err.msg, "blk.0.w") && strstr(err.msg, "offsets"), "%s", err.msg);
  src = source(&l, &c);
  c.codes[7] = 16;
  cr_assert(eq(i32, b->v->weight_load(b->inst, &src, &t, &err), TN_E_ARG));
  c.codes[7] = 15;
  l.super = 2;
  cr_assert(eq(i32, b->v->weight_load(b->inst, &src, &t, &err), TN_E_ARG));
  l = layouts[1];
  l.kind = TN_LAY_EXOTIC;
  cr_assert(eq(i32, b->v->weight_load(b->inst, &src, &t, &err), TN_E_UNSUPPORTED));
  l.kind = TN_LAY_TABLE;
  cr_assert(eq(i32, b->v->weight_load(b->inst, &src, &t, &err), TN_E_ARG));
  src.n = 0;
  cr_assert(eq(i32, b->v->weight_load(b->inst, &src, &t, &err), TN_E_ARG));
  src = source(&layouts[1], &c);
  for (uint64_t n = 1;; n++) { /* no memory at each allocation in turn */
    backend_fail_at(b, n);
    const tn_status st = b->v->weight_load(b->inst, &src, &t, &err);
    if (st == TN_OK) break;
    cr_assert(eq(i32, st, TN_E_NOMEM));
    cr_assert(eq(u64, backend_live(b), 1));
  }
  backend_fail_at(b, 0);
  b->v->weight_free(b->inst, &t);
  cr_assert(eq(u64, backend_close(b), 0));
}
