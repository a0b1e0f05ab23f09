/* backend_pool: gang threads for tests: n - 1 threads and the caller run one function together. */
#ifndef TN_TESTS_BACKEND_POOL_H
#define TN_TESTS_BACKEND_POOL_H

#include <stdint.h>

typedef struct backend_pool backend_pool;

/* NULL when threads or memory are short. */
backend_pool *backend_pool_new(uint32_t n_workers);
void backend_pool_free(backend_pool *p);

/* Runs fn(arg, worker, n_workers) once on each worker; the caller is worker 0; returns when all are done. */
void backend_pool_gang(backend_pool *p, void (*fn)(void *, uint32_t, uint32_t), void *arg);

/* Inside fn: waits for all workers. */
void backend_pool_barrier(backend_pool *p);

#endif
