/* buffers: host memory behind opaque handles. */
#include <string.h>

#include "ref.h"

tn_status tn_ref_buffer_new(tn_inst *in, uint64_t bytes, tn_buffer **out, tn_err *err)
{
  *out = NULL;
  tn_buffer *b = tn_ref_zalloc(in, 1, sizeof *b);
  if (b) b->data = tn_ref_zalloc(in, bytes, 1);
  if (!b || !b->data) {
    tn_ref_free(in, b);
    return tn_ref_fail(err, TN_E_NOMEM, "backend ref: no memory for a buffer of %llu bytes", (unsigned long long)bytes);
  }
  b->bytes = bytes;
  b->owned = true;
  *out = b;
  return TN_OK;
}

void tn_ref_buffer_free(tn_inst *in, tn_buffer *b)
{
  if (!b) return;
  if (b->owned) tn_ref_free(in, b->data);
  tn_ref_free(in, b);
}

/* [offset, offset + bytes) lies inside the buffer. */
static bool inside(const tn_buffer *b, uint64_t offset, uint64_t bytes)
{
  return b && b->data && offset <= b->bytes && bytes <= b->bytes - offset;
}

tn_status tn_ref_upload(tn_inst *in, tn_buffer *dst, uint64_t offset, const void *src, uint64_t bytes)
{
  (void)in;
  if (!inside(dst, offset, bytes) || !dst->owned) return TN_E_ARG;
  if (bytes) memcpy(dst->data + offset, src, (size_t)bytes);
  return TN_OK;
}

tn_status tn_ref_download(tn_inst *in, const tn_buffer *src, uint64_t offset, void *dst, uint64_t bytes)
{
  (void)in;
  if (!inside(src, offset, bytes)) return TN_E_ARG;
  if (bytes) memcpy(dst, src->data + offset, (size_t)bytes);
  return TN_OK;
}
