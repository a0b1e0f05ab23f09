/* codes: rows of a quantizer's codes back to f32. */
#include <math.h>

#include "fp8.h"
#include "layout.h"
#include "quant/dtype.h"

int64_t tnk_ref_groups(const tnk_layout *lay, int64_t k)
{
  return lay->group ? (k + (int64_t)lay->group - 1) / (int64_t)lay->group : 1;
}

float tnk_ref_round(uint32_t scale_type, float x)
{
  switch (scale_type) {
    case TNK_F16: return tnk_f16_to_f32(tnk_f32_to_f16(fminf(fmaxf(x, -65504.0f), 65504.0f)));
    case TNK_BF16: return tnk_bf16_to_f32(tnk_f32_to_bf16(x));
    default: return x;
  }
}

/* Scale and offset of group g; the offset is z for OFF_INT and OFF_NONE, m for OFF_MIN. */
static void group_of(const tnk_layout *lay, const tnk_codes *row, int64_t g, double *scale, double *offset)
{
  *scale = 0;
  *offset = lay->offset == TNK_OFF_NONE ? ldexp(1.0, (int)lay->bits - 1) : 0.0;
  if (!lay->super) {
    *scale = row->scale[g];
    if (lay->offset != TNK_OFF_NONE) *offset = row->offset[g];
    return;
  }
  const int64_t super = g / (int64_t)lay->super;
  *scale = (double)row->d[super] * row->sub_scale[g];
  if (lay->offset == TNK_OFF_MIN) *offset = -(double)row->dmin[super] * row->sub_offset[g];
}

static double value_of(const tnk_layout *lay, uint8_t code, double scale, double offset)
{
  switch (lay->kind) {
    case TNK_LAY_TABLE: return scale * (double)lay->table[code];
    case TNK_LAY_FLOAT8: return scale * (double)tnk_ref_fp8_decode(lay->fp8, code);
    default: return lay->offset == TNK_OFF_MIN ? scale * code + offset : scale * (code - offset);
  }
}

void tnk_ref_codes_decode(const tnk_layout *lay, const tnk_codes *row, int64_t k, float *out)
{
  const int64_t width = lay->group ? (int64_t)lay->group : k;
  for (int64_t i = 0; i < k; i += width) {
    double scale, offset;
    group_of(lay, row, i / width, &scale, &offset);
    const int64_t end = k - i < width ? k : i + width;
    if (lay->kind == TNK_LAY_AFFINE && lay->offset != TNK_OFF_MIN) {
      for (int64_t j = i; j < end; j++) out[j] = (float)(scale * (row->codes[j] - offset));
    } else {
      for (int64_t j = i; j < end; j++) out[j] = (float)value_of(lay, row->codes[j], scale, offset);
    }
  }
}
