/* gguf_tensor: reads the tensor table and proves that every tensor lies inside the file. */
#include "gguf_int.h"

#include <stdlib.h>
#include <string.h>

#include "../../kernels/quant/dtype.h"

enum { DEFAULT_ALIGNMENT = 32, MIN_ALIGNMENT = 8, MAX_ALIGNMENT = 65536 };

/* Types that the format numbers and this reader does not take: named, so that the message says what the file holds. */
static const char *foreign_dtype(uint32_t dtype)
{
  static const struct {
    uint32_t dtype;
    const char *name;
  } table[] = {
      {4, "q4_2, removed from the format"},
      {5, "q4_3, removed from the format"},
      {9, "q8_1"},
      {15, "q8_K"},
      {16, "iq2_xxs"},
      {17, "iq2_xs"},
      {18, "iq3_xxs"},
      {19, "iq1_s"},
      {21, "iq3_s"},
      {22, "iq2_s"},
      {29, "iq1_m"},
      {31, "q4_0_4_4, removed from the format"},
      {32, "q4_0_4_8, removed from the format"},
      {33, "q4_0_8_8, removed from the format"},
      {34, "tq1_0"},
      {35, "tq2_0"},
      {39, "mxfp4"},
      {40, "nvfp4"},
  };
  for (size_t i = 0; i < TN_ARRAY_LEN(table); i++) {
    if (table[i].dtype == dtype) return table[i].name;
  }
  return "no known type";
}

static tn_status read_alignment(const tn_gguf_part *part, tn_err *err, size_t *out)
{
  *out = DEFAULT_ALIGNMENT;
  const tn_gguf_kv *kv = tn_gguf_kv_find(part, "general.alignment");
  if (!kv) return TN_OK;
  if (kv->type != TN_GGUF_U32) {
    return tn_gguf_fail(part, err, TN_E_ARG, "general.alignment has type %u, the format wants %d (uint32)", kv->type,
                        TN_GGUF_U32);
  }
  uint32_t a;
  memcpy(&a, kv->data, sizeof a);
  if (a < MIN_ALIGNMENT || a > MAX_ALIGNMENT || (a & (a - 1)) != 0) {
    return tn_gguf_fail(part, err, TN_E_ARG, "general.alignment is %u, not a power of two from %d to %d", a,
                        MIN_ALIGNMENT, MAX_ALIGNMENT);
  }
  *out = a;
  return TN_OK;
}

/* Bytes of a tensor from its shape; also refuses shapes that no memory could hold. */
static tn_status measure(tn_gguf_cursor *c, tn_gguf_tensor *t, const char *name)
{
  tnk_dtype_info info = tnk_dtype(t->dtype);
  if (!info.name) {
    return tn_gguf_fail(c->part, c->err, TN_E_UNSUPPORTED, "tensor '%s' has type %u (%s), which is not supported", name,
                        t->dtype, foreign_dtype(t->dtype));
  }
  if (t->ne[0] % info.block != 0) {
    return tn_gguf_fail(c->part, c->err, TN_E_ARG,
                        "tensor '%s' has rows of %lld elements, not a multiple of the %u in a block of %s", name,
                        (long long)t->ne[0], info.block, info.name);
  }
  uint64_t bytes = (uint64_t)t->ne[0] / info.block;
  int64_t elements = 1;
  bool fits = !__builtin_mul_overflow(bytes, info.block_bytes, &bytes);
  for (uint32_t d = 0; d < 4; d++) {
    fits = fits && !__builtin_mul_overflow(elements, t->ne[d], &elements);
    if (d > 0) fits = fits && !__builtin_mul_overflow(bytes, (uint64_t)t->ne[d], &bytes);
  }
  if (!fits || bytes > INT64_MAX) {
    return tn_gguf_fail(c->part, c->err, TN_E_ARG,
                        "tensor '%s' of %lld x %lld x %lld x %lld elements overflows 63 bits", name,
                        (long long)t->ne[0], (long long)t->ne[1], (long long)t->ne[2], (long long)t->ne[3]);
  }
  t->bytes = bytes;
  return TN_OK;
}

static tn_status read_shape(tn_gguf_cursor *c, tn_gguf_tensor *t, const char *name)
{
  tn_status st = tn_gguf_take_u32(c, "the tensor table", &t->n_dims);
  if (st != TN_OK) return st;
  if (t->n_dims < 1 || t->n_dims > 4) {
    return tn_gguf_fail(c->part, c->err, TN_E_ARG, "tensor '%s' has %u dimensions, the format allows 1 to 4", name,
                        t->n_dims);
  }
  for (uint32_t d = 0; d < 4; d++) {
    uint64_t ne = 1;
    if (d < t->n_dims) st = tn_gguf_take_u64(c, "the tensor table", &ne);
    if (st != TN_OK) return st;
    if (ne < 1 || ne > INT64_MAX) {
      return tn_gguf_fail(c->part, c->err, TN_E_ARG, "tensor '%s' has %llu elements in dimension %u, not 1 to 2^63-1",
                          name, (unsigned long long)ne, d);
    }
    t->ne[d] = (int64_t)ne;
  }
  return TN_OK;
}

/* One entry of the table: name, shape, type, offset from the start of the data section. */
static tn_status read_info(tn_gguf_cursor *c, tn_gguf_tensor *t, size_t alignment, uint64_t *offset)
{
  char name[72];
  tn_status st = tn_gguf_take_str(c, "the tensor table", &t->name);
  if (st != TN_OK) return st;
  if (t->name.n == 0) return tn_gguf_fail(c->part, c->err, TN_E_ARG, "a tensor has an empty name");
  tn_gguf_show(t->name, name);
  st = read_shape(c, t, name);
  if (st == TN_OK) st = tn_gguf_take_u32(c, "the tensor table", &t->dtype);
  if (st == TN_OK) st = tn_gguf_take_u64(c, "the tensor table", offset);
  if (st == TN_OK) st = measure(c, t, name);
  if (st == TN_OK && *offset % alignment != 0) {
    return tn_gguf_fail(c->part, c->err, TN_E_ARG, "tensor '%s' has offset %llu, not a multiple of the alignment %zu",
                        name, (unsigned long long)*offset, alignment);
  }
  return st;
}

/* Points every tensor at its bytes. The message of a short file names the tensor that ends last, and both sizes. */
static tn_status place(tn_gguf_part *part, tn_err *err, const uint64_t *offsets, size_t data_off)
{
  uint64_t need = 0, last = 0;
  for (uint64_t i = 0; i < part->n_tensors; i++) {
    uint64_t end;
    if (__builtin_add_overflow(offsets[i], part->tensors[i].bytes, &end) ||
        __builtin_add_overflow(end, (uint64_t)data_off, &end)) {
      end = UINT64_MAX;
    }
    if (end > need) {
      need = end;
      last = i;
    }
  }
  if (need > part->size) {
    char name[72];
    return tn_gguf_fail(part, err, TN_E_IO,
                        "the file is truncated or its tensor table is wrong: tensor '%s' (offset %llu, %llu bytes) "
                        "ends at byte %llu, the file has %zu bytes",
                        tn_gguf_show(part->tensors[last].name, name), (unsigned long long)offsets[last],
                        (unsigned long long)part->tensors[last].bytes, (unsigned long long)need, part->size);
  }
  for (uint64_t i = 0; i < part->n_tensors; i++) {
    part->tensors[i].data = part->base + data_off + (size_t)offsets[i];
  }
  return TN_OK;
}

tn_status tn_gguf_read_tensors(tn_gguf_part *part, tn_gguf_cursor *c)
{
  size_t alignment;
  tn_status st = read_alignment(part, c->err, &alignment);
  if (st != TN_OK) return st;
  part->tensors = tn_zalloc((size_t)part->n_tensors, sizeof *part->tensors);
  uint64_t *offsets = tn_zalloc((size_t)part->n_tensors, sizeof *offsets);
  if (!part->tensors || !offsets) {
    st = tn_gguf_fail(part, c->err, TN_E_NOMEM, "no memory for %llu tensors", (unsigned long long)part->n_tensors);
  }
  for (uint64_t i = 0; st == TN_OK && i < part->n_tensors; i++) {
    st = read_info(c, &part->tensors[i], alignment, &offsets[i]);
  }
  part->meta_bytes = c->pos;
  size_t pad = (alignment - c->pos % alignment) % alignment;
  if (st == TN_OK && part->n_tensors > 0) st = place(part, c->err, offsets, c->pos + pad);
  free(offsets);
  return st;
}
