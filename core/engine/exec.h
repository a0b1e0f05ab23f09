/* exec: the ranks that execute a program. Each rank is a backend instance with its weights, its KV pools and its
 * prepared program; rank 0 runs on the engine thread, every other rank on a thread of its own. All ranks see the same
 * batch and the same page tables. With one rank these calls go straight to the backend.
 *
 * Thread rule: engine thread only. Every call returns the first rank's failure, if any. */
#ifndef TN_CORE_ENGINE_EXEC_H
#define TN_CORE_ENGINE_EXEC_H

#include "../base.h"

typedef struct tn_exec tn_exec;

/* Runs records [first, last) of the program on every rank. */
tn_status tn_exec_run(tn_exec *x, uint32_t first, uint32_t last, const tn_batch *batch);

/* What one record wrote: columns [col0, col0 + n_cols) of its act's rows, on rank 0. Borrowed until the call returns. */
typedef struct tn_traced {
  const tn_op *op;
  uint32_t index, n_rows; /* record of the program */
  int64_t cols, col0, n_cols;
  const float *x;     /* [n_rows][cols] */
  const int64_t *pos; /* [n_rows] text positions */
} tn_traced;
typedef tn_status (*tn_trace_fn)(void *ctx, const tn_traced *t);

/* Runs the whole program record by record, and hands every record's output to fn. TN_E_UNSUPPORTED where ranks have
 * other records; TN_E_NOMEM; what fn returns. */
tn_status tn_exec_trace(tn_exec *x, const tn_batch *batch, tn_trace_fn fn, void *ctx);

/* Copies n_out rows of logits [n_out][n_vocab] to host memory and waits for them. */
tn_status tn_exec_logits(tn_exec *x, uint32_t n_out, float *dst);

/* KV mechanism on every rank (see tn_backend_v1). */
tn_status tn_exec_kv_move(tn_exec *x, const tn_kv_moves *m);
tn_status tn_exec_state_reset(tn_exec *x, uint32_t group, int32_t state);
tn_status tn_exec_state_fold(tn_exec *x, uint32_t group, const tn_kv_view *view);

/* Bytes of one page over all ranks, and its contents, rank after rank. read and write wait for the data. */
uint64_t tn_exec_page_bytes(const tn_exec *x, uint32_t pool);
tn_status tn_exec_page_read(tn_exec *x, uint32_t pool, int32_t page, void *dst);
tn_status tn_exec_page_write(tn_exec *x, uint32_t pool, int32_t page, const void *src);

#endif
