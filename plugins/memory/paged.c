/* paged: pages as needed, from one free list a pool; out of pages is for the scheduler to solve.
 *
 * Paper    Kwon et al., Efficient Memory Management for LLM Serving with PagedAttention, SOSP 2023, section 4
 * Maths    a sequence of T tokens holds ceil(T / page) pages, so less than one page a group is wasted
 * Result   exact: where a page lies changes no bit
 * Cost     O(1) a page taken or given; 5 bytes a page
 * Needs    -        Conflicts  -
 * Options  page_tokens [16 | 32 | 64, default 16]   watermark [0..0.5, default 0.01]: share of a pool that stays free
 *          when a sequence is admitted, so that running ones can grow
 * Tests    tests/policy/test_memory.c
 */
#include <string.h>

#include <tenon/plugin_api.h>

typedef struct pool {
  int32_t *stack; /* free ids, last given on top */
  uint8_t *taken; /* [size] */
  uint32_t n, size;
} pool;

struct tn_inst {
  const tn_host *host;
  uint32_t n_pools, page_tokens;
  double watermark;
  pool *pools;
};

static void release(tn_inst *self)
{
  const tn_host *h = self->host;
  for (uint32_t p = 0; self->pools && p < self->n_pools; p++) {
    h->free_(h->ctx, self->pools[p].stack);
    h->free_(h->ctx, self->pools[p].taken);
  }
  h->free_(h->ctx, self->pools);
  self->pools = NULL;
}

static tn_status configure(tn_inst *self, const tn_mem_shape *shape, tn_err *err)
{
  (void)err;
  const tn_host *h = self->host;
  release(self);
  self->n_pools = shape->n_pools;
  self->pools = h->alloc(h->ctx, shape->n_pools * sizeof *self->pools, 8);
  if (!self->pools) return TN_E_NOMEM;
  for (uint32_t p = 0; p < shape->n_pools; p++) self->pools[p] = (pool){NULL, NULL, 0, shape->pool_pages[p]};
  for (uint32_t p = 0; p < shape->n_pools; p++) {
    pool *at = &self->pools[p];
    at->stack = h->alloc(h->ctx, at->size * sizeof *at->stack, 8);
    at->taken = h->alloc(h->ctx, at->size, 8);
    if (!at->stack || !at->taken) return TN_E_NOMEM;
    memset(at->taken, 0, at->size);
    for (uint32_t i = 0; i < at->size; i++) at->stack[i] = (int32_t)(at->size - 1 - i);
    at->n = at->size;
  }
  return TN_OK;
}

static tn_status admit(tn_inst *self, const tn_mem_need *need)
{
  for (uint32_t p = 0; p < need->n_pools; p++) {
    const pool *at = &self->pools[p];
    if (need->now[p] > at->size) return TN_E_NEVER;
    uint32_t low = (uint32_t)(self->watermark * at->size);
    int empty = at->n == at->size; /* nobody else is there: the watermark protects no one */
    if (need->now[p] + (empty ? 0 : low) > at->n) return TN_E_FULL;
  }
  return TN_OK;
}

static tn_status take(tn_inst *self, uint64_t seq, uint32_t p, int32_t near, uint32_t n, int32_t *out)
{
  (void)seq, (void)near;
  pool *at = &self->pools[p];
  if (n > at->n) return TN_E_FULL;
  for (uint32_t i = 0; i < n; i++) {
    out[i] = at->stack[--at->n];
    at->taken[out[i]] = 1;
  }
  self->host->count(self->host->ctx, 0, n);
  return TN_OK;
}

static void give(tn_inst *self, uint32_t p, uint32_t n, const int32_t *pages)
{
  pool *at = &self->pools[p];
  for (uint32_t i = 0; i < n; i++) {
    if (pages[i] < 0 || (uint32_t)pages[i] >= at->size || !at->taken[pages[i]]) continue; /* given back before */
    at->taken[pages[i]] = 0;
    at->stack[at->n++] = pages[i];
  }
}

static void end(tn_inst *self, uint64_t seq) { (void)self, (void)seq; }

static uint32_t free_pages(tn_inst *self, uint32_t p) { return self->pools[p].n; }

static uint32_t page_tokens(tn_inst *self) { return self->page_tokens; }

static tn_status create(const tn_host *host, const tn_value *values, tn_inst **out, tn_err *err)
{
  (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  **out = (struct tn_inst){.host = host, .page_tokens = 16u << values[0].v.i, .watermark = values[1].v.f};
  return TN_OK;
}

static void destroy(tn_inst *self)
{
  release(self);
  self->host->free_(self->host->ctx, self);
}

static const char *const sizes[] = {"16", "32", "64"};
static const tn_param p_page = {.struct_size = sizeof p_page,
                                .type = TN_T_ENUM,
                                .n_choices = 3,
                                .key = "page_tokens",
                                .help = "tokens of one page",
                                .unit = "tokens",
                                .def = "16",
                                .choices = sizes};
static const tn_param p_watermark = {.struct_size = sizeof p_watermark,
                                     .type = TN_T_F64,
                                     .key = "watermark",
                                     .help = "share of the pages kept free when a sequence is admitted beside others",
                                     .def = "0.01",
                                     .fmin = 0,
                                     .fmax = 0.5};
static const tn_param *const params[] = {&p_page, &p_watermark, NULL};
static const tn_memory_v1 vtable = {.struct_size = sizeof vtable,
                                    .configure = configure,
                                    .admit = admit,
                                    .take = take,
                                    .give = give,
                                    .end = end,
                                    .free_pages = free_pages,
                                    .page_tokens = page_tokens};

static const char *const provides[] = {"kv.pages/1", "kv.share/1", "kv.grow/1", "kv.token_drop/1", NULL};
static const char *const counters[] = {"pages_taken", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_MEMORY,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC | TN_F_EXACT,
                             .id = "org.tenon.paged",
                             .name = "paged",
                             .version = "1.0.0",
                             .summary = "pages as needed, from one free list (PagedAttention, Kwon et al. 2023)",
                             .provides = provides,
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(paged, "org.tenon.paged", TN_SLOT_MEMORY, "1.0.0", "Tenon", "Apache-2.0", desc);
