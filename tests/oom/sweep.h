/* sweep: one piece of work, once for each of its allocations, which fails. */
#ifndef TN_TESTS_OOM_SWEEP_H
#define TN_TESTS_OOM_SWEEP_H

#include "base.h"

/* Does all of it and frees what it made, also after a failure. */
typedef tn_status (*oom_work)(tn_err *err);

/* Ends with TN_E_NOMEM and a text that says so for each allocation, and with `done` when none fails; nothing stays behind.
 * There are more than `least` allocations. */
void oom_sweep(oom_work work, tn_status done, uint64_t least);

#endif
