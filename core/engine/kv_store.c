/* kv_store: pools, refcounts, and the birth and death of a sequence's tables. See kv.h. */
#include <stdlib.h>
#include <string.h>

#include "kv_int.h"

void tn_kv_store_close(tn_kv_store *s)
{
  if (!s) return;
  tn_kv_prefix_close(s);
  for (uint32_t p = 0; s->refs && p < s->groups->n_pools; p++) free(s->refs[p]);
  for (uint32_t g = 0; s->spare && g < s->groups->n; g++) {
    free(s->spare[g].page[0]);
    free(s->spare[g].page[1]);
  }
  free(s->spare);
  free(s->refs);
  free(s->used);
  free(s->scratch);
  free(s->scratch_layout);
  free(s->need_now);
  free(s->need_most);
  free(s);
}

static bool alloc_store(tn_kv_store *s)
{
  const tn_groups *g = s->groups;
  size_t entries = (size_t)s->cap_pages * g->page_tokens;
  s->refs = tn_zalloc(g->n_pools, sizeof *s->refs);
  s->used = tn_zalloc(g->n_pools, sizeof *s->used);
  s->need_now = tn_zalloc(g->n_pools, sizeof *s->need_now);
  s->need_most = tn_zalloc(g->n_pools, sizeof *s->need_most);
  s->scratch = tn_zalloc(5 * entries, sizeof *s->scratch);
  s->scratch_layout = tn_zalloc(2 * entries, 1);
  if (!s->refs || !s->used || !s->need_now || !s->need_most || !s->scratch || !s->scratch_layout) return false;
  s->spare = tn_zalloc(g->n, sizeof *s->spare);
  for (uint32_t i = 0; i < g->n; i++)
    for (uint32_t l = 0; s->spare && l < 2; l++) {
      s->spare[i].page[l] = tn_zalloc(s->cap_pages, sizeof(int32_t));
      if (!s->spare[i].page[l]) return false;
    }
  if (!s->spare) return false;
  for (uint32_t p = 0; p < g->n_pools; p++) {
    s->refs[p] = tn_zalloc(g->pool_pages[p], sizeof **s->refs);
    if (!s->refs[p]) return false;
  }
  return true;
}

tn_status tn_kv_store_open(const tn_groups *groups, const tn_memory_v1 *memory, tn_inst *inst, tn_exec *exec,
                           uint32_t max_seqs, int64_t max_ctx, uint32_t max_rows, uint32_t rot_dims, tn_kv_store **out,
                           tn_err *err)
{
  *out = NULL;
  tn_kv_store *s = tn_zalloc(1, sizeof *s);
  if (!s) return tn_fail(err, TN_E_NOMEM, "no memory for the KV store");
  s->groups = groups;
  s->memory = memory;
  s->inst = inst;
  s->exec = exec;
  s->max_rows = max_rows;
  s->rot_dims = rot_dims;
  s->max_ctx = max_ctx;
  /* A compacted table pads its demoted part to a page; a windowed one keeps dead places for freed pages. */
  s->cap_pages = (uint32_t)((max_ctx + max_rows) / groups->page_tokens + 3);
  if (!alloc_store(s)) {
    tn_kv_store_close(s);
    return tn_fail(err, TN_E_NOMEM, "no memory for the page tables of %u pages", groups->pool_pages[0]);
  }
  tn_mem_shape shape = {.struct_size = sizeof shape,
                        .n_pools = groups->n_pools,
                        .page_tokens = groups->page_tokens,
                        .max_seqs = max_seqs,
                        .pool_pages = groups->pool_pages,
                        .pages_per_seq = groups->pages_per_seq};
  tn_err why = tn_err_init();
  tn_status st = memory->configure(inst, &shape, &why);
  if (st != TN_OK) {
    const char *plain = st == TN_E_NOMEM ? "no memory for its pages" : tn_status_name(st);
    tn_kv_store_close(s);
    return tn_fail(err, st, "the memory plugin cannot be configured: %s", why.msg[0] ? why.msg : plain);
  }
  *out = s;
  return TN_OK;
}

tn_status tn_kv_take(tn_kv_store *s, uint64_t seq, uint32_t pool, int32_t near, uint32_t n, int32_t *out)
{
  tn_status st = s->memory->take(s->inst, seq, pool, near, n, out);
  while (st == TN_E_FULL) {
    uint32_t there = s->memory->free_pages(s->inst, pool);
    if (tn_kv_reclaim(s, pool, there < n ? n - there : n) == 0) break;
    st = s->memory->take(s->inst, seq, pool, near, n, out);
  }
  if (st != TN_OK) return st;
  for (uint32_t i = 0; i < n; i++) {
    bool legal = out[i] >= 0 && (uint32_t)out[i] < s->groups->pool_pages[pool] && s->refs[pool][out[i]] == 0 &&
                 !tn_kv_indexed(s, pool, out[i]);
    if (!legal) {
      for (uint32_t k = 0; k < i; k++) s->refs[pool][out[k]] = 0;
      s->used[pool] -= i;
      return TN_E_INTERNAL; /* the plugin gave a page twice, or one that is not there */
    }
    s->refs[pool][out[i]] = 1;
    s->used[pool]++;
  }
  return TN_OK;
}

void tn_kv_drop_page(tn_kv_store *s, uint32_t pool, int32_t page)
{
  if (page < 0 || s->refs[pool][page] == 0) return;
  if (--s->refs[pool][page] > 0) return;
  s->used[pool]--;
  if (tn_kv_indexed(s, pool, page))
    tn_kv_idle_add(&s->prefix->idle[pool], page);
  else
    s->memory->give(s->inst, pool, 1, &page);
}

void tn_kv_table_clear(tn_kv_store *s, uint32_t group, tn_kv_table *t)
{
  const tn_group *g = &s->groups->g[group];
  for (uint32_t p = t->n_pages; p-- > 0;) /* the end of a text is the first to go from the prefix index */
    tn_kv_drop_page(s, tn_kv_pool_of(g, t, p), t->page[p]);
  if (g->desc.kind == TN_KV_STATE) tn_kv_drop_page(s, g->desc.state_pool, t->state);
  t->n = t->live = t->folded = t->rotated = t->next_rope = 0;
  t->n_pages = t->first_kept = 0;
  t->state = -1;
  t->sparse = t->mixed = false;
}

static void free_tables(tn_kv_store *s, tn_kv_seq *q)
{
  for (uint32_t g = 0; q->t && g < q->n_groups; g++) {
    tn_kv_table *t = &q->t[g];
    if (t->page && t->layout) tn_kv_table_clear(s, g, t);
    free(t->page);
    free(t->layout);
    free(t->text_pos);
    free(t->rope_pos);
    free(t->cos);
    free(t->sin);
  }
  free(q->t);
  free(q->views);
  free(q->view_ptrs);
  free(q);
}

void tn_kv_seq_free(tn_kv_store *s, tn_kv_seq *q)
{
  if (!q) return;
  uint64_t id = q->id;
  free_tables(s, q);
  s->memory->end(s->inst, id);
}

static bool alloc_table(const tn_kv_store *s, uint32_t group, tn_kv_table *t)
{
  size_t pages = s->cap_pages, entries = pages * s->groups->page_tokens;
  t->cap_pages = s->cap_pages;
  t->state = -1;
  t->page = tn_zalloc(pages, sizeof *t->page);
  t->layout = tn_zalloc(pages, 1);
  t->text_pos = tn_zalloc(entries, sizeof *t->text_pos);
  t->rope_pos = tn_zalloc(entries, sizeof *t->rope_pos);
  if (!t->page || !t->layout || !t->text_pos || !t->rope_pos) return false;
  if (s->groups->g[group].desc.keys != TN_KEYS_RAW) return true;
  t->cos = tn_zalloc(entries * (s->rot_dims / 2), sizeof *t->cos);
  t->sin = tn_zalloc(entries * (s->rot_dims / 2), sizeof *t->sin);
  return t->cos && t->sin;
}

/* Pages that n entries need in each pool; compacted: when some are demoted as well, old and new places at once. */
static void count_need(const tn_kv_store *s, int64_t n, bool compacted, uint32_t *need)
{
  const tn_groups *gs = s->groups;
  memset(need, 0, gs->n_pools * sizeof *need);
  for (uint32_t i = 0; i < gs->n; i++) {
    const tn_group *g = &gs->g[i];
    uint32_t pages = tn_pages_for(s, n < g->held_limit ? n : g->held_limit);
    need[g->desc.pools[0]] += pages;
    if (compacted && g->desc.n_layouts > 1) need[g->desc.pools[1]] += 2 * pages;
    if (g->desc.kind == TN_KV_STATE) need[g->desc.state_pool]++;
  }
}

tn_status tn_kv_could_hold(tn_kv_store *s, int64_t max_len, tn_err *err)
{
  count_need(s, max_len, true, s->need_most);
  for (uint32_t p = 0; p < s->groups->n_pools; p++) {
    uint32_t need = s->need_most[p], all = s->groups->pool_pages[p];
    if (need > all)
      return tn_fail(err, TN_E_NEVER, "a sequence of %lld tokens needs %u pages of the KV cache, which has %u",
                     (long long)max_len, need, all);
    uint32_t quota = TN_CAN(s->memory, quota) ? s->memory->quota(s->inst, p) : all;
    if (need > quota)
      return tn_fail(err, TN_E_NEVER, "a sequence of %lld tokens needs %u pages of the KV cache, its quota is %u",
                     (long long)max_len, need, quota);
  }
  return TN_OK;
}

/* Less what the prefix index has pinned for the sequence. */
static void count_start(tn_kv_store *s, int64_t n_start)
{
  const tn_prefix *x = s->prefix;
  count_need(s, n_start, false, s->need_now);
  for (uint32_t g = 0; x && g < s->groups->n; g++)
    for (uint32_t b = 0; b < x->n_pinned; b++) {
      uint32_t *need = &s->need_now[s->groups->g[g].desc.pools[0]];
      *need -= *need > 0 && x->pinned[g * s->cap_pages + b] >= 0;
    }
}

tn_status tn_kv_seq_new(tn_kv_store *s, uint64_t id, int64_t n_start, int64_t max_len, tn_kv_seq **out)
{
  *out = NULL;
  const tn_groups *gs = s->groups;
  count_start(s, n_start);
  tn_status st = tn_kv_could_hold(s, max_len, NULL);
  if (st != TN_OK) return st;
  tn_mem_need need = {
      .struct_size = sizeof need, .n_pools = gs->n_pools, .seq = id, .now = s->need_now, .most = s->need_most};
  st = s->memory->admit(s->inst, &need);
  while (st == TN_E_FULL && tn_kv_reclaim_for(s, s->need_now)) st = s->memory->admit(s->inst, &need);
  if (st != TN_OK) return st;
  tn_kv_seq *q = tn_zalloc(1, sizeof *q);
  if (!q) {
    s->memory->end(s->inst, id);
    return TN_E_NOMEM;
  }
  q->id = id;
  q->n_groups = gs->n;
  q->t = tn_zalloc(gs->n, sizeof *q->t);
  q->views = tn_zalloc(gs->n, sizeof *q->views);
  q->view_ptrs = tn_zalloc(gs->n, sizeof *q->view_ptrs);
  bool ok = q->t && q->views && q->view_ptrs;
  for (uint32_t g = 0; ok && g < gs->n; g++) {
    ok = alloc_table(s, g, &q->t[g]);
    q->view_ptrs[g] = &q->views[g];
  }
  if (!ok) {
    tn_kv_seq_free(s, q);
    return TN_E_NOMEM;
  }
  *out = q;
  return TN_OK;
}

int64_t tn_kv_free_tokens(const tn_kv_store *s)
{
  const tn_groups *gs = s->groups;
  int64_t least = TN_POS_INF;
  for (uint32_t p = 0; p < gs->n_pools; p++) {
    int64_t groups = 0;
    for (uint32_t g = 0; g < gs->n; g++) groups += gs->g[g].desc.pools[0] == p;
    if (groups == 0) continue;
    int64_t tokens = ((int64_t)s->memory->free_pages(s->inst, p) + tn_kv_idle_pages(s, p)) / groups * gs->page_tokens;
    if (tokens < least) least = tokens;
  }
  return least;
}

static uint64_t sum_bytes(const tn_kv_store *s, const uint32_t *pages)
{
  uint64_t bytes = 0;
  for (uint32_t p = 0; p < s->groups->n_pools; p++) bytes += pages[p] * tn_exec_page_bytes(s->exec, p);
  return bytes;
}

uint64_t tn_kv_bytes_used(const tn_kv_store *s) { return sum_bytes(s, s->used); }

uint64_t tn_kv_bytes_total(const tn_kv_store *s) { return sum_bytes(s, s->groups->pool_pages); }

bool tn_kv_check(const tn_kv_store *s, const tn_kv_seq *const *seqs, uint32_t n, tn_err *err)
{
  for (uint32_t p = 0; p < s->groups->n_pools; p++) {
    uint32_t used = 0;
    for (uint32_t page = 0; page < s->groups->pool_pages[p]; page++) {
      uint32_t held = 0;
      for (uint32_t i = 0; i < n; i++)
        for (uint32_t g = 0; g < seqs[i]->n_groups; g++) {
          const tn_kv_table *t = &seqs[i]->t[g];
          const tn_group *group = &s->groups->g[g];
          for (uint32_t k = 0; k < t->n_pages; k++)
            held += t->page[k] == (int32_t)page && tn_kv_pool_of(group, t, k) == p;
          held += group->desc.kind == TN_KV_STATE && group->desc.state_pool == p && t->state == (int32_t)page;
        }
      if (held != s->refs[p][page]) {
        tn_fail(err, TN_E_INTERNAL, "pool %u page %u: %u holders, refcount %u", p, page, held, s->refs[p][page]);
        return false;
      }
      used += held > 0;
    }
    if (used != s->used[p]) {
      tn_fail(err, TN_E_INTERNAL, "pool %u: %u pages held, %u counted", p, used, s->used[p]);
      return false;
    }
  }
  return tn_kv_prefix_check(s, err);
}
