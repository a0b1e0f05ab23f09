/* exec_open: building the ranks of an executor. See exec.h for what it then does. */
#ifndef TN_CORE_ENGINE_EXEC_OPEN_H
#define TN_CORE_ENGINE_EXEC_OPEN_H

#include "exec.h"
#include "host/instance.h"
#include "kv.h"
#include "model/weights.h"

#define TN_MAX_RANKS 16u

typedef tn_status (*tn_observe_fn)(void *ctx, const tn_op *op, const tn_tensor *x, uint32_t n_rows);

typedef struct tn_exec_cfg { /* borrowed until close, except progress */
  const tn_model *model;
  const tn_desc *backend;
  const tn_value *backend_values;
  const tn_desc *weights; /* quantizer under weights=, or NULL */
  const tn_value *weights_values;
  const tn_parallel_v1 *parallel; /* NULL: one rank */
  tn_inst *parallel_inst;
  const tn_plan *plan;
  const tn_build *build; /* without par, groups: they are the ranks' */
  const tn_groups *groups;
  uint32_t threads, max_rows, max_out, flags; /* threads: over all ranks; flags: TN_PREP_* */
  tn_observe_fn observe;                      /* for OBSERVE records; NULL: none */
  void *observe_ctx;
  const tn_services *services; /* log, ops, model; each rank gets its own pool */
  const char *cache_dir;       /* where what backends make of weights is kept; NULL: nowhere */
  uint64_t cache_limit;        /* bytes of all that is kept there; 0: no limit */
  tn_progress_fn progress;
  void *progress_ctx;
  bool null_forward; /* the ranks compute nothing: see exec_null.h */
} tn_exec_cfg;

typedef struct tn_transport tn_transport;

typedef struct tn_rank {
  uint32_t index;
  tn_exec *exec;
  tn_services services; /* the configured ones with this rank's pool */
  tn_instance backend, quantizer;
  tn_inst *null; /* the backend's, where nothing is computed: then it has no descriptor */
  const tn_backend_v1 *b;
  tn_par_plan par;
  tn_kv_group **groups;
  tn_built *built;
  tn_weights *weights;
  tn_kv *kv;
  tn_tensor *taps; /* [n_taps] */
  const tn_tensor **tap_ptrs;
  tn_prepared *prepared;
  tn_tensor logits;
  uint64_t *page_bytes; /* [n_pools] */
} tn_rank;

struct tn_exec {
  uint32_t world, n_pools, n_vocab;
  tn_rank *ranks;     /* [world] */
  tn_pool *rank_pool; /* one thread a rank; NULL with one rank */
  tn_transport *transport;
  tn_status *status; /* [world] of the call in progress */
  tn_exec_cfg cfg;
};

/* exec_wcache.c: what "tenon.cache/1" offers the rank, whose pool is made; NULL: nothing is kept for it. */
tn_wcache *tn_rank_wcache(const tn_rank *r);

tn_status tn_exec_open(const tn_exec_cfg *cfg, tn_exec **out, tn_err *err);
void tn_exec_close(tn_exec *x);

#endif
