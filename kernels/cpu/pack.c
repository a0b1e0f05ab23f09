/* pack: rows of a file's tensor to panels. A row is read in one stream and its dwords are scattered over the panel's
 * lines, which stay in the first-level cache for all 16 rows. No value changes. */
#include "panel_int.h"

#include "../quant/dtype.h"
#include "pack_int.h"

/* Row r of a panel: blocks of 32 with one f16 scale, and an f16 offset where there is one. */
static void pack_legacy(const tnk_panels *p, uint8_t *panel, int64_t r, uint32_t dtype, const uint8_t *src)
{
  const tnk_fmt *f = &p->fmt;
  const tnk_rec at = tnk_record(f, f->rec_blocks);
  const uint32_t lines = tnk_lines(f->bits), step = tnk_dtype(dtype).block_bytes;
  for (int64_t b = 0; b < p->blocks; b++, src += step) {
    const int64_t index = b / f->rec_blocks, j = b % f->rec_blocks, left = p->blocks - index * f->rec_blocks;
    const int64_t nb = left < f->rec_blocks ? left : f->rec_blocks;
    const tnk_rec here = nb == f->rec_blocks ? at : tnk_record(f, nb);
    uint8_t *rec = panel + (size_t)index * at.bytes;
    uint32_t dw[8];
    tnk_file_block(dtype, src, dw);
    tnk_put_lines(rec + (size_t)j * lines * TNK_LINE, r, lines, dw);
    memcpy(rec + here.scales + (size_t)(j * TNK_PANEL + r) * 2, src, 2);
    if (f->offset == TNK_O_MIN) memcpy(rec + here.offsets + (size_t)(j * TNK_PANEL + r) * 2, src + 2, 2);
  }
}

/* Row r of a panel: super-blocks of 256 with two-level scales; a record is a super-block. */
static void pack_super(const tnk_panels *p, uint8_t *panel, int64_t r, uint32_t dtype, const uint8_t *src)
{
  const tnk_fmt *f = &p->fmt;
  const tnk_rec at = tnk_record(f, f->rec_blocks);
  const uint32_t lines = tnk_lines(f->bits), step = tnk_dtype(dtype).block_bytes;
  const int groups = 16 / f->group16;
  for (int64_t s = 0; s < p->blocks / f->rec_blocks; s++, src += step) {
    uint8_t *rec = panel + (size_t)s * at.bytes;
    tnk_super x;
    tnk_file_super(dtype, src, &x);
    for (uint32_t j = 0; j < f->rec_blocks; j++) {
      uint32_t dw[8];
      tnk_place(f->bits, x.code + j * TNK_BLOCK, dw);
      tnk_put_lines(rec + (size_t)j * lines * TNK_LINE, r, lines, dw);
    }
    for (int g = 0; g < groups; g++) rec[at.scales + (size_t)(g * TNK_PANEL + r)] = x.scale[g];
    memcpy(rec + at.d + (size_t)r * 2, &x.d, 2);
    if (f->offset == TNK_O_ZERO) continue;
    memcpy(rec + at.dmin + (size_t)r * 2, &x.dmin, 2);
    if (f->sub == TNK_SUB_NIBBLES) continue;
    for (int g = 0; g < groups; g++) rec[at.offsets + (size_t)(g * TNK_PANEL + r)] = x.offset[g];
  }
}

/* Row r of a FLOAT panel. */
static void pack_numbers(const tnk_panels *p, uint8_t *panel, int64_t r, const uint8_t *src)
{
  const size_t bytes = tnk_scale_bytes(p->fmt.scale);
  for (size_t k = 0; k < (size_t)p->k; k++) memcpy(panel + (k * TNK_PANEL + (size_t)r) * bytes, src + k * bytes, bytes);
}

void tnk_pack_file(const tnk_panels *p, int64_t panel, uint32_t dtype, const void *src)
{
  const tnk_dtype_info info = tnk_dtype(dtype);
  const size_t row_bytes = (size_t)p->k / info.block * info.block_bytes;
  uint8_t *dst = p->data + (size_t)panel * p->panel_bytes;
  const int64_t row0 = panel * TNK_PANEL, rows = p->n - row0 < TNK_PANEL ? p->n - row0 : TNK_PANEL;
  if (rows < TNK_PANEL) memset(dst, 0, p->panel_bytes);
  for (int64_t r = 0; r < rows; r++) {
    const uint8_t *row = (const uint8_t *)src + (size_t)(row0 + r) * row_bytes;
    if (p->fmt.kind == TNK_FLOAT)
      pack_numbers(p, dst, r, row);
    else if (info.block == 256)
      pack_super(p, dst, r, dtype, row);
    else
      pack_legacy(p, dst, r, dtype, row);
  }
}

void tnk_pack_f32(const tnk_panels *p, int64_t panel, const float *src) { tnk_pack_file(p, panel, TNK_F32, src); }
