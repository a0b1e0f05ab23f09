/* backend device: another backend in memory that nobody else can touch.
 *
 * All that the inner backend allocates (its objects, buffers, weights, cache) lies in a region without any access right,
 * which is opened while one of its own calls runs and closed before the call returns, also while it calls the host back.
 * Downloads and page reads arrive with sync() and not before; until then their target holds rubbish. So a host that reads
 * a buffer, keeps a pointer into it, or does not wait for its data fails at once.
 *
 * inner     file of the backend that does the work
 * max_rows  rows of a run at most; 0: no limit of its own
 * fail      the run that fails, counted from 1; 0: none */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "probe.h"

enum { P_INNER, P_MAX_ROWS, P_FAIL };
#define ARENA ((size_t)1 << 30)

typedef struct late { /* data on its way to the host */
  struct late *next;
  void *to;
  size_t n;
  uint8_t bytes[];
} late;

typedef struct hooks { /* what the host gave prepare(), by way of us */
  struct hooks *next;
  tn_inst *self;
  tn_prepare host;
} hooks;

struct tn_inst {
  const tn_host *outer;
  const tn_svc_pool *outer_pool;
  tn_host host; /* what the inner one sees */
  tn_svc_pool pool;
  uint8_t *arena;
  size_t used;
  uint32_t depth; /* of calls that are inside */
  uint32_t max_rows;
  int64_t fail;
  const tn_desc *desc;
  const tn_backend_v1 *v;
  tn_inst *in;
  late *first, **last;
  hooks *hooks;
  probe_device seen;
};

/* ---------------------------------------------------------------- the closed region */

static void enter(tn_inst *self)
{
  self->seen.calls++;
  if (self->depth++ == 0) mprotect(self->arena, ARENA, PROT_READ | PROT_WRITE);
}

static void leave(tn_inst *self)
{
  if (--self->depth == 0) mprotect(self->arena, ARENA, PROT_NONE);
}

static void *inner_alloc(tn_hctx *ctx, uint64_t bytes, uint64_t align)
{
  tn_inst *self = (tn_inst *)(void *)ctx;
  size_t at = (self->used + (size_t)align - 1) & ~((size_t)align - 1);
  if (bytes > ARENA || at > ARENA - (size_t)bytes) return NULL;
  self->used = at + (size_t)bytes;
  self->seen.used = self->used;
  return self->arena + at;
}

/* The region is given back whole, when the instance ends. */
static void inner_free(tn_hctx *ctx, void *p) { (void)ctx, (void)p; }

static void inner_log(tn_hctx *ctx, int32_t level, const char *msg)
{
  const tn_inst *self = (tn_inst *)(void *)ctx;
  self->outer->log(self->outer->ctx, level, msg);
}

static void inner_count(tn_hctx *ctx, uint32_t counter, uint64_t n)
{
  const tn_inst *self = (tn_inst *)(void *)ctx;
  self->outer->count(self->outer->ctx, counter, n);
}

static const void *inner_service(tn_hctx *ctx, const char *id)
{
  const tn_inst *self = (tn_inst *)(void *)ctx;
  return strcmp(id, "tenon.pool/1") == 0 && self->outer_pool ? &self->pool : NULL;
}

static void inner_gang(tn_hctx *ctx, void (*fn)(void *, uint32_t, uint32_t), void *arg)
{
  const tn_inst *self = (tn_inst *)(void *)ctx;
  self->outer_pool->gang(self->outer->ctx, fn, arg);
}

static void inner_barrier(tn_hctx *ctx)
{
  const tn_inst *self = (tn_inst *)(void *)ctx;
  self->outer_pool->barrier(self->outer->ctx);
}

/* ---------------------------------------------------------------- calls back to the host */

static uint32_t suspend(tn_inst *self)
{
  uint32_t depth = self->depth;
  self->depth = 0;
  mprotect(self->arena, ARENA, PROT_NONE);
  self->seen.hooks++;
  return depth;
}

static void resume(tn_inst *self, uint32_t depth)
{
  self->depth = depth;
  mprotect(self->arena, ARENA, PROT_READ | PROT_WRITE);
}

/* The record and tensors of a call back are the inner one's: the host gets copies that it may read. */
static tn_status on_observe(void *ctx, const tn_op *op, const tn_tensor *x, uint32_t n_rows)
{
  const hooks *h = ctx;
  tn_op mine = *op;
  tn_tensor t = *x;
  char name[96];
  snprintf(name, sizeof name, "%s", op->name);
  mine.name = name;
  uint32_t depth = suspend(h->self);
  tn_status st = h->host.observe(h->host.ctx, &mine, &t, n_rows);
  resume(h->self, depth);
  return st;
}

static tn_status on_collective(void *ctx, const tn_op *op, const tn_tensor *in, const tn_tensor *out, uint32_t n_rows)
{
  const hooks *h = ctx;
  tn_op mine = *op;
  tn_tensor a = in ? *in : (tn_tensor){0}, b = out ? *out : (tn_tensor){0};
  char name[96];
  snprintf(name, sizeof name, "%s", op->name);
  mine.name = name;
  uint32_t depth = suspend(h->self);
  tn_status st = h->host.collective(h->host.ctx, &mine, in ? &a : NULL, out ? &b : NULL, n_rows);
  resume(h->self, depth);
  return st;
}

/* ---------------------------------------------------------------- data to the host */

/* Room for n bytes that arrive at `to` with the next sync; until then there is rubbish. */
static late *expect(tn_inst *self, void *to, uint64_t n)
{
  late *l = malloc(sizeof *l + (size_t)n);
  if (!l) return NULL;
  l->next = NULL;
  l->to = to;
  l->n = (size_t)n;
  memset(to, 0xA5, (size_t)n);
  *self->last = l;
  self->last = &l->next;
  self->seen.late++;
  return l;
}

static void deliver(tn_inst *self, int keep)
{
  while (self->first) {
    late *l = self->first;
    self->first = l->next;
    if (keep) memcpy(l->to, l->bytes, l->n);
    free(l);
  }
  self->last = &self->first;
}

static tn_status download(tn_inst *self, const tn_buffer *src, uint64_t offset, void *dst, uint64_t bytes)
{
  late *l = expect(self, dst, bytes);
  if (!l) return TN_E_NOMEM;
  enter(self);
  tn_status st = self->v->download(self->in, src, offset, l->bytes, bytes);
  leave(self);
  return st;
}

static tn_status kv_page_read(tn_inst *self, const tn_kv *kv, uint32_t pool, int32_t page, void *dst)
{
  enter(self);
  late *l = expect(self, dst, self->v->kv_page_bytes(self->in, kv, pool));
  tn_status st = l ? self->v->kv_page_read(self->in, kv, pool, page, l->bytes) : TN_E_NOMEM;
  leave(self);
  return st;
}

static tn_status sync_all(tn_inst *self)
{
  enter(self);
  tn_status st = self->v->sync(self->in);
  leave(self);
  deliver(self, 1);
  return st;
}

/* ---------------------------------------------------------------- calls that only pass on */

/* clang-format off */
#define PASS(type_, call_, params_, ...)              \
  static type_ call_ params_                          \
  {                                                   \
    enter(self);                                      \
    type_ st = self->v->call_(self->in, __VA_ARGS__); \
    leave(self);                                      \
    return st;                                        \
  }
#define PASS_VOID(call_, type_)               \
  static void call_(tn_inst *self, type_ *x)  \
  {                                           \
    enter(self);                              \
    self->v->call_(self->in, x);              \
    leave(self);                              \
  }
PASS(tn_status, buffer_new, (tn_inst *self, uint64_t n, tn_buffer **out, tn_err *err), n, out, err)
PASS(tn_status, upload, (tn_inst *self, tn_buffer *to, uint64_t at, const void *p, uint64_t n), to, at, p, n)
PASS(tn_status, weight_read, (tn_inst *self, const tn_tensor *w, int64_t row, int64_t n, float *to), w, row, n, to)
PASS(tn_status, kv_open, (tn_inst *self, const tn_kv_plan *plan, tn_kv **out, tn_err *err), plan, out, err)
PASS(uint64_t, kv_page_bytes, (tn_inst *self, const tn_kv *kv, uint32_t pool), kv, pool)
PASS(tn_status, kv_move, (tn_inst *self, tn_kv *kv, const tn_kv_moves *m), kv, m)
PASS(tn_status, kv_page_write, (tn_inst *self, tn_kv *kv, uint32_t pool, int32_t page, const void *p), kv, pool, page, p)
PASS(tn_status, state_reset, (tn_inst *self, tn_kv *kv, uint32_t group, int32_t state), kv, group, state)
PASS(tn_status, state_fold, (tn_inst *self, tn_kv *kv, uint32_t group, const tn_kv_view *view), kv, group, view)
PASS(tn_status, act, (tn_inst *self, tn_prepared *p, uint32_t index, tn_tensor *out), p, index, out)
PASS(tn_status, op, (tn_inst *self, const tn_op *o, const tn_tensor *const *in, const tn_tensor *const *out,
                     const tn_tensor *const *w, int64_t n), o, in, out, w, n)
PASS_VOID(buffer_free, tn_buffer)
PASS_VOID(weight_free, tn_tensor)
PASS_VOID(kv_close, tn_kv)
PASS_VOID(prepared_free, tn_prepared)
/* clang-format on */

static tn_status info(tn_inst *self, tn_backend_info *out)
{
  *out =
      (tn_backend_info){.struct_size = sizeof *out, .max_rows = self->max_rows, .device = "a device of the test's own"};
  return TN_OK;
}

/* No use of the mapped file in place: it is not in the region. */
static tn_status weight_load(tn_inst *self, const tn_weight_src *src, tn_tensor *out, tn_err *err)
{
  tn_weight_src mine = *src;
  mine.flags &= ~(uint32_t)TN_WF_STABLE;
  enter(self);
  tn_status st = self->v->weight_load(self->in, &mine, out, err);
  leave(self);
  return st;
}

static tn_status run(tn_inst *self, tn_prepared *p, uint32_t first, uint32_t last, const tn_batch *b)
{
  self->seen.runs++;
  if (self->max_rows && b->n_rows > self->max_rows) self->seen.bad++;
  if (self->fail && self->seen.runs == (uint64_t)self->fail) return TN_E_DEVICE;
  enter(self);
  tn_status st = self->v->run(self->in, p, first, last, b);
  leave(self);
  return st;
}

static tn_status prepare(tn_inst *self, const tn_program *program, const tn_prepare *how, tn_kv *kv, tn_prepared **out,
                         tn_err *err)
{
  hooks *h = calloc(1, sizeof *h);
  if (!h) return TN_E_NOMEM;
  *h = (hooks){self->hooks, self, *how};
  tn_prepare mine = *how;
  mine.ctx = h;
  mine.observe = on_observe;
  mine.collective = on_collective;
  enter(self);
  tn_status st = self->v->prepare(self->in, program, &mine, kv, out, err);
  leave(self);
  self->hooks = h;
  return st;
}

/* ---------------------------------------------------------------- life and options */

static const void *ext(tn_inst *self, const char *id) { return strcmp(id, PROBE_EXT) == 0 ? &self->seen : NULL; }

static void destroy(tn_inst *self)
{
  if (self->in) {
    enter(self);
    self->desc->destroy(self->in);
    leave(self);
  }
  deliver(self, 0);
  while (self->hooks) {
    hooks *h = self->hooks;
    self->hooks = h->next;
    free(h);
  }
  if (self->arena) munmap(self->arena, ARENA);
  free(self);
}

/* The inner backend's file is loaded by us and never unloaded, as the host does with its own. */
static tn_status load(tn_inst *self, const char *path, tn_err *err)
{
  const tn_module *(*entry)(const tn_host *, tn_err *) = NULL;
  void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (so) *(void **)&entry = dlsym(so, TN_ENTRY_SYMBOL);
  const tn_module *m = entry ? entry(&self->host, err) : NULL;
  if (!m) {
    snprintf(err->msg, sizeof err->msg, "inner = %.200s cannot be loaded", path);
    return TN_E_IO;
  }
  self->desc = m->desc[0];
  self->v = self->desc->vtable;
  enter(self);
  tn_status st = self->desc->create(&self->host, NULL, &self->in, err);
  leave(self);
  return st;
}

static tn_status create(const tn_host *host, const tn_value *v, tn_inst **out, tn_err *err)
{
  tn_inst *self = calloc(1, sizeof *self);
  *out = NULL;
  if (!self) return TN_E_NOMEM;
  self->outer = host;
  self->outer_pool = host->service(host->ctx, "tenon.pool/1");
  self->host = *host;
  self->host.ctx = (tn_hctx *)(void *)self;
  self->host.log = inner_log;
  self->host.alloc = inner_alloc;
  self->host.free_ = inner_free;
  self->host.count = inner_count;
  self->host.service = inner_service;
  self->pool =
      (tn_svc_pool){sizeof self->pool, self->outer_pool ? self->outer_pool->n_workers : 1, inner_gang, inner_barrier};
  self->max_rows = (uint32_t)v[P_MAX_ROWS].v.i;
  self->fail = v[P_FAIL].v.i;
  self->last = &self->first;
  void *arena = mmap(NULL, ARENA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  self->arena = arena == MAP_FAILED ? NULL : arena;
  self->seen.region = self->arena;
  tn_status st = self->arena ? load(self, v[P_INNER].v.s, err) : TN_E_NOMEM;
  if (st != TN_OK) {
    destroy(self);
    return st;
  }
  *out = self;
  return TN_OK;
}

#define HEAD(key_, type_, def_) .struct_size = sizeof(tn_param), .key = key_, .help = key_, .type = type_, .def = def_
static const tn_param p_inner = {HEAD("inner", TN_T_PATH, "ref.so")};
static const tn_param p_rows = {HEAD("max_rows", TN_T_I64, "0"), .imin = 0, .imax = 1 << 20};
static const tn_param p_fail = {HEAD("fail", TN_T_I64, "0"), .imin = 0, .imax = 1 << 30};
static const tn_param *const params[] = {&p_inner, &p_rows, &p_fail, NULL};
/* clang-format off */
static const tn_backend_v1 vtable = {
    .struct_size = sizeof vtable, .info = info, .buffer_new = buffer_new, .buffer_free = buffer_free, .upload = upload,
    .download = download, .sync = sync_all, .weight_load = weight_load, .weight_free = weight_free,
    .weight_read = weight_read, .kv_open = kv_open, .kv_close = kv_close, .kv_page_bytes = kv_page_bytes,
    .kv_move = kv_move, .kv_page_read = kv_page_read, .kv_page_write = kv_page_write, .state_reset = state_reset,
    .state_fold = state_fold, .prepare = prepare, .prepared_free = prepared_free, .run = run, .act = act, .op = op};

static const char *const provides[] = {
    "attn.mask/1", "attn.tiles/1", "attn.tree/1", "attn.scores/1", "attn.lse/1", "attn.state/1", "rope.renumber/1",
    "kv.raw/1", "kv.per_head/1", "kv.layouts/1", "hidden.tap/1", "observe/1", "collective/1", "act.int8/1",
    "weight.affine/1", "weight.fp8/1", "weight.table/1", "run.range/1", NULL};
/* clang-format on */
static const char *const counters[] = {"runs", "records", "rows", "entries_moved", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_BACKEND,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC | TN_F_EXACT,
                             .id = "org.tenon.test.device",
                             .name = "device",
                             .version = "1.0.0",
                             .summary = "another backend in memory that nobody else can touch",
                             .provides = provides,
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .ext = ext,
                             .vtable = &vtable};

TN_PLUGIN(backend_device, "org.tenon.test.device", TN_SLOT_BACKEND, "1.0.0", "Tenon", "Apache-2.0", desc);
