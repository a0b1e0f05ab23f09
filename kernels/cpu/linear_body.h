/* linear_body: the kernels of linear.h, written once over the vectors of simd.h and idot_*.h. Each linear_<isa>.c
 * includes it with TNK_NAME(x) set to the name of its table. */
#include "linear.h"
#include "panel_int.h"
#include "simd.h"
#if defined(__AVX512F__)
#include "idot_avx512.h"
#elif defined(__AVX2__)
#include "idot_avx2.h"
#else
#include "idot_scalar.h"
#endif

/* Line l (columns 4 l .. 4 l + 3) of a block as one code a byte; bits is a constant at every call. */
TNK_AI vw line(const int bits, const uint8_t *p, int l)
{
  const int h = l / 4, i = l % 4;
  vw w, x;
  if (bits == 8) return vw_load(p + l * TNK_LINE);
  if (bits & 4) {
    w = vw_bits(vw_load(p + i * TNK_LINE), 0, 4 * h, 15);
    p += 4 * TNK_LINE;
  }
  if (bits & 2) {
    const int to = bits & 4; /* these two bits sit on top of four */
    const int up = 2 * i < to ? to - 2 * i : 0, down = 2 * i > to ? 2 * i - to : 0;
    x = vw_bits(vw_load(p + h * TNK_LINE), up, down, (uint8_t)(3 << to));
    w = to ? vw_or(w, x) : x;
    p += 2 * TNK_LINE;
  }
  if (bits & 1) {
    const int to = bits & 6, from = 4 * h + i; /* this bit sits on top of 0, 2 or 4 */
    x = vw_bits(vw_load(p), from < to ? to - from : 0, from > to ? from - to : 0, (uint8_t)(1 << to));
    w = to ? vw_or(w, x) : x;
  }
  return w;
}

/* Whole-number sums of lines [l0, l0 + n) of one block with the cells of `rows` rows. */
TNK_AI void sums(const int bits, const int wide, const int rows, const int l0, const int n, const uint8_t *p,
                 const tnk_cell *a, int64_t stride, vi *out)
{
  const int chain = TNK_CHAIN(bits) < n ? TNK_CHAIN(bits) : n;
  vp c[TNK_ROWS];
  TNK_UNROLL
  for (int j = 0; j < n; j++) {
    /* packed nibbles: take both halves of a stored line in turn */
    const int l = n == 8 && !wide ? j / 2 + j % 2 * 4 : l0 + j;
    const vw w = line(wide ? 8 : bits, p, l);
    TNK_UNROLL
    for (int r = 0; r < rows; r++) {
      const va x = va_load(a[r * stride].q + 4 * l);
      if (bits == 8 && TNK_SIGNED8) {
        out[r] = j == 0 ? vi_mul8(w, x) : vi_add(out[r], vi_mul8(w, x));
        continue;
      }
      c[r] = j % chain == 0 ? vp_mul(w, x) : vp_mla(c[r], w, x);
      if (j % chain == chain - 1) out[r] = j < chain ? vi_of(c[r]) : vi_add(out[r], vi_of(c[r]));
    }
  }
}

/* The sum of linear.h's head comment over nb blocks. */
TNK_AI void dot(const int bits, const int wide, const int halves, const int rows, const bool min, int64_t nb,
                const uint8_t *p, const float *ws, const float *wm, const tnk_cell *a, int64_t stride, float *acc)
{
  const int64_t block_bytes = (int64_t)tnk_lines(wide ? 8 : (uint32_t)bits) * TNK_LINE;
  const int shift = bits == 8 ? 7 : bits - 1;
  vf y[TNK_ROWS];
  TNK_UNROLL
  for (int r = 0; r < rows; r++) y[r] = vf_load(acc + r * TNK_PANEL);
  for (int64_t b = 0; b < nb; b++, p += block_bytes, a++) {
    TNK_UNROLL
    for (int h = 0; h < halves; h++) {
      vi t[TNK_ROWS];
      sums(bits, wide, rows, h * 4, 8 / halves, p, a, stride, t);
      const vf scale = vf_load(ws), offset = min ? vf_load(wm) : scale;
      TNK_UNROLL
      for (int r = 0; r < rows; r++) {
        const tnk_cell *c = a + r * stride;
        const int32_t sum = halves == 2 ? c->half[h] : c->sum;
        if (bits == 8 && TNK_SIGNED8) {
          if (min) t[r] = vi_add1(t[r], sum * 128);
        } else if (!min) {
          t[r] = vi_add1(t[r], -(sum * (1 << shift)));
        }
        y[r] = vf_fma(vf_of(t[r]), vf_mul(scale, vf_set1(c->s)), y[r]);
        if (min) y[r] = vf_fma(offset, vf_set1(halves == 2 ? c->shalf[h] : c->ssum), y[r]);
      }
      ws += TNK_PANEL;
      wm += min ? TNK_PANEL : 0;
    }
  }
  TNK_UNROLL
  for (int r = 0; r < rows; r++) vf_store(acc + r * TNK_PANEL, y[r]);
}

#define TNK_DOT(name, bits, wide, halves, rows)                                                                      \
  static void name(int64_t nb, const uint8_t *lines, const float *ws, const float *wm, const tnk_cell *a,            \
                   int64_t stride, float *acc)                                                                       \
  {                                                                                                                  \
    if (wm) dot(bits, wide, halves, rows, true, nb, lines, ws, wm, a, stride, acc);                                  \
    else dot(bits, wide, halves, rows, false, nb, lines, ws, ws, a, stride, acc);                                    \
  }
#define TNK_PACKED(bits)                                                                                             \
  TNK_DOT(packed_##bits##_1, bits, 0, 1, 1)                                                                          \
  TNK_DOT(packed_##bits##_2, bits, 0, 2, 1)
#define TNK_DOTS(bits, halves)                                                                                       \
  TNK_DOT(dot_##bits##_##halves##_1, bits, 1, halves, 1)                                                             \
  TNK_DOT(dot_##bits##_##halves##_2, bits, 1, halves, 2)                                                             \
  TNK_DOT(dot_##bits##_##halves##_3, bits, 1, halves, 3)                                                             \
  TNK_DOT(dot_##bits##_##halves##_4, bits, 1, halves, 4)
#define TNK_DOT_ROW(bits, halves)                                                                                    \
  {                                                                                                                  \
    dot_##bits##_##halves##_1, dot_##bits##_##halves##_2, dot_##bits##_##halves##_3, dot_##bits##_##halves##_4       \
  }

TNK_PACKED(1)
TNK_PACKED(2)
TNK_PACKED(3)
TNK_PACKED(4)
TNK_PACKED(5)
TNK_PACKED(6)
TNK_DOTS(4, 1)
TNK_DOTS(4, 2)
TNK_DOTS(5, 1)
TNK_DOTS(5, 2)
TNK_DOTS(6, 1)
TNK_DOTS(6, 2)
TNK_DOTS(8, 1)
TNK_DOTS(8, 2)

TNK_AI void fdot(const int rows, int64_t n, const float *w, const float *x, int64_t stride, float *acc)
{
  vf y[TNK_ROWS];
  TNK_UNROLL
  for (int r = 0; r < rows; r++) y[r] = vf_load(acc + r * TNK_PANEL);
  for (int64_t k = 0; k < n; k++) {
    const vf c = vf_load(w + k * TNK_PANEL);
    TNK_UNROLL
    for (int r = 0; r < rows; r++) y[r] = vf_fma(vf_set1(x[r * stride + k]), c, y[r]);
  }
  TNK_UNROLL
  for (int r = 0; r < rows; r++) vf_store(acc + r * TNK_PANEL, y[r]);
}
#define TNK_FDOT(name, rows)                                                                                         \
  static void name(int64_t n, const float *w, const float *x, int64_t stride, float *acc)                            \
  {                                                                                                                  \
    fdot(rows, n, w, x, stride, acc);                                                                                \
  }
TNK_FDOT(fdot_1, 1)
TNK_FDOT(fdot_2, 2)
TNK_FDOT(fdot_3, 3)
TNK_FDOT(fdot_4, 4)

/* add: what moves the zero point to the 8 of 4 bits, where there are fewer. */
TNK_AI void widen(const int bits, const int add, int64_t nb, const uint8_t *p, uint8_t *out)
{
  for (int64_t b = 0; b < nb; b++, p += tnk_lines((uint32_t)bits) * TNK_LINE) {
    TNK_UNROLL
    for (int l = 0; l < 8; l++, out += TNK_LINE) vw_store(out, vw_add(line(bits, p, l), add));
  }
}

static void codes(const tnk_fmt *f, int64_t nb, const uint8_t *p, uint8_t *out)
{
  const bool zero = f->offset == TNK_O_ZERO;
  switch (f->bits) {
    case 1: widen(1, zero ? 7 : 0, nb, p, out); break;
    case 2: widen(2, zero ? 6 : 0, nb, p, out); break;
    case 3: widen(3, zero ? 4 : 0, nb, p, out); break;
    case 4: widen(4, 0, nb, p, out); break;
    case 5: widen(5, 0, nb, p, out); break;
    case 6: widen(6, 0, nb, p, out); break;
    default: widen(8, 0, nb, p, out); break;
  }
  if (!f->iq4) return;
  for (int64_t i = 0; i < nb * 8; i++, out += TNK_LINE) vw_store(out, vw_table(vw_load(out), tnk_iq4_codes));
}

TNK_AI vf number16(uint32_t scale, const uint8_t *p)
{
  float t[TNK_PANEL];
  if (scale == TNK_S_F16) return vf_load_f16((const uint16_t *)(const void *)p);
  if (scale == TNK_S_BF16) return vf_load_bf16((const uint16_t *)(const void *)p);
  memcpy(t, p, sizeof t);
  return vf_load(t);
}

/* Scale and offset of group g of a record. */
TNK_AI void group_scale(const tnk_fmt *f, const tnk_rec *at, const uint8_t *rec, int64_t g, vf *s, vf *m)
{
  const uint32_t wide = TNK_PANEL * tnk_scale_bytes(f->scale);
  const vf zero = vf_set1(0.0f);
  if (f->sub == TNK_SUB_NONE) {
    *s = number16(f->scale, rec + at->scales + g * wide);
    if (f->offset == TNK_O_ZERO) return;
    *m = number16(f->scale, rec + at->offsets + g * wide);
    if (f->offset == TNK_O_INT) *m = vf_sub(zero, vf_mul(*s, *m));
    return;
  }
  const uint8_t *u = rec + at->scales + g * TNK_PANEL, *v = rec + at->offsets + g * TNK_PANEL;
  uint8_t lo[TNK_PANEL], hi[TNK_PANEL];
  if (f->sub == TNK_SUB_NIBBLES) {
    for (int i = 0; i < TNK_PANEL; i++) {
      lo[i] = u[i] & 15;
      hi[i] = u[i] >> 4;
    }
    u = lo;
    v = hi;
  }
  const vf d = number16(f->scale, rec + at->d);
  *s = vf_mul(d, f->sub == TNK_SUB_I8 ? vf_load_i8((const int8_t *)u) : vf_load_u8(u));
  if (f->offset == TNK_O_ZERO) return;
  *m = vf_sub(zero, vf_mul(number16(f->scale, rec + at->dmin), vf_load_u8(v)));
}

static bool scales(const tnk_fmt *f, const uint8_t *rec, int64_t rec_nb, int64_t b0, int64_t nb, float *ws, float *wm)
{
  const tnk_rec at = tnk_record(f, rec_nb);
  const int halves = tnk_halves(f);
  int64_t last = -1;
  vf s = vf_set1(0.0f), m = s;
  for (int64_t i = b0 * halves; i < (b0 + nb) * halves; i++, ws += TNK_PANEL, wm += TNK_PANEL) {
    const int64_t g = i * (2 / halves) / f->group16;
    if (g != last) group_scale(f, &at, rec, g, &s, &m);
    last = g;
    vf_store(ws, s);
    if (f->offset != TNK_O_ZERO) vf_store(wm, m);
  }
  return f->offset != TNK_O_ZERO;
}

static void floats(const tnk_fmt *f, int64_t nb, const uint8_t *code, const float *ws, const float *wm, float *out)
{
  const int halves = tnk_halves(f);
  const vf zero = vf_set1(f->iq4 || f->bits == 8 ? 128.0f : (float)(1 << ((f->bits > 4 ? f->bits : 4) - 1)));
  for (int64_t l = 0; l < nb * 8; l++, code += TNK_LINE) {
    const int64_t g = halves == 2 ? l / 4 : l / 8;
    const vf s = vf_load(ws + g * TNK_PANEL);
    for (int b = 0; b < 4; b++, out += TNK_PANEL) {
      const vf q = vf_byte(code, b);
      vf_store(out, wm ? vf_add(vf_mul(s, q), vf_load(wm + g * TNK_PANEL)) : vf_mul(s, vf_sub(q, zero)));
    }
  }
}

static void numbers(uint32_t scale, int64_t n, const uint8_t *src, float *out)
{
  const uint32_t wide = TNK_PANEL * tnk_scale_bytes(scale);
  for (int64_t k = 0; k < n; k++) vf_store(out + k * TNK_PANEL, number16(scale, src + k * wide));
}

const tnk_linear_kernels TNK_NAME(tnk_linear) = {
  .dot = {{TNK_DOT_ROW(4, 1), TNK_DOT_ROW(4, 2)},
          {TNK_DOT_ROW(5, 1), TNK_DOT_ROW(5, 2)},
          {TNK_DOT_ROW(6, 1), TNK_DOT_ROW(6, 2)},
          {TNK_DOT_ROW(8, 1), TNK_DOT_ROW(8, 2)}},
  .packed = {{packed_1_1, packed_1_2}, {packed_2_1, packed_2_2}, {packed_3_1, packed_3_2}, {packed_4_1, packed_4_2},
             {packed_5_1, packed_5_2}, {packed_6_1, packed_6_2}, {NULL, NULL}, {dot_8_1_1, dot_8_2_1}},
  .fdot = {fdot_1, fdot_2, fdot_3, fdot_4},
  .codes = codes,
  .scales = scales,
  .floats = floats,
  .numbers = numbers,
};
