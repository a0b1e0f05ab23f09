/* sched_machine: a machine of the test's own that a scheduler plugin plans for: jobs arrive, are admitted, run, run out of
 * pages and give way as in the engine. Every plan is checked against the contract; a breach ends the test. */
#ifndef TN_TESTS_SCHED_MACHINE_H
#define TN_TESTS_SCHED_MACHINE_H

#include "support/plugin_rig.h"

#define SCHED_MAX 64u

typedef struct sched_job {
  int64_t prompt, generate; /* tokens; the last prompt row gives the first generated token */
  uint64_t arrives;         /* step */
  int64_t done, said;       /* rows run; tokens generated */
  uint32_t state;
  int32_t priority;
  bool over;
  uint64_t first, last; /* steps of its first and last token */
  uint64_t starts;      /* how many were admitted before it, it included; 0: none yet */
} sched_job;

typedef struct sched_machine {
  plugin_rig *rig;
  const tn_scheduler_v1 *v;
  sched_job j[SCHED_MAX];
  uint32_t n, max_rows, max_seqs, drafted, page_tokens;
  int64_t capacity; /* entries that the pages hold; 0: no limit */
  uint64_t step, preempted, admitted;
  uint32_t rows, streams; /* of the last step: rows run; sequences that generated */
} sched_machine;

typedef struct sched_view { /* of the jobs that have arrived and are not over */
  tn_sched_view v;
  uint64_t seq[SCHED_MAX], arrival[SCHED_MAX], deadline[SCHED_MAX];
  uint32_t state[SCHED_MAX], at[SCHED_MAX];
  int64_t todo[SCHED_MAX], held[SCHED_MAX], most[SCHED_MAX];
  int32_t priority[SCHED_MAX];
} sched_view;

sched_machine sched_machine_of(const char *name, const char *set, uint32_t max_rows, uint32_t max_seqs);

/* The same with several options, and a model that the plugin may ask for, or NULL. */
sched_machine sched_machine_on(const char *name, const char *const *sets, const tn_svc_model *model, uint32_t max_rows,
                               uint32_t max_seqs);

/* One more job. */
void sched_add(sched_machine *m, int64_t prompt, int64_t generate, uint64_t arrives);

/* What the scheduler is shown now. */
void sched_look(const sched_machine *m, sched_view *w);

/* One step: a plan, checked against the contract, and carried out. */
void sched_step(sched_machine *m);

/* Steps until everything is over, then closes the plugin; returns the steps in all. */
uint64_t sched_run_all(sched_machine *m, uint64_t most);

/* A number below n. */
uint32_t sched_draw(uint32_t *x, uint32_t n);

#endif
