/* pool: the engine's compute threads. Created once; gang run with a barrier; spins, then parks.
 *
 * A pool belongs to one engine (or one rank of it). tn_pool_gang may be called by one thread at a time. Workers spin
 * for about half a millisecond after a gang and then sleep, so an idle engine burns no core and a decode loop pays no
 * wake-up. Inside a gang nothing is locked, and a thread that waits longer than 50 microseconds (the CPU that the other
 * needs is taken) yields its own. */
#ifndef TN_CORE_HOST_POOL_H
#define TN_CORE_HOST_POOL_H

#include "../base.h"

typedef struct tn_pool tn_pool;
typedef void (*tn_pool_fn)(void *arg, uint32_t worker, uint32_t n_workers);

/* Starts n - 1 threads; the caller of gang is worker 0. 1 <= n <= 256. */
tn_status tn_pool_new(uint32_t n, tn_pool **out, tn_err *err);

/* Joins all threads. Accepts NULL. */
void tn_pool_free(tn_pool *p);

uint32_t tn_pool_size(const tn_pool *p);

/* Runs fn(arg, i, n) once on every worker; returns when all have returned. */
void tn_pool_gang(tn_pool *p, tn_pool_fn fn, void *arg);

/* All workers of the current gang must call it equally often. */
void tn_pool_barrier(tn_pool *p);

/* CPUs that this process may use: affinity mask, cut by the cgroup's CPU quota. At least 1. */
uint32_t tn_cpus_allowed(void);

#endif
