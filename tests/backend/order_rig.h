/* order_rig: one record on cpu and on ref with accumulate = f32, whose numbers must be the same bits. */
#ifndef TN_TESTS_BACKEND_ORDER_RIG_H
#define TN_TESTS_BACKEND_ORDER_RIG_H

#include "rig.h"

typedef struct order_case {
  uint32_t kind;                    /* TN_OP_* */
  int64_t in_cols[2], out_cols[2];  /* 0: no such operand */
  const tn_weight_src *w, *w2;      /* NULL: none */
  uint32_t rope_dims;               /* 0: no rope table */
  uint32_t flags, prep_flags, rows; /* rows: 1 .. 64 */
  const float *in[2];               /* [rows][in_cols] */
  const int32_t *token;             /* [rows] or NULL: 0, 1, 2, ... */
  const float *cos, *sin;           /* [rows][rope_dims / 2] */
} order_case;

/* Runs the record on both, set by `fill` with its parameters, and compares. The outputs of the first output of cpu are
 * left in out when it is not NULL. */
void order_same(const order_case *c, void (*fill)(tn_op *op, const void *arg), const void *arg, float *out);

/* A tensor in a file's format: random codes, scales like a model's. *data is to be freed. */
tn_weight_src order_file(uint32_t dtype, int64_t n, int64_t k, uint64_t seed, uint8_t **data);

/* n numbers are the same bits; says which is not. */
void order_equal(const float *a, const float *b, int64_t n, const char *what);

#endif
