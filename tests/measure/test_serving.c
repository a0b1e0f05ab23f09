/* What many clients feel: the time to a first token behind a shared prefix, the gap between tokens while a long prompt is
 * read, and what scheduling costs. On a real model, since these are shares of a step's time; on one thread and in CPU
 * time, so that other processes do not count. label: long */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/engine_int.h"
#include "support/engine_rig.h"

enum { MOST = 2048 }; /* steps that are looked at */

#define MODEL "smollm2-135m-instruct-q4_1.gguf"

static uint64_t cpu_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static rig *open_real(const char *const *sets)
{
  const char *path = rig_real(MODEL);
  if (!path) rig_skip(MODEL);
  return rig_open(path, sets);
}

static int32_t *text_of(const rig *r, uint32_t seed, int64_t n)
{
  int32_t *t = malloc((size_t)n * sizeof *t);
  cr_assert(t);
  rig_tokens(seed, r->n_vocab, t, n);
  return t;
}

static int ascending(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The value below which a share of the n values lies; sorts them. */
static double quantile(double *v, size_t n, double share)
{
  qsort(v, n, sizeof *v, ascending);
  return v[(size_t)(share * (double)(n - 1) + 0.5)];
}

/* ---------------------------------------------------------------- shared prefix */

static double first_token_ms(rig *r, uint32_t i)
{
  uint64_t t0 = cpu_ns();
  while (r->r[i].n == 0) cr_assert(tn_engine_step(r->s.engine, NULL) == TN_OK);
  double ms = (double)(cpu_ns() - t0) * 1e-6;
  rig_run(r, 0);
  return ms;
}

/* A second request behind 1,024 shared tokens: at most a tenth of the first one's time, and the same bits. */
Test(measure_serving, shared_prefix)
{
  enum { SHARED = 1024, TAIL = 16, RUNS = 3 };
  rig *r = open_real((const char *const[]){"compose.backend=cpu", "engine.threads=1", "engine.ctx=2048", NULL});
  double first[RUNS], second[RUNS];
  for (uint32_t k = 0; k < RUNS; k++) {
    int32_t *text = text_of(r, 100 + k, SHARED + TAIL), *tail = text_of(r, 200 + k, TAIL);
    tn_request q = {.prompt = text,
                    .n_prompt = SHARED + TAIL,
                    .max_new = 8,
                    .sampling = tn_sampling_default(),
                    .n_logprobs = 1,
                    .ignore_eog = 1};
    first[k] = first_token_ms(r, rig_submit(r, &q));
    memcpy(text + SHARED, tail, TAIL * sizeof *tail);
    uint64_t rows = tn_engine_stat(r->s.engine).rows;
    uint32_t hit = rig_submit(r, &q);
    second[k] = first_token_ms(r, hit);
    rows = tn_engine_stat(r->s.engine).rows - rows;
    cr_expect(rows == TAIL + 7, "%llu rows were run", (unsigned long long)rows);
    q.no_prefix = 1;
    uint32_t alone = rig_submit(r, &q);
    rig_run(r, 0);
    cr_expect(rig_same(r, hit, r, alone), "run %u: other bits", k);
    free(text);
    free(tail);
  }
  double a = quantile(first, RUNS, 0.5), b = quantile(second, RUNS, 0.5);
  cr_log_info("first token: %.1f ms, behind 1024 shared tokens %.1f ms (%.1f %%)", a, b, 100 * b / a);
  cr_expect(b <= 0.1 * a, "%.1f ms behind a shared prefix, %.1f ms without", b, a);
  rig_close(r);
}

/* ---------------------------------------------------------------- a long prompt beside streams */

/* Times of steps until a request has its first token, or of n steps. */
static size_t gaps(rig *r, const rig_result *until, double *ms, size_t n)
{
  size_t k = 0;
  for (; k < n && !(until && until->n > 0); k++) {
    uint64_t t0 = cpu_ns();
    cr_assert(tn_engine_step(r->s.engine, NULL) == TN_OK);
    ms[k] = (double)(cpu_ns() - t0) * 1e-6;
  }
  return k;
}

/* The median of gaps [from, to) over the steady one of that moment, which grows with the streams from the one measured
 * before (at 0) to the one after (at n). */
static double stretched(const double *busy, size_t from, size_t to, size_t n, double before, double after, double share)
{
  static double r[MOST];
  for (size_t i = from; i < to; i++) r[i - from] = busy[i] / (before + (after - before) * (double)i / (double)n);
  return quantile(r, to - from, share);
}

/* The bar of chunked with its default options: a prompt of 4,096 tokens at most doubles the gap between two tokens of
 * running streams, in each quarter of the time that it takes to be read. Every stream gets a token in every step, so a
 * step is a gap. */
static void long_prompt(uint32_t streams)
{
  enum { STEADY = 40, LONG = 4096 };
  static double steady[STEADY], after[STEADY], busy[MOST];
  rig *r = open_real((const char *const[]){"compose.backend=cpu", "engine.threads=1", "compose.scheduler=chunked",
                                           "engine.ctx=8192", "engine.max_seqs=40", "engine.kv_budget=2G", NULL});
  for (uint32_t i = 0; i < streams; i++) {
    int32_t *text = text_of(r, 1 + i, 64);
    rig_generate(r, text, 64, 2000);
    free(text);
  }
  for (uint32_t i = 0; i < streams; i++)
    while (r->r[i].n < 4) cr_assert(tn_engine_step(r->s.engine, NULL) == TN_OK);
  gaps(r, NULL, steady, STEADY);
  int32_t *text = text_of(r, 77, LONG);
  uint32_t late = rig_generate(r, text, LONG, 1), said = r->r[0].n;
  free(text);
  size_t n = gaps(r, &r->r[late], busy, MOST);
  cr_assert(n < MOST && n > 20, "%zu steps", n);
  for (uint32_t i = 0; i < streams; i++) cr_expect(r->r[i].n >= n, "stream %u was held up", i);
  cr_expect(r->r[0].n == said + n);
  gaps(r, NULL, after, STEADY);
  double a = quantile(steady, STEADY, 0.5), b = quantile(after, STEADY, 0.5);
  cr_log_info("%u streams: gap %.1f ms before (p95 %.2fx), %.1f ms after (p95 %.2fx)", streams, a,
              quantile(steady, STEADY, 0.95) / a, b, quantile(after, STEADY, 0.95) / b);
  cr_log_info("beside a prompt of %d tokens, %zu steps: median %.2fx, p95 %.2fx", LONG, n,
              stretched(busy, 0, n, n, a, b, 0.5), stretched(busy, 0, n, n, a, b, 0.95));
  for (size_t k = 0; k < 4; k++) {
    double x = stretched(busy, k * n / 4, (k + 1) * n / 4, n, a, b, 0.5);
    cr_log_info("quarter %zu: %.2fx", k + 1, x);
    cr_expect(x <= 2, "%u streams, quarter %zu: %.2f times the steady gap", streams, k + 1, x);
  }
  rig_close(r);
}

Test(measure_serving, long_prompt_beside_8) { long_prompt(8); }
Test(measure_serving, long_prompt_beside_32) { long_prompt(32); }

/* ---------------------------------------------------------------- the cost of scheduling */

/* Planning and reserving for 256 sequences: less than 1 % of their step. Both can be done again without an effect. */
static void scheduling(const char *scheduler, const char *budget)
{
  enum { SEQS = 256, TIMES = 50, STEPS = 5 };
  rig *r = open_real((const char *const[]){"compose.backend=cpu", "engine.threads=1", scheduler, "engine.ctx=64",
                                           "engine.max_seqs=256", budget, NULL});
  tn_engine *e = r->s.engine;
  for (uint32_t i = 0; i < SEQS; i++) {
    int32_t *text = text_of(r, 1 + i, 4);
    tn_request q = {.prompt = text, .n_prompt = 4, .max_new = 60, .sampling = tn_sampling_default(), .ignore_eog = 1};
    uint64_t id;
    q.user = (void *)(uintptr_t)1; /* all count as one result */
    cr_assert(tn_engine_submit(e, &q, &id, NULL) == TN_OK);
    free(text);
  }
  while (e->n_resident < SEQS) cr_assert(tn_engine_step(e, NULL) == TN_OK);
  uint64_t t0 = cpu_ns();
  for (int k = 0; k < STEPS; k++) cr_assert(tn_engine_step(e, NULL) == TN_OK);
  double step = (double)(cpu_ns() - t0) / STEPS;
  cr_assert(tn_engine_stat(e).n_running == SEQS);
  t0 = cpu_ns();
  for (int k = 0; k < TIMES; k++) {
    cr_assert(tn_engine_schedule(e, NULL) == TN_OK);
    tn_engine_reserve(e);
  }
  double plan = (double)(cpu_ns() - t0) / TIMES;
  cr_assert(e->n_running == SEQS);
  cr_log_info("%s: %d sequences: %.1f us of %.1f ms (%.3f %%)", scheduler, SEQS, plan * 1e-3, step * 1e-6,
              100 * plan / step);
  cr_expect(plan < 0.01 * step, "%s: %.1f us of a step of %.1f ms", scheduler, plan * 1e-3, step * 1e-6);
  rig_close(r);
}

Test(measure_serving, scheduling_continuous) { scheduling("compose.scheduler=continuous", NULL); }
Test(measure_serving, scheduling_chunked) { scheduling("compose.scheduler=chunked", "scheduler.chunked.stretch=100"); }
