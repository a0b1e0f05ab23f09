/* backend_host: a mock host that loads one backend plugin and drives it directly, without the engine.
 *
 * It offers alloc/free (counted, and able to fail at the n-th call), "tenon.pool/1" with real threads, counters and the
 * last log line. A test opens a backend by name, calls its vtable, and closes it; every allocation must be gone then.
 * One thread at a time may use a backend, as in the engine. */
#ifndef TN_TESTS_BACKEND_HOST_H
#define TN_TESTS_BACKEND_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "plugin_api.h"

#define BACKEND_COUNTERS 16

typedef struct backend {
  const tn_backend_v1 *v; /* the slot's calls */
  tn_inst *inst;          /* first argument of all of them */
  const tn_desc *desc;
  struct backend_host *host; /* private */
} backend;

/* Loads <build>/lib/tenon/backend/<name>.so (or name itself when it holds a '/'), where <build> is the environment's
 * TN_BUILD_DIR or the one the test was built in, and creates an instance on n_threads threads. values: one per
 * parameter of the descriptor, or NULL when it has none. NULL on failure, err says why. Free with backend_close. */
backend *backend_open(const char *name, uint32_t n_threads, const tn_value *values, tn_err *err);

/* Destroys the instance and unloads the plugin. Returns the number of allocations it left behind. NULL: 0. */
uint64_t backend_close(backend *b);

/* Allocations the plugin holds now; all it ever made; one of its counters. */
uint64_t backend_live(const backend *b);
uint64_t backend_allocs(const backend *b);
uint64_t backend_counter(const backend *b, uint32_t counter);

/* Makes the n-th allocation from now fail (1: the next), once. 0: none fails. */
void backend_fail_at(backend *b, uint64_t n);

/* A second instance of the same loaded plugin, on the same mock host. NULL on failure. Close it before b, with
 * b->desc->destroy. */
tn_inst *backend_another(backend *b, const tn_value *values, tn_err *err);

#endif
