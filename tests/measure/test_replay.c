/* A trace against an engine in this process: times that can be worked out by hand, the same result for the same seed, the
 * same schedule with the model as without it, and what becomes of requests that are refused or left. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "replay_rig.h"

static bool near(double a, double b) { return fabs(a - b) <= 1e-6 * (1 + fabs(b)); }

static tn_trace poisson(double rate, size_t n, int64_t n_prompt, int64_t n_new)
{
  tn_trace t;
  tn_err err = tn_err_init();
  cr_assert(tn_trace_poisson(rate, n, n_prompt, n_new, 3, &t, &err) == TN_OK, "%s", err.msg);
  return t;
}

static tn_replay_cfg config(const tn_trace *t) { return (tn_replay_cfg){.trace = t, .speed = 1, .usual_new = 8}; }

/* A step of 20 rows takes 1.2 ms, each of the two of one row 1.01 ms. */
Test(measure_replay, by_hand)
{
  const tn_replay_cost cost = {1000, 10};
  replay_rig *r =
      replay_open("llama", &cost, (const char *const[]){"engine.ctx=64", "engine.prefix_cache=false", NULL});
  tn_trace t = poisson(1, 1, 20, 3);
  tn_replay_cfg cfg = config(&t);
  replay_go(r, &cfg);
  cr_assert(r->f.completed == 1 && r->f.n_prompt == 20 && r->f.n_new == 3 && r->more.steps == 3 && r->more.rows == 22);
  cr_assert(near(r->f.ttft.mean, 1.2) && near(r->f.itl.mean, 1.01) && near(r->f.tpot.mean, 1.01), "%g %g %g",
            r->f.ttft.mean, r->f.itl.mean, r->f.tpot.mean);
  cr_assert(near(r->f.seconds, 3.22e-3), "%g s", r->f.seconds);
  replay_go(r, &cfg); /* the engine is as it was, and its clock has gone on */
  cr_assert(near(r->f.seconds, 3.22e-3) && near(r->f.ttft.mean, 1.2));
  tn_trace_free(&t);
  replay_close(r);
}

/* The second request arrives while the first one's step runs, and its wait counts. */
Test(measure_replay, arrivals)
{
  const tn_replay_cost cost = {1000, 0};
  replay_rig *r =
      replay_open("llama", &cost, (const char *const[]){"engine.ctx=64", "compose.scheduler=continuous", NULL});
  tn_trace t = poisson(1, 3, 4, 2);
  t.r[1].at_ns = 400000;
  t.r[2].at_ns = 50000000;
  tn_replay_cfg cfg = config(&t);
  cfg.speed = 2;
  replay_go(r, &cfg);
  const tn_served *x = r->served.r;
  cr_assert(eq(u64, x[1].arrival_ns - r->served.start_ns, 200000));
  cr_assert(eq(u64, x[1].first_ns - x[1].arrival_ns, 1800000));       /* 0.8 ms until the step ends, 1 ms of its own */
  cr_assert(eq(u64, x[2].arrival_ns - r->served.start_ns, 25000000)); /* nothing happens in between */
  cr_assert(eq(u64, x[2].first_ns - x[2].arrival_ns, 1000000));
  cr_assert(eq(u64, r->more.steps, 3 + 2));
  tn_trace_free(&t);
  replay_close(r);
}

static const char *const crowded[] = {"engine.ctx=2048", "engine.max_seqs=16", "engine.kv_budget=2M",
                                      "engine.max_rows=128", NULL};

static tn_trace azure(size_t n)
{
  tn_trace t;
  tn_err err = tn_err_init();
  cr_assert(tn_trace_read(TN_SOURCE_DIR "/tests/data/azure-conv-600.csv", n, &t, &err) == TN_OK, "%s", err.msg);
  for (size_t i = 0; i < t.n; i++) { /* a tiny model's cache is tiny as well */
    t.r[i].n_prompt = 1 + t.r[i].n_prompt / 8;
    t.r[i].n_new = 1 + t.r[i].n_new / 8;
  }
  t.longest_prompt = 1 + t.longest_prompt / 8;
  return t;
}

static void same(const replay_rig *a, const replay_rig *b)
{
  cr_assert(a->served.n == b->served.n && a->served.n_gaps == b->served.n_gaps);
  for (size_t i = 0; i < a->served.n; i++)
    cr_assert(memcmp(&a->served.r[i], &b->served.r[i], sizeof a->served.r[i]) == 0, "request %zu differs", i);
  cr_assert(memcmp(a->served.gap_ms, b->served.gap_ms, a->served.n_gaps * sizeof *a->served.gap_ms) == 0);
  cr_assert(memcmp(&a->more.waste, &b->more.waste, sizeof a->more.waste) == 0);
  cr_assert(a->more.steps == b->more.steps && a->more.rows == b->more.rows &&
            a->more.n_preempted == b->more.n_preempted);
}

/* Pages run out and sequences give way; every answer has the trace's length all the same, twice alike. */
Test(measure_replay, same_again)
{
  const tn_replay_cost cost = {10000, 100};
  tn_trace t = azure(150);
  tn_replay_cfg cfg = config(&t);
  cfg.speed = 50;
  replay_rig *a = replay_open("llama", &cost, crowded), *b = replay_open("llama", &cost, crowded);
  replay_go(a, &cfg);
  replay_go(b, &cfg);
  same(a, b);
  cr_assert(a->f.completed == t.n && a->more.n_preempted > 0, "%llu ended, %llu gave way",
            (unsigned long long)a->f.completed, (unsigned long long)a->more.n_preempted);
  for (size_t i = 0; i < t.n; i++)
    cr_assert(a->served.r[i].n_new == t.r[i].n_new && a->served.r[i].n_prompt == t.r[i].n_prompt, "request %zu", i);
  cr_assert(a->more.waste.peak_seqs > 4 && a->more.waste.internal > 0);
  tn_trace_free(&t);
  replay_close(a);
  replay_close(b);
}

/* What is scheduled, when, and on which pages does not depend on whether the model is run. */
Test(measure_replay, same_with_the_model)
{
  const tn_replay_cost cost = {10000, 100};
  tn_trace t = azure(24);
  tn_replay_cfg cfg = config(&t);
  cfg.speed = 50;
  replay_rig *null = replay_open("llama", &cost, crowded);
  replay_go(null, &cfg);
  replay_rig *real = replay_open_with_model("llama", &cost, crowded);
  replay_go(real, &cfg);
  same(null, real);
  cr_assert(null->f.completed == t.n);
  tn_trace_free(&t);
  replay_close(null);
  replay_close(real);
}

Test(measure_replay, machine_clock)
{
  replay_rig *r = replay_open("llama", NULL, (const char *const[]){"engine.ctx=64", "engine.threads=1", NULL});
  tn_trace t = poisson(400, 12, 10, 5);
  tn_replay_cfg cfg = config(&t);
  cfg.most_new = 20;
  replay_go(r, &cfg);
  cr_assert(r->f.completed == 12 && r->f.n_new == 60, "answers end where the trace says");
  cr_assert(r->f.ttft.mean > 0 && r->f.itl.mean > 0 && r->f.seconds >= (double)t.r[11].at_ns * 1e-9);
  tn_trace_free(&t);
  replay_close(r);
}

Test(measure_replay, closed_loop)
{
  const tn_replay_cost cost = {1000, 1};
  replay_rig *r = replay_open("llama", &cost, (const char *const[]){"engine.ctx=64", "engine.max_seqs=8", NULL});
  tn_trace t = poisson(1e6, 20, 10, 5);
  t.timed = false;
  tn_replay_cfg cfg = config(&t);
  cfg.concurrency = 3;
  replay_go(r, &cfg);
  cr_assert(r->f.completed == 20 && r->f.peak_concurrent == 3 && r->more.waste.peak_seqs == 3, "%llu at once",
            (unsigned long long)r->f.peak_concurrent);
  tn_trace_free(&t);
  replay_close(r);
}

Test(measure_replay, refused)
{
  const tn_replay_cost cost = {1000, 1};
  replay_rig *r = replay_open("llama", &cost, (const char *const[]){"engine.ctx=64", NULL});
  tn_trace t = poisson(100, 4, 10, 5);
  t.r[2].n_prompt = t.longest_prompt = 100;
  tn_replay_cfg cfg = config(&t);
  replay_go(r, &cfg);
  cr_assert(r->f.completed == 3 && r->f.failed == 1 && strstr(r->served.failed.msg, "105 tokens"), "%s",
            r->served.failed.msg);
  tn_trace_free(&t);
  replay_close(r);
}

static bool until_five(void *ctx, const tn_replay_state *s)
{
  (void)ctx;
  return s->ended < 5;
}

Test(measure_replay, broken_off)
{
  const tn_replay_cost cost = {1000, 1};
  replay_rig *r = replay_open("llama", &cost, (const char *const[]){"engine.ctx=64", NULL});
  tn_trace t = poisson(10, 200000, 10, 5);
  tn_replay_cfg cfg = config(&t);
  cfg.progress = until_five;
  replay_go(r, &cfg);
  cr_assert(r->f.completed >= 5 && r->f.left > 0 && r->f.completed + r->f.left == 200000);
  tn_trace_free(&t);
  replay_close(r);
}

/* Prompts are as long as asked, below the vocabulary, the request's own, and the seed's. */
Test(measure_replay, prompts)
{
  int32_t a[50], b[50], c[50], d[50];
  tn_replay_tokens(1, 0, 300, a, 50);
  tn_replay_tokens(1, 0, 300, b, 49);
  tn_replay_tokens(1, 1, 300, c, 50);
  tn_replay_tokens(2, 0, 300, d, 50);
  cr_assert(memcmp(a, b, 49 * sizeof *a) == 0 && memcmp(a, c, sizeof a) != 0 && memcmp(a, d, sizeof a) != 0);
  int32_t least = 300, most = 0;
  for (int i = 0; i < 50; i++) least = a[i] < least ? a[i] : least, most = a[i] > most ? a[i] : most;
  cr_assert(least >= 0 && least < 60 && most < 300 && most > 240, "%d to %d", least, most);
}
