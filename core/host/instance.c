/* instance: see instance.h. */
#include "instance.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "loader/slot.h"
#include "rng.h"

#define MAX_COUNTERS 16u

struct tn_hctx {
  tn_host host;
  tn_svc_pool pool;
  const tn_services *services;
  const tn_desc *desc;
  atomic_ullong counters[MAX_COUNTERS];
  atomic_ullong live; /* allocations not yet freed */
};

static void host_log(tn_hctx *ctx, int32_t level, const char *msg)
{
  const tn_services *s = ctx->services;
  if (!s->log || !msg) return;
  char *line = tn_asprintf("%s/%s: %s", tn_slot_name(ctx->desc->slot), ctx->desc->name, msg);
  s->log(s->log_ctx, level, line ? line : msg);
  free(line);
}

static void *host_alloc(tn_hctx *ctx, uint64_t bytes, uint64_t align)
{
  if (bytes > SIZE_MAX / 2 || align == 0 || (align & (align - 1)) != 0 || align > 1u << 21) return NULL;
  size_t a = align < 64 ? 64 : (size_t)align, n = bytes ? (size_t)bytes : 1;
  /* An own header keeps to the four wrapped allocator calls: the block starts at the first multiple of `align`. */
  size_t total;
  if (!tn_add_size(n, a + sizeof(void *), &total)) return NULL;
  char *raw = calloc(1, total);
  if (!raw) return NULL;
  uintptr_t at = ((uintptr_t)raw + sizeof(void *) + a - 1) & ~(uintptr_t)(a - 1);
  memcpy((char *)at - sizeof(void *), &raw, sizeof raw);
  atomic_fetch_add(&ctx->live, 1);
  return (void *)at;
}

static void host_free(tn_hctx *ctx, void *p)
{
  if (!p) return;
  char *raw;
  memcpy(&raw, (char *)p - sizeof(void *), sizeof raw);
  atomic_fetch_sub(&ctx->live, 1);
  free(raw);
}

static void host_count(tn_hctx *ctx, uint32_t counter, uint64_t n)
{
  if (counter < MAX_COUNTERS) atomic_fetch_add_explicit(&ctx->counters[counter], n, memory_order_relaxed);
}

static void pool_gang(tn_hctx *ctx, void (*fn)(void *, uint32_t, uint32_t), void *arg)
{
  tn_pool_gang(ctx->services->pool, fn, arg);
}

static void pool_barrier(tn_hctx *ctx) { tn_pool_barrier(ctx->services->pool); }

static double rng_uniform(tn_hctx *ctx, uint64_t request, uint64_t position, uint32_t purpose, uint32_t index)
{
  (void)ctx;
  return tn_rng_uniform(request, position, TN_RNG_PLUGIN + purpose, index);
}

static uint64_t clock_now(tn_hctx *ctx)
{
  const tn_services *s = ctx->services;
  return s->clock ? s->clock(s->clock_ctx) : tn_now_ns();
}

static const void *cache_get(tn_hctx *ctx, const char *form, const char *key, uint64_t bytes)
{
  return form && key ? tn_wcache_get(ctx->services->wcache, form, key, bytes) : NULL;
}

static void cache_put(tn_hctx *ctx, const char *form, const char *key, const void *p, uint64_t bytes)
{
  if (form && key && p) tn_wcache_put(ctx->services->wcache, form, key, p, bytes);
}

static const tn_svc_cache svc_cache = {sizeof(tn_svc_cache), 0, cache_get, cache_put};
static const tn_svc_rng svc_rng = {sizeof(tn_svc_rng), 0, rng_uniform};
static const tn_svc_clock svc_clock = {sizeof(tn_svc_clock), 0, clock_now};

static const void *host_service(tn_hctx *ctx, const char *id)
{
  if (!id) return NULL;
  if (strcmp(id, "tenon.pool/1") == 0) return ctx->services->pool ? &ctx->pool : NULL;
  if (strcmp(id, "tenon.rng/1") == 0) return &svc_rng;
  if (strcmp(id, "tenon.clock/1") == 0) return &svc_clock;
  if (strcmp(id, "tenon.cache/1") == 0) return ctx->services->wcache ? &svc_cache : NULL;
  if (strcmp(id, "tenon.ops/1") == 0) return ctx->services->ops;
  if (strcmp(id, "tenon.model/1") == 0) return ctx->services->model;
  return NULL;
}

static tn_hctx *context_new(const tn_desc *desc, const tn_services *services)
{
  tn_hctx *c = tn_zalloc(1, sizeof *c);
  if (!c) return NULL;
  c->services = services;
  c->desc = desc;
  c->host = (tn_host){.struct_size = sizeof(tn_host),
                      .abi_major = TN_ABI_MAJOR,
                      .abi_minor = TN_ABI_MINOR,
                      .name = "tenon",
                      .version = TN_VERSION,
                      .ctx = c,
                      .log = host_log,
                      .alloc = host_alloc,
                      .free_ = host_free,
                      .count = host_count,
                      .service = host_service};
  c->pool =
      (tn_svc_pool){sizeof(tn_svc_pool), services->pool ? tn_pool_size(services->pool) : 1, pool_gang, pool_barrier};
  return c;
}

tn_status tn_instance_new(const tn_desc *desc, const tn_value *values, const tn_services *services, tn_instance *out,
                          tn_err *err)
{
  *out = (tn_instance){0};
  tn_hctx *ctx = context_new(desc, services);
  if (!ctx) return tn_fail(err, TN_E_NOMEM, "%s/%s: create: no memory", tn_slot_name(desc->slot), desc->name);
  tn_err why = tn_err_init();
  tn_inst *inst = NULL;
  tn_status st = desc->create(&ctx->host, values, &inst, &why);
  if (st == TN_OK && !inst) st = tn_fail(&why, TN_E_INTERNAL, "create succeeded without an instance");
  if (st != TN_OK) {
    free(ctx);
    return tn_fail(err, st, "%s/%s: create: %s", tn_slot_name(desc->slot), desc->name,
                   why.msg[0] ? why.msg : tn_status_name(st));
  }
  *out = (tn_instance){desc, inst, ctx, values};
  return TN_OK;
}

uint64_t tn_instance_release(tn_instance *i)
{
  if (!i->desc) return 0;
  i->desc->destroy(i->inst);
  uint64_t left = atomic_load(&i->ctx->live);
  free(i->ctx);
  *i = (tn_instance){0};
  return left;
}

uint64_t tn_instance_count(const tn_instance *i, uint32_t k)
{
  return k < MAX_COUNTERS && i->ctx ? atomic_load_explicit(&i->ctx->counters[k], memory_order_relaxed) : 0;
}

const tn_svc_pool *tn_instance_pool(const tn_instance *i) { return i->ctx->services->pool ? &i->ctx->pool : NULL; }

void *tn_hctx_engine(const tn_hctx *ctx) { return ctx->services->engine; }
