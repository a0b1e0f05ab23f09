/* rig: builds small programs and batches in plain arrays, so that a test can drive a backend record by record.
 *
 * A prog grows records, activations, weights and page groups; a step grows the rows of one batch. Both hold everything by
 * value with room for small tests and assert that it is enough. Thread rule: one thread. */
#ifndef TN_TESTS_BACKEND_RIG_H
#define TN_TESTS_BACKEND_RIG_H

#include <stdbool.h>
#include <stdint.h>

#include "support/backend_host.h"

enum { RIG_OPS = 96, RIG_ACTS = 64, RIG_WEIGHTS = 96, RIG_GROUPS = 16, RIG_MASKS = 16, RIG_TABLES = 4 };
enum { RIG_ROWS = 512, RIG_SEQS = 8, RIG_PAGES = 64, RIG_PATH = 4096, RIG_SIGNALS = 64 };

/* ---------------------------------------------------------------- program */

typedef struct prog {
  tn_program pr;
  tn_op ops[RIG_OPS];
  tn_act acts[RIG_ACTS];
  tn_tensor weights[RIG_WEIGHTS];
  tn_kv_group groups[RIG_GROUPS];
  tn_mask masks[RIG_MASKS];
  uint32_t table_dims[RIG_TABLES];
  const tn_op *op_ptr[RIG_OPS];
  const tn_act *act_ptr[RIG_ACTS];
  const tn_tensor *weight_ptr[RIG_WEIGHTS];
  const tn_kv_group *group_ptr[RIG_GROUPS];
} prog;

void prog_init(prog *p);
int32_t prog_act(prog *p, uint32_t rows, int64_t cols);
int32_t prog_weight(prog *p, tn_tensor w);
uint32_t prog_group(prog *p, tn_kv_group g);
uint32_t prog_mask(prog *p, tn_mask m);
uint32_t prog_table(prog *p, uint32_t dims);
/* A record on layer 0 named "op<i>"; in1, w0, w1 may be -1, out0 too. Fill the rest of what comes back. */
tn_op *prog_op(prog *p, uint32_t kind, int32_t in0, int32_t in1, int32_t out0, int32_t w0, int32_t w1);

/* ---------------------------------------------------------------- batch */

typedef struct rig_seq { /* one sequence's cache, the same entries in every group unless a test changes a view */
  tn_seq_view sv;
  tn_kv_view view[RIG_GROUPS];
  const tn_kv_view *view_ptr[RIG_GROUPS];
  int32_t page[RIG_GROUPS][RIG_PAGES];
} rig_seq;

/* n_groups groups whose pages are first_page, first_page + 1, ... (every group its own range: group g starts at
 * first_page + g * n_pages). */
void rig_seq_init(rig_seq *s, uint64_t id, uint32_t n_groups, int32_t first_page, uint32_t n_pages);
/* n more entries are committed in every group. */
void rig_seq_commit(rig_seq *s, int64_t n);

typedef struct step {
  tn_batch b;
  int32_t token[RIG_ROWS], seq[RIG_ROWS], ord[RIG_ROWS], slot[RIG_ROWS], path_off[RIG_ROWS], out_row[RIG_ROWS];
  int32_t signal[RIG_ROWS], path[RIG_PATH];
  int64_t text_pos[RIG_ROWS];
  const tn_seq_view *seqs[RIG_SEQS];
  const tn_signal *signals[RIG_SIGNALS];
} step;

void step_init(step *s);
/* Adds a sequence; returns its index. */
int32_t step_seq(step *s, const rig_seq *q);
/* Row number ord = slot behind what the sequence has committed. Returns the row. */
int32_t step_row(step *s, int32_t seq, int32_t token, int64_t text_pos, int32_t ord);
/* Row of a tree: path [ord] holds its ancestors' slots. */
int32_t step_node(step *s, int32_t seq, int32_t token, int64_t text_pos, int32_t ord, int32_t slot,
                  const int32_t *path);
void step_want(step *s, int32_t row);

/* ---------------------------------------------------------------- data */

/* Repeatable numbers in [-1, 1). */
float rig_random(uint64_t *seed);
void rig_fill(float *x, int64_t n, uint64_t seed);

/* Rows [0, n) of an activation from or to src/dst [n][cols]. */
void rig_put(backend *b, tn_prepared *p, int32_t act, const float *src, int64_t n);
void rig_get(backend *b, tn_prepared *p, int32_t act, float *dst, int64_t n);

/* An f32 matrix [n][k] as a weight. */
tn_tensor rig_weight(backend *b, const float *w, int64_t n, int64_t k);

#endif
