/* model: an opened model file, checked against its architecture: shape, rope metadata, tensors.
 *
 * Opening reads metadata and the tensor table only; weights are loaded by weights.h for the program that builder.h
 * makes. After a successful open everything in tn_model is constant: read it from any thread, until close. */
#ifndef TN_CORE_MODEL_MODEL_H
#define TN_CORE_MODEL_MODEL_H

#include "arch.h"
#include "gguf.h"

/* Largest values accepted; a file with more is refused before anything is sized by it. */
enum {
  TN_MAX_LAYERS = 1024,
  TN_MAX_HEADS = 1024,
  TN_MAX_HEAD_DIM = 1024,
  TN_MAX_WIDTH = 1 << 20, /* d_model, d_ff */
  TN_MAX_VOCAB = 1 << 24
};

typedef struct tn_model {
  tn_gguf *gguf; /* owned; the tensors' bytes stay mapped until close */
  const tn_arch *arch;
  tn_model_shape shape;      /* as plugins see it; classes numbered by first layer, so layer 0 is of class 0 */
  const tn_rope_query *rope; /* [shape.n_classes] what the file says for a class; regime 0. Copy and set regime */
  double norm_eps;           /* of every norm */
  double embed_scale;        /* of the embedding rows: 1, or sqrt(d) */
  float attn_scale;          /* of q k: attention.scale, else 1/sqrt(dh) (arch.h has the exception) */
  float attn_softcap;        /* of scores; 0: none */
  float final_softcap;       /* of logits; 0: none */
  bool tied_head;            /* no output.weight: the head is token_embd.weight */
  const tn_gguf_tensor *const *tensors; /* [(1 + n_layers) * TN_N_PARTS * 2], read by tn_model_tensor/_bias */
} tn_model;

/* Opens path and checks all of it: architecture, every number, presence and shape of every tensor, and that the file
 * has no tensor that the architecture does not use (it would be another model). progress (may be NULL) is called
 * between tensors; returning false cancels. On failure *out is NULL and *err (may be NULL) names the file, the key or
 * tensor, and both values: TN_E_UNSUPPORTED an architecture or feature that is not offered, TN_E_ARG a value that is
 * missing or wrong, TN_E_STATE cancelled, TN_E_NOMEM, and what tn_gguf_open returns. */
tn_status tn_model_open(const char *path, tn_progress_fn progress, void *ctx, tn_model **out, tn_err *err);

/* The same over bytes that the caller keeps alive (tests, fuzzing); name is used in messages. */
tn_status tn_model_open_mem(const void *bytes, size_t n, const char *name, tn_model **out, tn_err *err);

/* Accepts NULL. Weights loaded from the model must be freed first. */
void tn_model_close(tn_model *m);

/* The tensor of a part and its bias, or NULL where the model has none. layer is ignored for parts outside the layers. */
const tn_gguf_tensor *tn_model_tensor(const tn_model *m, uint32_t part, uint32_t layer);
const tn_gguf_tensor *tn_model_bias(const tn_model *m, uint32_t part, uint32_t layer);

/* Elements in a length of tn_part_info. */
int64_t tn_model_dim(const tn_model *m, uint32_t dim);

/* Parts in which a row-parallel sum over k columns is made (NUMERICS.md): n_kv_heads where each part is a multiple of
 * 32 columns, else 1. */
uint32_t tn_model_segments(const tn_model *m, int64_t k);

#endif
