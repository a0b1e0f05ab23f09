/* Memory plugins: no page is held twice, quotas, what admission says, utilisation in closed form, pages given back twice. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/engine_rig.h"
#include "support/plugin_rig.h"

#define SEQS 5u

typedef struct memory {
  plugin_rig *rig;
  const tn_memory_v1 *v;
  tn_inst *in;
} memory;

static memory open_memory(const char *name, const char *set, uint32_t n_pools, const uint32_t *pages,
                          const uint32_t *per_seq, uint32_t max_seqs)
{
  const char *const sets[] = {set, NULL};
  memory m = {.rig = plugin_rig_open(TN_SLOT_MEMORY, name, sets)};
  m.v = m.rig->vtable;
  m.in = m.rig->inst;
  tn_mem_shape shape = {.struct_size = sizeof shape,
                        .n_pools = n_pools,
                        .page_tokens = m.v->page_tokens(m.in),
                        .max_seqs = max_seqs,
                        .pool_pages = pages,
                        .pages_per_seq = per_seq};
  tn_err err = tn_err_init();
  cr_assert(m.v->configure(m.in, &shape, &err) == TN_OK, "%s", err.msg);
  return m;
}

static tn_status admit(const memory *m, uint64_t seq, uint32_t now, uint32_t most)
{
  tn_mem_need need = {.struct_size = sizeof need, .n_pools = 1, .seq = seq, .now = &now, .most = &most};
  return m->v->admit(m->in, &need);
}

static const char *const names[] = {"paged", "contiguous", "static_paged"};
enum { NAMES = 3 };

/* ---------------------------------------------------------------- random use */

typedef struct use { /* who holds what, kept by the test */
  uint32_t n[SEQS][2];
  int32_t page[SEQS][2][64];
  bool here[SEQS];
  uint8_t held[2][512];
} use;

static uint32_t draw(uint32_t *x, uint32_t n)
{
  *x = *x * 1664525u + 1013904223u;
  return (uint32_t)(((uint64_t)*x * n) >> 32);
}

static void take_some(const memory *m, use *u, uint32_t s, uint32_t pool, uint32_t n)
{
  int32_t out[64], near = u->n[s][pool] ? u->page[s][pool][u->n[s][pool] - 1] : -1;
  tn_status st = m->v->take(m->in, s + 1, pool, near, n, out);
  cr_assert(st == TN_OK || st == TN_E_FULL, "%s", tn_status_name(st));
  for (uint32_t i = 0; st == TN_OK && i < n; i++) {
    cr_assert(out[i] >= 0 && out[i] < 512 && !u->held[pool][out[i]], "page %d is given twice", out[i]);
    u->held[pool][out[i]] = 1;
    u->page[s][pool][u->n[s][pool]++] = out[i];
  }
}

/* n pages from place `at` on: the last ones, the first ones as a window lets them go, or any. */
static void give_some(const memory *m, use *u, uint32_t s, uint32_t pool, uint32_t n, uint32_t at)
{
  int32_t *all = u->page[s][pool];
  m->v->give(m->in, pool, n, all + at);
  for (uint32_t i = 0; i < n; i++) u->held[pool][all[at + i]] = 0;
  u->n[s][pool] -= n;
  memmove(all + at, all + at + n, (u->n[s][pool] - at) * sizeof *all);
}

static void random_use(const char *name)
{
  static const uint32_t pages[2] = {200, 120}, per_seq[2] = {40, 24};
  static use u;
  memory m = open_memory(name, "page_tokens=16", 2, pages, per_seq, SEQS);
  uint32_t rng = 1, at_start[2] = {m.v->free_pages(m.in, 0), m.v->free_pages(m.in, 1)}, took = 0;
  memset(&u, 0, sizeof u);
  for (int op = 0; op < 50000; op++) {
    uint32_t s = draw(&rng, SEQS), pool = draw(&rng, 2), n = 1 + draw(&rng, 5);
    uint32_t now[2] = {1, 1};
    tn_mem_need need = {.struct_size = sizeof need, .n_pools = 2, .seq = s + 1, .now = now, .most = per_seq};
    if (!u.here[s]) {
      u.here[s] = m.v->admit(m.in, &need) == TN_OK;
    } else if (draw(&rng, 40) == 0) { /* the pages first, then the sequence */
      for (uint32_t p = 0; p < 2; p++) give_some(&m, &u, s, p, u.n[s][p], 0);
      m.v->end(m.in, s + 1);
      u.here[s] = false;
    } else if (draw(&rng, 3) && u.n[s][pool] + n <= per_seq[pool]) {
      take_some(&m, &u, s, pool, n);
      took++;
    } else if (u.n[s][pool] >= n) {
      give_some(&m, &u, s, pool, n, draw(&rng, u.n[s][pool] - n + 1));
    }
  }
  cr_expect(took > 5000);
  for (uint32_t s = 0; s < SEQS; s++) {
    for (uint32_t p = 0; p < 2; p++) give_some(&m, &u, s, p, u.n[s][p], 0);
    m.v->end(m.in, s + 1);
  }
  for (uint32_t p = 0; p < 2; p++) cr_expect(eq(u32, m.v->free_pages(m.in, p), at_start[p]));
  cr_expect(plugin_rig_count(m.rig, 0) > 5000, "pages taken are counted");
  plugin_rig_close(m.rig);
}

Test(policy_memory, paged_gives_no_page_twice) { random_use("paged"); }
Test(policy_memory, contiguous_gives_no_page_twice) { random_use("contiguous"); }
Test(policy_memory, static_paged_gives_no_page_twice) { random_use("static_paged"); }

/* ---------------------------------------------------------------- the rules */

Test(policy_memory, page_sizes)
{
  static const uint32_t pages = 8, per_seq = 4;
  for (int i = 0; i < NAMES; i++)
    for (uint32_t size = 16; size <= 64; size *= 2) {
      char set[32];
      snprintf(set, sizeof set, "page_tokens=%u", size);
      memory m = open_memory(names[i], set, 1, &pages, &per_seq, 2);
      cr_expect(eq(u32, m.v->page_tokens(m.in), size));
      plugin_rig_close(m.rig);
    }
}

Test(policy_memory, paged_admits_by_what_is_free)
{
  static const uint32_t pages = 100, per_seq = 100;
  memory m = open_memory("paged", "watermark=0.1", 1, &pages, &per_seq, 8);
  int32_t out[100];
  cr_expect(admit(&m, 1, 101, 101) == TN_E_NEVER);
  cr_expect(admit(&m, 1, 100, 100) == TN_OK, "alone, the watermark protects nobody");
  cr_assert(m.v->take(m.in, 1, 0, -1, 50, out) == TN_OK);
  cr_expect(admit(&m, 2, 40, 100) == TN_OK);
  cr_expect(admit(&m, 2, 41, 100) == TN_E_FULL, "10 pages stay free beside others");
  cr_assert(m.v->take(m.in, 1, 0, -1, 50, out + 50) == TN_OK);
  cr_expect(m.v->take(m.in, 1, 0, -1, 1, out) == TN_E_FULL);
  cr_expect(eq(u32, m.v->free_pages(m.in, 0), 0));
  m.v->give(m.in, 0, 100, out);
  cr_expect(eq(u32, m.v->free_pages(m.in, 0), 100));
  plugin_rig_close(m.rig);
}

Test(policy_memory, contiguous_reserves_at_admission)
{
  static const uint32_t pages = 36, per_seq = 12;
  memory m = open_memory("contiguous", NULL, 1, &pages, &per_seq, 8);
  int32_t out[12];
  cr_expect(eq(u32, m.v->free_pages(m.in, 0), 36));
  cr_expect(admit(&m, 1, 1, 13) == TN_E_NEVER);
  for (uint64_t seq = 1; seq <= 3; seq++) cr_expect(admit(&m, seq, 1, 12) == TN_OK);
  cr_expect(eq(u32, m.v->free_pages(m.in, 0), 0), "reserved, though no page is taken");
  cr_expect(admit(&m, 4, 1, 1) == TN_E_FULL);
  cr_assert(m.v->take(m.in, 2, 0, -1, 5, out) == TN_OK);
  m.v->give(m.in, 0, 2, out); /* a window has let the first ones go: the slab still grows at its end */
  cr_assert(m.v->take(m.in, 2, 0, out[4], 7, out + 5) == TN_OK && out[5] == out[4] + 1);
  cr_assert(m.v->take(m.in, 2, 0, out[11], 2, out) == TN_OK && out[0] == out[2] - 2, "then from its start");
  for (int i = 1; i < 12; i++) cr_expect(out[i] == out[i - 1] + 1, "the pages of a slab lie side by side");
  cr_expect(m.v->take(m.in, 2, 0, out[11], 1, out) != TN_OK);
  cr_expect(m.v->take(m.in, 9, 0, -1, 1, out) == TN_E_STATE, "a sequence that was never admitted");
  m.v->end(m.in, 2); /* its pages are still held: by a fork, say */
  cr_expect(admit(&m, 4, 1, 12) == TN_E_FULL);
  m.v->give(m.in, 0, 12, out);
  cr_expect(admit(&m, 4, 1, 12) == TN_OK);
  plugin_rig_close(m.rig);
}

/* Promised by the request's own limit; what is promised is there, whatever the others take. */
Test(policy_memory, static_paged_promises_at_admission)
{
  static const uint32_t pages = 30, per_seq = 12;
  memory m = open_memory("static_paged", "quota=20", 1, &pages, &per_seq, 3);
  int32_t out[30];
  cr_expect(eq(u32, m.v->quota(m.in, 0), 20));
  cr_expect(admit(&m, 1, 1, 21) == TN_E_NEVER);
  cr_expect(admit(&m, 1, 1, 20) == TN_OK);
  cr_expect(eq(u32, m.v->free_pages(m.in, 0), 10), "promised, though no page is taken");
  cr_expect(admit(&m, 2, 1, 11) == TN_E_FULL);
  cr_expect(admit(&m, 2, 1, 4) == TN_OK);
  cr_expect(m.v->take(m.in, 2, 0, -1, 11, out) == TN_E_FULL, "20 are promised to another");
  cr_assert(m.v->take(m.in, 2, 0, -1, 6, out) == TN_OK, "past its promise, of what nobody was promised");
  cr_expect(eq(u32, m.v->free_pages(m.in, 0), 4));
  cr_assert(m.v->take(m.in, 1, 0, -1, 20, out + 10) == TN_OK);
  cr_expect(eq(u32, m.v->free_pages(m.in, 0), 4));
  m.v->give(m.in, 0, 5, out + 10); /* what a window lets go may be taken again */
  cr_expect(eq(u32, m.v->free_pages(m.in, 0), 4));
  cr_assert(m.v->take(m.in, 1, 0, -1, 5, out + 10) == TN_OK);
  m.v->end(m.in, 1); /* its pages are still held: by a fork, say */
  cr_expect(eq(u32, m.v->free_pages(m.in, 0), 4));
  cr_expect(admit(&m, 3, 1, 4) == TN_OK);
  m.v->give(m.in, 0, 20, out + 10);
  cr_expect(eq(u32, m.v->free_pages(m.in, 0), 20));
  cr_expect(m.v->take(m.in, 9, 0, -1, 1, out) == TN_E_STATE, "a sequence that was never admitted");
  cr_expect(admit(&m, 4, 1, 1) == TN_OK);
  cr_expect(admit(&m, 5, 1, 1) == TN_E_FULL, "three at once");
  plugin_rig_close(m.rig);
}

/* With fewer pages than one full sequence needs there is one slab of them all. */
Test(policy_memory, contiguous_in_little_memory)
{
  static const uint32_t pages = 7, per_seq = 12;
  memory m = open_memory("contiguous", NULL, 1, &pages, &per_seq, 8);
  cr_expect(admit(&m, 1, 1, 8) == TN_E_NEVER);
  cr_expect(admit(&m, 1, 1, 7) == TN_OK);
  cr_expect(admit(&m, 2, 1, 1) == TN_E_FULL);
  plugin_rig_close(m.rig);
}

Test(policy_memory, configure_starts_over)
{
  static const uint32_t pages = 24, per_seq = 12, more = 48;
  for (int i = 0; i < NAMES; i++) {
    memory m = open_memory(names[i], "page_tokens=64", 1, &pages, &per_seq, 2);
    int32_t out[4];
    cr_assert(admit(&m, 1, 4, 4) == TN_OK && m.v->take(m.in, 1, 0, -1, 4, out) == TN_OK);
    tn_mem_shape shape = {.struct_size = sizeof shape,
                          .n_pools = 1,
                          .page_tokens = 64,
                          .max_seqs = 4,
                          .pool_pages = &more,
                          .pages_per_seq = &per_seq};
    cr_assert(m.v->configure(m.in, &shape, NULL) == TN_OK);
    cr_expect(eq(u32, m.v->free_pages(m.in, 0), 48));
    plugin_rig_close(m.rig);
  }
}

/* Pages that come back twice, or that never were there, change nothing. */
Test(policy_memory, given_back_twice)
{
  static const uint32_t pages = 24, per_seq = 12;
  for (int i = 0; i < NAMES; i++) {
    memory m = open_memory(names[i], "page_tokens=64", 1, &pages, &per_seq, 2);
    int32_t a[3], b[9];
    cr_assert(admit(&m, 1, 3, 12) == TN_OK && m.v->take(m.in, 1, 0, -1, 3, a) == TN_OK);
    m.v->give(m.in, 0, 1, &a[1]);
    for (int k = 0; k < 3; k++) m.v->give(m.in, 0, 1, &a[1]);
    m.v->give(m.in, 0, 2, (const int32_t[]){-1, 24});
    cr_assert(m.v->take(m.in, 1, 0, a[2], 9, b) == TN_OK);
    uint8_t held[24] = {0};
    held[a[0]] = held[a[2]] = 1;
    for (int k = 0; k < 9; k++) {
      cr_expect(b[k] >= 0 && b[k] < 24 && !held[b[k]], "%s: page %d twice", names[i], b[k]);
      held[b[k]] = 1;
    }
    m.v->give(m.in, 0, 9, b);
    m.v->give(m.in, 0, 1, &a[0]);
    m.v->give(m.in, 0, 1, &a[2]);
    m.v->end(m.in, 1);
    cr_expect(eq(u32, m.v->free_pages(m.in, 0), 24), "%s", names[i]);
    plugin_rig_close(m.rig);
  }
}

/* ---------------------------------------------------------------- utilisation */

/* Of T tokens, paged holds ceil(T/B) pages and the others the Q that were promised: T / (ceil(T/B) B) and T / (Q B) of
 * the places are used; paged never holds more. */
Test(policy_memory, utilisation_in_closed_form)
{
  enum { B = 16, Q = 32 };
  static const uint32_t pages = 4 * Q, per_seq = Q;
  for (uint32_t tokens = 1; tokens <= Q * B; tokens += 7) {
    uint32_t held[NAMES];
    for (int i = 0; i < NAMES; i++) {
      memory m = open_memory(names[i], "page_tokens=16", 1, &pages, &per_seq, 4);
      int32_t out[Q], near = -1;
      cr_assert(admit(&m, 1, 1, Q) == TN_OK);
      for (uint32_t n = 0; n * B < tokens; n++) { /* as a sequence grows */
        cr_assert(m.v->take(m.in, 1, 0, near, 1, &out[n]) == TN_OK);
        near = out[n];
      }
      held[i] = pages - m.v->free_pages(m.in, 0);
      plugin_rig_close(m.rig);
    }
    cr_assert(eq(u32, held[0], (tokens + B - 1) / B));
    cr_assert(eq(u32, held[1], Q));
    cr_assert(eq(u32, held[2], Q));
    cr_assert(held[0] * B - tokens < B, "less than a page is wasted");
  }
}

/* ---------------------------------------------------------------- on the engine */

/* A request that needs more than its quota is refused at once, with both numbers; one that needs as much runs. */
Test(policy_memory, static_paged_refuses_what_passes_the_quota)
{
  static const char *const sets[] = {"compose.backend=cpu", "compose.memory=static_paged",
                                     "memory.static_paged.quota=4", NULL};
  int32_t prompt[40];
  uint64_t seq;
  tn_err err = tn_err_init();
  rig *r = rig_open(rig_tiny("llama"), sets);
  rig_tokens(1, r->n_vocab, prompt, 40);
  tn_request q = {.prompt = prompt, .n_prompt = 40, .max_new = 25, .sampling = tn_sampling_default()};
  cr_expect(tn_engine_submit(r->s.engine, &q, &seq, &err) == TN_E_NEVER);
  cr_expect(strstr(err.msg, "65 tokens needs 5 pages of the KV cache, its quota is 4") != NULL, "%s", err.msg);
  rig_generate(r, prompt, 40, 24);
  rig_run(r, 1);
  cr_expect(r->r[0].n == 24);
  rig_close(r);
}
