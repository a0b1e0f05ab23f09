/* backend_host: the mock host's side: allocation ledger, pool service, loading. */
#include "backend_host.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend_pool.h"

struct tn_hctx {
  backend_pool *pool;
  uint64_t live, allocs, fail_in; /* fail_in: the n-th allocation from now fails; 0: none */
  uint64_t counters[BACKEND_COUNTERS];
  tn_svc_pool svc_pool;
};

struct backend_host {
  tn_hctx ctx;
  tn_host api;
  void *so;
};

static void host_log(tn_hctx *ctx, int32_t level, const char *msg)
{
  (void)ctx;
  (void)level;
  (void)msg;
}

static void *host_alloc(tn_hctx *ctx, uint64_t bytes, uint64_t align)
{
  if (ctx->fail_in && --ctx->fail_in == 0) return NULL;
  void *p = NULL;
  if (posix_memalign(&p, align < sizeof(void *) ? sizeof(void *) : (size_t)align, bytes ? (size_t)bytes : 1)) {
    return NULL;
  }
  ctx->live++;
  ctx->allocs++;
  return p;
}

static void host_free(tn_hctx *ctx, void *p)
{
  if (!p) return;
  ctx->live--;
  free(p);
}

static void host_count(tn_hctx *ctx, uint32_t counter, uint64_t n)
{
  if (counter < BACKEND_COUNTERS) __atomic_fetch_add(&ctx->counters[counter], n, __ATOMIC_RELAXED);
}

static const void *host_service(tn_hctx *ctx, const char *id)
{
  return strcmp(id, "tenon.pool/1") == 0 ? &ctx->svc_pool : NULL;
}

static void svc_gang(tn_hctx *ctx, void (*fn)(void *, uint32_t, uint32_t), void *arg)
{
  backend_pool_gang(ctx->pool, fn, arg);
}

static void svc_barrier(tn_hctx *ctx) { backend_pool_barrier(ctx->pool); }

static void host_init(struct backend_host *h, uint32_t n_threads)
{
  h->ctx.svc_pool = (tn_svc_pool){sizeof(tn_svc_pool), n_threads, svc_gang, svc_barrier};
  h->api = (tn_host){.struct_size = sizeof(tn_host),
                     .abi_major = TN_ABI_MAJOR,
                     .abi_minor = TN_ABI_MINOR,
                     .name = "test",
                     .version = "0.1.0",
                     .ctx = &h->ctx,
                     .log = host_log,
                     .alloc = host_alloc,
                     .free_ = host_free,
                     .count = host_count,
                     .service = host_service};
}

static void why(tn_err *err, const char *what, const char *detail)
{
  err->code = TN_E_INTERNAL;
  snprintf(err->msg, sizeof err->msg, "%.200s: %.280s", what, detail ? detail : "unknown");
}

/* Path of the plugin's file. */
static void plugin_path(char *out, size_t size, const char *name)
{
  const char *build = getenv("TN_BUILD_DIR");
  if (!build) build = TN_BUILD_DIR;
  if (strchr(name, '/')) {
    snprintf(out, size, "%s", name);
  } else {
    snprintf(out, size, "%s/lib/tenon/backend/%s.so", build, name);
  }
}

static bool load(backend *b, const char *name, tn_err *err)
{
  char path[4096];
  plugin_path(path, sizeof path, name);
  b->host->so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!b->host->so) {
    why(err, path, dlerror());
    return false;
  }
  const tn_module *(*entry)(const tn_host *, tn_err *) = NULL;
  *(void **)&entry = dlsym(b->host->so, TN_ENTRY_SYMBOL);
  const tn_module *m = entry ? entry(&b->host->api, err) : NULL;
  if (!m || m->n_desc < 1 || m->desc[0]->slot != TN_SLOT_BACKEND) {
    if (!err->code) why(err, path, "no backend in it");
    return false;
  }
  b->desc = m->desc[0];
  b->v = b->desc->vtable;
  return true;
}

backend *backend_open(const char *name, uint32_t n_threads, const tn_value *values, tn_err *err)
{
  *err = (tn_err){.struct_size = sizeof(tn_err)};
  backend *b = calloc(1, sizeof *b);
  if (!b) return NULL;
  b->host = calloc(1, sizeof *b->host);
  if (b->host) {
    host_init(b->host, n_threads);
    b->host->ctx.pool = backend_pool_new(n_threads);
  }
  if (b->host && b->host->ctx.pool && load(b, name, err)) b->inst = backend_another(b, values, err);
  if (b->inst) return b;
  backend_close(b);
  return NULL;
}

tn_inst *backend_another(backend *b, const tn_value *values, tn_err *err)
{
  tn_inst *inst = NULL;
  return b->desc->create(&b->host->api, values, &inst, err) == TN_OK ? inst : NULL;
}

uint64_t backend_close(backend *b)
{
  if (!b) return 0;
  uint64_t left = 0;
  if (b->inst) b->desc->destroy(b->inst);
  if (b->host) {
    left = b->host->ctx.live;
    backend_pool_free(b->host->ctx.pool);
    if (b->host->so) dlclose(b->host->so);
  }
  free(b->host);
  free(b);
  return left;
}

uint64_t backend_live(const backend *b) { return b->host->ctx.live; }

uint64_t backend_allocs(const backend *b) { return b->host->ctx.allocs; }

uint64_t backend_counter(const backend *b, uint32_t counter) { return b->host->ctx.counters[counter]; }

void backend_fail_at(backend *b, uint64_t n) { b->host->ctx.fail_in = n; }
