/* bench_ops: single kinds of records of a model's program, timed against their bound, through the engine's own backend.
 *
 * A kind is every LINEAR of the layers with the same name (those that read the same input together:
 * "attn_q+attn_k+attn_v"), the head, every ATTEND, and "step", the whole program. One pass runs the program piece by
 * piece and adds up what the records of each kind take, so that each finds the caches as in a step; the median of many
 * passes counts. A range of records that a backend has fused with its neighbours runs as the backend runs such ranges.
 *
 * Thread rule: the engine thread, nothing queued. */
#ifndef TN_CORE_MEASURE_BENCH_OPS_H
#define TN_CORE_MEASURE_BENCH_OPS_H

#include "measure/roofline.h"

typedef struct tn_bench_op {
  const char *name;   /* borrowed until the callback returns */
  uint32_t n_records; /* calls of one pass */
  uint32_t rows;      /* rows of one sequence that run together */
  int64_t depth;      /* cached tokens before them */
  double seconds;     /* of one pass, median */
  tn_cost cost;       /* of one pass */
} tn_bench_op;

typedef struct tn_bench_ops {
  const uint32_t *rows; /* [n_rows] rows to try; over the engine's max_rows: left out */
  uint32_t n_rows;
  const int64_t *depths; /* [n_depths] for ATTEND and "step"; each >= 1 */
  uint32_t n_depths;
  double seconds; /* that the figures of one number of rows at one depth may take, about */
  bool (*figure)(void *ctx, const tn_bench_op *); /* false ends early */
  void *ctx;
} tn_bench_ops;

/* The engine must have ctx for the largest depth plus the largest rows plus 3. Errors: those of the engine and
 * backend. */
tn_status tn_bench_ops_run(tn_engine *e, const tn_bench_ops *args, tn_err *err);

#endif
