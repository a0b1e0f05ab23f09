/* panel: sizes, the formats of file dtypes, and reading a row back. */
#include "panel.h"

#include <string.h>

#include "panel_int.h"

size_t tnk_panels_size(tnk_panels *p)
{
  const tnk_fmt *f = &p->fmt;
  p->blocks = (p->k + TNK_BLOCK - 1) / TNK_BLOCK;
  p->panels = (p->n + TNK_PANEL - 1) / TNK_PANEL;
  p->format = tnk_fmt_index(f);
  if (f->kind == TNK_MATRIX) {
    p->panel_bytes = (size_t)p->k * TNK_PANEL * sizeof(float);
    return (size_t)p->k * (size_t)p->n * sizeof(float);
  }
  if (f->kind == TNK_FLOAT) {
    p->panel_bytes = (size_t)p->k * TNK_PANEL * tnk_scale_bytes(f->scale);
  } else {
    const int64_t full = p->blocks / f->rec_blocks, rest = p->blocks % f->rec_blocks;
    p->panel_bytes = (size_t)full * tnk_record(f, f->rec_blocks).bytes;
    if (rest) p->panel_bytes += tnk_record(f, rest).bytes;
  }
  p->panel_bytes = (p->panel_bytes + TNK_LINE - 1) / TNK_LINE * TNK_LINE;
  p->share = p->blocks ? p->panel_bytes / (size_t)p->blocks : 0;
  return p->panel_bytes * (size_t)p->panels;
}

bool tnk_fmt_of(uint32_t dtype, tnk_fmt *out)
{
  switch (dtype) {
#define TNK_FORMAT(dtype_, ...) \
  case dtype_: *out = (tnk_fmt){__VA_ARGS__}; return true;
    TNK_FORMATS(TNK_FORMAT)
#undef TNK_FORMAT
    case TNK_F32: *out = (tnk_fmt){.kind = TNK_FLOAT, .scale = TNK_S_F32, .group16 = 1, .rec_blocks = 1}; return true;
    case TNK_F16: *out = (tnk_fmt){.kind = TNK_FLOAT, .scale = TNK_S_F16, .group16 = 1, .rec_blocks = 1}; return true;
    case TNK_BF16: *out = (tnk_fmt){.kind = TNK_FLOAT, .scale = TNK_S_BF16, .group16 = 1, .rec_blocks = 1}; return true;
    default: return false;
  }
}

int tnk_fmt_index(const tnk_fmt *f)
{
  static const tnk_fmt known[] = {
#define TNK_FORMAT(dtype_, ...) {__VA_ARGS__},
      TNK_FORMATS(TNK_FORMAT)
#undef TNK_FORMAT
  };
  for (int i = 0; i < TNK_N_FORMATS; i++) {
    const tnk_fmt *k = &known[i];
    if (k->kind == f->kind && k->bits == f->bits && k->scale == f->scale && k->offset == f->offset &&
        k->sub == f->sub && k->iq4 == f->iq4 && k->group16 == f->group16 && k->rec_blocks == f->rec_blocks) {
      return i;
    }
  }
  return -1;
}

/* The 32 codes of row r of a block whose lines start at p: the inverse of tnk_place. */
static void take(uint32_t bits, const uint8_t *p, int64_t r, uint8_t code[TNK_BLOCK])
{
  for (int c = 0; c < TNK_BLOCK; c++) {
    const int h = c / 16, i = c / 4 % 4, b = c % 4;
    const uint8_t *at = p + r * 4 + b;
    uint32_t q = 0, shift = 0;
    if (bits == 8) q = at[c / 4 * TNK_LINE];
    if (bits != 8 && (bits & 4)) {
      q = at[i * TNK_LINE] >> (4 * h) & 15;
      at += 4 * TNK_LINE;
      shift = 4;
    }
    if (bits & 2) {
      q |= (uint32_t)(at[h * TNK_LINE] >> (2 * i) & 3) << shift;
      at += 2 * TNK_LINE;
      shift += 2;
    }
    if (bits & 1) q |= (uint32_t)(at[0] >> (4 * h + i) & 1) << shift;
    code[c] = (uint8_t)q;
  }
}

/* Number `lane` of a line of 16 numbers of the format's scale type. */
static float number(uint32_t scale, const uint8_t *p, int64_t lane)
{
  uint16_t u;
  float f;
  if (scale == TNK_S_F32) {
    memcpy(&f, p + lane * 4, sizeof f);
    return f;
  }
  memcpy(&u, p + lane * 2, sizeof u);
  return scale == TNK_S_F16 ? tnk_f16_to_f32(u) : tnk_bf16_to_f32(u);
}

typedef struct group_values {
  float s, m; /* ZERO: m unused; INT: m is the zero point */
} group_values;

static group_values group_at(const tnk_fmt *f, const tnk_rec *at, const uint8_t *rec, int64_t g, int64_t r)
{
  const size_t wide = TNK_PANEL * tnk_scale_bytes(f->scale);
  group_values v = {0};
  if (f->sub == TNK_SUB_NONE) {
    v.s = number(f->scale, rec + at->scales + (size_t)g * wide, r);
    if (f->offset != TNK_O_ZERO) v.m = number(f->scale, rec + at->offsets + (size_t)g * wide, r);
    return v;
  }
  const uint8_t u = rec[at->scales + (size_t)(g * TNK_PANEL + r)];
  const float d = number(f->scale, rec + at->d, r);
  if (f->sub == TNK_SUB_NIBBLES)
    v.s = d * (float)(u & 15);
  else
    v.s = d * (f->sub == TNK_SUB_I8 ? (float)(int8_t)u : (float)u);
  if (f->offset == TNK_O_ZERO) return v;
  const uint8_t low = f->sub == TNK_SUB_NIBBLES ? u >> 4 : rec[at->offsets + (size_t)(g * TNK_PANEL + r)];
  v.m = -(number(f->scale, rec + at->dmin, r) * (float)low);
  return v;
}

void tnk_panel_row(const tnk_panels *p, int64_t row, float *dst)
{
  const tnk_fmt *f = &p->fmt;
  const int64_t r = row % TNK_PANEL;
  const uint8_t *panel = p->data + (size_t)(row / TNK_PANEL) * p->panel_bytes;
  if (f->kind == TNK_MATRIX) {
    memcpy(dst, p->data + (size_t)(row * p->k) * sizeof *dst, (size_t)p->k * sizeof *dst);
    return;
  }
  if (f->kind == TNK_FLOAT) {
    const size_t wide = TNK_PANEL * tnk_scale_bytes(f->scale);
    for (int64_t k = 0; k < p->k; k++) dst[k] = number(f->scale, panel + (size_t)k * wide, r);
    return;
  }
  const int zero = f->bits == 8 || f->iq4 ? 128 : 1 << (f->bits - 1);
  const size_t block_bytes = tnk_lines(f->bits) * TNK_LINE, full = tnk_record(f, f->rec_blocks).bytes;
  for (int64_t b = 0; b < p->blocks; b++) {
    const int64_t index = b / f->rec_blocks, j = b % f->rec_blocks, left = p->blocks - index * f->rec_blocks;
    const tnk_rec at = tnk_record(f, left < f->rec_blocks ? left : f->rec_blocks);
    const uint8_t *rec = panel + (size_t)index * full;
    uint8_t code[TNK_BLOCK];
    take(f->bits, rec + (size_t)j * block_bytes, r, code);
    for (int64_t c = 0; c < TNK_BLOCK && b * TNK_BLOCK + c < p->k; c++) {
      const group_values v = group_at(f, &at, rec, (2 * j + c / 16) / f->group16, r);
      const int q = f->iq4 ? tnk_iq4_codes[code[c]] : code[c];
      float x;
      if (f->offset == TNK_O_MIN)
        x = v.s * (float)q + v.m;
      else
        x = v.s * ((float)q - (f->offset == TNK_O_INT ? v.m : (float)zero));
      dst[b * TNK_BLOCK + c] = x;
    }
  }
}
