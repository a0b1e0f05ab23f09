/* backend_pool: gang threads for tests, with a mutex and two condition variables. */
#include "backend_pool.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct backend_pool {
  uint32_t n_workers, n_started, running;
  uint64_t round; /* gangs begun so far */
  bool stop;
  void (*fn)(void *, uint32_t, uint32_t);
  void *arg;
  pthread_mutex_t lock;
  pthread_cond_t begin, end;
  pthread_barrier_t barrier;
  struct worker {
    backend_pool *pool;
    uint32_t index;
    pthread_t thread;
  } * workers; /* [n_workers]; 0 is the caller */
};

static void *worker_main(void *p)
{
  struct worker *w = p;
  backend_pool *pool = w->pool;
  uint64_t seen = 0;
  for (;;) {
    pthread_mutex_lock(&pool->lock);
    while (!pool->stop && pool->round == seen) pthread_cond_wait(&pool->begin, &pool->lock);
    if (pool->stop) {
      pthread_mutex_unlock(&pool->lock);
      return NULL;
    }
    seen = pool->round;
    void (*fn)(void *, uint32_t, uint32_t) = pool->fn;
    void *arg = pool->arg;
    pthread_mutex_unlock(&pool->lock);
    fn(arg, w->index, pool->n_workers);
    pthread_mutex_lock(&pool->lock);
    if (--pool->running == 0) pthread_cond_signal(&pool->end);
    pthread_mutex_unlock(&pool->lock);
  }
}

backend_pool *backend_pool_new(uint32_t n_workers)
{
  backend_pool *p = calloc(1, sizeof *p);
  if (!p) return NULL;
  p->workers = calloc(n_workers, sizeof *p->workers);
  if (!p->workers) {
    free(p);
    return NULL;
  }
  p->n_workers = n_workers;
  p->n_started = 1;
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->begin, NULL);
  pthread_cond_init(&p->end, NULL);
  pthread_barrier_init(&p->barrier, NULL, n_workers);
  for (uint32_t i = 1; i < n_workers; i++) {
    p->workers[i] = (struct worker){.pool = p, .index = i};
    if (pthread_create(&p->workers[i].thread, NULL, worker_main, &p->workers[i])) {
      backend_pool_free(p);
      return NULL;
    }
    p->n_started++;
  }
  return p;
}

void backend_pool_free(backend_pool *p)
{
  if (!p) return;
  pthread_mutex_lock(&p->lock);
  p->stop = true;
  pthread_cond_broadcast(&p->begin);
  pthread_mutex_unlock(&p->lock);
  for (uint32_t i = 1; i < p->n_started; i++) pthread_join(p->workers[i].thread, NULL);
  pthread_barrier_destroy(&p->barrier);
  pthread_cond_destroy(&p->end);
  pthread_cond_destroy(&p->begin);
  pthread_mutex_destroy(&p->lock);
  free(p->workers);
  free(p);
}

void backend_pool_gang(backend_pool *p, void (*fn)(void *, uint32_t, uint32_t), void *arg)
{
  pthread_mutex_lock(&p->lock);
  p->fn = fn;
  p->arg = arg;
  p->running = p->n_workers - 1;
  p->round++;
  pthread_cond_broadcast(&p->begin);
  pthread_mutex_unlock(&p->lock);
  fn(arg, 0, p->n_workers);
  pthread_mutex_lock(&p->lock);
  while (p->running) pthread_cond_wait(&p->end, &p->lock);
  pthread_mutex_unlock(&p->lock);
}

void backend_pool_barrier(backend_pool *p) { pthread_barrier_wait(&p->barrier); }
