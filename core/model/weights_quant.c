/* weights_quant: one tensor through a quantizer.
 *
 * The tensor's rows are decoded to f32 and encoded in blocks of rows, on all threads of the pool. A column shard is cut
 * out of the codes of whole rows afterwards, so that the values do not depend on the number of ranks. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "quant/dtype.h"
#include "weights_int.h"

enum { ROWS = 16 }; /* rows of one encode call */

/* The arrays of n_rows encoded rows, of k columns each, in groups and super groups of them. */
typedef struct coded {
  int64_t n_rows, k, groups, supers;
  uint8_t *codes, *sub_scale, *sub_offset;
  float *scale, *offset, *d, *dmin;
  float *dense; /* EXOTIC: decoded again, [n_rows][k] */
} coded;

typedef struct encode_job {
  const tn_weights_job *job;
  const tn_weight_need *need;
  const tn_layout *layout;
  const tn_tensor_info *info;
  coded *c;
  float *rows;       /* [workers][ROWS][k] */
  tn_status *status; /* [workers] */
} encode_job;

static tn_tensor_info info_of(const tn_weight_need *need)
{
  return (tn_tensor_info){.struct_size = sizeof(tn_tensor_info),
                          .role = need->role,
                          .name = need->name,
                          .layer = need->layer,
                          .dtype = need->tensor->dtype,
                          .n = need->n,
                          .k = need->k};
}

tn_status tn_weight_take(const tn_weights_job *job, const tn_weight_need *need, const tn_layout **layout, tn_err *err)
{
  const tn_quantizer_v1 *q = job->quantizer;
  tn_tensor_info info = info_of(need);
  tn_err e = tn_err_init();
  *layout = NULL;
  if (!q) return TN_OK;
  tn_status st = q->take(job->quantizer_inst, &info, layout, &e);
  if (st == TN_E_UNSUPPORTED) {
    *layout = NULL;
    return TN_OK;
  }
  if (st) return tn_weight_fail(job, need, err, st, "quantizer: %s", e.msg[0] ? e.msg : tn_status_name(st));
  uint32_t cal = TN_CAN(q, calibrate) ? q->calibrate(job->quantizer_inst, &info) : TN_CAL_NONE;
  if (cal != TN_CAL_NONE)
    return tn_weight_fail(job, need, err, TN_E_UNSUPPORTED,
                          "the quantizer needs calibration for it (kind %u), which this version does not offer", cal);
  return TN_OK;
}

/* Do the layout's groups divide the tensor, and a rank's columns? */
static tn_status check_layout(const tn_weights_job *job, const tn_weight_need *need, const tn_layout *l, tn_err *err)
{
  const tn_shard *s = &need->shard;
  if (l->kind != TN_LAY_AFFINE && l->kind != TN_LAY_FLOAT8 && l->kind != TN_LAY_TABLE && l->kind != TN_LAY_EXOTIC)
    return tn_weight_fail(job, need, err, TN_E_UNSUPPORTED, "the quantizer's layout is of kind %u, which has no codes",
                          l->kind);
  if (l->kind == TN_LAY_EXOTIC && !TN_CAN(job->quantizer, dequantize))
    return tn_weight_fail(job, need, err, TN_E_UNSUPPORTED, "the quantizer's layout %s comes without dequantize",
                          l->exotic ? l->exotic : "(unnamed)");
  int64_t unit = l->group ? (int64_t)l->group * (l->super ? l->super : 1) : 0;
  if (unit && need->k % unit)
    return tn_weight_fail(job, need, err, TN_E_UNSUPPORTED,
                          "the quantizer's groups of %" PRId64 " do not divide its %" PRId64 " columns", unit, need->k);
  if (unit && (s->col0 % unit || s->n_cols % unit))
    return tn_weight_fail(job, need, err, TN_E_UNSUPPORTED,
                          "columns %" PRId64 " to %" PRId64 " of a rank cut the quantizer's groups of %" PRId64,
                          s->col0, s->col0 + s->n_cols - 1, unit);
  if (l->super && (!l->group || l->kind == TN_LAY_EXOTIC))
    return tn_weight_fail(job, need, err, TN_E_UNSUPPORTED, "super groups need an affine layout with groups");
  return TN_OK;
}

static void coded_free(coded *c)
{
  free(c->codes);
  free(c->sub_scale);
  free(c->sub_offset);
  free(c->scale);
  free(c->offset);
  free(c->d);
  free(c->dmin);
  free(c->dense);
}

/* [n_rows][cols] of size bytes each, zeroed; NULL: no memory. */
static void *make(const coded *c, int64_t cols, size_t size)
{
  size_t row;
  return tn_mul_size((size_t)cols, size, &row) ? tn_zalloc((size_t)c->n_rows, row) : NULL;
}

/* The arrays of the layout. False: no memory; coded_free all the same. */
static bool coded_make(coded *c, const tn_layout *l)
{
  bool offsets = l->offset != TN_OFF_NONE;
  c->codes = make(c, c->k, 1);
  if (l->super) {
    c->sub_scale = make(c, c->groups, 1);
    c->d = make(c, c->supers, sizeof(float));
    if (offsets) c->sub_offset = make(c, c->groups, 1);
    if (offsets) c->dmin = make(c, c->supers, sizeof(float));
    return c->codes && c->sub_scale && c->d && (!offsets || (c->sub_offset && c->dmin));
  }
  c->scale = make(c, c->groups, sizeof(float));
  if (offsets) c->offset = make(c, c->groups, sizeof(float));
  if (l->kind == TN_LAY_EXOTIC) c->dense = make(c, c->k, sizeof(float));
  return c->codes && c->scale && (!offsets || c->offset) && (l->kind != TN_LAY_EXOTIC || c->dense);
}

/* Rows [row, row + n) of the shard: decode, encode, and back to f32 where the backend cannot read the layout. */
static tn_status encode_rows(const encode_job *e, float *w, int64_t row, int64_t n)
{
  const coded *c = e->c;
  const tn_gguf_tensor *t = e->need->tensor;
  tnk_dtype_info d = tnk_dtype(t->dtype);
  int64_t first = e->need->shard.row0 + row;
  const uint8_t *src = t->data + (size_t)first * (size_t)(c->k / d.block) * d.block_bytes;
  if (!tnk_decode(t->dtype, src, w, (size_t)(n * c->k))) return TN_E_UNSUPPORTED;
  tn_qblock q = {.struct_size = sizeof q,
                 .info = e->info,
                 .row0 = first,
                 .n_rows = n,
                 .w = w,
                 .codes = c->codes + row * c->k,
                 .scale = c->scale ? c->scale + row * c->groups : NULL,
                 .offset = c->offset ? c->offset + row * c->groups : NULL,
                 .sub_scale = c->sub_scale ? c->sub_scale + row * c->groups : NULL,
                 .sub_offset = c->sub_offset ? c->sub_offset + row * c->groups : NULL,
                 .d = c->d ? c->d + row * c->supers : NULL,
                 .dmin = c->dmin ? c->dmin + row * c->supers : NULL};
  tn_inst *inst = e->job->quantizer_inst;
  tn_status st = e->job->quantizer->encode(inst, e->layout, &q);
  if (!st && c->dense) st = e->job->quantizer->dequantize(inst, e->layout, &q, c->dense + row * c->k);
  return st;
}

static void encode_worker(void *arg, uint32_t worker, uint32_t n_workers)
{
  const encode_job *e = arg;
  float *w = e->rows + (size_t)worker * ROWS * (size_t)e->c->k;
  tn_status st = TN_OK;
  for (int64_t row = (int64_t)worker * ROWS; row < e->c->n_rows && !st; row += (int64_t)n_workers * ROWS) {
    int64_t left = e->c->n_rows - row;
    st = encode_rows(e, w, row, left < ROWS ? left : ROWS);
  }
  e->status[worker] = st;
}

static tn_status encode_all(encode_job *e, tn_err *err)
{
  const tn_svc_pool *pool = e->job->pool;
  uint32_t n = pool ? pool->n_workers : 1;
  size_t each;
  tn_status st = TN_OK;
  bool fits = tn_mul_size((size_t)e->c->k, ROWS * sizeof(float), &each);
  e->rows = fits ? tn_zalloc(n, each) : NULL;
  e->status = tn_zalloc(n, sizeof *e->status);
  if (!e->rows || !e->status) {
    st = tn_weight_fail(e->job, e->need, err, TN_E_NOMEM, "no memory to encode it");
    goto done;
  }
  if (pool)
    pool->gang(e->job->pool_ctx, encode_worker, e);
  else
    encode_worker(e, 0, 1);
  for (uint32_t i = 0; i < n && !st; i++) st = e->status[i];
  if (st) tn_weight_fail(e->job, e->need, err, st, "the quantizer could not encode it: %s", tn_status_name(st));
done:
  free(e->rows);
  free(e->status);
  return st;
}

/* Keeps columns [at, at + n) of [rows][cols], in place. p may be NULL. */
static void keep_columns(void *p, int64_t rows, int64_t cols, int64_t at, int64_t n, size_t size)
{
  uint8_t *b = p;
  for (int64_t r = 0; b && r < rows; r++)
    memmove(b + (size_t)(r * n) * size, b + (size_t)(r * cols + at) * size, (size_t)n * size);
}

/* A rank's columns. A scale for the whole row stays. */
static void cut(coded *c, const tn_layout *l, const tn_shard *s)
{
  int64_t per = l->group ? l->group : c->k, per_super = l->super ? per * l->super : per;
  int64_t g0 = l->group ? s->col0 / per : 0, gn = l->group ? s->n_cols / per : 1;
  int64_t s0 = l->group ? s->col0 / per_super : 0, sn = l->group ? s->n_cols / per_super : 1;
  if (s->n_cols == c->k) return;
  keep_columns(c->codes, c->n_rows, c->k, s->col0, s->n_cols, 1);
  keep_columns(c->dense, c->n_rows, c->k, s->col0, s->n_cols, sizeof(float));
  keep_columns(c->scale, c->n_rows, c->groups, g0, gn, sizeof(float));
  keep_columns(c->offset, c->n_rows, c->groups, g0, gn, sizeof(float));
  keep_columns(c->sub_scale, c->n_rows, c->groups, g0, gn, 1);
  keep_columns(c->sub_offset, c->n_rows, c->groups, g0, gn, 1);
  keep_columns(c->d, c->n_rows, c->supers, s0, sn, sizeof(float));
  keep_columns(c->dmin, c->n_rows, c->supers, s0, sn, sizeof(float));
}

tn_status tn_weight_load_quantized(const tn_weights_job *job, const tn_weight_need *need, const tn_layout *layout,
                                   tn_tensor *out, tn_err *err)
{
  tn_tensor_info info = info_of(need);
  coded c = {.n_rows = need->shard.n_rows, .k = need->k};
  encode_job e = {.job = job, .need = need, .layout = layout, .info = &info, .c = &c};
  tn_status st = check_layout(job, need, layout, err);
  if (st) return st;
  c.groups = layout->group ? need->k / layout->group : 1;
  c.supers = layout->super ? c.groups / layout->super : 1;
  if (!coded_make(&c, layout)) {
    st = tn_weight_fail(job, need, err, TN_E_NOMEM, "no memory for its codes");
    goto done;
  }
  if ((st = encode_all(&e, err))) goto done;
  cut(&c, layout, &need->shard);
  tn_weight_src src = {.kind = TN_W_CODES,
                       .dtype = TN_DT_LAYOUT,
                       .layout = layout,
                       .codes = c.codes,
                       .scale = c.scale,
                       .offset = c.offset,
                       .sub_scale = c.sub_scale,
                       .sub_offset = c.sub_offset,
                       .d = c.d,
                       .dmin = c.dmin};
  if (c.dense)
    src = (tn_weight_src){.kind = TN_W_F32,
                          .dtype = TN_DT_F32,
                          .data = c.dense,
                          .bytes = (uint64_t)need->shard.n_rows * (uint64_t)need->shard.n_cols * sizeof(float)};
  st = tn_weight_hand_over(job, need, &src, out, err);
done:
  coded_free(&c);
  return st;
}
