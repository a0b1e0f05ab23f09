/* The KV store against a naive copy of what it must hold: rows, trees, rollback, sharing, compaction, swapping, freeing by
 * mask, on both memory plugins, with plenty of pages and with too few. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "kv_model.h"

/* 26 runs over all shapes of stores, 312000 operations. */
Test(engine_kv, random_operations)
{
  for (uint32_t i = 0; kv_spec_at(i); i++)
    for (uint32_t slabs = 0; slabs < 2; slabs++) kv_model_run(i, slabs, 1 + slabs, 12000);
}

/* ---------------------------------------------------------------- by hand */

/* A fork shares every page; the first row that either side writes costs one page. */
Test(engine_kv, a_fork_copies_only_what_is_written)
{
  kv_model *m = kv_model_open(&(kv_spec){.max_ctx = 150});
  kv_model_seq *a = kv_model_new(m);
  cr_assert(kv_model_rows(m, a, 40, 40, NULL)); /* two whole pages and a half */
  uint64_t before = kv_rig_free(m->rig);
  kv_model_seq *b = kv_model_fork(m, a), *c = kv_model_fork(m, b);
  cr_expect(eq(u64, kv_rig_free(m->rig), before));
  cr_assert(kv_model_rows(m, b, 1, 1, NULL));
  cr_expect(eq(u64, kv_rig_free(m->rig), before - 1));
  cr_expect(eq(u64, m->rig->n_moved, 8), "the 8 entries of the half page are copied");
  cr_assert(kv_model_rows(m, c, 1, 1, NULL) && kv_model_rows(m, a, 1, 1, NULL));
  cr_expect(eq(u64, kv_rig_free(m->rig), before - 2), "the last holder writes in place");
  kv_model_check(m);
  kv_model_free(m, a);
  kv_model_check(m);
  kv_model_close(m);
}

/* Memory of a windowed sequence does not grow with its text. */
Test(engine_kv, a_window_holds_so_many_pages)
{
  kv_model *m = kv_model_open(&(kv_spec){.max_ctx = 390, .window = 32, .sinks = 4, .max_rows = 8});
  kv_model_seq *s = kv_model_new(m);
  uint64_t most = 0, all = kv_rig_free(m->rig);
  for (int i = 0; i < 48; i++) {
    cr_assert(kv_model_rows(m, s, 8, 8, NULL));
    uint64_t held = all - kv_rig_free(m->rig);
    most = held > most ? held : most;
  }
  cr_expect(most <= 1 + 4, "%llu pages at once", (unsigned long long)most); /* sinks; 32 + 8 tokens over 16 a page */
  cr_expect(most >= 4);
  kv_model_close(m);
}

/* A second model goes back a few tokens behind what its window has let go; without slack that is refused, not wrong. */
Test(engine_kv, going_back_behind_a_window)
{
  kv_model *m = kv_model_open(&(kv_spec){.window = 20});
  kv_model_seq *s = kv_model_new(m);
  cr_assert(kv_model_rows(m, s, 36, 36, NULL)); /* entries below 17 are hidden: page 0 is freed */
  cr_expect(s->q->t[0].page[0] == -1);
  cr_expect(kv_model_truncate(m, s, 36));
  cr_expect(kv_model_truncate(m, s, 35), "the query at 35 sees 16 and later");
  cr_expect(kv_model_truncate(m, s, 34) == false, "the query at 34 sees 15");
  kv_model_check(m);
  kv_model_close(m);
  m = kv_model_open(&(kv_spec){.window = 20, .rollback = 16});
  s = kv_model_new(m);
  cr_assert(kv_model_rows(m, s, 40, 40, NULL));
  cr_assert(kv_model_rows(m, s, 40, 40, NULL));
  cr_expect(s->q->t[0].page[1] == -1 && s->q->t[0].page[2] >= 0);
  cr_expect(kv_model_truncate(m, s, 64));
  kv_model_check(m);
  cr_assert(kv_model_rows(m, s, 30, 30, NULL));
  kv_model_check(m);
  kv_model_close(m);
}

Test(engine_kv, what_can_never_fit)
{
  kv_rig *r = kv_rig_open(&(kv_spec){.max_ctx = 200, .share = 0.12}); /* fewer pages than one full sequence */
  tn_kv_seq *q;
  tn_err err = tn_err_init();
  cr_expect(eq(int, tn_kv_seq_new(r->store, 1, 10, 200, &q), TN_E_NEVER));
  cr_expect(q == NULL);
  cr_expect(eq(int, tn_kv_could_hold(r->store, 200, &err), TN_E_NEVER));
  cr_expect(strstr(err.msg, "200 tokens") && strstr(err.msg, "13 pages"), "%s", err.msg);
  cr_expect(eq(int, tn_kv_could_hold(r->store, 100, &err), TN_OK));
  cr_assert(tn_kv_seq_new(r->store, 1, 10, 100, &q) == TN_OK);
  cr_expect(eq(int, tn_kv_reserve(r->store, q, 5000), TN_E_NEVER));
  tn_kv_seq_free(r->store, q);
  kv_rig_close(r);
}

/* A plugin that gives a page twice, or one that is not there, is found out. */
static tn_status twice(tn_inst *in, uint64_t seq, uint32_t pool, int32_t near, uint32_t n, int32_t *out)
{
  (void)in, (void)seq, (void)pool, (void)near;
  for (uint32_t i = 0; i < n; i++) out[i] = 3;
  return TN_OK;
}

static tn_status nowhere(tn_inst *in, uint64_t seq, uint32_t pool, int32_t near, uint32_t n, int32_t *out)
{
  (void)in, (void)seq, (void)pool, (void)near;
  for (uint32_t i = 0; i < n; i++) out[i] = i == 0 ? 0 : 1 << 20;
  return TN_OK;
}

Test(engine_kv, a_plugin_that_gives_wrong_pages)
{
  kv_rig *r = kv_rig_open(&(kv_spec){.max_ctx = 100});
  tn_memory_v1 bad = *(const tn_memory_v1 *)r->memory->vtable;
  tn_kv_store *store;
  for (int i = 0; i < 2; i++) {
    bad.take = i ? twice : nowhere;
    cr_assert(tn_kv_store_open(&r->groups, &bad, r->memory->inst, &r->exec, 4, 100, 40, 16, &store, NULL) == TN_OK);
    tn_kv_seq *q;
    cr_assert(tn_kv_seq_new(store, 1, 1, 100, &q) == TN_OK);
    cr_expect(eq(int, tn_kv_reserve(store, q, 32), TN_E_INTERNAL));
    cr_expect(tn_kv_check(store, (const tn_kv_seq *const[]){q}, 1, NULL));
    tn_kv_seq_free(store, q);
    tn_kv_store_close(store);
  }
  kv_rig_close(r);
}
