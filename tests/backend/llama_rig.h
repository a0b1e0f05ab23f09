/* llama_rig: a small llama-like program of two layers on a backend, and a text of fixed tokens to feed it. */
#ifndef TN_TESTS_BACKEND_LLAMA_RIG_H
#define TN_TESTS_BACKEND_LLAMA_RIG_H

#include "rig.h"

enum { LLAMA_LAYERS = 2, LLAMA_D = 32, LLAMA_HEADS = 4, LLAMA_KV = 2, LLAMA_DH = 16, LLAMA_FF = 64 };
enum { LLAMA_VOCAB = 50, LLAMA_TEXT = 40, LLAMA_ROWS = 64 };

typedef struct llama {
  backend *be;
  tn_inst *inst; /* be's, or another one */
  prog p;
  tn_tensor w[RIG_WEIGHTS];
  tn_kv *kv;
  tn_prepared *prep;
  int32_t logits;
} llama;

/* Loads the weights (the same numbers each time) and lists the records; be and inst are set. */
void llama_build(llama *m);
/* Opens the cache and prepares. On failure kv may be open and prep is NULL. */
tn_status llama_prepare(llama *m, uint32_t flags, tn_err *err);

/* Backend `name` on n threads with a prepared program; and everything gone again, asserted. */
void llama_open(llama *m, const char *name, uint32_t threads, uint32_t flags);
void llama_close(llama *m);
/* All but the backend. */
void llama_release(llama *m);

/* Angles of the step's rows by their text positions; valid until the next call. */
void llama_angles(step *s);

/* Logits [LLAMA_TEXT][LLAMA_VOCAB] of the text fed in chunks; each step in two record ranges cut at `cut`. */
void llama_feed(llama *m, int64_t chunk, uint32_t cut, float *logits);

#endif
