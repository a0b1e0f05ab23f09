/* Saved KV that was cut short or changed: refused, or loaded into something that can be run; never a crash, never a page
 * that stays behind. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "kv_model.h"
#include "stats.h"

typedef struct saved {
  uint8_t *bytes;
  size_t n;
  int64_t n_text;
} saved;

/* A sequence with a history of its own. */
static saved some_kv(kv_model *m)
{
  kv_model_seq *s = kv_model_new(m);
  cr_assert(s != NULL);
  for (int i = 0; i < 4; i++) cr_assert(kv_model_rows(m, s, 33, 33, NULL));
  for (uint32_t g = 0; m->rig->spec.gran && g < m->rig->groups.n; g++) kv_model_compact(m, s, g, 0.5, 0.5);
  cr_assert(kv_model_rows(m, s, 5, 5, NULL));
  saved x = {.n_text = s->n_text};
  cr_assert(tn_kv_save(m->rig->store, s->q, &x.bytes, &x.n) == TN_OK);
  kv_model_free(m, s);
  return x;
}

/* What a step would touch must be there: pages of entries that are not hidden, layouts of the group, a state. */
static void check_runs(kv_rig *r, tn_kv_seq *q, int64_t n_text)
{
  cr_assert(tn_kv_check(r->store, (const tn_kv_seq *const[]){q}, 1, NULL));
  tn_kv_views(r->store, q);
  for (uint32_t g = 0; g < r->groups.n; g++) {
    const tn_kv_view *v = q->view_ptrs[g];
    const tn_group *group = &r->groups.g[g];
    cr_assert(v->n >= 0 && v->n <= n_text + r->groups.page_tokens &&
              v->n_pages * (int64_t)r->groups.page_tokens >= v->n);
    for (int64_t e = 0; e < v->n; e++) {
      int64_t pos = v->text_pos ? v->text_pos[e] : e;
      bool hidden = pos < 0;
      for (uint32_t i = 0; i < group->n_rules; i++)
        hidden = hidden || (pos >= group->rules[i].sinks && n_text - pos >= group->rules[i].hi);
      if (group->desc.kind == TN_KV_STATE) hidden = e < v->folded;
      if (!hidden) kv_rig_entry(r, &q->t[g], g, e);
    }
    if (group->desc.kind == TN_KV_STATE) cr_assert(v->state >= 0 && v->n - v->folded < 64);
  }
  if (tn_kv_reserve(r->store, q, 20) == TN_OK) cr_assert(tn_kv_commit(r->store, q, 20, NULL, n_text) == TN_OK);
}

/* Loads the bytes as they are; true when they were taken. */
static bool load(kv_rig *r, const uint8_t *bytes, size_t n, int64_t n_text)
{
  static uint64_t id;
  tn_kv_seq *q;
  tn_err err = tn_err_init();
  cr_assert(tn_kv_seq_new(r->store, 1000 + id++, 1, r->spec.max_ctx, &q) == TN_OK);
  tn_status st = tn_kv_load(r->store, q, bytes, n, n_text, &err);
  cr_assert(st == TN_OK || (st == TN_E_IO && err.msg[0]), "%s: %s", tn_status_name(st), err.msg);
  if (st == TN_OK) check_runs(r, q, n_text);
  tn_kv_seq_free(r->store, q);
  cr_assert(kv_rig_free(r) == r->n_free);
  return st == TN_OK;
}

Test(engine_kv_load, cut_short_or_too_long)
{
  for (uint32_t i = 0; kv_spec_at(i); i++) {
    kv_spec spec = *kv_spec_at(i);
    spec.share = 0;
    kv_model *m = kv_model_open(&spec);
    saved x = some_kv(m);
    cr_assert(load(m->rig, x.bytes, x.n, x.n_text), "%s", spec.name);
    for (size_t n = 0; n < x.n; n += 1 + n / 50)
      cr_assert(load(m->rig, x.bytes, n, x.n_text) == false, "%s: %zu bytes", spec.name, n);
    uint8_t *more = calloc(1, x.n + 8);
    memcpy(more, x.bytes, x.n);
    cr_expect(load(m->rig, more, x.n + 8, x.n_text) == false, "%s", spec.name);
    cr_expect(load(m->rig, x.bytes, x.n, x.n_text - 1) == false, "%s: of a shorter text", spec.name);
    free(more);
    free(x.bytes);
    kv_model_close(m);
  }
}

/* Bytes of the head and the tables set to telling values, one or a few at a time. */
Test(engine_kv_load, changed)
{
  static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};
  uint64_t state = 1;
  uint32_t taken = 0, refused = 0;
  for (uint32_t i = 0; kv_spec_at(i); i++) {
    kv_spec spec = *kv_spec_at(i);
    spec.share = 0;
    kv_model *m = kv_model_open(&spec);
    saved x = some_kv(m);
    uint8_t *bytes = malloc(x.n);
    for (int c = 0; c < 3000; c++) {
      memcpy(bytes, x.bytes, x.n);
      for (uint32_t k = 1 + (uint32_t)(plain_uniform(&state) * 3); k > 0; k--) {
        size_t at = (size_t)(plain_uniform(&state) * (double)(c % 3 ? 200 : x.n));
        bytes[at] = plain_uniform(&state) < 0.5 ? values[(size_t)(plain_uniform(&state) * 5)]
                                                : (uint8_t)(bytes[at] ^ (1u << (c % 8)));
      }
      if (load(m->rig, bytes, x.n, x.n_text))
        taken++;
      else
        refused++;
    }
    free(bytes);
    free(x.bytes);
    kv_model_close(m);
  }
  cr_expect(refused > 10000 && taken > 1000, "%u refused, %u taken", refused, taken); /* taken: contents differ */
}

/* The first page of a sequence left out, with its bytes: all lengths fit, but its entries are wanted. */
Test(engine_kv_load, a_page_that_is_not_there)
{
  enum { HEAD = 16, TABLE = 40, PAGE = 16 * sizeof(uint64_t) };
  kv_model *m = kv_model_open(kv_spec_at(0));
  saved x = some_kv(m);
  size_t n_pages = (size_t)(x.n_text + 15) / 16, at = HEAD + TABLE + n_pages + 2 * (size_t)x.n_text * sizeof(int64_t);
  cr_assert(x.n == at + n_pages * (1 + PAGE) && x.bytes[at] == 1);
  x.bytes[at] = 0;
  memmove(x.bytes + at + 1, x.bytes + at + 1 + PAGE, x.n - at - 1 - PAGE);
  cr_expect(load(m->rig, x.bytes, x.n - PAGE, x.n_text) == false);
  free(x.bytes);
  kv_model_close(m);
}
