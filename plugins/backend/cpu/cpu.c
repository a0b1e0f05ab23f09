/* cpu: the fast backend of x86 processors, and of any other through its scalar kernels.
 *
 * What     runs programs on the host's compute threads; weights are repacked at load to panels of 16 outputs, activations
 *          of matmuls become 8 bits where the host asks for it, attention is tiled with an online softmax
 * Maths    kernels/cpu: each kernel's head has its formula and its order of summation; NUMERICS.md has the rules
 * Result   bitwise the same whatever the batch, the chunking, the number of threads and the instruction set
 * Cost     weights in about the file's size; reads each weight once a step
 * Needs    nothing                              Conflicts  nothing
 * Options  isa  auto | scalar | avx2 | avxvnni | avx512 | avx512vnni; fuse  on | off
 * Tests    tests/kernels/test_*.c: kernels against plain code; tests/backend/test_cpu_*.c: records against ref, bitwise
 *          equality over instruction sets, threads, chunks and batches
 */
#include "cpu.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cpu/isa.h"

/* ---------------------------------------------------------------- services to the other files */

void *tn_cpu_zalloc(tn_inst *in, uint64_t n, uint64_t size)
{
  uint64_t bytes;
  if (__builtin_mul_overflow(n, size, &bytes)) return NULL;
  void *p = in->host->alloc(in->host->ctx, bytes ? bytes : 1, CPU_LINE);
  if (p) memset(p, 0, (size_t)bytes);
  return p;
}

void *tn_cpu_copy(tn_inst *in, const void *src, uint64_t n, uint64_t size)
{
  void *p = tn_cpu_zalloc(in, n, size);
  if (p && n) memcpy(p, src, (size_t)(n * size));
  return p;
}

void tn_cpu_free(tn_inst *in, void *p)
{
  if (p) in->host->free_(in->host->ctx, p);
}

tn_status tn_cpu_fail(tn_err *err, tn_status code, const char *fmt, ...)
{
  if (!err) return code;
  va_list args;
  va_start(args, fmt);
  err->code = code;
  vsnprintf(err->msg, sizeof err->msg, fmt, args);
  va_end(args);
  return code;
}

void tn_cpu_gang(tn_inst *in, void (*fn)(void *, uint32_t, uint32_t), void *arg)
{
  if (in->n_workers == 1)
    fn(arg, 0, 1);
  else
    in->pool->gang(in->host->ctx, fn, arg);
}

void tn_cpu_barrier(tn_inst *in)
{
  if (in->n_workers > 1) in->pool->barrier(in->host->ctx);
}

void tn_cpu_share(int64_t n, uint32_t worker, uint32_t n_workers, int64_t *first, int64_t *last)
{
  *first = n * worker / n_workers;
  *last = n * ((int64_t)worker + 1) / n_workers;
}

/* ---------------------------------------------------------------- life */

enum { P_ISA, P_FUSE };
enum { ISA_AUTO = 0 /* then 1 + TNK_ISA_* */ };

static void destroy(tn_inst *in)
{
  if (!in) return;
  tn_cpu_free(in, in->work);
  in->host->free_(in->host->ctx, in);
}

/* The instruction set that the option names, or the best one. No values: defaults. */
static tn_status choose_isa(const tn_value *values, int *isa, tn_err *err)
{
  *isa = !values || values[P_ISA].v.i == ISA_AUTO ? tnk_isa_best() : (int)values[P_ISA].v.i - 1;
  if (tnk_isa_runs(*isa)) return TN_OK;
  return tn_cpu_fail(err, TN_E_UNSUPPORTED, "backend.cpu: isa = %s, but this processor's best is %s",
                     tnk_isa_name(*isa), tnk_isa_name(tnk_isa_best()));
}

static tn_status create(const tn_host *host, const tn_value *values, tn_inst **out, tn_err *err)
{
  int isa = 0;
  *out = NULL;
  tn_status st = choose_isa(values, &isa, err);
  if (st) return st;
  tn_inst *in = host->alloc(host->ctx, sizeof *in, CPU_LINE);
  if (!in) return tn_cpu_fail(err, TN_E_NOMEM, "backend cpu: no memory for an instance");
  *in = (tn_inst){.host = host,
                  .pool = host->service(host->ctx, "tenon.pool/1"),
                  .cache = host->service(host->ctx, "tenon.cache/1"),
                  .n_workers = 1,
                  .isa = isa,
                  .fuse = !values || values[P_FUSE].v.i,
                  .linear = tnk_linear_of(isa),
                  .vec = tnk_vec_of(isa),
                  .attend = tnk_attend_of(isa)};
  if (in->pool && in->pool->n_workers > 1) in->n_workers = in->pool->n_workers;
  snprintf(in->device, sizeof in->device, "%s, %u threads", tnk_isa_name(isa), in->n_workers);
  in->work = tn_cpu_zalloc(in, in->n_workers, CPU_WORK);
  if (!in->work) {
    tn_cpu_fail(err, TN_E_NOMEM, "backend cpu: no memory for the scratch of %u threads", in->n_workers);
    destroy(in);
    return TN_E_NOMEM;
  }
  *out = in;
  return TN_OK;
}

static tn_status info(tn_inst *in, tn_backend_info *out)
{
  *out = (tn_backend_info){.struct_size = sizeof *out, .host_memory = 1, .device = in->device};
  return TN_OK;
}

static tn_status sync_all(tn_inst *in)
{
  (void)in;
  return TN_OK;
}

/* ---------------------------------------------------------------- recurrent states: not offered */

static tn_status state_reset(tn_inst *in, tn_kv *kv, uint32_t group, int32_t state)
{
  (void)in, (void)kv, (void)group, (void)state;
  return TN_E_UNSUPPORTED;
}

static tn_status state_fold(tn_inst *in, tn_kv *kv, uint32_t group, const tn_kv_view *view)
{
  (void)in, (void)kv, (void)group, (void)view;
  return TN_E_UNSUPPORTED;
}

/* ---------------------------------------------------------------- descriptor */

static const tn_backend_v1 vtable = {
    .struct_size = sizeof(tn_backend_v1),
    .info = info,
    .buffer_new = tn_cpu_buffer_new,
    .buffer_free = tn_cpu_buffer_free,
    .upload = tn_cpu_upload,
    .download = tn_cpu_download,
    .sync = sync_all,
    .weight_load = tn_cpu_weight_load,
    .weight_free = tn_cpu_weight_free,
    .weight_read = tn_cpu_weight_read,
    .kv_open = tn_cpu_kv_open,
    .kv_close = tn_cpu_kv_close,
    .kv_page_bytes = tn_cpu_kv_page_bytes,
    .kv_move = tn_cpu_kv_move,
    .kv_page_read = tn_cpu_kv_page_read,
    .kv_page_write = tn_cpu_kv_page_write,
    .state_reset = state_reset,
    .state_fold = state_fold,
    .prepare = tn_cpu_prepare,
    .prepared_free = tn_cpu_prepared_free,
    .run = tn_cpu_run,
    .act = tn_cpu_act,
    .op = tn_cpu_op,
};

static const char *const provides[] = {"attn.mask/1",     "attn.tree/1",    "attn.scores/1", "attn.lse/1",
                                       "rope.renumber/1", "kv.per_head/1",  "kv.layouts/1",  "hidden.tap/1",
                                       "observe/1",       "collective/1",   "act.int8/1",    "weight.affine/1",
                                       "weight.fp8/1",    "weight.table/1", "run.range/1",   NULL};
static const char *const none[] = {NULL};
static const char *const isas[] = {"auto", "scalar", "avx2", "avxvnni", "avx512", "avx512vnni"};
static const tn_param isa_param = {.struct_size = sizeof(tn_param),
                                   .type = TN_T_ENUM,
                                   .key = "isa",
                                   .help = "instruction set of the kernels; each gives the same bits",
                                   .def = "auto",
                                   .n_choices = 6,
                                   .choices = isas};
static const tn_param fuse_param = {.struct_size = sizeof(tn_param),
                                    .type = TN_T_BOOL,
                                    .key = "fuse",
                                    .help = "run neighbouring records as one where that is faster; the same bits",
                                    .def = "true"};
static const tn_param *const params[] = {[P_ISA] = &isa_param, [P_FUSE] = &fuse_param, NULL};
static const char *const counters[] = {
    [CPU_N_RUNS] = "runs",           [CPU_N_RECORDS] = "records",     [CPU_N_ROWS] = "rows",
    [CPU_N_MOVED] = "entries_moved", [CPU_N_FUSED] = "records_fused", NULL};

static const tn_desc desc = {
    .struct_size = sizeof(tn_desc),
    .slot = TN_SLOT_BACKEND,
    .slot_version = TN_SLOT_VERSION,
    .flags = TN_F_DETERMINISTIC | TN_F_EXACT,
    .id = "org.tenon.cpu",
    .name = "cpu",
    .version = "0.1.0",
    .summary = "panels of weights, 8-bit activations, tiled attention on all cores",
    .provides = provides,
    .needs = none,
    .conflicts = none,
    .params = params,
    .counters = counters,
    .create = create,
    .destroy = destroy,
    .ext = tn_cpu_ext,
    .vtable = &vtable,
};
static const tn_desc *const descs[] = {&desc};
static const tn_module module = {
    .struct_size = sizeof(tn_module),
    .abi_major = TN_ABI_MAJOR,
    .abi_minor = TN_ABI_MINOR,
    .n_desc = 1,
    .name = "cpu",
    .version = "0.1.0",
    .vendor = "Tenon",
    .license = "Apache-2.0",
    .build = TN_BUILD,
    .desc = descs,
};

TN_NOTE(cpu, "org.tenon.cpu", TN_SLOT_BACKEND);

const tn_module *tn_module_v0(const tn_host *host, tn_err *err)
{
  (void)host;
  (void)err;
  return &module;
}
