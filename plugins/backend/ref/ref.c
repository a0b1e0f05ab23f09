/* ref: the reference backend: every operation in the plainest way, in double or in the order of NUMERICS.md.
 *
 * What     runs every record and every layout that the contract knows, one record after the other, unfused
 * Maths    kernels/ref: each kernel's head has its formula and its order of summation
 * Result   the oracle of the other backends, and the backend of machines that have no faster one; a row's numbers do
 *          not depend on the batch, the chunking, the number of threads, where entries are stored, or drafted siblings
 * Cost     weights are decoded at every use, keys and values twice a query block; no memory besides model, cache and
 *          activations
 * Needs    nothing                              Conflicts  nothing
 * Options  accumulate  auto | double | f32: what sums are made in. f32 follows NUMERICS.md step by step, but for recurrent
 *          states, so that a backend that follows it has the same bits; auto is f32 with 8-bit activations, where a
 *          difference in the last bit can become a whole step of a rounding, and double otherwise
 * Tests    tests/backend/test_ref_*.c: each record against its formula, attention against a dense masked softmax,
 *          and the f32 form bitwise against cpu
 */
#include "ref.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ref/linear.h"

/* ---------------------------------------------------------------- services to the other files */

void *tn_ref_zalloc(tn_inst *in, uint64_t n, uint64_t size)
{
  uint64_t bytes;
  if (__builtin_mul_overflow(n, size, &bytes)) return NULL;
  void *p = in->host->alloc(in->host->ctx, bytes ? bytes : 1, 64);
  if (p) memset(p, 0, (size_t)bytes);
  return p;
}

void *tn_ref_copy(tn_inst *in, const void *src, uint64_t n, uint64_t size)
{
  void *p = tn_ref_zalloc(in, n, size);
  if (p && n) memcpy(p, src, (size_t)(n * size));
  return p;
}

void tn_ref_free(tn_inst *in, void *p)
{
  if (p) in->host->free_(in->host->ctx, p);
}

tn_status tn_ref_fail(tn_err *err, tn_status code, const char *fmt, ...)
{
  if (!err) return code;
  va_list args;
  va_start(args, fmt);
  err->code = code;
  vsnprintf(err->msg, sizeof err->msg, fmt, args);
  va_end(args);
  return code;
}

tn_status tn_ref_scratch(tn_inst *in, int64_t k)
{
  if (k <= in->max_k) return TN_OK;
  float *f32 = tn_ref_zalloc(in, (uint64_t)k * in->n_workers, sizeof *f32);
  double *f64 = tn_ref_zalloc(in, (uint64_t)k * in->n_workers, TNK_REF_OUTPUTS * sizeof *f64);
  if (!f32 || !f64) {
    tn_ref_free(in, f32);
    tn_ref_free(in, f64);
    return TN_E_NOMEM;
  }
  tn_ref_free(in, in->row_f32);
  tn_ref_free(in, in->row_f64);
  in->row_f32 = f32;
  in->row_f64 = f64;
  in->max_k = k;
  return TN_OK;
}

void tn_ref_gang(tn_inst *in, void (*fn)(void *, uint32_t, uint32_t), void *arg, int64_t work)
{
  if (in->n_workers == 1 || work < 1 << 14) {
    fn(arg, 0, 1);
  } else {
    in->pool->gang(in->host->ctx, fn, arg);
  }
}

void tn_ref_share(int64_t n, uint32_t worker, uint32_t n_workers, int64_t *first, int64_t *last)
{
  *first = n * worker / n_workers;
  *last = n * ((int64_t)worker + 1) / n_workers;
}

/* ---------------------------------------------------------------- life */

enum { P_ACCUMULATE };

static void destroy(tn_inst *in)
{
  if (!in) return;
  tn_ref_free(in, in->row_f32);
  tn_ref_free(in, in->row_f64);
  in->host->free_(in->host->ctx, in);
}

static tn_status create(const tn_host *host, const tn_value *values, tn_inst **out, tn_err *err)
{
  *out = NULL;
  tn_inst *in = host->alloc(host->ctx, sizeof *in, 64);
  if (!in) return tn_ref_fail(err, TN_E_NOMEM, "backend ref: no memory for an instance");
  *in = (tn_inst){.host = host, .pool = host->service(host->ctx, "tenon.pool/1"), .n_workers = 1};
  if (in->pool && in->pool->n_workers > 1) in->n_workers = in->pool->n_workers;
  if (values) in->accumulate = (uint32_t)values[P_ACCUMULATE].v.i;
  *out = in;
  return TN_OK;
}

static tn_status info(tn_inst *in, tn_backend_info *out)
{
  (void)in;
  *out = (tn_backend_info){.struct_size = sizeof *out, .host_memory = 1, .device = "scalar code"};
  return TN_OK;
}

static tn_status sync_all(tn_inst *in)
{
  (void)in;
  return TN_OK;
}

/* ---------------------------------------------------------------- descriptor */

static const tn_backend_v1 vtable = {
    .struct_size = sizeof(tn_backend_v1),
    .info = info,
    .buffer_new = tn_ref_buffer_new,
    .buffer_free = tn_ref_buffer_free,
    .upload = tn_ref_upload,
    .download = tn_ref_download,
    .sync = sync_all,
    .weight_load = tn_ref_weight_load,
    .weight_free = tn_ref_weight_free,
    .weight_read = tn_ref_weight_read,
    .kv_open = tn_ref_kv_open,
    .kv_close = tn_ref_kv_close,
    .kv_page_bytes = tn_ref_kv_page_bytes,
    .kv_move = tn_ref_kv_move,
    .kv_page_read = tn_ref_kv_page_read,
    .kv_page_write = tn_ref_kv_page_write,
    .state_reset = tn_ref_state_reset,
    .state_fold = tn_ref_state_fold,
    .prepare = tn_ref_prepare,
    .prepared_free = tn_ref_prepared_free,
    .run = tn_ref_run,
    .act = tn_ref_act,
    .op = tn_ref_op,
};

static const char *const provides[] = {"attn.mask/1",
                                       "attn.tiles/1",
                                       "attn.tree/1",
                                       "attn.scores/1",
                                       "attn.lse/1",
                                       "attn.state/1",
                                       "rope.renumber/1",
                                       "kv.raw/1",
                                       "kv.per_head/1",
                                       "kv.layouts/1",
                                       "hidden.tap/1",
                                       "observe/1",
                                       "collective/1",
                                       "act.int8/1",
                                       "weight.affine/1",
                                       "weight.fp8/1",
                                       "weight.table/1",
                                       "run.range/1",
                                       NULL};
static const char *const accumulates[] = {[REF_ACC_AUTO] = "auto", [REF_ACC_DOUBLE] = "double", [REF_ACC_F32] = "f32"};
static const tn_param accumulate_param = {
    .struct_size = sizeof(tn_param),
    .type = TN_T_ENUM,
    .flags = TN_P_OUTPUT,
    .key = "accumulate",
    .help = "what sums are made in: double, f32 in the order of NUMERICS.md, or by the activations",
    .def = "auto",
    .n_choices = 3,
    .choices = accumulates};
static const tn_param *const params[] = {[P_ACCUMULATE] = &accumulate_param, NULL};
static const char *const counters[] = {
    [REF_N_RUNS] = "runs", [REF_N_RECORDS] = "records", [REF_N_ROWS] = "rows", [REF_N_MOVED] = "entries_moved", NULL};

static const tn_desc desc = {
    .struct_size = sizeof(tn_desc),
    .slot = TN_SLOT_BACKEND,
    .slot_version = TN_SLOT_VERSION,
    .flags = TN_F_DETERMINISTIC | TN_F_EXACT,
    .id = "org.tenon.ref",
    .name = "ref",
    .version = "1.0.0",
    .summary = "every operation in the plainest way: the oracle",
    .provides = provides,
    .params = params,
    .counters = counters,
    .create = create,
    .destroy = destroy,
    .vtable = &vtable,
};
TN_PLUGIN(ref, "org.tenon.ref", TN_SLOT_BACKEND, "1.0.0", "Tenon", "Apache-2.0", desc);
