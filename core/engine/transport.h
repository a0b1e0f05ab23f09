/* transport: how ranks in one process exchange activations: through staging rows in host memory.
 *
 * Data goes from a rank's backend to its staging rows by download and from others' staging by upload, so backends on
 * devices work as well. A rank that fails aborts the exchange, and no rank waits for ever. Thread rule: exchange is
 * called by all ranks of the executor, each on its own thread. */
#ifndef TN_CORE_ENGINE_TRANSPORT_H
#define TN_CORE_ENGINE_TRANSPORT_H

#include "exec_open.h"

/* max_cols: widest activation that is exchanged. */
tn_status tn_transport_new(uint32_t world, uint32_t max_rows, int64_t max_cols, tn_transport **out, tn_err *err);
void tn_transport_free(tn_transport *t);

/* Before a run, on one thread: forgets an earlier abort. */
void tn_transport_reset(tn_transport *t);

/* Wakes every waiting rank with TN_E_STATE. */
void tn_transport_abort(tn_transport *t);

/* One COLLECTIVE record of one rank. in and out are dense f32 [n_rows][cols]. */
tn_status tn_transport_exchange(tn_transport *t, const tn_rank *rank, const tn_op *op, const tn_tensor *in,
                                const tn_tensor *out, uint32_t n_rows);

#endif
