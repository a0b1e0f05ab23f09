/* arch: the model families that Tenon runs, as data. A new family of the usual shape is a new row in arch.c, no code.
 *
 * A model is made of parts (a norm, a projection, ...). tn_part_info says how a part is spelled in the file and in the
 * program, its role and its shape; tn_arch says which parts a family has and the few numbers in which families differ.
 * Everything here is constant data: any thread. */
#ifndef TN_CORE_MODEL_ARCH_H
#define TN_CORE_MODEL_ARCH_H

#include "../base.h"

/* Parts of a model. Those from ATTN_NORM to FFN_POST_NORM are in every layer that has them. */
enum {
  TN_PART_TOKEN_EMBD = 0,
  TN_PART_OUTPUT_NORM,
  TN_PART_OUTPUT, /* absent: the head is the embedding, transposed (tied) */
  TN_PART_ROPE_FREQS,
  TN_PART_ROPE_LONG,
  TN_PART_ROPE_SHORT,
  TN_PART_ATTN_NORM,
  TN_PART_ATTN_Q,
  TN_PART_ATTN_K,
  TN_PART_ATTN_V,
  TN_PART_ATTN_Q_NORM,
  TN_PART_ATTN_K_NORM,
  TN_PART_ATTN_OUT,
  TN_PART_ATTN_POST_NORM,
  TN_PART_FFN_NORM,
  TN_PART_FFN_GATE,
  TN_PART_FFN_UP,
  TN_PART_FFN_DOWN,
  TN_PART_FFN_POST_NORM,
  TN_N_PARTS
};
#define TN_PART_BIT(part) (1u << (part))

/* Lengths that shapes are made of. */
enum {
  TN_DIM_ONE = 0,
  TN_DIM_D,
  TN_DIM_Q /* H dh */,
  TN_DIM_KV /* G dh */,
  TN_DIM_DH,
  TN_DIM_FF,
  TN_DIM_VOCAB,
  TN_DIM_ROPE_HALF /* rotated dims / 2 */
};

typedef struct tn_part_info {
  const char *file;   /* stem in the file: "attn_output" of "blk.3.attn_output.weight" */
  const char *record; /* stem in the program: "attn_out" of "blk.3.attn_out"; also the name of its record */
  uint32_t role;      /* TN_ROLE_* */
  uint32_t n, k;      /* TN_DIM_*: rows (outputs) and columns (inputs). A vector has n = TN_DIM_ONE */
  bool in_layer;      /* one in each layer */
} tn_part_info;

typedef struct tn_arch {
  const char *name;                  /* general.architecture in the file, and the prefix of its keys */
  uint32_t rope_style;               /* TN_ROPE_* */
  uint32_t act;                      /* TN_ACT_* of the feed-forward gate */
  uint32_t required, optional;       /* TN_PART_BIT sets */
  uint32_t biases;                   /* parts whose bias must be there; any other projection may have one */
  uint32_t window_pattern;           /* each n-th layer is global, the others have the file's window, if it has one;
                                        0: layers have no window, whatever the file says */
  uint32_t n_layers_wide_scale;      /* a model of so many layers scales scores by 1/sqrt(d/H); 0: none does */
  double rope_base, rope_base_local; /* where the file has none: of layers without and with a window */
  bool scale_embedding;              /* embeddings are multiplied by sqrt(d) */
} tn_arch;

/* The row for a name, or NULL. */
const tn_arch *tn_arch_find(tn_str name);

/* Row i, NULL past the end: to list what is supported. */
const tn_arch *tn_arch_at(size_t i);

/* Facts of a part, 0 <= part < TN_N_PARTS. */
const tn_part_info *tn_part(uint32_t part);

/* TN_E_UNSUPPORTED naming the file's architecture, the nearest supported one and all of them. */
tn_status tn_arch_unknown(const char *path, tn_str name, tn_err *err);

#endif
