/* A plugin's instance and its host context: services, counters, allocations, log lines, failures of create(). */
#include "host/instance.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"
#include "host/rng.h"

struct tn_inst {
  const tn_host *host;
  void *kept;
};

enum { OK, FAILS, SAYS_NOTHING, NO_INSTANCE };

static tn_status create(const tn_host *host, const tn_value *values, tn_inst **out, tn_err *err)
{
  int64_t mode = values[0].v.i;
  *out = NULL;
  if (mode == FAILS) {
    err->code = TN_E_ARG;
    snprintf(err->msg, sizeof err->msg, "window = 3: must be even");
    return TN_E_ARG;
  }
  if (mode == SAYS_NOTHING) return TN_E_DEVICE;
  if (mode == NO_INSTANCE) return TN_OK;
  tn_inst *in = host->alloc(host->ctx, sizeof *in, 8);
  *in = (tn_inst){.host = host};
  *out = in;
  return TN_OK;
}

static void destroy(tn_inst *in) { in->host->free_(in->host->ctx, in); }

static const char *const counters[] = {"used", "skipped", NULL};
static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_EVICTION,
                             .id = "org.example.stub",
                             .name = "stub",
                             .version = "1.0.0",
                             .counters = counters,
                             .create = create,
                             .destroy = destroy};

static const tn_value ok = {.type = TN_T_I64, .v.i = OK};

static tn_instance open_with(const tn_services *s)
{
  tn_instance in;
  tn_err err = tn_err_init();
  tn_status st = tn_instance_new(&desc, &ok, s, &in, &err);
  cr_assert(st == TN_OK, "%s", err.msg);
  return in;
}

static const tn_host *host_of(const tn_instance *in) { return in->inst->host; }

Test(host_instance, failures_name_slot_plugin_and_phase)
{
  static const tn_services none;
  const struct {
    int64_t mode;
    tn_status st;
    const char *text;
  } cases[] = {{FAILS, TN_E_ARG, "eviction/stub: create: window = 3: must be even"},
               {SAYS_NOTHING, TN_E_DEVICE, "eviction/stub: create: TN_E_DEVICE"},
               {NO_INSTANCE, TN_E_INTERNAL, "eviction/stub: create: create succeeded without an instance"}};
  for (size_t i = 0; i < TN_ARRAY_LEN(cases); i++) {
    tn_value v = {.type = TN_T_I64, .v.i = cases[i].mode};
    tn_instance in;
    tn_err err = tn_err_init();
    cr_expect(eq(int, tn_instance_new(&desc, &v, &none, &in, &err), cases[i].st));
    cr_expect(eq(str, err.msg, (char *)cases[i].text));
    cr_expect(in.desc == NULL && tn_instance_release(&in) == 0);
  }
}

Test(host_instance, the_host_describes_itself)
{
  static const tn_services none;
  tn_instance in = open_with(&none);
  const tn_host *h = host_of(&in);
  cr_expect(h->struct_size == sizeof *h && h->abi_major == TN_ABI_MAJOR && h->abi_minor == TN_ABI_MINOR);
  cr_expect(eq(str, (char *)h->name, "tenon"));
  cr_expect(in.values == &ok && in.desc == &desc);
  tn_instance_release(&in);
  cr_expect(in.desc == NULL && in.inst == NULL);
}

Test(host_instance, counters)
{
  static const tn_services none;
  tn_instance a = open_with(&none), b = open_with(&none);
  const tn_host *h = host_of(&a);
  h->count(h->ctx, 0, 3);
  h->count(h->ctx, 0, 4);
  h->count(h->ctx, 1, 1);
  h->count(h->ctx, 1000, 1); /* no such counter: ignored */
  cr_expect(eq(u64, tn_instance_count(&a, 0), 7));
  cr_expect(eq(u64, tn_instance_count(&a, 1), 1));
  cr_expect(eq(u64, tn_instance_count(&a, 2), 0));
  cr_expect(eq(u64, tn_instance_count(&a, 1000), 0));
  cr_expect(eq(u64, tn_instance_count(&b, 0), 0)); /* each instance has its own */
  tn_instance_release(&a);
  tn_instance_release(&b);
  cr_expect(eq(u64, tn_instance_count(&a, 0), 0));
}

Test(host_instance, allocations_are_aligned_zeroed_and_counted)
{
  static const tn_services none;
  tn_instance in = open_with(&none);
  const tn_host *h = host_of(&in);
  void *held[24];
  size_t n = 0;
  for (uint64_t align = 1; align <= 1u << 21; align *= 2) {
    unsigned char *p = h->alloc(h->ctx, 100, align);
    cr_assert(p != NULL, "align %lu", (unsigned long)align);
    cr_expect(0 == ((uintptr_t)p & (align - 1)), "align %lu", (unsigned long)align);
    for (int i = 0; i < 100; i++) cr_assert(p[i] == 0);
    memset(p, 0xff, 100);
    held[n++] = p;
  }
  cr_expect(h->alloc(h->ctx, 8, 0) == NULL);
  cr_expect(h->alloc(h->ctx, 8, 24) == NULL);
  cr_expect(h->alloc(h->ctx, 8, (uint64_t)1 << 22) == NULL);
  cr_expect(h->alloc(h->ctx, UINT64_MAX, 8) == NULL);
  cr_expect(h->alloc(h->ctx, UINT64_MAX / 2 - 4, 8) == NULL);
  void *empty = h->alloc(h->ctx, 0, 8);
  cr_expect(empty != NULL);
  h->free_(h->ctx, empty);
  h->free_(h->ctx, NULL);
  for (size_t i = 2; i < n; i++) h->free_(h->ctx, held[i]);
  void *left[2];
  memcpy(left, held, sizeof left);
  cr_expect(eq(u64, tn_instance_release(&in), 2), "two allocations were left behind");
  for (size_t i = 0; i < 2; i++) { /* as the host frees: the block's start is kept before it */
    char *raw;
    memcpy(&raw, (char *)left[i] - sizeof raw, sizeof raw);
    free(raw);
  }
}

static void note(void *arg, uint32_t worker, uint32_t n)
{
  uint32_t *seen = arg;
  seen[worker] = n;
}

Test(host_instance, services)
{
  static const tn_svc_ops ops = {.struct_size = sizeof ops};
  static const tn_svc_model model = {.struct_size = sizeof model};
  static int engine;
  tn_pool *pool;
  cr_assert(tn_pool_new(3, &pool, NULL) == TN_OK);
  tn_services all = {.pool = pool, .ops = &ops, .model = &model, .engine = &engine};
  tn_instance in = open_with(&all);
  const tn_host *h = host_of(&in);
  const tn_svc_pool *p = h->service(h->ctx, "tenon.pool/1");
  cr_assert(p && p->struct_size == sizeof *p && p->n_workers == 3 && tn_instance_pool(&in) == p);
  uint32_t seen[3] = {0};
  p->gang(h->ctx, note, seen);
  cr_expect(seen[0] == 3 && seen[1] == 3 && seen[2] == 3);
  cr_expect(h->service(h->ctx, "tenon.ops/1") == &ops);
  cr_expect(h->service(h->ctx, "tenon.model/1") == &model);
  cr_expect(tn_hctx_engine(in.ctx) == &engine);
  const tn_svc_clock *c = h->service(h->ctx, "tenon.clock/1");
  cr_assert(c && c->struct_size == sizeof *c);
  uint64_t before = c->now_ns(h->ctx);
  cr_expect(c->now_ns(h->ctx) >= before && before > 0);
  const tn_svc_rng *r = h->service(h->ctx, "tenon.rng/1");
  cr_assert(r && r->struct_size == sizeof *r);
  cr_expect(r->uniform(h->ctx, 1, 2, 0, 3) == tn_rng_uniform(1, 2, TN_RNG_PLUGIN, 3));
  cr_expect(r->uniform(h->ctx, 1, 2, TN_RNG_SAMPLE, 3) != tn_rng_uniform(1, 2, TN_RNG_SAMPLE, 3));
  cr_expect(h->service(h->ctx, "tenon.pool/2") == NULL);
  cr_expect(h->service(h->ctx, "") == NULL);
  cr_expect(h->service(h->ctx, NULL) == NULL);
  tn_instance_release(&in);
  tn_pool_free(pool);
}

Test(host_instance, services_that_are_not_there)
{
  static const tn_services none;
  tn_instance in = open_with(&none);
  const tn_host *h = host_of(&in);
  cr_expect(h->service(h->ctx, "tenon.pool/1") == NULL && tn_instance_pool(&in) == NULL);
  cr_expect(h->service(h->ctx, "tenon.ops/1") == NULL);
  cr_expect(h->service(h->ctx, "tenon.model/1") == NULL);
  cr_expect(h->service(h->ctx, "tenon.rng/1") != NULL);
  h->log(h->ctx, TN_LOG_INFO, "to nobody");
  tn_instance_release(&in);
}

static char last_line[256];
static int32_t last_level;

static void keep_line(void *ctx, int32_t level, const char *msg)
{
  ++*(int *)ctx;
  last_level = level;
  snprintf(last_line, sizeof last_line, "%s", msg);
}

Test(host_instance, log_lines_say_who)
{
  int lines = 0;
  tn_services s = {.log = keep_line, .log_ctx = &lines};
  tn_instance in = open_with(&s);
  const tn_host *h = host_of(&in);
  h->log(h->ctx, TN_LOG_WARN, "window shrunk");
  h->log(h->ctx, TN_LOG_WARN, NULL);
  cr_expect(eq(int, lines, 1));
  cr_expect(eq(int, last_level, TN_LOG_WARN));
  cr_expect(eq(str, last_line, "eviction/stub: window shrunk"));
  tn_instance_release(&in);
}
