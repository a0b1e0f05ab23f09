/* loop: the engine thread of a server. It alone touches the engine; other threads hand it jobs and read a copy of its
 * figures.
 *
 *   tn_loop_new -> (the caller opens the setup with tn_loop_events) -> tn_loop_start -> submit ... -> drain -> free
 *
 * A client that has left is noticed between two steps, and its sequences end with the next one. Thread rule: new, start,
 * drain and free from one thread; submit, figures and state from any. */
#ifndef TN_CORE_SERVE_LOOP_H
#define TN_CORE_SERVE_LOOP_H

#include "serve/job.h"
#include "serve/metrics.h"
#include "serve/slots.h"
#include "setup/setup.h"

typedef struct tn_loop tn_loop;

typedef struct tn_loop_cfg {
  uint32_t max_queue;  /* requests that may wait for their first token; more are refused */
  uint64_t timeout_ns; /* of a request, from arrival to its last token */
  tn_metrics *metrics; /* borrowed until free */
} tn_loop_cfg;

#define TN_MAX_FIGURES 128u

typedef struct tn_loop_figures {
  tn_engine_info engine;
  uint32_t n_running, n_waiting, n_counters;
  tn_counter counters[TN_MAX_FIGURES]; /* their texts live as long as the setup */
} tn_loop_figures;

enum { TN_LOOP_LOADING = 0, TN_LOOP_READY = 1, TN_LOOP_DRAINING = 2, TN_LOOP_STOPPED = 3 };

tn_status tn_loop_new(const tn_loop_cfg *cfg, tn_loop **out, tn_err *err);

/* For the setup's events. */
tn_events tn_loop_events(tn_loop *l);

/* The setup and the slots, borrowed until free, are open: begins to serve. */
tn_status tn_loop_start(tn_loop *l, tn_setup *s, tn_slots *slots, tn_err *err);

/* Takes the job over (it is freed by the loop, also when it is refused). false: refused with *f (429: the queue is full,
 * 503: not ready). */
bool tn_loop_submit(tn_loop *l, tn_job *j, tn_fault *f);

/* No further requests are taken; waits until all are answered or so many milliseconds are over, then cancels the rest.
 * stop_now may end the wait early: it is asked every 50 ms; NULL: never. Ends the thread. */
void tn_loop_drain(tn_loop *l, uint32_t ms, bool (*stop_now)(void *ctx), void *ctx);

/* Accepts NULL. Drains with no patience when it still runs. */
void tn_loop_free(tn_loop *l);

uint32_t tn_loop_state(tn_loop *l);
void tn_loop_read_figures(tn_loop *l, tn_loop_figures *out);

#endif
