/* my_plugin: pages from one free list a pool.
 *
 * Paper    -
 * Maths    a sequence of T tokens holds ceil(T / page) pages
 * Result   exact: where a page lies changes no bit
 * Cost     O(1) a page taken or given; 4 bytes a page
 * Needs    -        Conflicts  -
 * Options  reserve  [pages, 0..2^20, default 0]: pages of each pool that stay free when a sequence is admitted
 */
#include <tenon/plugin_api.h>

typedef struct pool {
  int32_t *stack; /* [size] the first n are free ids */
  uint32_t n, size;
} pool;

struct tn_inst {
  const tn_host *host;
  uint32_t n_pools, reserve;
  pool *pools; /* [n_pools] */
};

static void release(tn_inst *self)
{
  for (uint32_t p = 0; p < self->n_pools; p++) self->host->free_(self->host->ctx, self->pools[p].stack);
  self->host->free_(self->host->ctx, self->pools);
  self->pools = NULL;
  self->n_pools = 0;
}

static tn_status configure(tn_inst *self, const tn_mem_shape *shape, tn_err *err)
{
  const tn_host *host = self->host;
  (void)err;
  release(self);
  self->pools = host->alloc(host->ctx, shape->n_pools * sizeof *self->pools, 8);
  if (!self->pools) return TN_E_NOMEM;
  for (uint32_t p = 0; p < shape->n_pools; p++) {
    pool *at = &self->pools[p];
    at->n = at->size = shape->pool_pages[p];
    at->stack = host->alloc(host->ctx, at->size * sizeof *at->stack, 8);
    self->n_pools = p + 1;
    if (!at->stack) return TN_E_NOMEM;
    for (uint32_t i = 0; i < at->size; i++) at->stack[i] = (int32_t)(at->size - 1 - i);
  }
  return TN_OK;
}

static tn_status admit(tn_inst *self, const tn_mem_need *need)
{
  for (uint32_t p = 0; p < need->n_pools; p++) {
    const pool *at = &self->pools[p];
    if (need->now[p] > at->size) return TN_E_NEVER;
    if (need->now[p] + (at->n == at->size ? 0 : self->reserve) > at->n) return TN_E_FULL;
  }
  return TN_OK;
}

static tn_status take(tn_inst *self, uint64_t seq, uint32_t p, int32_t near, uint32_t n, int32_t *out)
{
  pool *at = &self->pools[p];
  (void)seq, (void)near;
  if (n > at->n) return TN_E_FULL;
  for (uint32_t i = 0; i < n; i++) out[i] = at->stack[--at->n];
  self->host->count(self->host->ctx, 0, n);
  return TN_OK;
}

static void give(tn_inst *self, uint32_t p, uint32_t n, const int32_t *pages)
{
  pool *at = &self->pools[p];
  for (uint32_t i = 0; i < n && at->n < at->size; i++) at->stack[at->n++] = pages[i];
}

static void end(tn_inst *self, uint64_t seq) { (void)self, (void)seq; }

static uint32_t free_pages(tn_inst *self, uint32_t p) { return self->pools[p].n; }

static tn_status create(const tn_host *host, const tn_value *values, tn_inst **out, tn_err *err)
{
  (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  (*out)->host = host;
  (*out)->n_pools = 0;
  (*out)->reserve = (uint32_t)values[0].v.i;
  (*out)->pools = NULL;
  return TN_OK;
}

static void destroy(tn_inst *self)
{
  release(self);
  self->host->free_(self->host->ctx, self);
}

static const tn_param p_reserve = {.struct_size = sizeof p_reserve,
                                   .type = TN_T_I64,
                                   .key = "reserve",
                                   .help =
                                       "pages of each pool that stay free when a sequence is admitted beside others",
                                   .unit = "pages",
                                   .def = "0",
                                   .imin = 0,
                                   .imax = 1 << 20};
static const tn_param *const params[] = {&p_reserve, NULL};
static const tn_memory_v1 vtable = {.struct_size = sizeof vtable,
                                    .configure = configure,
                                    .admit = admit,
                                    .take = take,
                                    .give = give,
                                    .end = end,
                                    .free_pages = free_pages};

static const char *const provides[] = {"kv.pages/1", "kv.share/1", "kv.grow/1", "kv.token_drop/1", NULL};
static const char *const counters[] = {"pages_taken", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_MEMORY,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC | TN_F_EXACT,
                             .id = "org.example.my_plugin",
                             .name = "my_plugin",
                             .version = "0.1.0",
                             .summary = "pages from one free list a pool",
                             .provides = provides,
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(my_plugin, "org.example.my_plugin", TN_SLOT_MEMORY, "0.1.0", "Example", "Apache-2.0", desc);
