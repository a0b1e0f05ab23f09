/* pool: see pool.h. */
#include "pool.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WORKERS 256u
#define SPIN_PARK 20000  /* pauses before a worker without a gang sleeps, about 0.5 ms */
#define SPIN_YIELD 2000  /* pauses before a waiting thread yields: longer than any fair wait, about 50 us */
#define SPIN_CROWDED 100 /* the same with more workers than CPUs */

typedef struct worker {
  tn_pool *pool;
  uint32_t index;
  pthread_t thread;
} worker;

struct tn_pool {
  uint32_t n;
  bool crowded; /* more workers than CPUs */
  tn_pool_fn fn;
  void *arg;
  void *block;                      /* what is freed: the pool is aligned inside it */
  _Alignas(64) atomic_uint epoch;   /* gangs started */
  _Alignas(64) atomic_uint running; /* workers of the gang still inside fn */
  _Alignas(64) atomic_uint arrived; /* barrier */
  _Alignas(64) atomic_uint phase;
  atomic_uint asleep; /* parked workers */
  atomic_bool stop;
  pthread_mutex_t lock;
  pthread_cond_t wake;
  worker workers[];
};

static inline void relax(void)
{
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/* One turn of a spin loop that has gone round `spins` times. On a CPU that others use as well, the thread that is waited
 * for may not be running at all: then the CPU is left to it. */
static inline void spin(const tn_pool *p, unsigned *spins)
{
  relax();
  if (++*spins < (p->crowded ? SPIN_CROWDED : SPIN_YIELD)) return;
  sched_yield();
}

/* Waits until the epoch moves past seen; returns the new epoch. */
static unsigned await_gang(tn_pool *p, unsigned seen)
{
  unsigned now, spins = 0;
  for (int i = 0; i < SPIN_PARK; i++) {
    now = atomic_load_explicit(&p->epoch, memory_order_acquire);
    if (now != seen) return now;
    relax();
    if (p->crowded && ++spins % SPIN_CROWDED == 0) sched_yield();
  }
  pthread_mutex_lock(&p->lock);
  atomic_fetch_add(&p->asleep, 1);
  while ((now = atomic_load(&p->epoch)) == seen) pthread_cond_wait(&p->wake, &p->lock);
  atomic_fetch_sub(&p->asleep, 1);
  pthread_mutex_unlock(&p->lock);
  return now;
}

static void *worker_main(void *arg)
{
  worker *w = arg;
  tn_pool *p = w->pool;
  unsigned seen = 0;
  for (;;) {
    seen = await_gang(p, seen);
    if (atomic_load_explicit(&p->stop, memory_order_acquire)) return NULL;
    p->fn(p->arg, w->index, p->n);
    atomic_fetch_sub_explicit(&p->running, 1, memory_order_acq_rel);
  }
}

static void start_gang(tn_pool *p)
{
  atomic_fetch_add(&p->epoch, 1);
  if (atomic_load(&p->asleep) > 0) {
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
  }
}

tn_status tn_pool_new(uint32_t n, tn_pool **out, tn_err *err)
{
  *out = NULL;
  if (n < 1 || n > MAX_WORKERS) return tn_fail(err, TN_E_ARG, "threads = %u: must be between 1 and %u", n, MAX_WORKERS);
  char *block = tn_zalloc(1, 63 + sizeof(tn_pool) + n * sizeof(worker));
  if (!block) return tn_fail(err, TN_E_NOMEM, "no memory for %u threads", n);
  tn_pool *p = (tn_pool *)(void *)(block + (-(uintptr_t)block & 63));
  p->block = block;
  p->n = 1;
  p->crowded = n > tn_cpus_allowed();
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->wake, NULL);
  for (uint32_t i = 1; i < n; i++) {
    worker *w = &p->workers[i];
    w->pool = p;
    w->index = i;
    int rc = pthread_create(&w->thread, NULL, worker_main, w);
    if (rc != 0) {
      tn_pool_free(p);
      return tn_fail(err, TN_E_NOMEM, "cannot start compute thread %u of %u: %s", i, n, strerror(rc));
    }
    p->n = i + 1;
  }
  *out = p;
  return TN_OK;
}

void tn_pool_free(tn_pool *p)
{
  if (!p) return;
  atomic_store(&p->stop, true);
  start_gang(p);
  for (uint32_t i = 1; i < p->n; i++) pthread_join(p->workers[i].thread, NULL);
  pthread_cond_destroy(&p->wake);
  pthread_mutex_destroy(&p->lock);
  free(p->block);
}

uint32_t tn_pool_size(const tn_pool *p) { return p->n; }

void tn_pool_gang(tn_pool *p, tn_pool_fn fn, void *arg)
{
  if (p->n == 1) {
    fn(arg, 0, 1);
    return;
  }
  p->fn = fn;
  p->arg = arg;
  atomic_store_explicit(&p->running, p->n - 1, memory_order_relaxed);
  start_gang(p);
  fn(arg, 0, p->n);
  unsigned spins = 0;
  while (atomic_load_explicit(&p->running, memory_order_acquire) != 0) spin(p, &spins);
}

void tn_pool_barrier(tn_pool *p)
{
  if (p->n == 1) return;
  unsigned phase = atomic_load_explicit(&p->phase, memory_order_relaxed);
  if (atomic_fetch_add_explicit(&p->arrived, 1, memory_order_acq_rel) + 1 == p->n) {
    atomic_store_explicit(&p->arrived, 0, memory_order_relaxed);
    atomic_store_explicit(&p->phase, phase + 1, memory_order_release);
    return;
  }
  unsigned spins = 0;
  while (atomic_load_explicit(&p->phase, memory_order_acquire) == phase) spin(p, &spins);
}

/* CPUs granted by a cgroup v2 quota ("max 100000" or "150000 100000"), or UINT32_MAX for no limit. */
static uint32_t cgroup_quota(void)
{
  FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
  if (!f) return UINT32_MAX;
  unsigned long quota = 0, period = 0;
  int got = fscanf(f, "%lu %lu", &quota, &period);
  fclose(f);
  if (got != 2 || period == 0 || quota == 0) return UINT32_MAX;
  unsigned long cpus = (quota + period - 1) / period;
  return cpus > MAX_WORKERS ? MAX_WORKERS : (uint32_t)cpus;
}

uint32_t tn_cpus_allowed(void)
{
  cpu_set_t set;
  uint32_t n = 1;
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) n = (uint32_t)CPU_COUNT(&set);
  uint32_t quota = cgroup_quota();
  if (quota < n) n = quota;
  return n < MAX_WORKERS ? n : MAX_WORKERS;
}
