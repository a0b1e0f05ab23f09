/* attn_rig: a backend with a program of KV_WRITE and ATTEND (or STATE_MIX) on one layer, and the dense formula that it must
 * agree with. Queries, keys and values are given per row: q [H d_head], k [G d_head], v [G d_v]. */
#ifndef TN_TESTS_BACKEND_ATTN_RIG_H
#define TN_TESTS_BACKEND_ATTN_RIG_H

#include "rig.h"

enum { ATTN_LAYOUTS = 4 };

typedef struct attn_cfg {                                     /* zero: the default in brackets */
  const char *backend;                                        /* ["ref"] */
  uint32_t threads;                                           /* [2] */
  uint32_t n_heads, n_kv;                                     /* [4, 2] */
  uint32_t d_head, d_v;                                       /* [8, 8] */
  uint32_t page_tokens;                                       /* [16] */
  uint32_t pages;                                             /* [64] of each pool */
  uint32_t per_head;                                          /* 1: a page group for each KV head */
  uint32_t n_layouts;                                         /* [1] each layout has a pool of its own */
  const tn_layout *k_lay[ATTN_LAYOUTS], *v_lay[ATTN_LAYOUTS]; /* [f32] */
  uint32_t keys, rope_dims, rope_style;                       /* TN_KEYS_RAW: rotated by the view's tables */
  tn_mask masks[4];
  uint32_t n_masks, tiles, n_sinks;
  float scale, softcap; /* [1 / sqrt(d_head), 0] */
  uint32_t write_flags, attend_flags, prep_flags;
  const tn_state_spec *state; /* not NULL: STATE_MIX */
} attn_cfg;

typedef struct attn {
  attn_cfg cfg;
  backend *be;
  prog p;
  tn_kv *kv;
  tn_prepared *prep;
  int32_t q, qs, k, v, o, lse; /* activations */
} attn;

extern const tn_layout attn_f32, attn_f16, attn_bf16;

void attn_open(attn *a, const attn_cfg *cfg);
void attn_close(attn *a); /* asserts that nothing is left behind */

/* Runs the step on its rows. qs may be NULL without sinks; out [rows][H d_v]; lse [rows][H] or NULL. */
void attn_step(attn *a, const step *s, const float *q, const float *qs, const float *k, const float *v, float *out,
               float *lse);

/* One sequence of n tokens at text positions 0, 1, ... in chunks, committed chunk by chunk; row t's data at index t. */
void attn_feed(attn *a, rig_seq *seq, int64_t n, int64_t chunk, const float *q, const float *qs, const float *k,
               const float *v, float *out, float *lse);

/* The query sees text position j: causality and all n masks. */
bool attn_sees(const tn_mask *masks, uint32_t n, int64_t i, int64_t j);

/* Dense softmax of one query head over keys [n] of which sees[j]: k, v at row strides. q_of[j] says which query serves
 * key j (NULL: q for all). out [d_v], probabilities p [n] or NULL. Returns the lse. */
double attn_dense(const float *q, const float *qs, const uint8_t *is_sink, const float *k, int64_t k_stride,
                  const float *v, int64_t v_stride, const uint8_t *sees, int64_t n, const attn_cfg *cfg, double *out,
                  double *p);

#endif
