/* exec_null: see exec_null.h. */
#include "exec_null.h"

#include <stdlib.h>
#include <string.h>

struct tn_inst {
  uint32_t n_pools, reserved0;
  uint64_t page_bytes[]; /* [n_pools] */
};

struct tn_buffer { /* bytes that nobody stores */
  uint64_t bytes;
};

struct tn_kv {
  uint32_t n_pools, reserved0;
};

struct tn_prepared {
  uint32_t n_acts, max_rows, max_out, reserved0;
  tn_buffer nothing;
  tn_tensor act[]; /* [n_acts] */
};

tn_inst *tn_null_new(const uint64_t *page_bytes, uint32_t n_pools, uint32_t share, uint32_t of)
{
  tn_inst *self = tn_zalloc(1, sizeof *self + n_pools * sizeof *page_bytes);
  if (!self) return NULL;
  self->n_pools = n_pools;
  for (uint32_t p = 0; p < n_pools; p++) self->page_bytes[p] = page_bytes[p] * share / of;
  return self;
}

void tn_null_free(tn_inst *self) { free(self); }

static tn_status info(tn_inst *self, tn_backend_info *out)
{
  (void)self;
  *out = (tn_backend_info){.struct_size = sizeof *out, .device = "none: nothing is computed"};
  return TN_OK;
}

static tn_status buffer_new(tn_inst *self, uint64_t bytes, tn_buffer **out, tn_err *err)
{
  (void)self;
  *out = tn_zalloc(1, sizeof **out);
  if (!*out) return tn_fail(err, TN_E_NOMEM, "no memory for a buffer's handle");
  (*out)->bytes = bytes;
  return TN_OK;
}

static void buffer_free(tn_inst *self, tn_buffer *b)
{
  (void)self;
  free(b);
}

static tn_status upload(tn_inst *self, tn_buffer *dst, uint64_t offset, const void *src, uint64_t bytes)
{
  (void)self, (void)dst, (void)offset, (void)src, (void)bytes;
  return TN_OK;
}

static tn_status download(tn_inst *self, const tn_buffer *src, uint64_t offset, void *dst, uint64_t bytes)
{
  (void)self, (void)src, (void)offset;
  memset(dst, 0, (size_t)bytes);
  return TN_OK;
}

static tn_status sync_all(tn_inst *self)
{
  (void)self;
  return TN_OK;
}

static tn_status weight_load(tn_inst *self, const tn_weight_src *src, tn_tensor *out, tn_err *err)
{
  (void)self, (void)err;
  *out = (tn_tensor){.struct_size = sizeof *out,
                     .dtype = TN_DT_F32,
                     .ne = {src->k, src->n, 1, 1},
                     .nb = {4, 4 * src->k, 4 * src->k * src->n, 4 * src->k * src->n}};
  return TN_OK;
}

static void weight_free(tn_inst *self, tn_tensor *t) { (void)self, (void)t; }

static tn_status weight_read(tn_inst *self, const tn_tensor *t, int64_t row0, int64_t n_rows, float *dst)
{
  (void)self, (void)row0;
  memset(dst, 0, (size_t)(t->ne[0] * n_rows) * sizeof *dst);
  return TN_OK;
}

static tn_status kv_open(tn_inst *self, const tn_kv_plan *plan, tn_kv **out, tn_err *err)
{
  (void)self;
  *out = tn_zalloc(1, sizeof **out);
  if (!*out) return tn_fail(err, TN_E_NOMEM, "no memory for the cache's handle");
  (*out)->n_pools = plan->n_pools;
  return TN_OK;
}

static void kv_close(tn_inst *self, tn_kv *kv)
{
  (void)self;
  free(kv);
}

static uint64_t kv_page_bytes(tn_inst *self, const tn_kv *kv, uint32_t pool)
{
  (void)kv;
  return pool < self->n_pools ? self->page_bytes[pool] : 0;
}

static tn_status kv_move(tn_inst *self, tn_kv *kv, const tn_kv_moves *m)
{
  (void)self, (void)kv, (void)m;
  return TN_OK;
}

static tn_status kv_page_read(tn_inst *self, const tn_kv *kv, uint32_t pool, int32_t page, void *dst)
{
  (void)page;
  memset(dst, 0, (size_t)kv_page_bytes(self, kv, pool));
  return TN_OK;
}

static tn_status kv_page_write(tn_inst *self, tn_kv *kv, uint32_t pool, int32_t page, const void *src)
{
  (void)self, (void)kv, (void)pool, (void)page, (void)src;
  return TN_OK;
}

static tn_status state_reset(tn_inst *self, tn_kv *kv, uint32_t group, int32_t state)
{
  (void)self, (void)kv, (void)group, (void)state;
  return TN_OK;
}

static tn_status state_fold(tn_inst *self, tn_kv *kv, uint32_t group, const tn_kv_view *view)
{
  (void)self, (void)kv, (void)group, (void)view;
  return TN_OK;
}

static tn_status prepare(tn_inst *self, const tn_program *program, const tn_prepare *p, tn_kv *kv, tn_prepared **out,
                         tn_err *err)
{
  (void)self, (void)kv;
  *out = malloc(sizeof **out + program->n_acts * sizeof(tn_tensor));
  if (!*out) return tn_fail(err, TN_E_NOMEM, "no memory for the handles of %u activations", program->n_acts);
  **out = (tn_prepared){.n_acts = program->n_acts, .max_rows = p->max_rows, .max_out = p->max_out};
  for (uint32_t i = 0; i < program->n_acts; i++) {
    const tn_act *a = program->acts[i];
    int64_t rows = a->rows == TN_ROWS_OUT ? p->max_out : p->max_rows, row = 4 * a->cols;
    (*out)->act[i] = (tn_tensor){.struct_size = sizeof(tn_tensor),
                                 .dtype = TN_DT_F32,
                                 .buf = &(*out)->nothing,
                                 .ne = {a->cols, rows, 1, 1},
                                 .nb = {4, row, row * rows, row * rows}};
  }
  return TN_OK;
}

static void prepared_free(tn_inst *self, tn_prepared *p)
{
  (void)self;
  free(p);
}

static tn_status run(tn_inst *self, tn_prepared *p, uint32_t first, uint32_t last, const tn_batch *b)
{
  (void)self, (void)first, (void)last;
  return b->n_rows <= p->max_rows && b->n_out <= p->max_out ? TN_OK : TN_E_ARG;
}

static tn_status act(tn_inst *self, tn_prepared *p, uint32_t index, tn_tensor *out)
{
  (void)self;
  if (index >= p->n_acts) return TN_E_ARG;
  *out = p->act[index];
  return TN_OK;
}

static tn_status op(tn_inst *self, const tn_op *o, const tn_tensor *const *in, const tn_tensor *const *out,
                    const tn_tensor *const *weights, int64_t n_rows)
{
  (void)self, (void)o, (void)in, (void)out, (void)weights, (void)n_rows;
  return TN_OK;
}

const tn_backend_v1 tn_null_backend = {.struct_size = sizeof tn_null_backend,
                                       .info = info,
                                       .buffer_new = buffer_new,
                                       .buffer_free = buffer_free,
                                       .upload = upload,
                                       .download = download,
                                       .sync = sync_all,
                                       .weight_load = weight_load,
                                       .weight_free = weight_free,
                                       .weight_read = weight_read,
                                       .kv_open = kv_open,
                                       .kv_close = kv_close,
                                       .kv_page_bytes = kv_page_bytes,
                                       .kv_move = kv_move,
                                       .kv_page_read = kv_page_read,
                                       .kv_page_write = kv_page_write,
                                       .state_reset = state_reset,
                                       .state_fold = state_fold,
                                       .prepare = prepare,
                                       .prepared_free = prepared_free,
                                       .run = run,
                                       .act = act,
                                       .op = op};
