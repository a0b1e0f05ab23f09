/* one: one run of one composition: a text with its second half scored, and three sequences that generate beside it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "matrix/matrix_int.h"
#include "setup/setup.h"

enum { MAX_SETS = 64, N_GENERATE = 3, NEW_TOKENS = 24, MAX_COUNTERS = 128, KINDS = 24 };

typedef struct one {
  const tn_matrix_run_args *r;
  int32_t text[TN_MATRIX_TEXT];
  size_t n_rows;
  double kld;
  char failed[256];
} one;

/* FNV-1a; order matters. */
static void digest(uint64_t *d, const void *p, size_t n)
{
  const uint8_t *b = p;
  for (size_t i = 0; i < n; i++) *d = (*d ^ b[i]) * 0x100000001B3u;
}

/* Few different tokens, spread over the vocabulary, so that a text has something to repeat. */
static void make_text(one *o)
{
  uint32_t x = 7;
  for (int i = 0; i < TN_MATRIX_TEXT; i++) {
    x = x * 1664525u + 1013904223u;
    uint32_t kind = (uint32_t)((uint64_t)x * KINDS >> 32);
    o->text[i] = (int32_t)((uint64_t)(2 * kind + 1) * o->r->n_vocab / (2 * KINDS));
  }
}

/* sum p (log p - log q), p the reference's law */
static double row_kld(const float *p, const float *q, uint32_t n)
{
  double zp = tn_log_sum_exp(p, n), zq = tn_log_sum_exp(q, n), sum = 0;
  for (uint32_t i = 0; i < n; i++) {
    double lp = (double)p[i] - zp;
    sum += exp(lp) * (lp - ((double)q[i] - zq));
  }
  return sum;
}

static void on_logits(void *ctx, uint64_t seq, void *user, int64_t pos, const float *row)
{
  (void)seq;
  one *o = ctx;
  const tn_matrix_run_args *r = o->r;
  if (user != o || pos < TN_MATRIX_FROM || o->n_rows == TN_MATRIX_ROWS) return;
  size_t at = o->n_rows++ * r->n_vocab;
  if (r->rows) memcpy(r->rows + at, row, r->n_vocab * sizeof *row);
  if (r->reference) o->kld += row_kld(r->reference + at, row, r->n_vocab);
  digest(&r->out->scored, row, r->n_vocab * sizeof *row);
}

/* The sequences' tokens come in an order that the scheduler chooses: each event brings its sequence, and events add up. */
static void on_token(void *ctx, const tn_token_event *e)
{
  one *o = ctx;
  uint64_t d = 0xCBF29CE484222325u, user = (uint64_t)(uintptr_t)e->user;
  digest(&d, &user, sizeof user);
  digest(&d, &e->pos, sizeof e->pos);
  digest(&d, &e->token, sizeof e->token);
  digest(&d, &e->logprob, sizeof e->logprob);
  if (e->user != o) o->r->out->generated += d;
}

static void on_finish(void *ctx, const tn_seq *seq, uint32_t why, const char *msg)
{
  (void)seq;
  one *o = ctx;
  if (why == TN_FINISH_ERROR) snprintf(o->failed, sizeof o->failed, "a sequence failed: %s", msg ? msg : "");
}

/* ---------------------------------------------------------------- the composition */

typedef struct sets {
  const char *at[MAX_SETS], *from[MAX_SETS];
  char *owned[4];
  size_t n;
} sets;

static void add(sets *s, const char *set)
{
  s->from[s->n] = "matrix";
  if (set && s->n < MAX_SETS) s->at[s->n++] = set;
}

/* Settings of both parts and of the matrix; on_backend: in place of the default one, or NULL. */
static bool collect(const tn_matrix_run_args *r, const char *on_backend, sets *s)
{
  static const char *const base[] = {"engine.ctx=640", "engine.seed=1", "engine.max_seqs=4",
                                     "engine.allow_untrained=yes"};
  const tn_matrix_part *parts[] = {r->a, r->b};
  bool ranks = false, ok = true;
  *s = (sets){.n = 0};
  for (size_t i = 0; i < 2; i++) ranks = ranks || (parts[i] && parts[i]->slot == TN_SLOT_PARALLEL);
  for (size_t i = 0; i < TN_ARRAY_LEN(base); i++) add(s, base[i]);
  add(s, ranks ? "engine.threads=2" : "engine.threads=1");
  if (on_backend) ok = (s->owned[2] = tn_asprintf("compose.backend=%s", on_backend)) != NULL;
  add(s, s->owned[2]);
  for (size_t i = 0; i < 2; i++)
    for (size_t k = 0; parts[i] && k < parts[i]->n_sets; k++) add(s, parts[i]->sets[k]);
  for (size_t i = 0; i < 2; i++) {
    if (!parts[i]) continue;
    s->owned[i] = tn_asprintf("compose.%s=%s", parts[i]->key, parts[i]->name);
    ok = ok && s->owned[i];
    add(s, s->owned[i]);
  }
  return ok && s->n < MAX_SETS;
}

static void release(sets *s)
{
  for (size_t i = 0; i < TN_ARRAY_LEN(s->owned); i++) free(s->owned[i]);
}

static tn_status open_on(one *o, const char *on_backend, tn_setup *s, tn_err *err)
{
  sets list;
  tn_status st = collect(o->r, on_backend, &list) ? TN_OK : tn_fail(err, TN_E_NOMEM, "no memory for the settings");
  tn_setup_args a = {.sets = list.at,
                     .sets_from = list.from,
                     .n_sets = list.n,
                     .model = o->r->model,
                     .conf_dir = o->r->cfg->conf_dir,
                     .loader = o->r->cfg->loader,
                     .events = {.ctx = o, .token = on_token, .logits = on_logits, .finish = on_finish}};
  if (st == TN_OK) st = tn_setup_open(&a, s, err);
  release(&list);
  return st;
}

static bool refused(tn_status st) { return st == TN_E_UNSUPPORTED || st == TN_E_ARG || st == TN_E_NEVER; }

static bool is_backend(const tn_matrix_part *p) { return p && p->slot == TN_SLOT_BACKEND; }

/* With the default backend, else with each of the others, unless a part is a backend itself. The first reason counts. */
static tn_status open_any(one *o, tn_setup *s, tn_err *err)
{
  tn_status first = open_on(o, NULL, s, err);
  if (!refused(first) || is_backend(o->r->a) || is_backend(o->r->b)) return first;
  for (size_t i = 0; i < o->r->backends->n; i++) {
    tn_err other = tn_err_init();
    tn_status st = open_on(o, o->r->backends->at[i], s, &other);
    if (st == TN_OK) return st;
  }
  return first;
}

/* ---------------------------------------------------------------- the run */

static tn_status submit(one *o, tn_engine *e, tn_err *err)
{
  tn_request score = {.prompt = o->text,
                      .n_prompt = TN_MATRIX_TEXT,
                      .sampling = tn_sampling_default(),
                      .score = 1,
                      .score_from = TN_MATRIX_FROM,
                      .user = o};
  uint64_t seq;
  tn_status st = tn_engine_submit(e, &score, &seq, err);
  for (int i = 0; st == TN_OK && i < N_GENERATE; i++) {
    tn_request q = {.prompt = o->text + 64 * i,
                    .n_prompt = 100 + 90 * i,
                    .max_new = NEW_TOKENS,
                    .sampling = tn_sampling_default(),
                    .n_logprobs = 1,
                    .ignore_eog = 1,
                    .user = (void *)(uintptr_t)(i + 1)};
    q.sampling.temperature = 0;
    st = tn_engine_submit(e, &q, &seq, err);
  }
  return st;
}

static bool is_counter_of(const tn_matrix_part *p, const tn_counter *c)
{
  return p && strcmp(p->key, c->key) == 0 && strcmp(p->name, c->name) == 0;
}

static void count(const one *o, const tn_engine *e)
{
  tn_counter c[MAX_COUNTERS];
  uint32_t n = tn_engine_counters(e, c, MAX_COUNTERS);
  for (uint32_t i = 0; i < n && i < MAX_COUNTERS; i++) {
    if (is_counter_of(o->r->a, &c[i])) o->r->out->engaged[0] += c[i].value;
    if (is_counter_of(o->r->b, &c[i])) o->r->out->engaged[1] += c[i].value;
  }
}

static tn_status drive(one *o, tn_engine *e, tn_err *err)
{
  make_text(o);
  tn_status st = submit(o, e, err);
  while (st == TN_OK && !tn_engine_idle(e)) st = tn_engine_step(e, err);
  if (st == TN_OK && o->failed[0]) st = tn_fail(err, TN_E_INTERNAL, "%s", o->failed);
  if (st == TN_OK && !tn_engine_check(e, err)) st = TN_E_INTERNAL;
  if (st == TN_OK && o->n_rows != TN_MATRIX_ROWS)
    st = tn_fail(err, TN_E_INTERNAL, "%zu rows of the text came out, not %zu", o->n_rows, TN_MATRIX_ROWS);
  return st;
}

void tn_matrix_one(const tn_matrix_run_args *r)
{
  tn_err err = tn_err_init();
  tn_setup s;
  one *o = tn_zalloc(1, sizeof *o);
  tn_status st = o ? TN_OK : tn_fail(&err, TN_E_NOMEM, "no memory for a run");
  uint32_t state = TN_RUN_FAILED;
  r->out->scored = r->out->generated = 0xCBF29CE484222325u;
  if (st == TN_OK) {
    o->r = r;
    st = open_any(o, &s, &err);
    if (refused(st)) state = TN_RUN_REFUSED;
  }
  if (st == TN_OK) {
    tn_composition_short(s.composition, r->out->fingerprint);
    st = drive(o, s.engine, &err);
    count(o, s.engine);
    r->out->kld = r->reference ? o->kld / (double)TN_MATRIX_ROWS : 0;
    tn_setup_close(&s);
  }
  if (st == TN_OK) state = TN_RUN_DONE;
  snprintf(r->out->text, sizeof r->out->text, "%.390s", st == TN_OK ? "" : err.msg[0] ? err.msg : tn_status_name(st));
  r->out->state = state;
  free(o);
}
