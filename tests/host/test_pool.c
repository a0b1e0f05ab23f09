/* The compute threads: every gang runs once on every worker, barriers hold everybody back, idle threads cost nothing. */
#include "host/pool.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base.h"

#define MAX 5u

static tn_pool *pool_of(uint32_t n)
{
  tn_pool *p;
  tn_err err = tn_err_init();
  tn_status st = tn_pool_new(n, &p, &err);
  cr_assert(st == TN_OK, "%s", err.msg);
  cr_assert(eq(u32, tn_pool_size(p), n));
  return p;
}

typedef struct tally {
  uint32_t runs[MAX]; /* not atomic: a worker touches its own, and the gang's end must publish it */
  uint32_t n_seen[MAX];
} tally;

static void count(void *arg, uint32_t worker, uint32_t n)
{
  tally *t = arg;
  t->runs[worker]++;
  t->n_seen[worker] = n;
}

Test(host_pool, a_gang_runs_once_on_every_worker)
{
  for (uint32_t n = 1; n <= MAX; n++) {
    tn_pool *p = pool_of(n);
    tally t = {0};
    uint32_t gangs = 10000 / n;
    for (uint32_t i = 1; i <= gangs; i++) {
      tn_pool_gang(p, count, &t);
      for (uint32_t w = 0; w < n; w++)
        cr_assert(t.runs[w] == i && t.n_seen[w] == n, "%u workers, gang %u: worker %u ran %u times", n, i, w,
                  t.runs[w]);
    }
    for (uint32_t w = n; w < MAX; w++) cr_expect(eq(u32, t.runs[w], 0));
    tn_pool_free(p);
  }
}

typedef struct relay { /* rounds of write, barrier, read all, barrier */
  tn_pool *pool;
  uint32_t rounds, wrong[MAX];
  uint32_t value[MAX];
} relay;

static void run_relay(void *arg, uint32_t worker, uint32_t n)
{
  relay *r = arg;
  for (uint32_t i = 1; i <= r->rounds; i++) {
    r->value[worker] = i;
    tn_pool_barrier(r->pool);
    for (uint32_t w = 0; w < n; w++) r->wrong[worker] += r->value[w] != i;
    tn_pool_barrier(r->pool);
  }
}

Test(host_pool, nobody_passes_a_barrier_before_all_are_there)
{
  for (uint32_t n = 1; n <= MAX; n++) {
    relay r = {.pool = pool_of(n), .rounds = 1000};
    for (int gang = 0; gang < 3; gang++) tn_pool_gang(r.pool, run_relay, &r);
    for (uint32_t w = 0; w < n; w++) cr_expect(eq(u32, r.wrong[w], 0));
    tn_pool_free(r.pool);
  }
}

static double process_seconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void sleep_ms(long ms)
{
  struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&t, NULL);
}

/* Threads without a gang soon sleep, and wake for the next one: 3 workers spin for about 0.5 ms each. */
Test(host_pool, idle_threads_sleep)
{
  tn_pool *p = pool_of(4);
  tally t = {0};
  for (uint32_t round = 1; round <= 3; round++) {
    tn_pool_gang(p, count, &t);
    double before = process_seconds();
    sleep_ms(200);
    double spent = process_seconds() - before;
    cr_expect(spent < 0.010, "round %u: %.1f ms of CPU in 200 ms of idling", round, spent * 1e3);
    for (uint32_t w = 0; w < 4; w++) cr_expect(eq(u32, t.runs[w], round));
  }
  tn_pool_free(p);
}

/* A pool that is never used, and one freed right after a gang. */
Test(host_pool, comes_and_goes)
{
  for (int i = 0; i < 200; i++) {
    tn_pool *p = pool_of(1 + (uint32_t)i % MAX);
    tally t = {0};
    if (i % 2) tn_pool_gang(p, count, &t);
    tn_pool_free(p);
  }
  tn_pool_free(NULL);
}

Test(host_pool, refuses_no_thread_and_too_many)
{
  tn_pool *p = (tn_pool *)&p;
  tn_err err = tn_err_init();
  cr_expect(eq(int, tn_pool_new(0, &p, &err), TN_E_ARG));
  cr_expect(p == NULL && strstr(err.msg, "threads = 0") != NULL, "%s", err.msg);
  cr_expect(eq(int, tn_pool_new(257, &p, &err), TN_E_ARG));
  cr_expect(p == NULL && strstr(err.msg, "257") && strstr(err.msg, "256"), "%s", err.msg);
}

Test(host_pool, cpus_allowed_is_sane) { cr_expect(tn_cpus_allowed() >= 1 && tn_cpus_allowed() <= 256); }
