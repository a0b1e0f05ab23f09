/* weights: see weights.h. */
#include "weights.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quant/dtype.h"
#include "weights_int.h"

typedef struct held {
  char *name;
  tn_shard shard;
  tn_tensor tensor;
} held;

struct tn_weights {
  const tn_backend_v1 *backend;
  tn_inst *inst;
  held *held; /* [n] those before n are loaded */
  uint32_t n;
  tn_weights_stats stats;
};

tn_status tn_weight_fail(const tn_weights_job *job, const tn_weight_need *need, tn_err *err, tn_status st,
                         const char *fmt, ...)
{
  char msg[sizeof err->msg];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(msg, sizeof msg, fmt, ap);
  va_end(ap);
  return tn_fail(err, st, "%s: tensor %s: %s", tn_gguf_path(job->model->gguf), need->name, msg);
}

static bool is_vector(const tn_weight_need *need) { return need->role == TN_ROLE_NORM || need->role == TN_ROLE_BIAS; }

tn_status tn_weight_hand_over(const tn_weights_job *job, const tn_weight_need *need, tn_weight_src *src, tn_tensor *out,
                              tn_err *err)
{
  const tn_shard *s = &need->shard;
  tn_err e = tn_err_init();
  char key[256];
  int n = snprintf(key, sizeof key, "%s rows %" PRId64 "+%" PRId64 " columns %" PRId64 "+%" PRId64, need->name, s->row0,
                   s->n_rows, s->col0, s->n_cols);
  src->struct_size = sizeof *src;
  src->key = job->keep && n < (int)sizeof key && !is_vector(need) ? key : NULL;
  src->name = need->name;
  src->role = need->role;
  src->n = need->shard.n_rows;
  src->k = need->shard.n_cols;
  out->struct_size = sizeof *out;
  tn_status st = job->backend->weight_load(job->backend_inst, src, out, &e);
  src->key = NULL;
  return st ? tn_weight_fail(job, need, err, st, "%s", e.msg[0] ? e.msg : tn_status_name(st)) : TN_OK;
}

/* A norm or a bias: f32, one row. */
static tn_status load_vector(const tn_weights_job *job, const tn_weight_need *need, tn_tensor *out, tn_err *err)
{
  const tn_gguf_tensor *t = need->tensor;
  tn_weight_src src = {.kind = TN_W_F32, .dtype = TN_DT_F32, .bytes = (uint64_t)need->shard.n_cols * sizeof(float)};
  const float *all = (const float *)(const void *)t->data;
  float *decoded = NULL;
  if (t->dtype == TN_DT_F32) {
    src.flags = TN_WF_STABLE;
  } else {
    all = decoded = tn_zalloc((size_t)need->k, sizeof *decoded);
    if (!decoded) return tn_weight_fail(job, need, err, TN_E_NOMEM, "no memory");
    tnk_decode(t->dtype, t->data, decoded, (size_t)need->k);
  }
  src.data = all + need->shard.col0;
  tn_status st = tn_weight_hand_over(job, need, &src, out, err);
  free(decoded);
  return st;
}

/* Columns of every row, cut at block boundaries into fresh memory. NULL and *st on failure. */
static uint8_t *cut_columns(const tn_weights_job *job, const tn_weight_need *need, tnk_dtype_info d, tn_status *st,
                            tn_err *err)
{
  const tn_shard *s = &need->shard;
  int64_t block = d.block;
  size_t from = (size_t)(s->col0 / block) * d.block_bytes, row = (size_t)(need->k / block) * d.block_bytes;
  size_t part = (size_t)(s->n_cols / block) * d.block_bytes;
  if (s->col0 % block || s->n_cols % block) {
    *st = tn_weight_fail(job, need, err, TN_E_UNSUPPORTED,
                         "columns %" PRId64 " to %" PRId64 " of a rank cut the blocks of %u of type %s", s->col0,
                         s->col0 + s->n_cols - 1, d.block, d.name);
    return NULL;
  }
  uint8_t *copy = tn_zalloc((size_t)s->n_rows, part);
  if (!copy) *st = tn_weight_fail(job, need, err, TN_E_NOMEM, "no memory for a rank's columns");
  for (int64_t r = 0; copy && r < s->n_rows; r++)
    memcpy(copy + (size_t)r * part, need->tensor->data + (size_t)r * row + from, part);
  return copy;
}

typedef struct rows_src { /* a source in the mapping, that can say what was read of it */
  tn_weight_src src;
  const tn_gguf *gguf;
  size_t row_bytes;
} rows_src;

static void forget_rows(const tn_weight_src *src, int64_t row, int64_t n)
{
  const rows_src *r = (const rows_src *)(const void *)src;
  tn_gguf_forget(r->gguf, (const uint8_t *)src->data + (size_t)row * r->row_bytes, (size_t)n * r->row_bytes);
}

/* The file's bytes: whole rows from the mapping, columns as a copy. */
static tn_status load_file(const tn_weights_job *job, const tn_weight_need *need, tn_tensor *out, tn_err *err)
{
  const tn_shard *s = &need->shard;
  tnk_dtype_info d = tnk_dtype(need->tensor->dtype);
  size_t row = (size_t)(need->k / d.block) * d.block_bytes;
  tn_weight_src src = {.kind = TN_W_FILE, .dtype = need->tensor->dtype};
  tn_status st = TN_OK;
  if (s->n_cols == need->k) {
    src.data = need->tensor->data + (size_t)s->row0 * row;
    src.bytes = (uint64_t)s->n_rows * row;
    src.flags = TN_WF_STABLE;
    src.read = forget_rows;
    rows_src rows = {src, job->model->gguf, row};
    return tn_weight_hand_over(job, need, &rows.src, out, err);
  }
  uint8_t *copy = cut_columns(job, need, d, &st, err);
  if (!copy) return st;
  src.data = copy;
  src.bytes = (uint64_t)s->n_rows * (uint64_t)(s->n_cols / d.block) * d.block_bytes;
  st = tn_weight_hand_over(job, need, &src, out, err);
  free(copy);
  return st;
}

/* What the backend made of a matrix in an earlier process. TN_E_STATE: that is not there. */
static tn_status load_kept(const tn_weights_job *job, const tn_weight_need *need, const tn_layout *layout,
                           tn_tensor *out, tn_err *err)
{
  tn_err why = tn_err_init();
  tn_weight_src src = {.kind = TN_W_FILE, .dtype = need->tensor->dtype, .flags = TN_WF_KEPT};
  if (!job->keep || !job->kept) return TN_E_STATE;
  if (layout && layout->kind == TN_LAY_EXOTIC)
    src.kind = TN_W_F32, src.dtype = TN_DT_F32;
  else if (layout)
    src.kind = TN_W_CODES, src.dtype = TN_DT_LAYOUT, src.layout = layout;
  tn_status st = tn_weight_hand_over(job, need, &src, out, &why);
  return st && st != TN_E_STATE ? tn_fail(err, st, "%s", why.msg) : st;
}

static tn_status load_matrix(const tn_weights_job *job, const tn_weight_need *need, held *h, tn_weights_stats *stats,
                             tn_err *err)
{
  const tn_layout *layout = NULL;
  tn_status st = tn_weight_take(job, need, &layout, err);
  if (st) return st;
  st = load_kept(job, need, layout, &h->tensor, err);
  stats->n_kept += st == TN_OK;
  if (st == TN_E_STATE)
    st = layout ? tn_weight_load_quantized(job, need, layout, &h->tensor, err) : load_file(job, need, &h->tensor, err);
  stats->n_quantized += st == TN_OK && layout;
  return st;
}

static tn_status load_one(const tn_weights_job *job, const tn_weight_need *need, tn_weights *w, tn_err *err)
{
  held *h = &w->held[w->n];
  h->shard = need->shard;
  h->name = tn_strdup(need->name);
  if (!h->name) return tn_weight_fail(job, need, err, TN_E_NOMEM, "no memory");
  tn_status st = is_vector(need) ? load_vector(job, need, &h->tensor, err) : load_matrix(job, need, h, &w->stats, err);
  tn_gguf_forget(job->model->gguf, need->tensor->data, need->tensor->bytes);
  if (st) {
    free(h->name);
    return st;
  }
  w->n++;
  w->stats.n_tensors++;
  return TN_OK;
}

/* Bytes in the file of what a need holds. */
static uint64_t bytes_of(const tn_weight_need *need)
{
  uint64_t rows = need->tensor->bytes / (uint64_t)need->n * (uint64_t)need->shard.n_rows;
  return (uint64_t)((double)rows * ((double)need->shard.n_cols / (double)need->k));
}

tn_status tn_weights_load(const tn_weights_job *job, tn_weights **out, tn_err *err)
{
  const tn_built *b = job->built;
  const char *path = tn_gguf_path(job->model->gguf);
  uint64_t all = 0;
  tn_status st = TN_OK;
  *out = NULL;
  tn_weights *w = tn_zalloc(1, sizeof *w);
  if (w) w->held = tn_zalloc(b->program.n_weights, sizeof *w->held);
  if (!w || !w->held) {
    free(w);
    return tn_fail(err, TN_E_NOMEM, "%s: no memory for %u weights", path, b->program.n_weights);
  }
  w->backend = job->backend;
  w->inst = job->backend_inst;
  for (uint32_t i = 0; i < b->program.n_weights; i++) all += bytes_of(&b->needs[i]);
  for (uint32_t i = 0; i < b->program.n_weights && !st; i++) {
    double done = (double)w->stats.file_bytes / (double)(all ? all : 1);
    if (job->progress && !job->progress(job->progress_ctx, done))
      st = tn_fail(err, TN_E_STATE, "%s: loading was cancelled", path);
    if (!st) st = load_one(job, &b->needs[i], w, err);
    w->stats.file_bytes += bytes_of(&b->needs[i]);
  }
  if (!st && job->progress) job->progress(job->progress_ctx, 1);
  if (st)
    tn_weights_free(w);
  else
    *out = w;
  return st;
}

void tn_weights_free(tn_weights *w)
{
  if (!w) return;
  for (uint32_t i = 0; i < w->n; i++) {
    w->backend->weight_free(w->inst, &w->held[i].tensor);
    free(w->held[i].name);
  }
  free(w->held);
  free(w);
}

static bool same(const held *h, const tn_weight_need *need)
{
  return h->shard.row0 == need->shard.row0 && h->shard.n_rows == need->shard.n_rows &&
         h->shard.col0 == need->shard.col0 && h->shard.n_cols == need->shard.n_cols && strcmp(h->name, need->name) == 0;
}

tn_status tn_weights_bind(const tn_weights *w, tn_built *b, tn_err *err)
{
  const tn_tensor **slots = (const tn_tensor **)b->program.weights; /* the built program's own array */
  for (uint32_t i = 0; i < b->program.n_weights; i++) {
    const tn_weight_need *need = &b->needs[i];
    uint32_t at = i; /* where it is when this program was loaded */
    if (at >= w->n || !same(&w->held[at], need))
      for (at = 0; at < w->n && !same(&w->held[at], need);) at++;
    if (at == w->n)
      return tn_fail(err, TN_E_ARG, "tensor %s, rows from %" PRId64 ", columns from %" PRId64 " is not loaded",
                     need->name, need->shard.row0, need->shard.col0);
    slots[i] = &w->held[at].tensor;
  }
  return TN_OK;
}

const tn_tensor *tn_weights_find(const tn_weights *w, const char *name)
{
  for (uint32_t i = 0; i < w->n; i++)
    if (strcmp(w->held[i].name, name) == 0) return &w->held[i].tensor;
  return NULL;
}

tn_weights_stats tn_weights_stat(const tn_weights *w) { return w->stats; }
