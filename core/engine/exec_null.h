/* exec_null: an executor that computes nothing, in the place of a composition's backend.
 *
 * It holds no weights, no cache and no activations: pages are counted, not there. A run ends at once; what is read back is
 * zeros. Everything else of the engine goes on as it would: scheduling, admission, pages, the prefix index, eviction,
 * preemption, sampling. For simulations of load, where tokens are given (tn_request.forced) and time is made
 * (tn_engine_cfg.clock). It stands behind the executor and is no plugin, so that no composition can choose it, and so that
 * the composition simulated is the one that would run, with its own refusals.
 *
 * Thread rule: as a backend's. */
#ifndef TN_CORE_ENGINE_EXEC_NULL_H
#define TN_CORE_ENGINE_EXEC_NULL_H

#include "../base.h"

extern const tn_backend_v1 tn_null_backend;

/* The instance for its calls: a page of pool p has page_bytes[p] * share / of bytes. NULL: no memory. */
tn_inst *tn_null_new(const uint64_t *page_bytes, uint32_t n_pools, uint32_t share, uint32_t of);
void tn_null_free(tn_inst *self); /* accepts NULL */

#endif
