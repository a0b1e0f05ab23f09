/* mini_int: private to mini_forward.c and mini_run.c. */
#ifndef TN_TESTS_MINI_INT_H
#define TN_TESTS_MINI_INT_H

#include "mini_forward.h"

enum { MINI_PAGE = 16, MINI_CLASSES = 2 };

typedef struct mini_rank {
  mini_forward *f;
  uint32_t index, n_groups;
  tn_par_plan par;
  tn_kv_group **groups;
  tn_built *built;
  tn_weights *weights;
  tn_kv *kv;
  tn_prepared *prepared;
  tn_tensor *taps;
  const tn_tensor **tap_ptrs;
  uint32_t pc;     /* next record */
  uint64_t posted; /* tag of what is in mail, 0: nothing */
  float *mail;     /* [rows][cols] that this rank gives to others */
  int64_t mail_cols;
} mini_rank;

struct mini_forward {
  mini_cfg cfg;
  mini_rank *ranks;
  int64_t n; /* committed tokens */
  uint32_t n_pages, pool_pages[MINI_CLASSES];
  int32_t *pages, *ints; /* [n_pages]; [4][max_tokens]: seq, ord, path_off, out_row */
  int64_t *text_pos;
  float *angles; /* [3 kinds][classes][2][max_tokens][dims/2]: rows, sinks, whole sequence */
};

tn_status mini_observe(void *ctx, const tn_op *op, const tn_tensor *x, uint32_t n_rows);
tn_status mini_collective(void *ctx, const tn_op *op, const tn_tensor *in, const tn_tensor *out, uint32_t n_rows);

#endif
