/* weights: vectors become f32; matrices become panels, packed on all threads; rows come back bit by bit. */
#include <stdio.h>
#include <string.h>

#include "cpu.h"
#include "quant/dtype.h"

_Static_assert((int)TNK_F16 == (int)TN_DT_F16 && (int)TNK_Q4_1 == (int)TN_DT_Q4_1 && (int)TNK_Q6_K == (int)TN_DT_Q6_K &&
                   (int)TNK_IQ4_XS == (int)TN_DT_IQ4_XS && (int)TNK_BF16 == (int)TN_DT_BF16,
               "kernels and plugin API number dtypes alike");

void tn_cpu_weight_free(tn_inst *in, tn_tensor *w)
{
  if (!w || !w->buf) return;
  tn_cpu_buffer_free(in, w->buf);
  w->buf = NULL;
}

/* Vectors become f32 at once, so that norms and biases are plain arrays. */
static tn_status load_vector(tn_inst *in, const tn_weight_src *src, uint32_t dtype, tn_tensor *out, tn_err *err)
{
  const uint64_t n = (uint64_t)src->k * (uint64_t)src->n;
  tn_status st = tn_cpu_buffer_new(in, n * sizeof(float), &out->buf, err);
  if (st) return st;
  tnk_decode(dtype, src->data, (float *)(void *)out->buf->data, (size_t)n);
  out->dtype = TN_DT_F32;
  out->nb[0] = sizeof(float);
  out->nb[1] = src->k * (int64_t)sizeof(float);
  return TN_OK;
}

/* ---------------------------------------------------------------- panels, kept or not */

enum { LAYOUT = 1 }; /* version of kernels/cpu/panel.h's layout: panels kept under another are not found */

static void form_of(const tnk_panels *p, char out[96])
{
  const tnk_fmt *f = &p->fmt;
  snprintf(out, 96, "cpu panels %d: %u %u %u %u %u %u %u %u", LAYOUT, f->kind, f->bits, f->scale, f->offset, f->sub,
           f->iq4, f->group16, f->rec_blocks);
}

tn_status tn_cpu_panels_new(tn_inst *in, const tn_weight_src *src, tnk_panels *p, tn_tensor *out, bool *kept,
                            tn_err *err)
{
  const size_t bytes = tnk_panels_size(p);
  char form[96];
  *kept = (src->flags & TN_WF_KEPT) != 0;
  if (*kept) {
    form_of(p, form);
    const bool asked = in->cache && TN_CAN(src, key);
    p->data = asked ? (uint8_t *)(uintptr_t)in->cache->get(in->host->ctx, form, src->key, bytes) : NULL;
    if (!p->data) return tn_cpu_fail(err, TN_E_STATE, "weight %s: its panels are not kept", src->name);
  }
  tn_buffer *b = tn_cpu_zalloc(in, 1, sizeof *b);
  if (b && !*kept) p->data = tn_cpu_slab_take(in, bytes, &b->slab);
  if (!b || !p->data) {
    tn_cpu_free(in, b);
    return tn_cpu_fail(err, TN_E_NOMEM, "weight %s: no memory for %zu bytes", src->name, bytes);
  }
  b->panels = *p;
  out->buf = b;
  return TN_OK;
}

void tn_cpu_panels_keep(tn_inst *in, const tn_weight_src *src, const tnk_panels *p)
{
  char form[96];
  if (!in->cache || !TN_CAN(src, key)) return;
  form_of(p, form);
  in->cache->put(in->host->ctx, form, src->key, p->data, p->panel_bytes * (size_t)p->panels);
}

/* ---------------------------------------------------------------- bytes as in the file */

enum { PIECE = 4 << 20 }; /* bytes of panels after which the rows they were made of are let go */

typedef struct pack_job {
  const tnk_panels *p;
  uint32_t dtype;
  const tn_weight_src *src;
} pack_job;

static void pack_share(void *arg, uint32_t worker, uint32_t n_workers)
{
  const pack_job *j = arg;
  int64_t first, last;
  tn_cpu_share(j->p->panels, worker, n_workers, &first, &last);
  const int64_t step = 1 + (int64_t)(PIECE / j->p->panel_bytes);
  for (int64_t from = first, to; from < last; from = to) {
    to = from + step < last ? from + step : last;
    for (int64_t i = from; i < to; i++) tnk_pack_file(j->p, i, j->dtype, j->src->data);
    const int64_t row = from * TNK_PANEL, end = to * TNK_PANEL < j->p->n ? to * TNK_PANEL : j->p->n;
    if (TN_CAN(j->src, read)) j->src->read(j->src, row, end - row);
  }
}

static tn_status load_bytes(tn_inst *in, const tn_weight_src *src, tn_tensor *out, tn_err *err)
{
  const uint32_t dtype = src->kind == TN_W_F32 ? (uint32_t)TN_DT_F32 : src->dtype;
  const tnk_dtype_info info = tnk_dtype(dtype);
  tnk_panels p = {.n = src->n, .k = src->k};
  if (!info.decodes || !tnk_fmt_of(dtype, &p.fmt)) {
    return tn_cpu_fail(err, TN_E_UNSUPPORTED, "weight %s: dtype %u (%s) cannot be decoded", src->name, dtype,
                       info.name ? info.name : "unknown");
  }
  if (src->k % info.block) {
    return tn_cpu_fail(err, TN_E_ARG, "weight %s: %lld columns are no multiple of the %u of a %s block", src->name,
                       (long long)src->k, info.block, info.name);
  }
  const uint64_t row = (uint64_t)src->k / info.block * info.block_bytes, bytes = row * (uint64_t)src->n;
  const bool given = !(src->flags & TN_WF_KEPT);
  if (given && (!src->data || src->bytes < bytes)) {
    return tn_cpu_fail(err, TN_E_ARG, "weight %s: %llu bytes given, %lld x %lld of %s take %llu", src->name,
                       (unsigned long long)(src->data ? src->bytes : 0), (long long)src->n, (long long)src->k,
                       info.name, (unsigned long long)bytes);
  }
  if (given && (src->n == 1 || src->k == 1)) return load_vector(in, src, dtype, out, err);
  bool kept;
  tn_status st = tn_cpu_panels_new(in, src, &p, out, &kept, err);
  if (st) return st;
  if (!kept) {
    pack_job job = {&p, dtype, src};
    tn_cpu_gang(in, pack_share, &job);
    tn_cpu_panels_keep(in, src, &p);
  }
  out->dtype = dtype;
  out->nb[0] = info.block_bytes;
  out->nb[1] = (int64_t)row;
  return TN_OK;
}

/* ---------------------------------------------------------------- the slot's calls */

tn_status tn_cpu_weight_load(tn_inst *in, const tn_weight_src *src, tn_tensor *out, tn_err *err)
{
  *out = (tn_tensor){.struct_size = sizeof *out, .ne = {src->k, src->n, 1, 1}};
  if (src->n < 1 || src->k < 1 || src->n > INT64_MAX / 256 / src->k) {
    return tn_cpu_fail(err, TN_E_ARG, "weight %s: shape %lld x %lld", src->name, (long long)src->n, (long long)src->k);
  }
  tn_status st;
  switch (src->kind) {
    case TN_W_FILE:
    case TN_W_F32: st = load_bytes(in, src, out, err); break;
    case TN_W_CODES: st = tn_cpu_codes_load(in, src, out, err); break;
    default: st = tn_cpu_fail(err, TN_E_ARG, "weight %s: source kind %u", src->name, src->kind); break;
  }
  out->nb[2] = out->nb[3] = out->nb[1] * src->n;
  return st;
}

bool tn_cpu_weight_panels(const tn_tensor *w, tnk_panels *out)
{
  if (!w || !w->buf || w->ne[0] < 1 || w->ne[1] < 1 || w->ne[2] != 1 || w->ne[3] != 1) return false;
  const tn_buffer *b = w->buf;
  if (!b->data) {
    *out = b->panels;
    return w->offset == 0 && b->panels.k == w->ne[0] && b->panels.n == w->ne[1];
  }
  const uint64_t row = (uint64_t)w->ne[0] * sizeof(float);
  if (w->dtype != TN_DT_F32 || (uint64_t)w->nb[1] != row || w->offset % sizeof(float)) return false;
  if (w->offset > b->bytes || (b->bytes - w->offset) / row < (uint64_t)w->ne[1]) return false;
  *out = (tnk_panels){.fmt = {.kind = TNK_MATRIX}, .n = w->ne[1], .k = w->ne[0], .data = b->data + w->offset};
  tnk_panels_size(out);
  return true;
}

tn_status tn_cpu_weight_read(tn_inst *in, const tn_tensor *w, int64_t row0, int64_t n_rows, float *dst)
{
  tnk_panels p;
  (void)in;
  if (!tn_cpu_weight_panels(w, &p) || row0 < 0 || n_rows < 0 || row0 > w->ne[1] - n_rows) return TN_E_ARG;
  for (int64_t r = 0; r < n_rows; r++) tnk_panel_row(&p, row0 + r, dst + r * w->ne[0]);
  return TN_OK;
}

const float *tn_cpu_weight_vector(const tn_tensor *w, int64_t n)
{
  if (!w || !w->buf || !w->buf->data || w->dtype != TN_DT_F32 || w->ne[0] * w->ne[1] != n) return NULL;
  if (w->offset % sizeof(float) || w->offset + (uint64_t)n * sizeof(float) > w->buf->bytes) return NULL;
  return (const float *)(const void *)(w->buf->data + w->offset);
}
