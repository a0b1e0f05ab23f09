/* static_paged: the pages that a sequence may come to need are promised to it when it is admitted; it takes them as it grows.
 *
 * Paper    the static baseline of Kwon et al., SOSP 2023, section 3: reservation by the request's own limit
 * Maths    a sequence of at most M tokens is promised Q = ceil(M / page) pages a group; admitted while
 *          free pages - pages promised and not yet taken >= Q; of T tokens T / (Q page) of its places are used
 * Result   exact: where a page lies changes no bit
 * Cost     O(1) a page; pages stand idle behind short texts, but no running sequence ever waits for one
 * Needs    -        Conflicts  -
 * Options  page_tokens [16 | 32 | 64, default 16]
 *          quota [pages of a pool, 0..2^30, default 0]: requests that need more are refused; 0: the pool is the limit
 * Tests    tests/policy/test_memory.c
 */
#include <string.h>

#include <tenon/plugin_api.h>

#define NOBODY UINT32_MAX

typedef struct pool {
  int32_t *stack;           /* free ids, last given on top */
  uint32_t *owner;          /* [size] seat of the sequence that took the page; NOBODY: free, or the sequence is gone */
  uint8_t *taken;           /* [size] */
  uint32_t *has, *promised; /* [seats] pages that the sequence took and that came not back; pages it may have */
  uint32_t n, size, owed;   /* free; all; promised and not taken */
} pool;

struct tn_inst {
  const tn_host *host;
  uint32_t n_pools, page_tokens, n_seats, quota;
  uint64_t *seat; /* [n_seats] sequence, UINT64_MAX: free */
  pool *pools;
};

static void release(tn_inst *self)
{
  const tn_host *h = self->host;
  for (uint32_t p = 0; self->pools && p < self->n_pools; p++) {
    h->free_(h->ctx, self->pools[p].stack);
    h->free_(h->ctx, self->pools[p].owner);
    h->free_(h->ctx, self->pools[p].taken);
    h->free_(h->ctx, self->pools[p].has);
    h->free_(h->ctx, self->pools[p].promised);
  }
  h->free_(h->ctx, self->pools);
  h->free_(h->ctx, self->seat);
  self->pools = NULL;
  self->seat = NULL;
}

static tn_status make_pool(tn_inst *self, pool *p)
{
  const tn_host *h = self->host;
  p->stack = h->alloc(h->ctx, p->size * sizeof *p->stack, 8);
  p->owner = h->alloc(h->ctx, p->size * sizeof *p->owner, 8);
  p->taken = h->alloc(h->ctx, p->size, 8);
  p->has = h->alloc(h->ctx, self->n_seats * sizeof *p->has, 8);
  p->promised = h->alloc(h->ctx, self->n_seats * sizeof *p->promised, 8);
  if (!p->stack || !p->owner || !p->taken || !p->has || !p->promised) return TN_E_NOMEM;
  memset(p->taken, 0, p->size);
  memset(p->has, 0, self->n_seats * sizeof *p->has);
  memset(p->promised, 0, self->n_seats * sizeof *p->promised);
  for (uint32_t i = 0; i < p->size; i++) p->owner[i] = NOBODY, p->stack[i] = (int32_t)(p->size - 1 - i);
  p->n = p->size;
  return TN_OK;
}

static tn_status configure(tn_inst *self, const tn_mem_shape *shape, tn_err *err)
{
  (void)err;
  const tn_host *h = self->host;
  release(self);
  self->n_pools = shape->n_pools;
  self->n_seats = shape->max_seqs;
  self->pools = h->alloc(h->ctx, shape->n_pools * sizeof *self->pools, 8);
  self->seat = h->alloc(h->ctx, self->n_seats * sizeof *self->seat, 8);
  if (!self->pools || !self->seat) return TN_E_NOMEM;
  for (uint32_t s = 0; s < self->n_seats; s++) self->seat[s] = UINT64_MAX;
  for (uint32_t p = 0; p < shape->n_pools; p++) self->pools[p] = (pool){.size = shape->pool_pages[p]};
  for (uint32_t p = 0; p < shape->n_pools; p++) {
    tn_status st = make_pool(self, &self->pools[p]);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

static uint32_t quota(tn_inst *self, uint32_t p)
{
  uint32_t all = self->pools[p].size;
  return self->quota > 0 && self->quota < all ? self->quota : all;
}

static uint32_t seat_of(const tn_inst *self, uint64_t seq)
{
  uint32_t s = 0;
  while (s < self->n_seats && self->seat[s] != seq) s++;
  return s;
}

static tn_status admit(tn_inst *self, const tn_mem_need *need)
{
  for (uint32_t p = 0; p < need->n_pools; p++)
    if (need->most[p] > quota(self, p)) return TN_E_NEVER;
  uint32_t s = seat_of(self, UINT64_MAX);
  if (s == self->n_seats) return TN_E_FULL;
  for (uint32_t p = 0; p < need->n_pools; p++)
    if (self->pools[p].owed + need->most[p] > self->pools[p].n) return TN_E_FULL;
  self->seat[s] = need->seq;
  for (uint32_t p = 0; p < need->n_pools; p++) {
    self->pools[p].promised[s] = need->most[p];
    self->pools[p].owed += need->most[p];
    self->pools[p].has[s] = 0;
  }
  return TN_OK;
}

static uint32_t owed_to(const pool *p, uint32_t s)
{
  return p->promised[s] > p->has[s] ? p->promised[s] - p->has[s] : 0;
}

/* A sequence past its promise (others still hold pages that it has left) takes what nobody else was promised. */
static tn_status take(tn_inst *self, uint64_t seq, uint32_t pool_index, int32_t near, uint32_t n, int32_t *out)
{
  (void)near;
  pool *p = &self->pools[pool_index];
  uint32_t s = seat_of(self, seq);
  if (s == self->n_seats) return TN_E_STATE;
  uint32_t mine = owed_to(p, s);
  if (n > p->n - p->owed + mine) return TN_E_FULL;
  for (uint32_t i = 0; i < n; i++) {
    out[i] = p->stack[--p->n];
    p->taken[out[i]] = 1;
    p->owner[out[i]] = s;
  }
  p->has[s] += n;
  p->owed -= mine - owed_to(p, s);
  self->host->count(self->host->ctx, 0, n);
  return TN_OK;
}

static void give(tn_inst *self, uint32_t pool_index, uint32_t n, const int32_t *pages)
{
  pool *p = &self->pools[pool_index];
  for (uint32_t i = 0; i < n; i++) {
    if (pages[i] < 0 || (uint32_t)pages[i] >= p->size || !p->taken[pages[i]]) continue; /* given back before */
    uint32_t s = p->owner[pages[i]], before = s == NOBODY ? 0 : owed_to(p, s);
    p->taken[pages[i]] = 0;
    p->owner[pages[i]] = NOBODY;
    p->stack[p->n++] = pages[i];
    if (s == NOBODY) continue;
    p->has[s]--;
    p->owed += owed_to(p, s) - before;
  }
}

static void end(tn_inst *self, uint64_t seq)
{
  uint32_t s = seat_of(self, seq);
  if (s == self->n_seats) return;
  self->seat[s] = UINT64_MAX;
  for (uint32_t k = 0; k < self->n_pools; k++) {
    pool *p = &self->pools[k];
    p->owed -= owed_to(p, s);
    for (uint32_t i = 0; p->has[s] > 0 && i < p->size; i++) /* pages that others hold belong to nobody now */
      if (p->owner[i] == s) p->owner[i] = NOBODY, p->has[s]--;
    p->promised[s] = 0;
  }
}

/* What nobody was promised. */
static uint32_t free_pages(tn_inst *self, uint32_t p) { return self->pools[p].n - self->pools[p].owed; }

static uint32_t page_tokens(tn_inst *self) { return self->page_tokens; }

static tn_status create(const tn_host *host, const tn_value *values, tn_inst **out, tn_err *err)
{
  (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  **out = (struct tn_inst){.host = host, .page_tokens = 16u << values[0].v.i, .quota = (uint32_t)values[1].v.i};
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
static const tn_param p_quota = {.struct_size = sizeof p_quota,
                                 .type = TN_T_I64,
                                 .key = "quota",
                                 .help = "pages of a pool that one sequence may have; 0: all",
                                 .unit = "pages",
                                 .def = "0",
                                 .imax = 1 << 30};
static const tn_param *const params[] = {&p_page, &p_quota, NULL};
static const tn_memory_v1 vtable = {.struct_size = sizeof vtable,
                                    .configure = configure,
                                    .admit = admit,
                                    .take = take,
                                    .give = give,
                                    .end = end,
                                    .free_pages = free_pages,
                                    .page_tokens = page_tokens,
                                    .quota = quota};

static const char *const provides[] = {"kv.pages/1", "kv.share/1", "kv.token_drop/1", NULL};
static const char *const counters[] = {"pages_taken", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_MEMORY,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC | TN_F_EXACT,
                             .id = "org.tenon.static_paged",
                             .name = "static_paged",
                             .version = "1.0.0",
                             .summary = "pages promised at admission, by the request's own limit",
                             .provides = provides,
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(static_paged, "org.tenon.static_paged", TN_SLOT_MEMORY, "1.0.0", "Tenon", "Apache-2.0", desc);
