/* attention/probe on the engine: every pattern against a dense softmax in double (or the parallel form of a recurrence),
 * and the same bits whatever the batch, the chunks, the threads and the drafts. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "attn_oracle.h"
#include "probe_rig.h"

enum { T = 135, SEQS = 2 };

static const char *const kinds[] = {"mask", "masks", "tiles", "elu", "favor", "halves"};

static void put(probe_sets *s, const attn_oracle *o, const tn_model_shape *shape)
{
  if (o->layer0 == 0 && o->layer1 >= shape->n_layers)
    probe_set(s, "compose.attention=probe");
  else if (o->layer0 == 0)
    probe_set(s, "compose.attention.layers=0-%u:probe, %u-:full", o->layer1 - 1, o->layer1);
  else
    probe_set(s, "compose.attention.layers=0-%u:full, %u-:probe", o->layer0 - 1, o->layer0);
  probe_set(s, "attention.probe.kind=%s", kinds[o->kind]);
  probe_set(s, "attention.probe.lo=%lld", (long long)o->mask.lo);
  probe_set(s, "attention.probe.hi=%lld", (long long)o->mask.hi);
  probe_set(s, "attention.probe.stride=%lld", (long long)o->mask.stride);
  probe_set(s, "attention.probe.residue=%lld", (long long)o->mask.residue);
  probe_set(s, "attention.probe.sinks=%lld", (long long)o->mask.sinks);
  probe_set(s, "attention.probe.seed=%u", o->seed);
}

/* Every row of a long text, in chunks that cross the boundaries of tiles. */
static void agrees(rig *r, attn_oracle *o, double bound)
{
  int32_t text[T];
  naive_hooks hooks = attn_oracle_hooks(o, r->s.model);
  rig_tokens(5, r->n_vocab, text, T);
  rig_score(r, text, T);
  rig_run(r, 1);
  naive *x = naive_open(r->s.model, &hooks, T);
  for (int64_t i = 0; i < T; i++) {
    naive_push(x, text[i]);
    double e = naive_error(x, r->r[0].rows + (size_t)i * r->n_vocab);
    cr_assert(e < bound, "row %lld is off by %g", (long long)i, e);
  }
  naive_close(x);
  cr_assert_eq(((probe_attention *)probe_record(&r->s.engine->attention[o->layer0 ? 1 : 0].in))->bad, 0);
}

static void submit_all(rig *r)
{
  static int32_t prompts[SEQS][T];
  for (uint32_t i = 0; i < SEQS; i++) {
    rig_tokens(i + 20, r->n_vocab, prompts[i], T);
    rig_generate(r, prompts[i], 3 + 57 * (int64_t)i, 14);
    rig_score(r, prompts[i], T - 35 * (int64_t)i);
  }
}

static rig *run(const char *model, const probe_sets *base, const char *a, const char *b, const char *c)
{
  probe_sets s = *base;
  if (a) probe_set(&s, "%s", a);
  if (b) probe_set(&s, "%s", b);
  if (c) probe_set(&s, "%s", c);
  rig *r = probe_open(rig_tiny(model), &s);
  submit_all(r);
  rig_run(r, 3);
  return r;
}

static void invariant(const char *model, const probe_sets *base)
{
  static const char *const variants[][3] = {
      {"engine.max_rows=1", NULL, NULL},
      {"engine.max_rows=7", NULL, NULL},
      {"engine.max_rows=64", "memory.paged.page_tokens=64", NULL},
      {"engine.max_rows=65", "engine.threads=3", NULL},
      {"engine.max_seqs=1", NULL, NULL},
      {"compose.draft=probe", "draft.probe.nodes=19", "engine.max_rows=31"},
      {"compose.scheduler=probe", "scheduler.probe.preempt=10", "engine.max_rows=29"}};
  rig *whole = run(model, base, NULL, NULL, NULL);
  for (size_t v = 0; v < TN_ARRAY_LEN(variants); v++) {
    rig *r = run(model, base, variants[v][0], variants[v][1], variants[v][2]);
    probe_equal(variants[v][0], whole, r);
    rig_close(r);
  }
  rig_close(whole);
}

static void check(const char *model, attn_oracle o)
{
  probe_sets s, f32;
  tn_err err = tn_err_init();
  tn_model *m;
  cr_assert(tn_model_open(rig_tiny(model), NULL, NULL, &m, &err) == TN_OK, "%s", err.msg);
  if (o.layer1 == 0) o.layer1 = m->shape.n_layers;
  if (o.mask.hi == 0) o.mask = (tn_mask)TN_MASK_ALL;
  probe_base(&s);
  put(&s, &o, &m->shape);
  invariant(model, &s);
  bool all_states = (o.kind == ORACLE_ELU || o.kind == ORACLE_FAVOR) && o.layer0 == 0 && o.layer1 == m->shape.n_layers;
  if (all_states)
    probe_base(&f32); /* no layer has entries that a layout could be chosen for */
  else
    probe_base_f32(&f32);
  put(&f32, &o, &m->shape);
  probe_set(&f32, "engine.max_rows=61");
  rig *r = probe_open(rig_tiny(model), &f32);
  o.f16 = all_states;
  agrees(r, &o, all_states ? 2e-3 : 1e-4);
  rig_close(r);
  tn_model_close(m);
}

#define PATTERN(name_, model_, ...) \
  Test(probe_attention, name_) { check(model_, (attn_oracle){__VA_ARGS__}); }
PATTERN(window, "llama", .mask = {0, 23, 1, 0, 0})
PATTERN(window_and_sinks, "llama", .mask = {0, 23, 1, 0, 3})
PATTERN(dilated, "llama", .mask = {0, 70, 5, 0, 0})
PATTERN(residue, "llama", .mask = {2, TN_POS_INF, 3, 2, 1})
PATTERN(all_but_the_last, "llama", .mask = {4, TN_POS_INF, 1, 0, 1})
PATTERN(mask_for_each_head, "llama", .kind = ORACLE_MASKS, .seed = 3)
PATTERN(mask_for_each_head_windows, "gemma3", .kind = ORACLE_MASKS, .seed = 4)
PATTERN(tiles, "llama", .kind = ORACLE_TILES, .seed = 5)
PATTERN(tiles_and_mask, "llama", .kind = ORACLE_TILES, .seed = 6, .mask = {0, 90, 2, 0, 0})
PATTERN(tiles_windows, "gemma3", .kind = ORACLE_TILES, .seed = 7)
PATTERN(elu, "llama", .kind = ORACLE_ELU)
PATTERN(favor, "llama-tied", .kind = ORACLE_FAVOR, .seed = 8)
PATTERN(favor_windows, "gemma3", .kind = ORACLE_FAVOR, .seed = 9)
PATTERN(first_layers_recurrent, "llama", .kind = ORACLE_ELU, .layer1 = 2)
PATTERN(last_layers_recurrent, "llama", .kind = ORACLE_FAVOR, .layer0 = 1, .seed = 10)
PATTERN(last_layers_tiled, "llama", .kind = ORACLE_TILES, .layer0 = 2, .seed = 11)
PATTERN(heads_of_a_layer_recurrent, "llama", .kind = ORACLE_HALVES)
PATTERN(heads_of_a_layer_recurrent_windows, "gemma3", .kind = ORACLE_HALVES, .mask = {0, 30, 1, 0, 2})

/* ---------------------------------------------------------------- corners */

/* A window as long as the text, and full tiles, are full attention, bitwise. */
Test(probe_attention, what_hides_nothing_changes_nothing)
{
  static const char *const hi[] = {"attention.probe.hi=135", "attention.probe.lo=0"};
  probe_sets s;
  probe_base(&s);
  rig *full = run("gemma3", &s, NULL, NULL, NULL);
  for (size_t i = 0; i < TN_ARRAY_LEN(hi); i++) {
    rig *r = run("gemma3", &s, "compose.attention=probe", hi[i], NULL);
    probe_equal(hi[i], full, r);
    rig_close(r);
  }
  rig *other = run("gemma3", &s, "compose.attention=probe", "attention.probe.hi=6", NULL);
  cr_assert_not(rig_same(full, 1, other, 1));
  rig_close(other);
  rig_close(full);
}

Test(probe_attention, soft_cap)
{
  int32_t text[40];
  probe_sets s;
  probe_base_f32(&s);
  probe_set(&s, "compose.attention=probe");
  probe_set(&s, "attention.probe.softcap=0.5");
  rig *r = probe_open(rig_tiny("llama"), &s);
  rig_tokens(5, r->n_vocab, text, 40);
  rig_score(r, text, 40);
  rig_run(r, 0);
  naive *x = naive_open(r->s.model, NULL, 40);
  double off = 0;
  for (int64_t capped = 0; capped < 2; capped++) {
    naive_restart(x);
    x->softcap = capped ? 0.5 : 0;
    off = naive_worst(x, text, 40, r->r[0].rows);
    cr_assert(capped ? off < 1e-4 : off > 1e-2, "%s cap: off by %g", capped ? "with" : "without", off);
  }
  naive_close(x);
  rig_close(r);
}

/* Every kind on two stages and, but for states with tile lists, on two ranks of heads. */
Test(probe_attention, ranks)
{
  static const char *const splits[] = {"parallel.probe.layers=1, 2", "parallel.probe.heads=1, 1"};
  for (size_t k = 0; k < TN_ARRAY_LEN(kinds); k++) {
    probe_sets s;
    char kind[64];
    snprintf(kind, sizeof kind, "attention.probe.kind=%s", kinds[k]);
    probe_base(&s);
    probe_set(&s, "compose.attention=probe");
    probe_set(&s, "attention.probe.hi=40");
    rig *one = run("llama", &s, kind, NULL, NULL);
    for (size_t i = 0; i < TN_ARRAY_LEN(splits); i++) {
      rig *r = run("llama", &s, kind, "compose.parallel=probe", splits[i]);
      probe_equal(kind, one, r);
      rig_close(r);
    }
    rig_close(one);
  }
}

/* ---------------------------------------------------------------- against the contract */

static void bad_list(const char *fault, const char *says)
{
  probe_sets s;
  int32_t text[T];
  tn_err err = tn_err_init();
  probe_base(&s);
  probe_set(&s, "compose.attention=probe");
  probe_set(&s, "attention.probe.kind=tiles");
  probe_set(&s, "attention.probe.fault=%s", fault);
  rig *r = probe_open(rig_tiny("llama"), &s);
  rig_tokens(5, r->n_vocab, text, T);
  for (int round = 0; round < 2; round++) {
    rig_clear(r);
    rig_score(r, text, T);
    cr_assert(tn_engine_step(r->s.engine, &err) != TN_OK);
    cr_assert(strstr(err.msg, "attention/probe: tiles of layer 0, KV head 0") && strstr(err.msg, says), "%s", err.msg);
    cr_assert_eq(r->r[0].why, TN_FINISH_ERROR);
    cr_assert(tn_engine_check(r->s.engine, &err), "%s", err.msg);
  }
  rig_close(r);
}
Test(probe_attention, tiles_out_of_order) { bad_list("order", "is no list"); }
Test(probe_attention, tiles_of_the_future) { bad_list("future", "query tile 0 is no list"); }
Test(probe_attention, tiles_of_no_kind) { bad_list("kind", "query tile 0 is no list"); }
Test(probe_attention, more_tiles_than_there_is_room_for) { bad_list("cap", "query tile 0 is no list"); }
Test(probe_attention, tiles_that_fail) { bad_list("status", "TN_E_DEVICE"); }

static void refused(const char *a, const char *b, const char *says)
{
  const char *const sets[] = {"compose.backend=ref", "compose.attention=probe", a, b, NULL};
  rig *r;
  tn_err err = tn_err_init();
  cr_assert(rig_try(rig_tiny("llama"), sets, &r, &err) != TN_OK);
  cr_assert(strstr(err.msg, says), "%s", err.msg);
}
Test(probe_attention, a_state_without_a_spec)
{
  refused("attention.probe.kind=elu", "attention.probe.fault=no_state",
          "attention/probe: layer 0: describe asks for a recurrent state");
}
Test(probe_attention, a_mask_that_is_none)
{
  refused("attention.probe.fault=mask", NULL, "stride 0, residue 0, sinks 0 is no mask");
}
Test(probe_attention, a_failing_describe)
{
  refused("attention.probe.fault=describe", NULL, "attention/probe: layer 0: this layer is not for sale");
}
