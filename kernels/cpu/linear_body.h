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

enum {
  WIDE = 0,
  PACKED = 1,
  IQ4 = 2
}; /* how codes are stored: bytes; bits of them; IQ4's four bits, bytes once looked up */

/* Whole-number sums of lines [l0, l0 + n) of one block with the cells of `rows` rows. */
TNK_AI void sums(const int bits, const int stored, const int rows, const int l0, const int n, const uint8_t *p,
                 const tnk_cell *a, int64_t stride, vi *out)
{
  const int chain = TNK_CHAIN(bits) < n ? TNK_CHAIN(bits) : n;
  vp c[TNK_ROWS];
  TNK_UNROLL
  for (int j = 0; j < n; j++) {
    /* packed nibbles: take both halves of a stored line in turn */
    const int l = n == 8 && stored != WIDE ? j / 2 + j % 2 * 4 : l0 + j;
    const vw w = stored == IQ4 ? vw_table(line(4, p, l), tnk_iq4_codes) : line(stored == WIDE ? 8 : bits, p, l);
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

/* One sum of one block, half h of `halves`, onto y: the three lines of linear.h's head comment. */
TNK_AI void block(const int bits, const int stored, const int halves, const int rows, const bool min, const int h,
                  const uint8_t *p, vf scale, vf offset, const tnk_cell *a, int64_t stride, vf *y)
{
  vi t[TNK_ROWS];
  sums(bits, stored, rows, h * 4, 8 / halves, p, a, stride, t);
  TNK_UNROLL
  for (int r = 0; r < rows; r++) {
    const tnk_cell *c = a + r * stride;
    const int32_t sum = halves == 2 ? c->half[h] : c->sum;
    if (bits == 8 && TNK_SIGNED8) {
      if (min) t[r] = vi_add1(t[r], sum * 128);
    } else if (!min) {
      t[r] = vi_add1(t[r], -(sum * (1 << (bits - 1))));
    }
    y[r] = vf_fma(vf_of(t[r]), vf_mul(scale, vf_set1(c->s)), y[r]);
    if (min) y[r] = vf_fma(offset, vf_set1(halves == 2 ? c->shalf[h] : c->ssum), y[r]);
  }
}

TNK_AI void load_rows(const int rows, const float *acc, vf *y)
{
  TNK_UNROLL
  for (int r = 0; r < rows; r++) y[r] = vf_load(acc + r * TNK_PANEL);
}

TNK_AI void store_rows(const int rows, float *acc, const vf *y)
{
  TNK_UNROLL
  for (int r = 0; r < rows; r++) vf_store(acc + r * TNK_PANEL, y[r]);
}

/* ---------------------------------------------------------------- memory */

/* Panels are read line after line with so much arithmetic in between that the processor's own window holds a few lines
 * only. So lines are asked for before they are needed, past the end of the panels as well. */
TNK_AI void ask_for(const tnk_ask *ask, int64_t block)
{
  for (size_t i = 0; i < ask->bytes; i += TNK_LINE)
    __builtin_prefetch((const void *)(ask->from + (size_t)block * ask->step + i));
}

/* ---------------------------------------------------------------- expanded chunks */

TNK_AI void dot(const int bits, const int halves, const int rows, const bool min, int64_t nb, const tnk_chunk *w,
                const tnk_cell *a, int64_t stride, tnk_ask ask, float *acc)
{
  const float *ws = w->ws[0], *wm = w->wm[0];
  vf y[TNK_ROWS];
  load_rows(rows, acc, y);
  for (int64_t b = 0; b < nb; b++, a++) {
    ask_for(&ask, b);
    TNK_UNROLL
    for (int h = 0; h < halves; h++, ws += TNK_PANEL, wm += TNK_PANEL) {
      const vf scale = vf_load(ws), offset = min ? vf_load(wm) : scale;
      block(bits, WIDE, halves, rows, min, h, w->code[b][0], scale, offset, a, stride, y);
    }
  }
  store_rows(rows, acc, y);
}

#define TNK_DOT(bits, halves, rows)                                                                             \
  static void dot_##bits##_##halves##_##rows(int64_t nb, const tnk_chunk *w, const tnk_cell *a, int64_t stride, \
                                             tnk_ask ask, float *acc)                                           \
  {                                                                                                             \
    if (w->min)                                                                                                 \
      dot(bits, halves, rows, true, nb, w, a, stride, ask, acc);                                                \
    else                                                                                                        \
      dot(bits, halves, rows, false, nb, w, a, stride, ask, acc);                                               \
  }
#define TNK_DOTS(bits, halves) \
  TNK_DOT(bits, halves, 1) TNK_DOT(bits, halves, 2) TNK_DOT(bits, halves, 3) TNK_DOT(bits, halves, 4)
#define TNK_DOT_ROW(bits, halves)                                                                              \
  {                                                                                                            \
    dot_##bits##_##halves##_1, dot_##bits##_##halves##_2, dot_##bits##_##halves##_3, dot_##bits##_##halves##_4 \
  }
TNK_DOTS(4, 1)
TNK_DOTS(4, 2)
TNK_DOTS(5, 1)
TNK_DOTS(5, 2)
TNK_DOTS(6, 1)
TNK_DOTS(6, 2)
TNK_DOTS(8, 1)
TNK_DOTS(8, 2)

/* ---------------------------------------------------------------- scales */

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
    *s = *m = number16(f->scale, rec + at->scales + g * wide);
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
  *s = *m = vf_mul(d, f->sub == TNK_SUB_I8 ? vf_load_i8((const int8_t *)u) : vf_load_u8(u));
  if (f->offset == TNK_O_ZERO) return;
  *m = vf_sub(zero, vf_mul(number16(f->scale, rec + at->dmin), vf_load_u8(v)));
}

/* ---------------------------------------------------------------- panels as they are */

/* Blocks [b0, b1) of one record of nb blocks. */
TNK_AI void few_record(const tnk_fmt *f, const int rows, const uint8_t *rec, int64_t nb, int64_t b0, int64_t b1,
                       const tnk_cell *a, int64_t stride, const tnk_ask *ask, vf *y)
{
  const tnk_rec at = tnk_record(f, nb);
  const int halves = f->group16 & 1 ? 2 : 1;
  const size_t block_bytes = tnk_lines(f->bits) * TNK_LINE;
  for (int64_t b = b0; b < b1; b++, a++) {
    ask_for(ask, b - b0);
    TNK_UNROLL
    for (int h = 0; h < halves; h++) {
      vf s, m;
      group_scale(f, &at, rec, (2 * b + h) / f->group16, &s, &m);
      block(f->iq4 ? 8 : f->bits, f->iq4 ? IQ4 : PACKED, halves, rows, f->offset != TNK_O_ZERO, h,
            rec + (size_t)b * block_bytes, s, m, a, stride, y);
    }
  }
}

TNK_AI void few(const tnk_fmt *f, const int rows, const uint8_t *panel, int64_t blocks, int64_t begin, int64_t end,
                const tnk_cell *a, int64_t stride, tnk_ask ask, float *acc)
{
  const int64_t per = f->rec_blocks;
  const size_t full = tnk_record(f, per).bytes;
  vf y[TNK_ROWS];
  load_rows(rows, acc, y);
  for (int64_t b = begin, n; b < end; b += n, ask.from += (size_t)n * ask.step) {
    const int64_t index = b / per, b0 = b % per;
    const uint8_t *rec = panel + (size_t)index * full;
    n = per;
    if (b0 == 0 && end - b >= per) {
      few_record(f, rows, rec, per, 0, per, a + b, stride, &ask, y);
      continue;
    }
    const int64_t nb = blocks - index * per < per ? blocks - index * per : per;
    const int64_t b1 = nb < end - index * per ? nb : end - index * per;
    n = b1 - b0;
    few_record(f, rows, rec, nb, b0, b1, a + b, stride, &ask, y);
  }
  store_rows(rows, acc, y);
}

/* ---------------------------------------------------------------- expanding */

/* add: what moves the zero point to the 8 of 4 bits, where there are fewer. */
TNK_AI void widen(const int bits, const int add, const uint8_t *p, uint8_t *out)
{
  TNK_UNROLL
  for (int l = 0; l < 8; l++) vw_store(out + l * TNK_LINE, vw_add(line(bits, p, l), add));
}

TNK_AI void widen_any(const tnk_fmt *f, const uint8_t *p, uint8_t *out)
{
  const bool zero = f->offset == TNK_O_ZERO;
  switch (f->bits) {
    case 1: widen(1, zero ? 7 : 0, p, out); break;
    case 2: widen(2, zero ? 6 : 0, p, out); break;
    case 3: widen(3, zero ? 4 : 0, p, out); break;
    case 4: widen(4, 0, p, out); break;
    case 5: widen(5, 0, p, out); break;
    case 6: widen(6, 0, p, out); break;
    default: widen(8, 0, p, out); break;
  }
  for (int l = 0; f->iq4 && l < 8; l++)
    vw_store(out + l * TNK_LINE, vw_table(vw_load(out + l * TNK_LINE), tnk_iq4_codes));
}

TNK_AI void fill(const tnk_fmt *f, const uint8_t *panel, int64_t blocks, int64_t begin, int64_t nb, tnk_chunk *w)
{
  const int64_t per = f->rec_blocks, halves = tnk_halves(f);
  const size_t full = tnk_record(f, per).bytes, block_bytes = tnk_lines(f->bits) * TNK_LINE;
  float *ws = w->ws[0], *wm = w->wm[0];
  w->min = f->offset != TNK_O_ZERO;
  for (int64_t i = 0; i < nb; i++) {
    const int64_t index = (begin + i) / per, b = (begin + i) % per, left = blocks - index * per;
    const uint8_t *rec = panel + (size_t)index * full;
    const tnk_rec at = tnk_record(f, left < per ? left : per);
    widen_any(f, rec + (size_t)b * block_bytes, w->code[i][0]);
    for (int h = 0; h < halves; h++, ws += TNK_PANEL, wm += TNK_PANEL) {
      vf s, m;
      group_scale(f, &at, rec, (2 * b + h) / f->group16, &s, &m);
      vf_store(ws, s);
      if (w->min) vf_store(wm, m);
    }
  }
}

#define TNK_FEW_ROWS(dtype, rows)                                                                                      \
  static void few##rows##_##dtype(const uint8_t *panel, int64_t blocks, int64_t begin, int64_t end, const tnk_cell *a, \
                                  int64_t stride, tnk_ask ask, float *acc)                                             \
  {                                                                                                                    \
    few(&fmt_##dtype, rows, panel, blocks, begin, end, a, stride, ask, acc);                                           \
  }
#define TNK_FORMAT(dtype, ...)                                                                                \
  static const tnk_fmt fmt_##dtype = {__VA_ARGS__};                                                           \
  TNK_FEW_ROWS(dtype, 1)                                                                                      \
  TNK_FEW_ROWS(dtype, 2)                                                                                      \
  TNK_FEW_ROWS(dtype, 3)                                                                                      \
  TNK_FEW_ROWS(dtype, 4)                                                                                      \
  static void fill_##dtype(const tnk_fmt *f, const uint8_t *panel, int64_t blocks, int64_t begin, int64_t nb, \
                           tnk_chunk *w)                                                                      \
  {                                                                                                           \
    (void)f;                                                                                                  \
    fill(&fmt_##dtype, panel, blocks, begin, nb, w);                                                          \
  }
TNK_FORMATS(TNK_FORMAT)
#undef TNK_FORMAT

static void fill_any(const tnk_fmt *f, const uint8_t *panel, int64_t blocks, int64_t begin, int64_t nb, tnk_chunk *w)
{
  fill(f, panel, blocks, begin, nb, w);
}

/* ---------------------------------------------------------------- f32 */

TNK_AI void fdot(const int rows, int64_t n, const float *w, const float *x, int64_t stride, float *acc)
{
  vf y[TNK_ROWS];
  load_rows(rows, acc, y);
  for (int64_t k = 0; k < n; k++) {
    const vf c = vf_load(w + k * TNK_PANEL);
    TNK_UNROLL
    for (int r = 0; r < rows; r++) y[r] = vf_fma(vf_set1(x[r * stride + k]), c, y[r]);
  }
  store_rows(rows, acc, y);
}
#define TNK_FDOT(rows)                                                                           \
  static void fdot_##rows(int64_t n, const float *w, const float *x, int64_t stride, float *acc) \
  {                                                                                              \
    fdot(rows, n, w, x, stride, acc);                                                            \
  }
TNK_FDOT(1)
TNK_FDOT(2)
TNK_FDOT(3)
TNK_FDOT(4)

static void floats(const tnk_fmt *f, int64_t nb, const tnk_chunk *w, float *out)
{
  const int halves = tnk_halves(f), bits = f->bits > 4 ? f->bits : 4;
  const vf zero = vf_set1(f->iq4 ? 128.0f : (float)(1 << (bits - 1)));
  for (int64_t l = 0; l < nb * 8; l++) {
    const int64_t g = halves == 2 ? l / 4 : l / 8;
    const vf s = vf_load(w->ws[g]);
    for (int b = 0; b < 4; b++, out += TNK_PANEL) {
      const vf q = vf_byte(w->code[l / 8][l % 8], b);
      vf_store(out, w->min ? vf_add(vf_mul(s, q), vf_load(w->wm[g])) : vf_mul(s, vf_sub(q, zero)));
    }
  }
}

static void numbers(uint32_t scale, int64_t n, const uint8_t *src, float *out)
{
  const uint32_t wide = TNK_PANEL * tnk_scale_bytes(scale);
  const tnk_ask ask = {(uintptr_t)src + TNK_AHEAD, wide, wide};
  for (int64_t k = 0; k < n; k++, src += wide) {
    ask_for(&ask, k);
    vf_store(out + k * TNK_PANEL, number16(scale, src));
  }
}

static void join(int64_t rows, uint32_t segments, const float *part, const float *bias, const float *plus,
                 int64_t plus_stride, float *y, int64_t y_stride, int64_t lanes)
{
  const vf b = bias ? vf_load_n(bias, lanes) : vf_set1(0.0f);
  for (int64_t r = 0; r < rows; r++, part += TNK_PANEL, y += y_stride) {
    vf s = vf_load(part);
    for (uint32_t i = 1; i < segments; i++) s = vf_add(s, vf_load(part + (int64_t)i * rows * TNK_PANEL));
    if (bias) s = vf_add(s, b);
    if (plus) s = vf_add(s, vf_load_n(plus + r * plus_stride, lanes));
    vf_store_n(y, s, lanes);
  }
}

const tnk_linear_kernels TNK_NAME(tnk_linear) = {
#define TNK_FORMAT(dtype, ...) {few1_##dtype, few2_##dtype, few3_##dtype, few4_##dtype},
    .few = {TNK_FORMATS(TNK_FORMAT)},
#undef TNK_FORMAT
#define TNK_FORMAT(dtype, ...) fill_##dtype,
    .fill = {TNK_FORMATS(TNK_FORMAT) fill_any},
#undef TNK_FORMAT
    .dot = {{TNK_DOT_ROW(4, 1), TNK_DOT_ROW(4, 2)},
            {TNK_DOT_ROW(5, 1), TNK_DOT_ROW(5, 2)},
            {TNK_DOT_ROW(6, 1), TNK_DOT_ROW(6, 2)},
            {TNK_DOT_ROW(8, 1), TNK_DOT_ROW(8, 2)}},
    .fdot = {fdot_1, fdot_2, fdot_3, fdot_4},
    .floats = floats,
    .numbers = numbers,
    .join = join,
};
