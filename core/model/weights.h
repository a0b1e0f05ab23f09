/* weights: puts the tensors that a program needs on the backend: from the mapping, or through a quantizer.
 *
 * A tensor goes one of three ways:
 *   as in the file   TN_W_FILE, straight from the mapping (TN_WF_STABLE); a column shard is cut at block boundaries into
 *                    a copy that lives until weight_load returns
 *   norms, biases    TN_W_F32
 *   quantized        decoded to f32 and encoded, blocks of whole rows in parallel, then TN_W_CODES. A rank's shard is cut
 *                    out of the codes of whole rows, so that n ranks hold what one would. EXOTIC layouts are
 *                    dequantized by their plugin and loaded as TN_W_F32
 *
 * What was read of the file is given back to the system tensor by tensor, so that a process does not hold the file's pages
 * beside what the backend made of them.
 */
#ifndef TN_CORE_MODEL_WEIGHTS_H
#define TN_CORE_MODEL_WEIGHTS_H

#include "builder.h"

typedef struct tn_weights tn_weights;

/* All borrowed; model, backend, quantizer (for its layouts) must outlive the weights. */
typedef struct tn_weights_job {
  const tn_model *model;
  const tn_built *built; /* its needs are loaded */
  const tn_backend_v1 *backend;
  tn_inst *backend_inst;
  const tn_quantizer_v1 *quantizer; /* NULL: weights stay as in the file */
  tn_inst *quantizer_inst;
  const tn_svc_pool *pool; /* threads for decoding and encoding; NULL: the caller's only */
  tn_hctx *pool_ctx;
  tn_progress_fn progress; /* called on the caller's thread, done in [0,1] by bytes; false cancels. NULL: none */
  void *progress_ctx;
  bool keep; /* weights get a key, under which the backend may keep what it makes of them ("tenon.cache/1") */
  bool kept; /* and are asked for there first: those found are neither read from the file nor encoded */
} tn_weights_job;

/* Loads every need of the built program. On failure nothing stays loaded, *out is NULL and *err (may be NULL) names the
 * tensor: TN_E_UNSUPPORTED a quantizer that needs calibration for a tensor, a layout or dtype that does not fit, a cut
 * inside a block or group; TN_E_STATE cancelled; TN_E_NOMEM; else the code of the backend or quantizer. [cold] */
tn_status tn_weights_load(const tn_weights_job *job, tn_weights **out, tn_err *err);

/* Frees every tensor on the backend. Accepts NULL. Prepared programs that use them must be freed first. [cold] */
void tn_weights_free(tn_weights *w);

/* Points program.weights of a built program at the loaded tensors; they must outlive its use. The program may be another
 * one than was loaded (with taps or observers, say) as long as it needs no other tensor or shard: TN_E_ARG naming the
 * first that is not there. [cold] */
tn_status tn_weights_bind(const tn_weights *w, tn_built *b, tn_err *err);

/* The tensor loaded under a name of the file, borrowed until free; NULL when there is none. Any thread. */
const tn_tensor *tn_weights_find(const tn_weights *w, const char *name);

/* What was loaded, for `tenon model info` and memory reports: bytes in the file of the parts held, and how many tensors
 * went through the quantizer, now or when they were kept. */
typedef struct tn_weights_stats {
  uint64_t file_bytes;
  uint32_t n_tensors, n_quantized, n_kept; /* n_kept: found where an earlier process had put them */
} tn_weights_stats;
tn_weights_stats tn_weights_stat(const tn_weights *w);

#endif
