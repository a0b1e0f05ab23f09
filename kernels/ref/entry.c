/* entry: one token's key or value in the cache, in a layout. Stored: for each group its scale, then its offset (OFF_INT:
 * a byte, OFF_MIN: scale_type); then the codes, bits after bits, lowest first. */
#include <math.h>
#include <string.h>

#include "fp8.h"
#include "layout.h"
#include "quant/dtype.h"

static size_t scalar_bytes(uint32_t type) { return type == TNK_F32 ? 4 : 2; }

static uint8_t *put(uint32_t type, float x, uint8_t *p)
{
  uint16_t h = 0;
  if (type == TNK_F32) {
    memcpy(p, &x, 4);
    return p + 4;
  }
  h = type == TNK_F16 ? tnk_f32_to_f16(fminf(fmaxf(x, -65504.0f), 65504.0f)) : tnk_f32_to_bf16(x);
  memcpy(p, &h, 2);
  return p + 2;
}

static const uint8_t *get(uint32_t type, const uint8_t *p, float *x)
{
  uint16_t h;
  if (type == TNK_F32) {
    memcpy(x, p, 4);
    return p + 4;
  }
  memcpy(&h, p, 2);
  *x = type == TNK_F16 ? tnk_f16_to_f32(h) : tnk_bf16_to_f32(h);
  return p + 2;
}

static uint32_t code_bits(const tnk_layout *lay) { return lay->kind == TNK_LAY_FLOAT8 ? 8 : lay->bits; }

static size_t offset_bytes(const tnk_layout *lay)
{
  if (lay->kind != TNK_LAY_AFFINE || lay->offset == TNK_OFF_NONE) return 0;
  return lay->offset == TNK_OFF_INT ? 1 : scalar_bytes(lay->scale_type);
}

static size_t head_bytes(const tnk_layout *lay, int64_t d)
{
  return (size_t)tnk_ref_groups(lay, d) * (scalar_bytes(lay->scale_type) + offset_bytes(lay));
}

size_t tnk_ref_entry_bytes(const tnk_layout *lay, int64_t d)
{
  if (lay->kind == TNK_LAY_DENSE) return (size_t)d * scalar_bytes(lay->dtype);
  return head_bytes(lay, d) + ((size_t)d * code_bits(lay) + 7) / 8;
}

static void put_code(uint8_t *codes, uint32_t bits, int64_t i, uint32_t code)
{
  if (bits == 8) {
    codes[i] = (uint8_t)code;
    return;
  }
  for (uint32_t b = 0; b < bits; b++) {
    const uint64_t at = (uint64_t)i * bits + b;
    const uint8_t one = (uint8_t)(1u << (at % 8));
    codes[at / 8] = (uint8_t)((code >> b & 1) ? codes[at / 8] | one : codes[at / 8] & ~one);
  }
}

static uint8_t get_code(const uint8_t *codes, uint32_t bits, int64_t i)
{
  const uint64_t at = (uint64_t)i * bits;
  const uint32_t two = codes[at / 8] | (at % 8 + bits > 8 ? (uint32_t)codes[at / 8 + 1] << 8 : 0);
  return (uint8_t)(two >> (at % 8) & ((1u << bits) - 1));
}

/* Codes [first, first + n) as bytes. */
static void get_codes(const uint8_t *codes, uint32_t bits, int64_t first, int64_t n, uint8_t *out)
{
  if (bits == 8)
    memcpy(out, codes + first, (size_t)n);
  else
    for (int64_t i = 0; i < n; i++) out[i] = get_code(codes, bits, first + i);
}

static float clamp(float x, float lo, float hi) { return fminf(fmaxf(x, lo), hi); }

/* A group's numbers: scale, its inverse, zero point or minimum (as stored). */
typedef struct group_scale {
  float s, r, offset;
} group_scale;

static float table_max(const tnk_layout *lay)
{
  float most = 0;
  for (uint32_t c = 0; c < 1u << lay->bits; c++) most = fmaxf(most, fabsf(lay->table[c]));
  return most;
}

/* The value that max|x| is mapped to. */
static float symmetric_max(const tnk_layout *lay)
{
  if (lay->kind == TNK_LAY_FLOAT8) return tnk_ref_fp8_max(lay->fp8);
  if (lay->kind == TNK_LAY_TABLE) return table_max(lay);
  return lay->bits > 1 ? (float)((1 << (lay->bits - 1)) - 1) : 1.0f;
}

static group_scale scale_of(const tnk_layout *lay, const float *x, int64_t n)
{
  const float most = (float)((1 << code_bits(lay)) - 1);
  group_scale g = {0, 0, 0};
  float lo = x[0], hi = x[0];
  for (int64_t i = 1; i < n; i++) {
    lo = fminf(lo, x[i]);
    hi = fmaxf(hi, x[i]);
  }
  if (lay->kind != TNK_LAY_AFFINE || lay->offset == TNK_OFF_NONE) {
    const float top = symmetric_max(lay);
    g.s = top > 0 ? fmaxf(-lo, hi) / top : 0;
  } else if (lay->offset == TNK_OFF_INT) {
    g.s = (fmaxf(hi, 0) - fminf(lo, 0)) / most;
  } else {
    g.offset = tnk_ref_round(lay->scale_type, lo);
    g.s = fmaxf(hi - g.offset, 0) / most;
  }
  g.s = tnk_ref_round(lay->scale_type, g.s);
  g.r = g.s > 0 ? 1.0f / g.s : 0;
  if (lay->kind == TNK_LAY_AFFINE && lay->offset == TNK_OFF_INT) {
    g.offset = clamp(rintf(-fminf(lo, 0) * g.r), 0, most);
  }
  return g;
}

static uint32_t nearest(const tnk_layout *lay, float x)
{
  uint32_t best = 0;
  for (uint32_t c = 1; c < 1u << lay->bits; c++) {
    if (fabsf(lay->table[c] - x) < fabsf(lay->table[best] - x)) best = c;
  }
  return best;
}

static uint32_t code_of(const tnk_layout *lay, group_scale g, float x)
{
  const float most = (float)((1 << code_bits(lay)) - 1), half = (float)(1 << (code_bits(lay) - 1));
  if (lay->kind == TNK_LAY_FLOAT8) return tnk_ref_fp8_encode(lay->fp8, x * g.r);
  if (lay->kind == TNK_LAY_TABLE) return nearest(lay, x * g.r);
  if (lay->offset == TNK_OFF_INT) return (uint32_t)clamp(rintf(x * g.r) + g.offset, 0, most);
  if (lay->offset == TNK_OFF_MIN) return (uint32_t)clamp(rintf((x - g.offset) * g.r), 0, most);
  return (uint32_t)(clamp(rintf(x * g.r), lay->bits == 8 ? -127.0f : -half, half - 1) + half);
}

void tnk_ref_entry_encode(const tnk_layout *lay, const float *x, int64_t d, uint8_t *entry)
{
  uint8_t *p = entry, *codes = entry + head_bytes(lay, d);
  if (lay->kind == TNK_LAY_DENSE) {
    for (int64_t i = 0; i < d; i++) p = put(lay->dtype, x[i], p);
    return;
  }
  const int64_t width = lay->group ? (int64_t)lay->group : d;
  for (int64_t i = 0; i < d; i += width) {
    const int64_t n = d - i < width ? d - i : width;
    const group_scale g = scale_of(lay, x + i, n);
    p = put(lay->scale_type, g.s, p);
    if (offset_bytes(lay) == 1)
      *p++ = (uint8_t)g.offset;
    else if (offset_bytes(lay))
      p = put(lay->scale_type, g.offset, p);
    for (int64_t j = i; j < i + n; j++) put_code(codes, code_bits(lay), j, code_of(lay, g, x[j]));
  }
}

void tnk_ref_entry_decode(const tnk_layout *lay, const uint8_t *entry, int64_t d, float *x)
{
  const uint8_t *p = entry, *codes = entry + head_bytes(lay, d);
  if (lay->kind == TNK_LAY_DENSE) {
    tnk_decode(lay->dtype, entry, x, (size_t)d);
    return;
  }
  const int64_t width = lay->group ? (int64_t)lay->group : d;
  tnk_layout group = *lay; /* of one group of unpacked codes */
  group.group = 0;
  for (int64_t i = 0; i < d; i += width) {
    float scale, offset = 0;
    p = get(lay->scale_type, p, &scale);
    if (offset_bytes(lay) == 1)
      offset = *p++;
    else if (offset_bytes(lay))
      p = get(lay->scale_type, p, &offset);
    const int64_t end = d - i < width ? d : i + width;
    for (int64_t j = i, n; j < end; j += n) {
      uint8_t some[64];
      n = end - j < 64 ? end - j : 64;
      get_codes(codes, code_bits(lay), j, n, some);
      tnk_ref_codes_decode(&group, &(tnk_codes){.codes = some, .scale = &scale, .offset = &offset}, n, &x[j]);
    }
  }
}
