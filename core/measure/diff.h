/* diff: where two compositions part. Both run the same tokens; what every record of the first one writes is kept, and
 * what the second one writes is compared with it, record by name, row by text position.
 *
 * "First" is the lowest text position at which any record differs, and there the first record in the program's order:
 * what is different earlier in the text is the cause, what follows is its effect.
 *
 * Thread rule: the engine thread. */
#ifndef TN_CORE_MEASURE_DIFF_H
#define TN_CORE_MEASURE_DIFF_H

#include "engine/exec.h"

#define TN_DIFF_MOST_BYTES ((uint64_t)8 << 30) /* of records kept */

typedef struct tn_diff_record {
  char *name;
  int32_t layer;
  uint32_t kind; /* TN_OP_* */
  int64_t cols;
  float *x[2];              /* [n_tokens][cols] of the first and, where they are kept, of the second */
  uint8_t *has[2];          /* [n_tokens] the row was written */
  int64_t row, col;         /* first difference; row -1: none */
  float a, b;               /* the two values there */
  int64_t n_rows, n_differ; /* rows compared; that differ */
  double largest;           /* absolute difference */
} tn_diff_record;

typedef struct tn_diff {
  int64_t n_tokens;
  bool keep_both, second; /* second: the run that is compared */
  bool on;                /* records are looked at */
  tn_diff_record **at;    /* [n] in the order of the first run's program */
  size_t n, cap, cursor;
  uint64_t bytes;
  size_t n_unmatched; /* records that one side alone has, or with another number of columns */
  tn_err err;
} tn_diff;

void tn_diff_init(tn_diff *d, int64_t n_tokens, bool keep_both);
void tn_diff_release(tn_diff *d);

/* A tn_trace_fn; ctx: the tn_diff. Failures are explained in d->err. */
tn_status tn_diff_trace(void *ctx, const tn_traced *t);

/* The record with the first difference, by row, then by order; NULL: everything is bitwise equal. */
const tn_diff_record *tn_diff_first(const tn_diff *d);

/* Floats between a and b: 0 for equal ones, UINT32_MAX where one is no number. */
uint32_t tn_diff_ulps(float a, float b);

/* "LINEAR" for TN_OP_LINEAR. */
const char *tn_diff_kind(uint32_t kind);

/* The rows that a record has, as a NumPy file: float32 [rows][cols]. side: 0 or 1. Errors: TN_E_IO. */
tn_status tn_diff_npy(const tn_diff *d, const tn_diff_record *r, int side, const char *path, tn_err *err);

#endif
