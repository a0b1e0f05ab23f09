/* engine_rig: see engine_rig.h. */
#include "engine_rig.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static rig_result *result_of(rig *r, const void *user) { return &r->r[(uintptr_t)user - 1]; }

static void on_token(void *ctx, const tn_token_event *e)
{
  rig *r = ctx;
  rig_result *x = result_of(r, e->user);
  if ((x->n & (x->n - 1)) == 0) { /* full: 0, or a power of two */
    const size_t room = x->n ? 2 * (size_t)x->n : 1;
    x->tokens = realloc(x->tokens, room * sizeof *x->tokens);
    x->logprobs = realloc(x->logprobs, room * sizeof *x->logprobs);
  }
  x->tokens[x->n] = e->token;
  x->logprobs[x->n++] = e->logprob;
  if (r->on_token) r->on_token(r->on_token_ctx, e);
}

static void on_logits(void *ctx, uint64_t seq, void *user, int64_t pos, const float *row)
{
  (void)seq, (void)pos;
  rig *r = ctx;
  rig_result *x = result_of(r, user);
  x->rows = realloc(x->rows, (size_t)(x->n_rows + 1) * r->n_vocab * sizeof *x->rows);
  memcpy(x->rows + (size_t)x->n_rows++ * r->n_vocab, row, r->n_vocab * sizeof *x->rows);
}

static void on_finish(void *ctx, const tn_seq *s, uint32_t why, const char *msg)
{
  rig *r = ctx;
  rig_result *x = result_of(r, s->req.user);
  if (r->on_finish) r->on_finish(r->on_finish_ctx, s);
  x->why = why;
  x->done = true;
  x->n_drafted = s->n_drafted, x->n_accepted = s->n_accepted;
  x->n_dropped = s->n_dropped, x->n_demoted = s->n_demoted, x->n_preempted = s->n_preempted;
  snprintf(x->msg, sizeof x->msg, "%s", msg ? msg : "");
}

tn_status rig_try(const char *model, const char *const *sets, rig **out, tn_err *err)
{
  return rig_conf(model, NULL, sets, out, err);
}

tn_status rig_conf(const char *model, const char *conf, const char *const *sets, rig **out, tn_err *err)
{
  size_t n = 0;
  while (sets && sets[n]) n++;
  rig *r = tn_zalloc(1, sizeof *r);
  *out = NULL;
  tn_loader_cfg cfg = {.path = TN_BUILD_DIR "/tests/plugins", .lib_dir = TN_BUILD_DIR "/lib/tenon"};
  tn_status st = tn_loader_new(&cfg, &r->loader, err);
  tn_setup_args a = {.conf = &conf,
                     .n_conf = conf != NULL,
                     .sets = sets,
                     .n_sets = n,
                     .model = model,
                     .conf_dir = TN_SOURCE_DIR "/conf",
                     .loader = r->loader,
                     .events = {.ctx = r, .token = on_token, .logits = on_logits, .finish = on_finish}};
  if (st == TN_OK) st = tn_setup_open(&a, &r->s, err);
  if (st != TN_OK) {
    tn_loader_free(r->loader);
    free(r);
    return st;
  }
  r->n_vocab = r->s.model->shape.n_vocab;
  *out = r;
  return TN_OK;
}

rig *rig_open(const char *model, const char *const *sets)
{
  rig *r;
  tn_err err = tn_err_init();
  tn_status st = rig_try(model, sets, &r, &err);
  cr_assert(st == TN_OK, "%s: %s", model, err.msg);
  return r;
}

void rig_clear(rig *r)
{
  for (uint32_t i = 0; i < r->n; i++) {
    free(r->r[i].tokens);
    free(r->r[i].logprobs);
    free(r->r[i].rows);
  }
  memset(r->r, 0, sizeof r->r);
  r->n = 0;
}

void rig_close(rig *r)
{
  if (!r) return;
  tn_setup_close(&r->s);
  rig_clear(r);
  tn_loader_free(r->loader);
  free(r);
}

const char *rig_tiny(const char *name)
{
  static _Thread_local char path[4][256];
  static _Thread_local unsigned at;
  char *p = path[at++ % 4];
  snprintf(p, sizeof path[0], "%s/tests/data/tiny/%s.gguf", TN_SOURCE_DIR, name);
  return p;
}

const char *rig_real(const char *file)
{
  static _Thread_local char path[256];
  snprintf(path, sizeof path, "%s/models/%s", TN_SOURCE_DIR, file);
  return access(path, R_OK) == 0 ? path : NULL;
}

void rig_skip(const char *file) { cr_skip("models/%s is not there: contrib/get-model brings it", file); }

uint32_t rig_submit(rig *r, const tn_request *q)
{
  cr_assert(r->n < RIG_MAX_RESULTS);
  tn_request mine = *q;
  mine.user = (void *)(uintptr_t)(r->n + 1);
  tn_err err = tn_err_init();
  tn_status st = tn_engine_submit(r->s.engine, &mine, &r->r[r->n].seq, &err);
  cr_assert(st == TN_OK, "submit: %s", err.msg);
  return r->n++;
}

uint32_t rig_generate(rig *r, const int32_t *prompt, int64_t n, int64_t max_new)
{
  tn_request q = {.prompt = prompt,
                  .n_prompt = n,
                  .max_new = max_new,
                  .sampling = tn_sampling_default(),
                  .n_logprobs = 1,
                  .ignore_eog = 1};
  return rig_submit(r, &q);
}

uint32_t rig_score(rig *r, const int32_t *prompt, int64_t n)
{
  tn_request q = {.prompt = prompt, .n_prompt = n, .sampling = tn_sampling_default(), .score = 1};
  return rig_submit(r, &q);
}

void rig_run(rig *r, uint32_t check)
{
  tn_err err = tn_err_init();
  for (uint32_t step = 1; !tn_engine_idle(r->s.engine); step++) {
    cr_assert(step < 100000, "the engine does not come to an end");
    tn_status st = tn_engine_step(r->s.engine, &err);
    cr_assert(st == TN_OK, "step %u: %s", step, err.msg);
    if (check && step % check == 0) cr_assert(tn_engine_check(r->s.engine, &err), "step %u: %s", step, err.msg);
  }
  cr_assert(tn_engine_check(r->s.engine, &err), "at the end: %s", err.msg);
}

rig_pair rig_score_both(const char *model, const char *const *a, const char *const *b, uint32_t seed, int64_t n)
{
  rig_pair p = {rig_open(model, a), rig_open(model, b)};
  int32_t *prompt = malloc((size_t)n * sizeof *prompt);
  cr_assert(prompt);
  rig_tokens(seed, p.a->n_vocab, prompt, n);
  rig_score(p.a, prompt, n);
  rig_score(p.b, prompt, n);
  rig_run(p.a, 0);
  rig_run(p.b, 0);
  free(prompt);
  return p;
}

void rig_close_both(rig_pair p)
{
  rig_close(p.a);
  rig_close(p.b);
}

void rig_tokens(uint32_t seed, uint32_t n_vocab, int32_t *out, int64_t n)
{
  uint32_t x = seed * 2654435761u + 1;
  for (int64_t i = 0; i < n; i++) {
    x ^= x << 13, x ^= x >> 17, x ^= x << 5;
    out[i] = (int32_t)(x % n_vocab);
  }
}

bool rig_same(const rig *a, uint32_t i, const rig *b, uint32_t k)
{
  const rig_result *x = &a->r[i], *y = &b->r[k];
  if (x->n != y->n || x->n_rows != y->n_rows) return false;
  if (x->n && memcmp(x->tokens, y->tokens, x->n * sizeof *x->tokens) != 0) return false;
  if (x->n && memcmp(x->logprobs, y->logprobs, x->n * sizeof *x->logprobs) != 0) return false;
  return x->n_rows == 0 || memcmp(x->rows, y->rows, (size_t)x->n_rows * a->n_vocab * sizeof *x->rows) == 0;
}

uint64_t rig_counter(const rig *r, const char *key, uint32_t index)
{
  tn_counter c[128];
  uint32_t n = tn_engine_counters(r->s.engine, c, 128), seen = 0;
  uint64_t sum = 0;
  const char *name = NULL;
  for (uint32_t i = 0; i < n && i < 128; i++) {
    if (strcmp(c[i].key, key) != 0) continue;
    if (name != c[i].name) seen = 0;
    name = c[i].name;
    if (seen++ == index) sum += c[i].value;
  }
  return sum;
}
