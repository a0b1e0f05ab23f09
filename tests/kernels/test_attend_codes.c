/* A tile of 8-bit codes gives the bits that its numbers give as f32, in place and widened, for any number of rows, on every
 * instruction set. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "cpu/attend.h"
#include "cpu/isa.h"
#include "kernel_data.h"
#include "quant/dtype.h"

enum { ROWS = 7, D = 64, DV = 48, KG = 32, VG = 16, KS = D / KG, VS = DV / VG };

static float q[ROWS * D], k32[4 * D * 16], v32[TNK_KEYS * DV], k_wide[4 * D * 16], v_wide[TNK_KEYS * DV];
static int8_t k8[4 * D * 16], v8[TNK_KEYS * DV];
static uint16_t ks[4 * KS * 16], vs[TNK_KEYS * VS];
static float s[ROWS * TNK_KEYS], want[ROWS * TNK_KEYS], o[ROWS * DV], want_o[ROWS * DV];
static const float *queries[ROWS];
static float *outs[ROWS], *want_outs[ROWS];

/* Codes and scales by chance, and the numbers they stand for. */
static void fill(void)
{
  uint32_t seed = 5;
  for (int i = 0; i < 4 * D * 16; i++) k8[i] = (int8_t)(kd_next(&seed) >> 16);
  for (int i = 0; i < TNK_KEYS * DV; i++) v8[i] = (int8_t)(kd_next(&seed) >> 16);
  for (int i = 0; i < 4 * KS * 16; i++) ks[i] = tnk_f32_to_f16(0.01f * kd_unit(&seed));
  for (int i = 0; i < TNK_KEYS * VS; i++) vs[i] = tnk_f32_to_f16(0.01f * kd_unit(&seed));
  kd_fill(q, ROWS * D, 1.0f, 9);
  for (int b = 0; b < 4; b++) {
    for (int c = 0; c < D; c++) {
      for (int lane = 0; lane < 16; lane++) {
        const float scale = tnk_f16_to_f32(ks[(b * KS + c / KG) * 16 + lane]);
        k32[(b * D + c) * 16 + lane] = scale * (float)k8[(b * D + c) * 16 + lane];
      }
    }
  }
  for (int j = 0; j < TNK_KEYS; j++) {
    for (int c = 0; c < DV; c++) {
      v32[(c / 16 * TNK_KEYS + j) * 16 + c % 16] = tnk_f16_to_f32(vs[j * VS + c / VG]) * (float)v8[j * DV + c];
    }
  }
  for (int r = 0; r < ROWS; r++) queries[r] = q + r * D, outs[r] = o + r * DV, want_outs[r] = want_o + r * DV;
}

static tnk_tile coded(void)
{
  tnk_tile t = {.k_group = KG, .v_group = VG};
  for (int b = 0; b < 4; b++) {
    t.k8[b] = k8 + b * D * 16;
    t.v8[b] = v8 + b * 16 * DV;
    t.ks[b] = ks + b * KS * 16;
    t.vs[b] = vs + b * 16 * VS;
    t.next[b] = (const uint8_t *)t.k8[b];
  }
  return t;
}

Test(attend_codes, same_bits_as_f32)
{
  int isas[TNK_ISA_COUNT], n = kd_isas(isas);
  const uint64_t visible = 0xF0F1FFFF8001FFFFull;
  fill();
  const tnk_tile plain = {.k32 = k32, .v32 = v32}, codes = coded();
  for (int i = 0; i < n; i++) {
    const tnk_attend *a = tnk_attend_of(isas[i]);
    for (int64_t rows = 1; rows <= ROWS; rows++) {
      tnk_attend_of(TNK_ISA_SCALAR)->scores(rows, queries, D, &plain, want);
      tnk_attend_of(TNK_ISA_SCALAR)->mix(rows, want, visible, &plain, DV, want_outs);
      a->scores(rows, queries, D, &codes, s);
      a->mix(rows, want, visible, &codes, DV, outs);
      const size_t n_s = (size_t)rows * TNK_KEYS * sizeof *s, n_o = (size_t)rows * DV * sizeof *o;
      cr_assert(eq(i32, memcmp(s, want, n_s), 0), "%s, %d rows", tnk_isa_name(isas[i]), (int)rows);
      cr_assert(eq(i32, memcmp(o, want_o, n_o), 0), "%s, %d rows", tnk_isa_name(isas[i]), (int)rows);
    }
    a->widen(&codes, D, DV, k_wide, v_wide);
    cr_assert(eq(i32, memcmp(k_wide, k32, sizeof k32), 0), "%s", tnk_isa_name(isas[i]));
    cr_assert(eq(i32, memcmp(v_wide, v32, sizeof v32), 0), "%s", tnk_isa_name(isas[i]));
  }
}
