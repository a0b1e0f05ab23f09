/* my_plugin: a backend to begin with: host memory, f32 weights, three operations in plain C.
 *
 * Paper    -
 * Maths    LINEAR y = x w^T, ADD y = a + b, SCALE y = c x
 * Result   exact
 * Cost     one thread
 * Needs    -        Conflicts  -
 * Options  -
 *
 * It serves single operations (op); whole programs and a cache come next: kv_open, then prepare and run, record by
 * record in the order of TN_OP_*. Until then they refuse with a sentence. Tokens go into `provides` as they come true.
 */
#include <string.h>

#include <tenon/plugin_api.h>

struct tn_inst {
  const tn_host *host;
};

struct tn_buffer {
  uint64_t bytes;
  unsigned char *data;
};

static tn_status refuse(tn_err *err, const char *text)
{
  err->code = TN_E_UNSUPPORTED;
  strncpy(err->msg, text, sizeof err->msg - 1);
  err->msg[sizeof err->msg - 1] = '\0';
  return TN_E_UNSUPPORTED;
}

/* ---- buffers */

static tn_status info(tn_inst *self, tn_backend_info *out)
{
  (void)self;
  out->max_rows = 0;
  out->host_memory = 1;
  out->device = "plain C, 1 thread";
  return TN_OK;
}

static void buffer_free(tn_inst *self, tn_buffer *b)
{
  if (!b) return;
  self->host->free_(self->host->ctx, b->data);
  self->host->free_(self->host->ctx, b);
}

static tn_status buffer_new(tn_inst *self, uint64_t bytes, tn_buffer **out, tn_err *err)
{
  const tn_host *host = self->host;
  (void)err;
  *out = NULL;
  tn_buffer *b = host->alloc(host->ctx, sizeof *b, 8);
  if (!b) return TN_E_NOMEM;
  b->bytes = bytes;
  b->data = host->alloc(host->ctx, bytes ? bytes : 1, 64);
  if (!b->data) {
    buffer_free(self, b);
    return TN_E_NOMEM;
  }
  *out = b;
  return TN_OK;
}

static tn_status upload(tn_inst *self, tn_buffer *dst, uint64_t offset, const void *src, uint64_t bytes)
{
  (void)self;
  if (offset > dst->bytes || bytes > dst->bytes - offset) return TN_E_ARG;
  memcpy(dst->data + offset, src, bytes);
  return TN_OK;
}

static tn_status download(tn_inst *self, const tn_buffer *src, uint64_t offset, void *dst, uint64_t bytes)
{
  (void)self;
  if (offset > src->bytes || bytes > src->bytes - offset) return TN_E_ARG;
  memcpy(dst, src->data + offset, bytes);
  return TN_OK;
}

static tn_status sync(tn_inst *self)
{
  (void)self;
  return TN_OK;
}

/* ---- weights */

static tn_status weight_load(tn_inst *self, const tn_weight_src *src, tn_tensor *out, tn_err *err)
{
  tn_buffer *b;
  if (src->kind == TN_W_CODES || (src->kind == TN_W_FILE && src->dtype != TN_DT_F32))
    return refuse(err, "my_plugin holds weights in f32 only");
  tn_status st = buffer_new(self, (uint64_t)(src->n * src->k) * sizeof(float), &b, err);
  if (st != TN_OK) return st;
  memcpy(b->data, src->data, b->bytes);
  out->dtype = TN_DT_F32;
  out->buf = b;
  out->offset = 0;
  out->ne[0] = src->k;
  out->ne[1] = src->n;
  out->ne[2] = out->ne[3] = 1;
  out->nb[0] = sizeof(float);
  for (int i = 1; i < 4; i++) out->nb[i] = out->nb[i - 1] * out->ne[i - 1];
  out->layout = NULL;
  return TN_OK;
}

static void weight_free(tn_inst *self, tn_tensor *w)
{
  if (!w) return;
  buffer_free(self, w->buf);
  w->buf = NULL;
}

static tn_status weight_read(tn_inst *self, const tn_tensor *w, int64_t row0, int64_t n_rows, float *dst)
{
  return download(self, w->buf, (uint64_t)(row0 * w->nb[1]), dst, (uint64_t)(n_rows * w->nb[1]));
}

/* ---- one operation */

static float *at(const tn_tensor *t) { return (float *)(void *)(t->buf->data + t->offset); }

static void linear(const float *x, const float *w, int64_t rows, int64_t n, int64_t k, float *y)
{
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < n; i++) {
      double sum = 0;
      for (int64_t j = 0; j < k; j++) sum += (double)x[r * k + j] * (double)w[i * k + j];
      y[r * n + i] = (float)sum;
    }
}

static tn_status op(tn_inst *self, const tn_op *o, const tn_tensor *const *in, const tn_tensor *const *out,
                    const tn_tensor *const *weights, int64_t n_rows)
{
  int64_t n = n_rows * out[0]->ne[0];
  float *y = at(out[0]);
  switch (o->kind) {
    case TN_OP_LINEAR:
      if (o->w[1] >= 0) return TN_E_UNSUPPORTED;
      linear(at(in[0]), at(weights[0]), n_rows, o->p.linear.n, o->p.linear.k, y);
      break;
    case TN_OP_ADD:
      for (int64_t i = 0; i < n; i++) y[i] = at(in[0])[i] + at(in[1])[i];
      break;
    case TN_OP_SCALE:
      for (int64_t i = 0; i < n; i++) y[i] = (float)(at(in[0])[i] * o->p.scale.x);
      break;
    default: return TN_E_UNSUPPORTED;
  }
  self->host->count(self->host->ctx, 0, (uint64_t)n_rows);
  return TN_OK;
}

/* ---- cache and programs: not yet */

static tn_status kv_open(tn_inst *self, const tn_kv_plan *plan, tn_kv **out, tn_err *err)
{
  (void)self, (void)plan;
  *out = NULL;
  return refuse(err, "my_plugin has no cache for keys and values yet");
}

static void kv_close(tn_inst *self, tn_kv *kv) { (void)self, (void)kv; }

static uint64_t kv_page_bytes(tn_inst *self, const tn_kv *kv, uint32_t pool)
{
  (void)self, (void)kv, (void)pool;
  return 0;
}

static tn_status kv_move(tn_inst *self, tn_kv *kv, const tn_kv_moves *moves)
{
  (void)self, (void)kv, (void)moves;
  return TN_E_UNSUPPORTED;
}

static tn_status kv_page_read(tn_inst *self, const tn_kv *kv, uint32_t pool, int32_t page, void *dst)
{
  (void)self, (void)kv, (void)pool, (void)page, (void)dst;
  return TN_E_UNSUPPORTED;
}

static tn_status kv_page_write(tn_inst *self, tn_kv *kv, uint32_t pool, int32_t page, const void *src)
{
  (void)self, (void)kv, (void)pool, (void)page, (void)src;
  return TN_E_UNSUPPORTED;
}

static tn_status state_reset(tn_inst *self, tn_kv *kv, uint32_t group, int32_t state)
{
  (void)self, (void)kv, (void)group, (void)state;
  return TN_E_UNSUPPORTED;
}

static tn_status state_fold(tn_inst *self, tn_kv *kv, uint32_t group, const tn_kv_view *view)
{
  (void)self, (void)kv, (void)group, (void)view;
  return TN_E_UNSUPPORTED;
}

static tn_status prepare(tn_inst *self, const tn_program *program, const tn_prepare *how, tn_kv *kv, tn_prepared **out,
                         tn_err *err)
{
  (void)self, (void)program, (void)how, (void)kv;
  *out = NULL;
  return refuse(err, "my_plugin runs single operations, no programs yet");
}

static void prepared_free(tn_inst *self, tn_prepared *p) { (void)self, (void)p; }

static tn_status run(tn_inst *self, tn_prepared *p, uint32_t first, uint32_t last, const tn_batch *batch)
{
  (void)self, (void)p, (void)first, (void)last, (void)batch;
  return TN_E_UNSUPPORTED;
}

static tn_status act(tn_inst *self, tn_prepared *p, uint32_t index, tn_tensor *out)
{
  (void)self, (void)p, (void)index, (void)out;
  return TN_E_UNSUPPORTED;
}

/* ---- the plugin */

static tn_status create(const tn_host *host, const tn_value *values, tn_inst **out, tn_err *err)
{
  (void)values, (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  (*out)->host = host;
  return TN_OK;
}

static void destroy(tn_inst *self) { self->host->free_(self->host->ctx, self); }

static const tn_backend_v1 vtable = {.struct_size = sizeof vtable,
                                     .info = info,
                                     .buffer_new = buffer_new,
                                     .buffer_free = buffer_free,
                                     .upload = upload,
                                     .download = download,
                                     .sync = sync,
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

static const char *const counters[] = {"rows", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_BACKEND,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC,
                             .id = "org.example.my_plugin",
                             .name = "my_plugin",
                             .version = "0.1.0",
                             .summary = "host memory and plain C",
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(my_plugin, "org.example.my_plugin", TN_SLOT_BACKEND, "0.1.0", "Example", "Apache-2.0", desc);
