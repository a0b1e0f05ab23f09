/* Random arrivals, forks and cancellations over too few pages, with swaps, second runs and shared beginnings all at once:
 * what comes to its end says what it says alone, and what is cancelled says a beginning of it. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "support/engine_rig.h"

enum { REQUESTS = 40, LONGEST = 120 };

typedef struct traffic {
  rig *r;
  uint32_t rng;
  int32_t text[RIG_MAX_RESULTS][LONGEST + 64]; /* whole prompts, of forks too */
  tn_request q[RIG_MAX_RESULTS];               /* the same as one request, to be run alone */
} traffic;

static uint32_t below(traffic *t, uint32_t n)
{
  t->rng = t->rng * 1664525u + 1013904223u;
  return (uint32_t)(((uint64_t)t->rng * n) >> 32);
}

/* One of three beginnings, and a tail of its own. */
static void arrive(traffic *t)
{
  uint32_t i = t->r->n;
  int64_t n = 4 + below(t, LONGEST - 4), shared = below(t, 3) ? n - n / 8 : 2;
  rig_tokens(1 + below(t, 3), t->r->n_vocab, t->text[i], shared);
  rig_tokens(100 + i, t->r->n_vocab, t->text[i] + shared, n - shared);
  t->q[i] = (tn_request){.prompt = t->text[i],
                         .n_prompt = n,
                         .max_new = 1 + below(t, 50),
                         .sampling = tn_sampling_default(),
                         .key = i,
                         .n_logprobs = 1,
                         .priority = (int32_t)below(t, 3),
                         .cache_salt = {below(t, 4) == 0, 0},
                         .ignore_eog = 1};
  t->q[i].sampling.temperature = below(t, 2) ? 0.8 : 0;
  rig_submit(t->r, &t->q[i]);
}

/* Goes on from a running request's text with three tokens of its own. */
static bool fork_one(traffic *t)
{
  uint32_t of = below(t, t->r->n), i = t->r->n;
  for (uint32_t k = 0; k < i && t->r->r[of].done; k++) of = (of + 1) % i;
  const tn_seq *s = tn_engine_seq(t->r->s.engine, t->r->r[of].seq);
  if (!s || !s->kv || s->n_done < 1 || s->n_done > LONGEST) return false;
  int64_t n = s->n_done;
  memcpy(t->text[i], s->tokens, (size_t)n * sizeof(int32_t));
  rig_tokens(200 + i, t->r->n_vocab, t->text[i] + n, 3);
  t->q[i] = t->q[of];
  t->q[i].prompt = t->text[i];
  t->q[i].n_prompt = n + 3;
  t->q[i].max_new = 20;
  tn_request rest = t->q[i];
  rest.prompt += n;
  rest.n_prompt = 3;
  rest.user = (void *)(uintptr_t)(i + 1);
  tn_status st = tn_engine_fork(t->r->s.engine, s->id, &rest, &t->r->r[i].seq, NULL);
  cr_assert(st == TN_OK || st == TN_E_FULL, "fork: %s", tn_status_name(st));
  t->r->n += st == TN_OK;
  return st == TN_OK;
}

/* The results of t against each request alone. */
static void compare(traffic *t, const char *model)
{
  static const char *const alone[] = {"compose.backend=cpu", "engine.threads=1", "engine.prefix_cache=false", NULL};
  rig *a = rig_open(rig_tiny(model), alone);
  for (uint32_t i = 0; i < t->r->n; i++) {
    rig_submit(a, &t->q[i]);
    rig_run(a, 0);
    const rig_result *x = &a->r[i], *y = &t->r->r[i];
    cr_assert(y->done && (y->why == TN_FINISH_CANCELLED || y->n == x->n), "%u: %u tokens, alone %u %s", i, y->n, x->n,
              y->msg);
    cr_assert(y->n <= x->n && (y->n == 0 || memcmp(x->tokens, y->tokens, y->n * sizeof *x->tokens) == 0),
              "%u: other tokens", i);
    cr_assert(y->n == 0 || memcmp(x->logprobs, y->logprobs, y->n * sizeof *x->logprobs) == 0, "%u: other logprobs", i);
  }
  rig_close(a);
}

static void check(const char *model, const char *budget, const char *a, const char *b, const char *c)
{
  const char *const sets[] = {"compose.backend=cpu", "engine.threads=1", "engine.max_rows=48", budget, a, b, c, NULL};
  traffic *t = tn_zalloc(1, sizeof *t);
  t->r = rig_open(rig_tiny(model), sets);
  t->rng = 7;
  uint32_t cancelled = 0, forks = 0;
  tn_err err = tn_err_init();
  for (uint32_t step = 0; t->r->n < REQUESTS || !tn_engine_idle(t->r->s.engine); step++) {
    cr_assert(step < 20000);
    while (t->r->n < REQUESTS && below(t, 3) == 0) arrive(t);
    if (t->r->n > 0 && t->r->n < RIG_MAX_RESULTS - 1 && below(t, 8) == 0) forks += fork_one(t);
    if (t->r->n > 0 && below(t, 25) == 0) {
      const rig_result *x = &t->r->r[below(t, t->r->n)];
      cancelled += !x->done;
      tn_engine_cancel(t->r->s.engine, x->seq);
    }
    cr_assert(tn_engine_step(t->r->s.engine, &err) == TN_OK, "%s", err.msg);
    cr_assert(tn_engine_check(t->r->s.engine, &err), "step %u: %s", step, err.msg);
  }
  tn_engine_info i = tn_engine_stat(t->r->s.engine);
  cr_assert(i.kv_bytes_used == 0 && i.n_running == 0 && i.n_waiting == 0 && i.n_swapped == 0);
  cr_expect(i.n_preempted > 1 && i.prefix_found > 0 && cancelled > 2 && forks > 2, "%llu gave way, %llu found, %u, %u",
            (unsigned long long)i.n_preempted, (unsigned long long)i.prefix_found, cancelled, forks);
  compare(t, model);
  rig_close(t->r);
  free(t);
}

#define CHUNKED "compose.scheduler=chunked"
Test(engine_arrivals, recompute)
{
  check("llama", "engine.kv_budget=200K", "scheduler.continuous.reserve=0", NULL, NULL);
}
Test(engine_arrivals, swap)
{
  check("llama", "engine.kv_budget=200K", CHUNKED, "scheduler.chunked.reserve=0", "scheduler.chunked.preempt=swap");
}
Test(engine_arrivals, windows)
{
  check("gemma3", "engine.kv_budget=400K", CHUNKED, "scheduler.chunked.reserve=0", NULL);
}
