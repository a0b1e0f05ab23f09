/* loop: the thread and its queue. See loop.h. */
#include <stdlib.h>
#include <time.h>

#include "serve/loop_int.h"

tn_status tn_loop_new(const tn_loop_cfg *cfg, tn_loop **out, tn_err *err)
{
  *out = tn_zalloc(1, sizeof **out);
  if (!*out) return tn_fail(err, TN_E_NOMEM, "no memory for the server");
  (*out)->cfg = *cfg;
  pthread_mutex_init(&(*out)->lock, NULL);
  pthread_cond_init(&(*out)->change, NULL);
  return TN_OK;
}

static tn_job *append(tn_job *list, tn_job *j)
{
  tn_job **at = &list;
  while (*at) at = &(*at)->next;
  *at = j;
  j->next = NULL;
  return list;
}

bool tn_loop_submit(tn_loop *l, tn_job *j, tn_fault *f)
{
  pthread_mutex_lock(&l->lock);
  uint32_t state = l->state, waiting = l->n_unanswered;
  bool ok = state == TN_LOOP_READY && waiting < l->cfg.max_queue;
  if (ok) {
    j->deadline_ns = l->cfg.timeout_ns ? j->arrival_ns + l->cfg.timeout_ns : UINT64_MAX;
    l->incoming = append(l->incoming, j);
    l->n_unanswered++;
    l->n_jobs++;
    pthread_cond_broadcast(&l->change);
  }
  pthread_mutex_unlock(&l->lock);
  if (ok) return true;
  tn_job_free(j);
  if (state == TN_LOOP_READY)
    return tn_fault_status(f, 429, "%u requests are waiting already, and the queue takes no more than %u", waiting,
                           l->cfg.max_queue);
  return tn_fault_status(f, 503, state == TN_LOOP_LOADING ? "Loading model" : "the server is shutting down");
}

static void *run(void *arg)
{
  tn_loop *l = arg;
  pthread_mutex_lock(&l->lock);
  while (l->state != TN_LOOP_STOPPED) {
    tn_job *incoming = l->incoming;
    bool cancel = l->cancel;
    l->incoming = NULL;
    pthread_mutex_unlock(&l->lock);
    tn_loop_admit(l, incoming);
    tn_loop_look_after(l, cancel);
    tn_loop_step(l);
    tn_loop_look_after(l, cancel);
    tn_loop_publish(l);
    pthread_mutex_lock(&l->lock);
    pthread_cond_broadcast(&l->change);
    while (l->state != TN_LOOP_STOPPED && !l->incoming && !l->active && !l->cancel)
      pthread_cond_wait(&l->change, &l->lock);
    if (l->cancel && !l->incoming && !l->active) break;
  }
  pthread_mutex_unlock(&l->lock);
  return NULL;
}

tn_status tn_loop_start(tn_loop *l, tn_setup *s, tn_slots *slots, tn_err *err)
{
  l->setup = s;
  l->slots = slots;
  tn_loop_publish(l);
  pthread_mutex_lock(&l->lock);
  l->state = TN_LOOP_READY;
  pthread_mutex_unlock(&l->lock);
  if (pthread_create(&l->thread, NULL, run, l) != 0) {
    l->state = TN_LOOP_STOPPED;
    return tn_fail(err, TN_E_NOMEM, "no thread for the engine");
  }
  l->threaded = true;
  return TN_OK;
}

/* Waits until no job is left; false after ms, or when stop_now says so. */
static bool wait_empty(tn_loop *l, uint32_t ms, bool (*stop_now)(void *ctx), void *ctx)
{
  for (uint32_t spent = 0; l->n_jobs > 0; spent += 50) {
    if (spent >= ms || (stop_now && stop_now(ctx))) return false;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 50000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_cond_timedwait(&l->change, &l->lock, &until);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    bool early = now.tv_sec < until.tv_sec || (now.tv_sec == until.tv_sec && now.tv_nsec < until.tv_nsec);
    if (early) spent -= 50; /* woken by a step: time goes on by itself */
  }
  return true;
}

void tn_loop_drain(tn_loop *l, uint32_t ms, bool (*stop_now)(void *ctx), void *ctx)
{
  if (!l->threaded) return;
  pthread_mutex_lock(&l->lock);
  l->state = TN_LOOP_DRAINING;
  wait_empty(l, ms, stop_now, ctx);
  l->cancel = true;
  pthread_cond_broadcast(&l->change);
  pthread_mutex_unlock(&l->lock);
  pthread_join(l->thread, NULL);
  l->threaded = false;
}

void tn_loop_free(tn_loop *l)
{
  if (!l) return;
  tn_loop_drain(l, 0, NULL, NULL);
  pthread_cond_destroy(&l->change);
  pthread_mutex_destroy(&l->lock);
  free(l);
}

uint32_t tn_loop_state(tn_loop *l)
{
  pthread_mutex_lock(&l->lock);
  uint32_t s = l->state;
  pthread_mutex_unlock(&l->lock);
  return s;
}

void tn_loop_read_figures(tn_loop *l, tn_loop_figures *out)
{
  pthread_mutex_lock(&l->lock);
  *out = l->figures;
  out->n_waiting = l->n_unanswered;
  pthread_mutex_unlock(&l->lock);
}

void tn_loop_answered(tn_loop *l)
{
  pthread_mutex_lock(&l->lock);
  l->n_unanswered--;
  pthread_mutex_unlock(&l->lock);
}
