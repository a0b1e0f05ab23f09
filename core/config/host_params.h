/* host_params: the host's own options, [engine] and [model], described by the same tables as a plugin's. */
#ifndef TN_CORE_CONFIG_HOST_PARAMS_H
#define TN_CORE_CONFIG_HOST_PARAMS_H

#include "base.h"

typedef struct tn_host_section {
  const char *name;              /* "engine" */
  const tn_param *const *params; /* NULL-terminated */
} tn_host_section;

/* Sections of the host; NULL past the end, or when there is none of that name. Static. */
const tn_host_section *tn_host_section_at(size_t i);
const tn_host_section *tn_host_section_find(const char *name);

/* [engine]: indices into its table. */
enum {
  TN_ENGINE_THREADS = 0,
  TN_ENGINE_ACTIVATIONS,
  TN_ENGINE_VERIFY,
  TN_ENGINE_TYPICAL_EPS,
  TN_ENGINE_TYPICAL_DELTA,
  TN_ENGINE_ATTENTION_KERNEL,
  TN_ENGINE_SEED,
  TN_ENGINE_CTX,
  TN_ENGINE_MAX_SEQS,
  TN_ENGINE_MAX_ROWS,
  TN_ENGINE_KV_BUDGET,
  TN_ENGINE_PREFIX_CACHE,
  TN_ENGINE_MAX_QUEUED,
  TN_ENGINE_IN_FLIGHT,
  TN_ENGINE_UNFUSED,
  TN_ENGINE_ALLOW_UNTRAINED,
  TN_ENGINE_WEIGHTS_CACHE,
  TN_ENGINE_WEIGHTS_CACHE_LIMIT,
  TN_ENGINE_N
};

/* [model] */
enum { TN_MODEL_PATH = 0, TN_MODEL_N };

enum { TN_ACTIVATIONS_F32 = 0, TN_ACTIVATIONS_INT8 = 1 };
enum { TN_KERNEL_TILED = 0, TN_KERNEL_NAIVE = 1 };

typedef struct tn_engine_opts { /* [engine], parsed */
  uint32_t threads;             /* 0: as many as the process may use */
  uint32_t activations;         /* TN_ACTIVATIONS_* */
  uint32_t verify;              /* TN_VERIFY_* of engine/verify.h */
  double typical_eps, typical_delta;
  uint32_t attention_kernel; /* TN_KERNEL_* */
  uint64_t seed;             /* 0: a fresh one for each request */
  int64_t ctx;               /* 0: what the model was trained for, at most 8192 */
  uint32_t max_seqs, max_rows;
  uint64_t kv_budget_bytes;       /* 0: enough for max_seqs sequences of ctx tokens */
  uint32_t in_flight, max_queued; /* max_queued: requests that may wait, 0: no limit */
  bool prefix_cache;
  bool unfused, allow_untrained;
  bool weights_cache;                 /* packed weights are kept for the next process */
  uint64_t weights_cache_limit_bytes; /* 0: no limit */
} tn_engine_opts;

/* values: [TN_ENGINE_N] of the table above. */
tn_engine_opts tn_engine_opts_of(const tn_value *values);

#endif
