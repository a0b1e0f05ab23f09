/* loop_int: the loop's state, shared by loop.c (thread and queue) and loop_step.c (what the engine thread does). */
#ifndef TN_CORE_SERVE_LOOP_INT_H
#define TN_CORE_SERVE_LOOP_INT_H

#include <pthread.h>

#include "serve/loop.h"

struct tn_loop {
  tn_loop_cfg cfg;
  tn_setup *setup;
  tn_slots *slots;
  pthread_t thread;
  bool threaded;
  pthread_mutex_t lock; /* what follows */
  pthread_cond_t change;
  uint32_t state;
  bool cancel;           /* everything is to end now */
  tn_job *incoming;      /* oldest first */
  uint32_t n_unanswered; /* jobs that have no token yet, incoming ones too */
  uint32_t n_jobs;       /* jobs in all */
  tn_loop_figures figures;
  /* the engine thread's own */
  tn_job *active; /* oldest first */
  uint64_t steps; /* seen by metrics */
};

/* Hands new jobs to the engine, cancels what is not wanted any longer, and frees what is done. */
void tn_loop_admit(tn_loop *l, tn_job *incoming);
void tn_loop_look_after(tn_loop *l, bool cancel_all);

/* One step, with its metrics. */
void tn_loop_step(tn_loop *l);

/* Sets what a request's `tenon` asks for, NULL: nothing; for the whole engine, between steps. false: *f says why. */
bool tn_loop_set_options(tn_loop *l, const json_t *options, tn_fault *f);

void tn_loop_publish(tn_loop *l);

/* Job's first token, or its end without one: it no longer waits. */
void tn_loop_answered(tn_loop *l);

#endif
