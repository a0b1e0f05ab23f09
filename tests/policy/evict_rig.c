/* evict_rig: see evict_rig.h. */
#include "evict_rig.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_int.h"

enum { N_PROMPT = 75, N_NEW = 45, N_TEXT = 110 };

typedef struct settings {
  const char *at[24];
  int n;
} settings;

static void add(settings *s, const char *set)
{
  cr_assert(s->n + 1 < (int)TN_ARRAY_LEN(s->at));
  s->at[s->n++] = set;
}

static settings settings_of(const char *backend, const char *const *a, const char *const *b)
{
  settings s = {.n = 0};
  add(&s, strcmp(backend, "cpu") == 0 ? "compose.backend=cpu" : "compose.backend=ref");
  add(&s, "engine.activations=f32");
  add(&s, "engine.threads=1");
  for (; a && *a; a++) add(&s, *a);
  for (; b && *b; b++) add(&s, *b);
  return s;
}

/* Keys and values in f32, so that the oracle is near. */
static rig *open_case(const evict_case *c)
{
  static const char *const cut[] = {"engine.max_rows=33", "compose.kv=probe", "quantizer.probe@kv.kv=f32", NULL};
  settings s = settings_of(c->backend, c->sets, cut);
  return rig_open(rig_tiny(c->model), s.at);
}

/* ---------------------------------------------------------------- against the oracle */

static int ascending(const void *a, const void *b)
{
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

/* Text positions in a group that a query at n_done sees, in full width or demoted. */
static int64_t held(const tn_engine *e, const tn_seq *s, uint32_t group, bool narrow, int64_t *out)
{
  const tn_kv_table *t = &s->kv->t[group];
  const tn_group *g = &e->groups.g[group];
  int64_t n = 0;
  for (int64_t r = 0; r < t->n; r++) {
    bool hidden = t->text_pos[r] < 0 || (t->layout[r / e->groups.page_tokens] != 0) != narrow;
    for (uint32_t k = 0; k < g->n_rules; k++) hidden = hidden || s->n_done - t->text_pos[r] >= g->rules[k].hi;
    if (!hidden) out[n++] = t->text_pos[r];
  }
  qsort(out, (size_t)n, sizeof *out, ascending);
  return n;
}

static void same_cell(const rig *r, const tn_seq *s, const oracle *o, uint32_t group, uint32_t cell)
{
  int64_t have[ORACLE_T], want[ORACLE_T];
  for (int narrow = 0; narrow < 2; narrow++) {
    bool demoted = narrow == 1;
    int64_t n = held(r->s.engine, s, group, demoted, have);
    int64_t m = oracle_positions(o, cell, s->n_done, &demoted, want);
    cr_assert(n == m, "%lld tokens, cell %u: %lld entries (demoted: %d), the oracle has %lld", (long long)s->n_done,
              cell, (long long)n, narrow, (long long)m);
    for (int64_t i = 0; i < n; i++)
      cr_assert(have[i] == want[i], "%lld tokens, cell %u: entry %lld is token %lld, the oracle has %lld",
                (long long)s->n_done, cell, (long long)i, (long long)have[i], (long long)want[i]);
  }
}

static void same_sets(const rig *r, const tn_seq *s, const oracle *o)
{
  const tn_engine *e = r->s.engine;
  for (uint32_t g = 0; g < e->n_groups; g++) {
    const tn_kv_group *d = &e->groups.g[g].desc;
    for (uint32_t l = 0; l < d->n_layers; l++)
      for (uint32_t h = 0; h < d->n_heads; h++)
        same_cell(r, s, o, g, (uint32_t)d->layers[l] * e->model->shape.n_kv_heads + (uint32_t)d->heads[h]);
  }
}

/* Attention as the engine sums it: until something is dropped each query has given one unit to each query head. */
static void whole_attention(const rig *r, const tn_seq *s)
{
  const tn_engine *e = r->s.engine;
  uint32_t per = e->model->shape.n_heads / e->model->shape.n_kv_heads;
  for (uint32_t g = 0; g < e->n_groups; g++) {
    const tn_kv_group *d = &e->groups.g[g].desc;
    double sum = 0, want = (double)s->n_done * d->n_layers * d->n_heads * per;
    for (int64_t i = 0; i < s->kv->t[g].n; i++) sum += ldexp((double)s->signals->attn[g][i], -32);
    cr_assert(fabs(sum - want) < 1e-6 * want, "group %u: %lld queries gave %.9g, want %g", g, (long long)s->n_done, sum,
              want);
  }
}

/* Key norms as the engine signals them, of entries that nothing has moved yet. Behind the first layer the keys
 * themselves differ by what the engine rounds. */
static void same_norms(const rig *r, const tn_seq *s, const oracle *o)
{
  const tn_engine *e = r->s.engine;
  for (uint32_t g = 0; g < e->n_groups; g++) {
    const tn_kv_group *d = &e->groups.g[g].desc;
    for (int64_t j = 0; j < s->kv->t[g].n; j++) {
      double want = 0, have = ldexp((double)s->signals->knorm[g][j], -16), step = ldexp(d->n_layers * d->n_heads, -16);
      bool first = d->n_layers == 1 && d->layers[0] == 0;
      if (s->kv->t[g].text_pos[j] < 0) continue;
      for (uint32_t l = 0; l < d->n_layers; l++)
        for (uint32_t h = 0; h < d->n_heads; h++)
          want += o->cell[(uint32_t)d->layers[l] * e->model->shape.n_kv_heads + (uint32_t)d->heads[h]].norm[j];
      cr_assert(fabs(have - want) < (first ? 1e-6 : 1e-4) * want + step, "group %u, key %lld: %.9g, want %.9g", g,
                (long long)j, have, want);
    }
  }
}

static void check_signals(const rig *r, const tn_seq *s, const oracle *o)
{
  if (o->decisions > 0) return;
  if (o->rule.policy == ORACLE_H2O) whole_attention(r, s);
  if (o->rule.policy == ORACLE_KNORM) same_norms(r, s, o);
}

evict_seen evict_follow(const evict_case *c, uint32_t seed)
{
  int32_t prompt[N_PROMPT];
  evict_seen seen = {0};
  rig *r = open_case(c);
  rig_tokens(seed, r->n_vocab, prompt, N_PROMPT);
  rig_generate(r, prompt, N_PROMPT, N_NEW);
  oracle *o = oracle_open(r->s.model, &c->rule, N_PROMPT);
  while (!tn_engine_idle(r->s.engine)) {
    tn_err err = tn_err_init();
    cr_assert(tn_engine_step(r->s.engine, &err) == TN_OK, "%s", err.msg);
    const tn_seq *s = r->s.engine->first;
    if (!s || !s->kv) continue;
    while (o->x->n < s->n_done) oracle_push(o, s->tokens[o->x->n]);
    check_signals(r, s, o);
    same_sets(r, s, o);
    seen.heads_differ = seen.heads_differ || oracle_heads_differ(o);
    cr_assert(tn_engine_check(r->s.engine, &err), "%s", err.msg);
  }
  cr_assert(o->tightest > 1e-6, "scores are too near for the comparison to mean something: %g", o->tightest);
  cr_assert(rig_counter(r, "eviction", 0) > 0, "decisions are counted");
  seen.dropped = o->n_dropped;
  seen.narrow = o->n_narrow;
  oracle_close(o);
  rig_close(r);
  return seen;
}

void evict_scores(const evict_case *c, uint32_t seed)
{
  int32_t text[N_TEXT];
  rig *r = open_case(c);
  rig_tokens(seed, r->n_vocab, text, N_TEXT);
  tn_request q = {
      .prompt = text, .n_prompt = N_TEXT, .sampling = tn_sampling_default(), .score = 1, .score_from = N_PROMPT};
  rig_submit(r, &q);
  rig_run(r, 1);
  cr_assert_eq(r->r[0].n_rows, N_TEXT - N_PROMPT);
  cr_assert_gt(r->r[0].n_dropped, 0);
  oracle *o = oracle_open(r->s.model, &c->rule, N_PROMPT);
  for (int64_t i = 0; i < N_TEXT; i++) {
    oracle_push(o, text[i]);
    double e = i < N_PROMPT ? 0 : naive_error(o->x, r->r[0].rows + (size_t)(i - N_PROMPT) * r->n_vocab);
    cr_assert(e < 1e-4, "row %lld is off by %g", (long long)i, e);
  }
  cr_assert_gt(o->n_dropped, 0);
  oracle_close(o);
  rig_close(r);
}

/* ---------------------------------------------------------------- against other runs */

static void submit_all(rig *r)
{
  static const int64_t prompts[] = {20, 57, 94, 130};
  int32_t text[130];
  for (uint32_t i = 0; i < TN_ARRAY_LEN(prompts); i++) {
    rig_tokens(i + 30, r->n_vocab, text, 130);
    rig_generate(r, text, prompts[i], 30);
    tn_request q = {.prompt = text,
                    .n_prompt = prompts[i],
                    .sampling = tn_sampling_default(),
                    .score = 1,
                    .score_from = prompts[i] / 2};
    rig_submit(r, &q);
  }
}

static rig *run_all(const char *backend, const char *model, const char *const *sets, const char *const *more)
{
  settings s = settings_of(backend, sets, more);
  rig *r = rig_open(rig_tiny(model), s.at);
  submit_all(r);
  rig_run(r, 2);
  return r;
}

static void all_same(const char *what, const rig *a, const rig *b)
{
  for (uint32_t i = 0; i < a->n; i++) {
    cr_assert(a->r[i].why != TN_FINISH_ERROR && b->r[i].why != TN_FINISH_ERROR, "%s: result %u: %s%s", what, i,
              a->r[i].msg, b->r[i].msg);
    cr_assert(rig_same(a, i, b, i), "%s: result %u differs", what, i);
  }
}

static uint64_t dropped(const rig *r)
{
  uint64_t n = 0;
  for (uint32_t i = 0; i < r->n; i++) n += r->r[i].n_dropped;
  return n;
}

void evict_like_full(const char *backend, const char *model, const char *const *sets)
{
  rig *full = run_all(backend, model, NULL, NULL), *r = run_all(backend, model, sets, NULL);
  all_same(model, full, r);
  cr_assert_eq(dropped(r), 0);
  cr_assert(rig_counter(r, "eviction", 0) > 0);
  rig_close(full);
  rig_close(r);
}

void evict_invariant(const char *backend, const char *model, const char *const *sets)
{
  const char *const tight = strcmp(model, "gemma3") ? "engine.kv_budget=130K" : "engine.kv_budget=250K";
  const char *const variants[][4] = {
      {"engine.max_rows=1", NULL},
      {"engine.max_rows=7", "engine.threads=2", NULL},
      {"engine.max_seqs=1", "engine.threads=3", NULL},
      {"memory.paged.page_tokens=64", NULL},
      {"compose.draft=ngram", NULL},
      {"compose.memory=contiguous", "engine.max_rows=64", NULL},
      {"engine.ctx=200", tight, "compose.scheduler=probe", NULL},
  };
  rig *whole = run_all(backend, model, sets, NULL);
  cr_assert_gt(dropped(whole), 0);
  for (size_t v = 0; v < TN_ARRAY_LEN(variants); v++) {
    rig *r = run_all(backend, model, sets, variants[v]);
    all_same(variants[v][0], whole, r);
    cr_assert(variants[v][1] != tight || tn_engine_stat(r->s.engine).n_preempted > 0, "there was room enough");
    rig_close(r);
  }
  rig_close(whole);
}

void evict_shared(const char *backend, const char *model, const char *const *sets)
{
  enum { PREFIX = 40, SAME = 50, MINE = 70, OTHER = 90, NEW = 25 };
  static const char *const cut[] = {"engine.max_rows=10", NULL};
  int32_t mine[MINE], other[OTHER];
  settings s = settings_of(backend, sets, cut);
  rig *alone = rig_open(rig_tiny(model), s.at), *both = rig_open(rig_tiny(model), s.at);
  rig_tokens(1, alone->n_vocab, mine, MINE);
  rig_tokens(2, alone->n_vocab, other, OTHER);
  memcpy(other, mine, SAME * sizeof *mine);
  rig_generate(alone, mine, MINE, NEW);
  rig_generate(alone, other, OTHER, NEW);
  rig_run(alone, 0);
  rig_generate(both, mine, MINE, NEW);
  tn_err err = tn_err_init();
  while (both->s.engine->first->n_done < PREFIX) cr_assert(tn_engine_step(both->s.engine, &err) == TN_OK);
  int64_t shared = both->s.engine->first->n_done;
  cr_assert(shared <= SAME);
  tn_request child = {.prompt = other + shared,
                      .n_prompt = OTHER - shared,
                      .max_new = NEW,
                      .sampling = tn_sampling_default(),
                      .n_logprobs = 1,
                      .ignore_eog = 1,
                      .user = (void *)(uintptr_t)2};
  both->n = 2;
  tn_status st = tn_engine_fork(both->s.engine, both->r[0].seq, &child, &both->r[1].seq, &err);
  cr_assert(st == TN_OK, "%s", err.msg);
  rig_run(both, 1);
  all_same("a shared prefix", alone, both);
  cr_assert(both->r[0].n_dropped > 0 && both->r[1].n_dropped > 0);
  rig_close(alone);
  rig_close(both);
}

void evict_refused(const char *const *sets, const char *says)
{
  tn_err err = tn_err_init();
  rig *r = NULL;
  tn_status st = rig_try(rig_tiny("llama"), sets, &r, &err);
  cr_assert(st != TN_OK && strstr(err.msg, says), "%s", err.msg);
}
