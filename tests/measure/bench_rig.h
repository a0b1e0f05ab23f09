/* bench_rig: an engine whose events go to a bench, for tests of core/measure. */
#ifndef TN_TESTS_BENCH_RIG_H
#define TN_TESTS_BENCH_RIG_H

#include "measure/bench.h"
#include "setup/setup.h"

typedef struct bench_rig {
  tn_setup s;
  tn_loader *loader;
  tn_bench *bench;
  tn_engine *e; /* of s */
} bench_rig;

/* A tiny model with conf/default.ini and settings, NULL-terminated. Ends the test when it does not open. */
bench_rig *bench_open(const char *model, const char *const *sets);

/* Ends the test when the engine is not as empty as it was. */
void bench_close(bench_rig *r);

/* Bytes of a tensor in the file, of all with NULL. */
double bench_file_bytes(const bench_rig *r, const char *name);

#endif
