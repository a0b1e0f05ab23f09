/* arch_int: the steps of tn_model_open, over a model that is being filled. Private to core/model. */
#ifndef TN_CORE_MODEL_ARCH_INT_H
#define TN_CORE_MODEL_ARCH_INT_H

#include "model.h"

/* The arrays behind a tn_model's const pointers. m comes first: a tn_model * from open is one of these. */
typedef struct tn_model_own {
  tn_model m;
  uint32_t *layer_class;
  int64_t *class_window;
  double *class_base;
  tn_rope_query *rope;
  char *scaling; /* the file's word */
  const tn_gguf_tensor **tensors;
} tn_model_own;

/* Reads every number but the vocabulary's size into m, shape and classes; arch and gguf are set. On failure the caller
 * frees own. */
tn_status tn_arch_read_meta(tn_model_own *own, tn_err *err);

/* Fills own->tensors and shape.n_vocab: every tensor of the file has a place, every required one is there, of the right
 * shape and of a type that decodes. */
tn_status tn_arch_read_tensors(tn_model_own *own, tn_progress_fn progress, void *ctx, tn_err *err);

/* Layers to classes and the rope metadata of each, after the metadata (tn_arch_read_meta does the first part). */
tn_status tn_arch_read_classes(tn_model_own *own, tn_err *err);

/* The rope factor tensors into own->rope, after the tensors. */
tn_status tn_arch_read_factors(tn_model_own *own, tn_err *err);

/* A word of the file fit for a message: at most 71 bytes, all but printable ASCII shown as '?'. Returns buf. */
const char *tn_arch_show(tn_str s, char buf[72]);

/* "llama.attention.head_count" of the suffix "attention.head_count". */
void tn_arch_key(const tn_model *m, const char *suffix, char *buf, size_t n);

/* A number of the file with its limits. Missing: *out stays and TN_OK, or TN_E_ARG when required. */
tn_status tn_arch_count(const tn_model *m, const char *suffix, bool required, uint64_t lo, uint64_t hi, uint32_t *out,
                        tn_err *err);
tn_status tn_arch_real(const tn_model *m, const char *suffix, bool required, double lo, double hi, double *out,
                       tn_err *err);

#endif
