/* Attention kernels on one tile against double; every instruction set and any grouping of rows gives the same bits;
 * invisible keys are never touched. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <string.h>

#include "cpu/attend.h"
#include "cpu/isa.h"
#include "kernel_data.h"
#include "quant/dtype.h"

enum { ROWS = 7, D = 40, DV = 48, NV = 41 };

static float q[ROWS * D], k[TNK_KEYS * D], v[TNK_KEYS * NV];
static uint16_t k16[4 * D * 16], v16[TNK_KEYS * DV];
static float k32[4 * D * 16], v32[TNK_KEYS * DV];
static float s[ROWS * TNK_KEYS], first[ROWS * TNK_KEYS], o[ROWS * DV], first_o[ROWS * DV];

static tnk_tile halves(void)
{
  tnk_tile t = {0};
  for (int b = 0; b < 4; b++) {
    t.k16[b] = k16 + b * D * 16;
    t.v16[b] = v16 + b * 16 * DV;
    t.next[b] = (const uint8_t *)t.k16[b];
  }
  return t;
}

static void data(const tnk_attend *a)
{
  kd_fill(q, ROWS * D, 1.0f, 1);
  kd_fill(k, TNK_KEYS * D, 1.0f, 2);
  kd_fill(v, TNK_KEYS * NV, 1.0f, 3);
  for (int j = 0; j < TNK_KEYS; j++) {
    a->put(k + j * D, D, k16 + j / 16 * D * 16, j % 16, v + j * NV, NV, v16 + j * DV, DV);
  }
}

static const float **queries(void)
{
  static const float *p[ROWS];
  for (int r = 0; r < ROWS; r++) p[r] = q + r * D;
  return p;
}

static float **outputs(void)
{
  static float *p[ROWS];
  for (int r = 0; r < ROWS; r++) p[r] = o + r * DV;
  return p;
}

Test(attend, put_rounds_and_clamps)
{
  int isas[TNK_ISA_COUNT], n = kd_isas(isas);
  for (int i = 0; i < n; i++) {
    data(tnk_attend_of(isas[i]));
    for (int j = 0; j < TNK_KEYS; j++) {
      for (int c = 0; c < D; c++) cr_assert(eq(u16, k16[(j / 16 * D + c) * 16 + j % 16], tnk_f32_to_f16(k[j * D + c])));
      for (int c = 0; c < NV; c++) cr_assert(eq(u16, v16[j * DV + c], tnk_f32_to_f16(v[j * NV + c])));
      for (int c = NV; c < DV; c++) cr_assert(eq(u16, v16[j * DV + c], 0));
    }
    k[0] = 1e6f, k[1] = -1e6f, v[0] = INFINITY;
    tnk_attend_of(isas[i])->put(k, D, k16, 0, v, NV, v16, DV);
    cr_assert(eq(u16, k16[0], 0x7BFF));
    cr_assert(eq(u16, k16[16], 0xFBFF));
    cr_assert(eq(u16, v16[0], 0x7BFF));
  }
}

/* Scores, probabilities and outputs of all rows, with the tile in place and widened, on every instruction set. */
Test(attend, one_tile)
{
  int isas[TNK_ISA_COUNT], n = kd_isas(isas);
  const uint64_t visible = 0xF0F1FFFF8001FFFFull;
  float m[ROWS], l[ROWS];
  data(tnk_attend_of(TNK_ISA_SCALAR));
  for (int i = 0; i < 2 * n; i++) {
    const tnk_attend *a = tnk_attend_of(isas[i / 2]);
    tnk_tile t = halves();
    if (i % 2) {
      a->widen(&t, D, DV, k32, v32);
      t = (tnk_tile){.k32 = k32, .v32 = v32};
    }
    a->scores(ROWS, queries(), D, &t, s);
    for (int r = 0; r < ROWS; r++) a->soften(s + r * TNK_KEYS, visible, 0.3f, r == 2 ? 2.0f : 0.0f, &m[r], &l[r]);
    a->mix(ROWS, s, visible, &t, DV, outputs());
    if (i == 0) memcpy(first, s, sizeof s), memcpy(first_o, o, sizeof o);
    cr_assert(eq(i32, memcmp(s, first, sizeof s), 0), "%s", tnk_isa_name(isas[i / 2]));
    cr_assert(eq(i32, memcmp(o, first_o, sizeof o), 0), "%s", tnk_isa_name(isas[i / 2]));
  }
  for (int r = 0; r < ROWS; r++) {
    double x[TNK_KEYS], top = -INFINITY, sum = 0, out[NV] = {0};
    for (int j = 0; j < TNK_KEYS; j++) {
      x[j] = 0;
      for (int c = 0; c < D; c++) x[j] += (double)q[r * D + c] * (double)tnk_f16_to_f32(tnk_f32_to_f16(k[j * D + c]));
      x[j] *= (double)0.3f;
      if (r == 2) x[j] = 2 * tanh(x[j] / 2);
      if (visible >> j & 1) top = fmax(top, x[j]);
    }
    for (int j = 0; j < TNK_KEYS; j++) {
      const double p = visible >> j & 1 ? exp(x[j] - top) : 0;
      cr_assert(epsilon_eq(dbl, (double)s[r * TNK_KEYS + j], p, 2e-6), "row %d key %d", r, j);
      sum += p;
      for (int c = 0; c < NV; c++) out[c] += p * (double)tnk_f16_to_f32(tnk_f32_to_f16(v[j * NV + c]));
    }
    cr_assert(epsilon_eq(dbl, (double)m[r], top, 2e-6));
    cr_assert(epsilon_eq(dbl, (double)l[r], sum, 1e-4));
    for (int c = 0; c < NV; c++) cr_assert(epsilon_eq(dbl, (double)o[r * DV + c], out[c], 2e-5));
  }
}

/* A query alone and among others. */
Test(attend, grouping_of_rows_changes_no_bit)
{
  int isas[TNK_ISA_COUNT], n = kd_isas(isas);
  data(tnk_attend_of(TNK_ISA_SCALAR));
  for (int i = 0; i < n; i++) {
    const tnk_attend *a = tnk_attend_of(isas[i]);
    const tnk_tile t = halves();
    a->scores(ROWS, queries(), D, &t, first);
    a->mix(ROWS, first, ~0ull, &t, DV, outputs());
    memcpy(first_o, o, sizeof o);
    for (int64_t rows = 1; rows < ROWS; rows++) {
      for (int64_t r = 0; r + rows <= ROWS; r++) {
        a->scores(rows, queries() + r, D, &t, s);
        cr_assert(eq(i32, memcmp(s, first + r * TNK_KEYS, (size_t)(rows * TNK_KEYS) * sizeof *s), 0));
        a->mix(rows, s, ~0ull, &t, DV, outputs() + r);
        cr_assert(eq(i32, memcmp(o, first_o, sizeof o), 0), "%d rows at %d", (int)rows, (int)r);
      }
    }
  }
}

Test(attend, invisible_keys_may_be_anything)
{
  int isas[TNK_ISA_COUNT], n = kd_isas(isas);
  const uint64_t visible = 0x5555FFFF00000001ull;
  float m[2], l[2];
  for (int i = 0; i < n; i++) {
    const tnk_attend *a = tnk_attend_of(isas[i]);
    const tnk_tile t = halves();
    for (int poison = 0; poison < 2; poison++) {
      data(a);
      for (int j = 0; poison && j < TNK_KEYS; j++) {
        if (visible >> j & 1) continue;
        for (int c = 0; c < D; c++) k16[(j / 16 * D + c) * 16 + j % 16] = 0x7E00; /* NaN */
        for (int c = 0; c < DV; c++) v16[j * DV + c] = c % 2 ? 0x7E00 : 0x7C00;
      }
      a->scores(1, queries(), D, &t, s);
      a->soften(s, visible, 1.0f, 0.0f, &m[poison], &l[poison]);
      a->mix(1, s, visible, &t, DV, outputs());
      if (!poison) memcpy(first_o, o, DV * sizeof *o), memcpy(first, s, TNK_KEYS * sizeof *s);
    }
    cr_assert(eq(flt, m[0], m[1]));
    cr_assert(eq(flt, l[0], l[1]));
    cr_assert(eq(i32, memcmp(s, first, TNK_KEYS * sizeof *s), 0));
    cr_assert(eq(i32, memcmp(o, first_o, DV * sizeof *o), 0));
  }
}

/* Two partials joined equal one softmax over both; shares are its probabilities; lse is m + log l. */
Test(attend, join_finish_shares)
{
  int isas[TNK_ISA_COUNT], n = kd_isas(isas);
  float kept[NV + 1];
  for (int i = 0; i < n; i++) {
    const tnk_attend *a = tnk_attend_of(isas[i]);
    const tnk_tile t = halves();
    float m[3], l[3], out[NV], *p[1], raw[TNK_KEYS];
    data(a);
    a->scores(1, queries(), D, &t, raw);
    for (int part = 0; part < 3; part++) {
      const uint64_t seen = part == 0 ? ~0ull : part == 1 ? 0xFFFFFFFFull : ~0xFFFFFFFFull;
      p[0] = o + part * DV;
      memcpy(s, raw, sizeof raw);
      a->soften(s, seen, 1.0f, 0.0f, &m[part], &l[part]);
      a->mix(1, s, seen, &t, DV, p);
    }
    a->join(&m[1], &l[1], o + DV, m[2], l[2], o + 2 * DV, DV);
    cr_assert(eq(flt, m[1], m[0]));
    cr_assert(epsilon_eq(flt, l[1], l[0], 1e-5f));
    const float lse = a->finish(m[1], l[1], o + DV, NV, out);
    double sum = 0, want[NV] = {0}, total = 0;
    for (int j = 0; j < TNK_KEYS; j++) total += exp((double)raw[j]);
    memcpy(s, raw, sizeof raw);
    a->shares(s, ~1ull, 1.0f, 0.0f, m[1], l[1]);
    cr_assert(eq(flt, s[0], 0.0f));
    for (int j = 0; j < TNK_KEYS; j++) {
      const double share = exp((double)raw[j]) / total;
      if (j > 0) cr_assert(epsilon_eq(dbl, (double)s[j], share, 1e-6));
      sum += share;
      for (int c = 0; c < NV; c++) want[c] += share * (double)tnk_f16_to_f32(v16[j * DV + c]);
    }
    for (int c = 0; c < NV; c++) cr_assert(epsilon_eq(dbl, (double)out[c], want[c] / sum, 1e-6));
    cr_assert(epsilon_eq(dbl, (double)lse, log(total), 1e-5));
    if (i == 0) memcpy(kept, out, sizeof out), kept[NV] = lse;
    cr_assert(eq(i32, memcmp(kept, out, sizeof out), 0));
    cr_assert(eq(flt, kept[NV], lse));
  }
}

Test(attend, merge)
{
  int isas[TNK_ISA_COUNT], n = kd_isas(isas);
  const float lse[3] = {0.5f, -INFINITY, 2.0f}, none[3] = {-INFINITY, -INFINITY, -INFINITY};
  float out[NV], kept[NV];
  kd_fill(o, 3 * DV, 1.0f, 9);
  o[DV] = NAN; /* of the part that saw nothing */
  for (int i = 0; i < n; i++) {
    const tnk_attend *a = tnk_attend_of(isas[i]);
    const float all = a->merge(3, o, DV, lse, 1, NV, out);
    const double e = exp(0.5), f = exp(2.0);
    cr_assert(epsilon_eq(dbl, (double)all, log(e + f), 1e-6));
    for (int c = 0; c < NV; c++) {
      const double want = (e * (double)o[c] + f * (double)o[2 * DV + c]) / (e + f);
      cr_assert(epsilon_eq(dbl, (double)out[c], want, 1e-6));
    }
    if (i == 0) memcpy(kept, out, sizeof out);
    cr_assert(eq(i32, memcmp(kept, out, sizeof out), 0));
    cr_assert(eq(flt, a->merge(3, o, DV, none, 1, NV, out), -INFINITY));
    cr_assert(eq(flt, out[NV - 1], 0.0f));
  }
}
