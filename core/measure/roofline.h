/* roofline: what this machine can do at most, measured: bytes read a second and whole-number operations a second; and
 * what a run of records has to read and to compute at least.
 *
 *   time of records >= max(bytes / read rate, operations / operation rate)   the rate by the width of the weights' codes
 *
 * Thread rule: the engine thread, no step running. */
#ifndef TN_CORE_MEASURE_ROOFLINE_H
#define TN_CORE_MEASURE_ROOFLINE_H

#include "engine/engine.h"

typedef struct tn_bounds {
  double read;    /* bytes a second that the threads together read from memory */
  double int_ops; /* operations a second (two for each multiply-add) of the backend's inner loop for codes below 8 bits,
                     on data in the first cache; 0: the backend does not say */
  double byte_ops; /* the same for codes of 8 bits */
} tn_bounds;

/* Reads a buffer of 256 MiB, eight times the usual last cache, with `threads` threads; the fastest of several passes.
 * Takes about a quarter of a second. Errors: TN_E_NOMEM. */
tn_status tn_roofline_read(uint32_t threads, double *bytes_a_second, tn_err *err);

/* int_ops and byte_ops by the loops that the backend offers as "tenon.peak/2" (kernels/cpu/peak.h), on as many threads as the engine has,
 * each of them the median of many short windows, added up. 0 where a backend does not offer them. Takes about a fifth of
 * a second. Errors: TN_E_NOMEM. */
tn_status tn_roofline_int_ops(const tn_engine *e, tn_bounds *out, tn_err *err);

/* What a run reads and computes at least, over all ranks. */
typedef struct tn_cost {
  double bytes;    /* weights as they are stored, each once; cached keys and values once a step and sequence */
  double int_ops;  /* two for each multiply-add of a matmul of codes below 8 bits with 8-bit activations; attention and
                     matmuls with floating-point weights do none */
  double byte_ops; /* the same with codes of 8 bits */
} tn_cost;

/* Records [first, last) on n_rows rows, n_out of them with logits: weights and operations. */
tn_cost tn_cost_of(const tn_engine *e, uint32_t first, uint32_t last, uint32_t n_rows, uint32_t n_out);

/* Bytes of one cached token in the groups of a layer; layer -1: of all layers. */
double tn_cost_kv_token(const tn_engine *e, int32_t layer);

/* Bytes of what a sequence has in the cache now, of one layer or of all; 0 for one that waits. */
double tn_cost_kv(const tn_engine *e, const tn_seq *s, int32_t layer);

/* Seconds that the operations take at least; 0 where the backend does not say. */
double tn_cost_compute(const tn_cost *c, const tn_bounds *b);

/* max(bytes / read, compute), seconds. */
double tn_cost_bound(const tn_cost *c, const tn_bounds *b);

#endif
