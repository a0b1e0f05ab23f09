/* buffers: host memory behind opaque handles, and the slabs that panels are carved from. */
#include <string.h>
#include <sys/mman.h>

#include "cpu.h"

enum { HUGE_PAGE = 2 << 20, SLAB = 32 << 20 };

void *tn_cpu_big(tn_inst *in, uint64_t bytes)
{
  if (bytes < HUGE_PAGE) return in->host->alloc(in->host->ctx, bytes ? bytes : 1, CPU_LINE);
  void *p = in->host->alloc(in->host->ctx, bytes, HUGE_PAGE);
  if (p) (void)madvise(p, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE); /* without it, pages are small: no fault */
  return p;
}

/* ---------------------------------------------------------------- slabs */

struct cpu_slab {
  struct cpu_slab *next;
  uint8_t *data;
  uint64_t bytes, used;
  uint32_t users;
};

static struct cpu_slab *slab_new(tn_inst *in, uint64_t bytes)
{
  struct cpu_slab *s = tn_cpu_zalloc(in, 1, sizeof *s);
  if (!s) return NULL;
  s->bytes = bytes > SLAB ? bytes : SLAB;
  s->data = tn_cpu_big(in, s->bytes);
  if (!s->data) {
    tn_cpu_free(in, s);
    return NULL;
  }
  s->next = in->slabs;
  in->slabs = s;
  return s;
}

void *tn_cpu_slab_take(tn_inst *in, uint64_t bytes, struct cpu_slab **slab)
{
  struct cpu_slab *s = in->slabs;
  bytes = (bytes + CPU_LINE - 1) / CPU_LINE * CPU_LINE;
  if (!s || bytes > s->bytes - s->used) s = slab_new(in, bytes);
  if (!s) return NULL;
  void *p = s->data + s->used;
  s->used += bytes;
  s->users++;
  *slab = s;
  return p;
}

void tn_cpu_slab_give(tn_inst *in, struct cpu_slab *slab)
{
  if (!slab || --slab->users) return;
  struct cpu_slab **at = &in->slabs;
  while (*at != slab) at = &(*at)->next;
  *at = slab->next;
  tn_cpu_free(in, slab->data);
  tn_cpu_free(in, slab);
}

/* ---------------------------------------------------------------- buffers */

tn_status tn_cpu_buffer_new(tn_inst *in, uint64_t bytes, tn_buffer **out, tn_err *err)
{
  *out = NULL;
  tn_buffer *b = tn_cpu_zalloc(in, 1, sizeof *b);
  if (b) b->data = tn_cpu_zalloc(in, bytes, 1);
  if (!b || !b->data) {
    tn_cpu_free(in, b);
    return tn_cpu_fail(err, TN_E_NOMEM, "backend cpu: no memory for a buffer of %llu bytes", (unsigned long long)bytes);
  }
  b->bytes = bytes;
  *out = b;
  return TN_OK;
}

void tn_cpu_buffer_free(tn_inst *in, tn_buffer *b)
{
  if (!b) return;
  tn_cpu_slab_give(in, b->slab);
  tn_cpu_free(in, b->data);
  tn_cpu_free(in, b);
}

/* [offset, offset + bytes) lies inside the buffer. */
static bool inside(const tn_buffer *b, uint64_t offset, uint64_t bytes)
{
  return b && b->data && offset <= b->bytes && bytes <= b->bytes - offset;
}

tn_status tn_cpu_upload(tn_inst *in, tn_buffer *dst, uint64_t offset, const void *src, uint64_t bytes)
{
  (void)in;
  if (!inside(dst, offset, bytes)) return TN_E_ARG;
  if (bytes) memcpy(dst->data + offset, src, (size_t)bytes);
  return TN_OK;
}

tn_status tn_cpu_download(tn_inst *in, const tn_buffer *src, uint64_t offset, void *dst, uint64_t bytes)
{
  (void)in;
  if (!inside(src, offset, bytes)) return TN_E_ARG;
  if (bytes) memcpy(dst, src->data + offset, (size_t)bytes);
  return TN_OK;
}
