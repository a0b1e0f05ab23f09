/* services: "tenon.ops/1" and "tenon.model/1", what drafters and quantizers may ask of the engine. See plugin_api.h. */
#include <stdlib.h>
#include <string.h>

#include "engine_int.h"

static tn_rank *rank0(tn_hctx *ctx)
{
  tn_engine *e = tn_hctx_engine(ctx);
  return e && e->exec ? &e->exec->ranks[0] : NULL;
}

static tn_status ops_tensor_new(tn_hctx *ctx, uint32_t dtype, const int64_t ne[4], tn_tensor *out, tn_err *err)
{
  tn_rank *r = rank0(ctx);
  if (!r) return tn_fail(err, TN_E_STATE, "tenon.ops/1: the engine is not open yet");
  if (dtype != TN_DT_F32 && dtype != TN_DT_I32)
    return tn_fail(err, TN_E_UNSUPPORTED, "tenon.ops/1: dtype %u: tensors are f32 or i32", dtype);
  uint64_t n = 4;
  *out = (tn_tensor){.struct_size = sizeof *out, .dtype = dtype};
  for (int i = 0; i < 4; i++) {
    if (ne[i] < 1 || ne[i] > (int64_t)1 << 40 || n > ((uint64_t)1 << 44) / (uint64_t)ne[i])
      return tn_fail(err, TN_E_ARG, "tenon.ops/1: dimension %d is %lld", i, (long long)ne[i]);
    out->ne[i] = ne[i];
    out->nb[i] = (int64_t)n;
    n *= (uint64_t)ne[i];
  }
  return r->b->buffer_new(r->backend.inst, n, &out->buf, err);
}

static void ops_tensor_free(tn_hctx *ctx, tn_tensor *t)
{
  tn_rank *r = rank0(ctx);
  if (r && t && t->buf) r->b->buffer_free(r->backend.inst, t->buf);
  if (t) t->buf = NULL;
}

static tn_status ops_upload(tn_hctx *ctx, const tn_tensor *dst, const void *src, uint64_t bytes)
{
  tn_rank *r = rank0(ctx);
  return r ? r->b->upload(r->backend.inst, dst->buf, dst->offset, src, bytes) : TN_E_STATE;
}

static tn_status ops_download(tn_hctx *ctx, const tn_tensor *src, void *dst, uint64_t bytes)
{
  tn_rank *r = rank0(ctx);
  return r ? r->b->download(r->backend.inst, src->buf, src->offset, dst, bytes) : TN_E_STATE;
}

static tn_status ops_sync(tn_hctx *ctx)
{
  tn_rank *r = rank0(ctx);
  return r ? r->b->sync(r->backend.inst) : TN_E_STATE;
}

static tn_status ops_run(tn_hctx *ctx, const tn_op *op, const tn_tensor *const *in, const tn_tensor *const *out,
                         const tn_tensor *const *weights, int64_t n_rows)
{
  tn_rank *r = rank0(ctx);
  return r ? r->b->op(r->backend.inst, op, in, out, weights, n_rows) : TN_E_STATE;
}

static const tn_svc_ops ops = {sizeof(tn_svc_ops), 0,        ops_tensor_new, ops_tensor_free, ops_upload,
                               ops_download,       ops_sync, ops_run};

static tn_status model_meta_str(tn_hctx *ctx, const char *key, const char **s, uint64_t *len)
{
  tn_engine *e = tn_hctx_engine(ctx);
  tn_str v;
  if (!tn_gguf_string(e->model->gguf, key, &v)) return TN_E_ARG;
  *s = v.p;
  *len = v.n;
  return TN_OK;
}

static tn_status model_meta_f64(tn_hctx *ctx, const char *key, double *out)
{
  tn_engine *e = tn_hctx_engine(ctx);
  return tn_gguf_f64(e->model->gguf, key, out) ? TN_OK : TN_E_ARG;
}

static tn_status model_weight(tn_hctx *ctx, const char *name, tn_tensor *out)
{
  tn_rank *r = rank0(ctx);
  if (!r) return TN_E_STATE;
  const tn_tensor *t = tn_weights_find(r->weights, name);
  if (!t) return TN_E_ARG;
  *out = *t;
  return TN_OK;
}

static tn_status model_record(tn_hctx *ctx, const char *name, uint32_t *index)
{
  tn_rank *r = rank0(ctx);
  if (!r) return TN_E_STATE;
  return tn_built_find(r->built, name, index) ? TN_OK : TN_E_ARG;
}

/* Puts hidden rows from host memory where record `first` of a rank reads them. */
static tn_status put_hidden(const tn_rank *r, uint32_t first, int64_t cols, uint32_t n_rows, const float *x)
{
  const tn_program *p = &r->built->program;
  tn_tensor to;
  if (first >= p->n_ops || p->ops[first]->in[0] < 0) return TN_E_ARG;
  tn_status st = r->b->act(r->backend.inst, r->prepared, (uint32_t)p->ops[first]->in[0], &to);
  if (st != TN_OK) return st;
  if (to.ne[0] != cols) return TN_E_ARG;
  st = r->b->upload(r->backend.inst, to.buf, to.offset, x, (uint64_t)cols * n_rows * sizeof *x);
  return st == TN_OK ? r->b->sync(r->backend.inst) : st;
}

/* The caller's hidden rows, which are rank 0's, on every rank, by way of host memory. */
static tn_status place_hidden(const tn_exec *x, uint32_t first, const tn_run_rows *rows)
{
  const tn_rank *r = &x->ranks[0];
  const tn_tensor *from = rows->hidden_in;
  if (from->ne[0] < 1 || from->ne[1] < rows->n_rows) return TN_E_ARG;
  size_t bytes = (size_t)from->ne[0] * rows->n_rows * sizeof(float);
  float *host = malloc(bytes);
  if (!host) return TN_E_NOMEM;
  tn_status st = r->b->download(r->backend.inst, from->buf, from->offset, host, bytes);
  if (st == TN_OK) st = r->b->sync(r->backend.inst);
  for (uint32_t i = 0; st == TN_OK && i < x->world; i++)
    st = put_hidden(&x->ranks[i], first, from->ne[0], rows->n_rows, host);
  free(host);
  return st;
}

/* The rows as drafted nodes behind the committed text of s, in a batch of their own. */
static tn_status run_nodes(tn_engine *e, tn_seq *s, uint32_t first, uint32_t last, const tn_run_rows *rows)
{
  int32_t token[TN_MAX_NODES], parent[TN_MAX_NODES];
  for (uint32_t i = 0; i < rows->n_rows; i++) {
    token[i] = rows->token ? rows->token[i] : 0;
    parent[i] = rows->parent[i];
    if (token[i] < 0 || (uint32_t)token[i] >= e->n_vocab || parent[i] < -1 || parent[i] >= (int32_t)i) return TN_E_ARG;
  }
  tn_seq kept = *s;
  s->node_token = token, s->node_parent = parent;
  s->run = 0, s->n_nodes = rows->n_rows;
  s->signals = NULL;
  tn_status st = tn_kv_reserve(e->kv, s->kv, rows->n_rows);
  if (st == TN_OK) {
    tn_batch_begin(e->batcher);
    tn_batch_add(e->batcher, s, e->kv, NULL);
    tn_batch *b = tn_batch_end(e->batcher);
    st = tn_tiler_fill(e, &s, 1, b, NULL);
    if (st == TN_OK) st = tn_exec_run(e->exec, first, last, b);
  }
  *s = kept;
  return st;
}

static tn_status model_run(tn_hctx *ctx, uint32_t first, uint32_t last, const tn_run_rows *rows)
{
  tn_engine *e = tn_hctx_engine(ctx);
  tn_rank *r = rank0(ctx);
  if (!r || !e->kv) return TN_E_STATE;
  tn_seq *s = e->first;
  while (s && s->id != rows->seq) s = s->next;
  uint32_t n_ops = r->built->program.n_ops;
  if (!s || !s->kv || rows->n_rows < 1 || rows->n_rows > TN_MAX_NODES || rows->n_rows > e->max_out || first >= last ||
      last > n_ops)
    return TN_E_ARG;
  if (r->par.layer1 - r->par.layer0 != e->model->shape.n_layers) return TN_E_UNSUPPORTED; /* a stage's records alone */
  tn_status st = first > 0 && rows->hidden_in ? place_hidden(e->exec, first, rows) : TN_OK;
  if (st == TN_OK) st = run_nodes(e, s, first, last, rows);
  int32_t out = r->built->program.ops[last - 1]->out[0];
  if (st != TN_OK || !rows->act_out || out < 0) return st;
  return r->b->act(r->backend.inst, r->prepared, (uint32_t)out, rows->act_out);
}

void tn_engine_services(tn_engine *e)
{
  e->svc_model = (tn_svc_model){.struct_size = sizeof e->svc_model,
                                .shape = &e->model->shape,
                                .meta_str = model_meta_str,
                                .meta_f64 = model_meta_f64,
                                .weight = model_weight,
                                .record = model_record,
                                .run = model_run,
                                .open = tn_second_open,
                                .close = tn_second_close,
                                .eval = tn_second_eval};
  e->services = (tn_services){.ops = &ops,
                              .model = &e->svc_model,
                              .engine = e,
                              .log = e->cfg.log,
                              .log_ctx = e->cfg.log_ctx,
                              .clock = e->cfg.clock,
                              .clock_ctx = e->cfg.clock_ctx};
}
