/* contiguous: one slab a sequence, reserved when it is admitted.
 *
 * Paper    the baseline of Kwon et al., SOSP 2023, section 3: reservation for the longest possible text
 * Maths    slab k of a pool = pages [k P, (k + 1) P), P = pages of a sequence of full length
 * Result   exact: where a page lies changes no bit
 * Cost     P pages a sequence from its first token, however short it stays; a running sequence never waits for pages
 * Needs    -        Conflicts  -
 * Options  page_tokens [16 | 32 | 64, default 64]
 * Tests    tests/policy/test_memory.c
 */
#include <string.h>

#include <tenon/plugin_api.h>

#define NOBODY UINT64_MAX

typedef struct pool {
  uint8_t *taken; /* [pages] */
  uint32_t *held; /* [slabs] pages taken, also those that another sequence shares or that outlive the owner */
  uint32_t per_slab, pages;
} pool;

struct tn_inst {
  const tn_host *host;
  uint32_t n_pools, page_tokens, n_slabs;
  uint64_t *owner; /* [n_slabs] */
  pool *pools;
};

static void release(tn_inst *self)
{
  const tn_host *h = self->host;
  for (uint32_t p = 0; self->pools && p < self->n_pools; p++) {
    h->free_(h->ctx, self->pools[p].taken);
    h->free_(h->ctx, self->pools[p].held);
  }
  h->free_(h->ctx, self->pools);
  h->free_(h->ctx, self->owner);
  self->pools = NULL;
  self->owner = NULL;
}

static tn_status make_pool(tn_inst *self, pool *p)
{
  const tn_host *h = self->host;
  p->taken = h->alloc(h->ctx, p->pages, 8);
  p->held = h->alloc(h->ctx, self->n_slabs * sizeof *p->held, 8);
  if (!p->taken || !p->held) return TN_E_NOMEM;
  memset(p->taken, 0, p->pages);
  memset(p->held, 0, self->n_slabs * sizeof *p->held);
  return TN_OK;
}

static tn_status configure(tn_inst *self, const tn_mem_shape *shape, tn_err *err)
{
  (void)err;
  const tn_host *h = self->host;
  release(self);
  self->n_pools = shape->n_pools;
  self->n_slabs = shape->max_seqs;
  for (uint32_t p = 0; p < shape->n_pools; p++) {
    uint32_t fit = shape->pool_pages[p] / shape->pages_per_seq[p];
    if (fit < self->n_slabs) self->n_slabs = fit;
  }
  if (self->n_slabs == 0) self->n_slabs = 1; /* a smaller pool than one full sequence: one slab of all its pages */
  self->pools = h->alloc(h->ctx, shape->n_pools * sizeof *self->pools, 8);
  self->owner = h->alloc(h->ctx, self->n_slabs * sizeof *self->owner, 8);
  if (!self->pools || !self->owner) return TN_E_NOMEM;
  for (uint32_t s = 0; s < self->n_slabs; s++) self->owner[s] = NOBODY;
  for (uint32_t p = 0; p < shape->n_pools; p++)
    self->pools[p] = (pool){NULL, NULL, shape->pool_pages[p] / self->n_slabs, shape->pool_pages[p]};
  for (uint32_t p = 0; p < shape->n_pools; p++) {
    tn_status st = make_pool(self, &self->pools[p]);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

static uint32_t slab_of(const tn_inst *self, uint64_t seq)
{
  uint32_t s = 0;
  while (s < self->n_slabs && self->owner[s] != seq) s++;
  return s;
}

static int slab_empty(const tn_inst *self, uint32_t s)
{
  if (self->owner[s] != NOBODY) return 0;
  for (uint32_t p = 0; p < self->n_pools; p++)
    if (self->pools[p].held[s] > 0) return 0;
  return 1;
}

static tn_status admit(tn_inst *self, const tn_mem_need *need)
{
  for (uint32_t p = 0; p < need->n_pools; p++)
    if (need->most[p] > self->pools[p].per_slab) return TN_E_NEVER;
  for (uint32_t s = 0; s < self->n_slabs; s++) {
    if (!slab_empty(self, s)) continue;
    self->owner[s] = need->seq;
    return TN_OK;
  }
  return TN_E_FULL;
}

/* Pages of the slab in order from behind `near` on, so that a growing sequence stays in one piece. */
static tn_status take(tn_inst *self, uint64_t seq, uint32_t pool_index, int32_t near, uint32_t n, int32_t *out)
{
  pool *p = &self->pools[pool_index];
  uint32_t s = slab_of(self, seq);
  if (s == self->n_slabs) return TN_E_STATE;
  uint32_t first = s * p->per_slab, at = near >= 0 ? (uint32_t)near + 1 - first : 0;
  if (p->held[s] + n > p->per_slab) return TN_E_FULL; /* others share pages that the owner has left */
  for (uint32_t got = 0, tried = 0; got < n && tried < 2 * p->per_slab; tried++, at++) {
    uint32_t page = first + at % p->per_slab;
    if (p->taken[page]) continue;
    p->taken[page] = 1;
    out[got++] = (int32_t)page;
  }
  p->held[s] += n;
  self->host->count(self->host->ctx, 0, n);
  return TN_OK;
}

static void give(tn_inst *self, uint32_t pool_index, uint32_t n, const int32_t *pages)
{
  pool *p = &self->pools[pool_index];
  for (uint32_t i = 0; i < n; i++) {
    if (pages[i] < 0 || (uint32_t)pages[i] >= p->pages || !p->taken[pages[i]]) continue; /* given back before */
    p->taken[pages[i]] = 0;
    p->held[(uint32_t)pages[i] / p->per_slab]--;
  }
}

static void end(tn_inst *self, uint64_t seq)
{
  uint32_t s = slab_of(self, seq);
  if (s < self->n_slabs) self->owner[s] = NOBODY;
}

/* What a new sequence could take: the pages of the slabs that are free. */
static uint32_t free_pages(tn_inst *self, uint32_t pool_index)
{
  const pool *p = &self->pools[pool_index];
  uint32_t n = 0;
  for (uint32_t s = 0; s < self->n_slabs; s++) n += slab_empty(self, s) ? p->per_slab : 0;
  return n;
}

static uint32_t page_tokens(tn_inst *self) { return self->page_tokens; }

static tn_status create(const tn_host *host, const tn_value *values, tn_inst **out, tn_err *err)
{
  (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  **out = (struct tn_inst){.host = host, .page_tokens = 16u << values[0].v.i};
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
                                .help = "tokens of one page; pages of a slab lie side by side",
                                .unit = "tokens",
                                .def = "64",
                                .choices = sizes};
static const tn_param *const params[] = {&p_page, NULL};
static const tn_memory_v1 vtable = {.struct_size = sizeof vtable,
                                    .configure = configure,
                                    .admit = admit,
                                    .take = take,
                                    .give = give,
                                    .end = end,
                                    .free_pages = free_pages,
                                    .page_tokens = page_tokens};

static const char *const provides[] = {"kv.pages/1", "kv.share/1", "kv.token_drop/1", NULL};
static const char *const counters[] = {"pages_taken", NULL};

static const tn_desc desc = {.struct_size = sizeof desc,
                             .slot = TN_SLOT_MEMORY,
                             .slot_version = TN_SLOT_VERSION,
                             .flags = TN_F_DETERMINISTIC | TN_F_EXACT,
                             .id = "org.tenon.contiguous",
                             .name = "contiguous",
                             .version = "1.0.0",
                             .summary = "one slab a sequence, reserved at admission (baseline of Kwon et al. 2023)",
                             .provides = provides,
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .vtable = &vtable};

TN_PLUGIN(contiguous, "org.tenon.contiguous", TN_SLOT_MEMORY, "1.0.0", "Tenon", "Apache-2.0", desc);
