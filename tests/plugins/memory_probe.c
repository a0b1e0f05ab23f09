/* memory probe: pages in no order that anybody could rely on, refusals of every kind, and a ledger of who has what.
 *
 * page_tokens  tokens of a page
 * full         percent of take() calls that say TN_E_FULL although there are pages, while at least two sequences are in
 * shy          1: admits a second sequence only at the third try
 * quota        pages of one sequence at most, over all pools; 0: none
 * fault        none, or: twice (a page that somebody has), range (a page that is not there), negative, admit */
#include <string.h>

#include "probe.h"

enum { P_PAGE, P_FULL, P_SHY, P_QUOTA, P_FAULT };
enum { NONE, TWICE, RANGE, NEGATIVE, ADMIT, N_FAULTS };
enum { MAX_POOLS = 64, SLOTS = 64 };

struct tn_inst {
  const tn_host *host;
  const tn_svc_rng *rng;
  uint32_t page, n_pools;
  int64_t full, shy, quota, fault;
  uint64_t draws, tries;
  uint32_t pages[MAX_POOLS], n_free[MAX_POOLS];
  int32_t *free_ids[MAX_POOLS]; /* [pages] the first n_free are free */
  uint64_t *owner[MAX_POOLS];   /* [pages] who took it, 0: free */
  uint64_t in[SLOTS];           /* admitted sequences, 0: free place */
  probe_memory seen;
};

static double uniform(tn_inst *self) { return self->rng->uniform(self->host->ctx, 77, self->draws++, 1, 0); }

static uint64_t *place_of(tn_inst *self, uint64_t seq)
{
  for (int i = 0; i < SLOTS; i++)
    if (self->in[i] == seq) return &self->in[i];
  return NULL;
}

static uint32_t n_in(const tn_inst *self)
{
  uint32_t n = 0;
  for (int i = 0; i < SLOTS; i++) n += self->in[i] != 0;
  return n;
}

static void release(tn_inst *self)
{
  for (uint32_t p = 0; p < MAX_POOLS; p++) {
    self->host->free_(self->host->ctx, self->free_ids[p]);
    self->host->free_(self->host->ctx, self->owner[p]);
    self->free_ids[p] = NULL;
    self->owner[p] = NULL;
  }
}

static tn_status configure(tn_inst *self, const tn_mem_shape *s, tn_err *err)
{
  (void)err;
  if (s->n_pools > MAX_POOLS || s->page_tokens != self->page || s->max_seqs == 0) return TN_E_ARG;
  self->seen.configures++;
  release(self);
  self->n_pools = s->n_pools;
  for (uint32_t p = 0; p < s->n_pools; p++) {
    self->pages[p] = self->n_free[p] = s->pool_pages[p];
    self->free_ids[p] = self->host->alloc(self->host->ctx, s->pool_pages[p] * sizeof(int32_t), 8);
    self->owner[p] = self->host->alloc(self->host->ctx, s->pool_pages[p] * sizeof(uint64_t), 8);
    if (!self->free_ids[p] || !self->owner[p]) return TN_E_NOMEM;
    memset(self->owner[p], 0, s->pool_pages[p] * sizeof(uint64_t));
    for (uint32_t i = 0; i < s->pool_pages[p]; i++) self->free_ids[p][i] = (int32_t)i;
  }
  return TN_OK;
}

static tn_status admit(tn_inst *self, const tn_mem_need *need)
{
  uint64_t most = 0;
  self->seen.admits++;
  self->seen.bad += need->n_pools != self->n_pools || need->seq == 0 || place_of(self, need->seq) != NULL;
  for (uint32_t p = 0; p < need->n_pools; p++) {
    self->seen.bad += need->now[p] > need->most[p];
    most += need->most[p];
  }
  if (self->fault == ADMIT) return TN_E_FULL;
  if (self->quota && most > (uint64_t)self->quota) return TN_E_NEVER;
  if (self->shy && n_in(self) > 0 && ++self->tries % 3 != 0) {
    self->seen.refused++;
    return TN_E_FULL;
  }
  uint64_t *at = place_of(self, 0);
  if (!at) return TN_E_FULL;
  *at = need->seq;
  return TN_OK;
}

static tn_status broken(tn_inst *self, uint32_t pool, uint32_t n, int32_t *out)
{
  for (uint32_t i = 0; i < n; i++)
    out[i] = self->fault == TWICE ? 0 : self->fault == RANGE ? (int32_t)self->pages[pool] : -1;
  return TN_OK;
}

static tn_status take(tn_inst *self, uint64_t seq, uint32_t pool, int32_t near, uint32_t n, int32_t *out)
{
  self->seen.takes++;
  self->seen.bad += pool >= self->n_pools || n == 0 || place_of(self, seq) == NULL;
  self->seen.bad += near < -1 || near >= (int32_t)self->pages[pool];
  self->seen.near += near >= 0 && self->owner[pool][near] == seq;
  if (self->fault >= TWICE && self->seen.takes > 6) return broken(self, pool, n, out);
  if (n > self->n_free[pool]) return TN_E_FULL;
  if (self->full && n_in(self) > 1 && uniform(self) * 100 < (double)self->full) {
    self->seen.refused++;
    return TN_E_FULL;
  }
  for (uint32_t i = 0; i < n; i++) {
    uint32_t at = (uint32_t)(uniform(self) * self->n_free[pool]);
    out[i] = self->free_ids[pool][at];
    self->free_ids[pool][at] = self->free_ids[pool][--self->n_free[pool]];
    self->owner[pool][out[i]] = seq;
    self->seen.jumps += (i > 0 || near >= 0) && out[i] != (i > 0 ? out[i - 1] : near) + 1;
  }
  self->host->count(self->host->ctx, 0, n);
  return TN_OK;
}

static void give(tn_inst *self, uint32_t pool, uint32_t n, const int32_t *pages)
{
  self->seen.gives++;
  for (uint32_t i = 0; i < n; i++) {
    if (pages[i] < 0 || pages[i] >= (int32_t)self->pages[pool] || self->owner[pool][pages[i]] == 0) {
      self->seen.bad++;
      continue;
    }
    self->owner[pool][pages[i]] = 0;
    self->free_ids[pool][self->n_free[pool]++] = pages[i];
  }
}

static void end(tn_inst *self, uint64_t seq)
{
  uint64_t *at = place_of(self, seq);
  self->seen.ends++;
  self->seen.bad += at == NULL;
  if (at) *at = 0;
}

static uint32_t free_pages(tn_inst *self, uint32_t pool) { return self->n_free[pool]; }

static uint32_t page_tokens(tn_inst *self) { return self->page; }

static const void *ext(tn_inst *self, const char *id)
{
  if (strcmp(id, PROBE_EXT) != 0) return NULL;
  self->seen.held = 0;
  for (uint32_t p = 0; p < self->n_pools; p++) self->seen.held += self->pages[p] - self->n_free[p];
  self->seen.in = n_in(self);
  return &self->seen;
}

static tn_status create(const tn_host *host, const tn_value *v, tn_inst **out, tn_err *err)
{
  (void)err;
  *out = host->alloc(host->ctx, sizeof **out, 8);
  if (!*out) return TN_E_NOMEM;
  memset(*out, 0, sizeof **out);
  (*out)->host = host;
  (*out)->rng = host->service(host->ctx, "tenon.rng/1");
  (*out)->page = 16u << v[P_PAGE].v.i;
  (*out)->full = v[P_FULL].v.i;
  (*out)->shy = v[P_SHY].v.i;
  (*out)->quota = v[P_QUOTA].v.i;
  (*out)->fault = v[P_FAULT].v.i;
  return TN_OK;
}

static void destroy(tn_inst *self)
{
  release(self);
  self->host->free_(self->host->ctx, self);
}

static const char *const sizes[] = {"16", "32", "64"};
static const char *const faults[N_FAULTS] = {"none", "twice", "range", "negative", "admit"};
#define HEAD(key_, type_, def_) .struct_size = sizeof(tn_param), .key = key_, .help = key_, .type = type_, .def = def_
static const tn_param p_page = {HEAD("page_tokens", TN_T_ENUM, "16"), .choices = sizes, .n_choices = 3};
static const tn_param p_full = {HEAD("full", TN_T_I64, "0"), .imin = 0, .imax = 90};
static const tn_param p_shy = {HEAD("shy", TN_T_BOOL, "0")};
static const tn_param p_quota = {HEAD("quota", TN_T_I64, "0"), .imin = 0, .imax = 1 << 30};
static const tn_param p_fault = {HEAD("fault", TN_T_ENUM, "none"), .choices = faults, .n_choices = N_FAULTS};
static const tn_param *const params[] = {&p_page, &p_full, &p_shy, &p_quota, &p_fault, NULL};
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
                             .id = "org.tenon.test.memory",
                             .name = "probe",
                             .version = "1.0.0",
                             .summary = "every hook of the slot memory",
                             .provides = provides,
                             .params = params,
                             .counters = counters,
                             .create = create,
                             .destroy = destroy,
                             .ext = ext,
                             .vtable = &vtable};

TN_PLUGIN(memory_probe, "org.tenon.test.memory", TN_SLOT_MEMORY, "1.0.0", "Tenon", "Apache-2.0", desc);
