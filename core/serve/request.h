/* request: the JSON body of a generation request as checked values. Nothing here knows HTTP, the engine or the model, so
 * that any bytes can be tried on it.
 *
 * A field that is not in the table is refused by name, and so is one whose value would ask for something that is not
 * done; null is as if the field were absent. Thread rule: any thread; a tn_gen belongs to its caller. */
#ifndef TN_CORE_SERVE_REQUEST_H
#define TN_CORE_SERVE_REQUEST_H

#include "engine/sample.h"
#include "serve/fault.h"
#include "serve/stop_text.h"

enum { TN_API_COMPLETION = 1u, TN_API_CHAT = 2u, TN_API_EMBEDDING = 4u };

enum {
  TN_GEN_MAX_CHOICES = 64,   /* prompts times n */
  TN_GEN_MAX_BIAS = 1024,    /* entries of logit_bias */
  TN_GEN_MAX_STOP_IDS = 128, /* entries of stop_token_ids */
  TN_GEN_MAX_TOP = 20        /* alternatives of a token */
};

typedef struct tn_gen {
  uint32_t api; /* TN_API_* */
  json_t *root; /* owned; what follows borrows from it */
  const char *model, *salt;
  const json_t *prompt, *messages, *template_args, *options;
  tn_sampling sampling; /* its arrays are owned */
  int32_t *stop_ids;    /* [n_stop_ids] owned */
  uint32_t n_stop_ids;
  tn_str stop[TN_MAX_STOPS];
  uint32_t n_stop;
  uint64_t seed;
  int64_t max_new;     /* -1: until the context is full */
  int64_t slot;        /* -1: none */
  int32_t priority;    /* lower comes first */
  uint32_t n, best_of; /* choices of each prompt */
  uint32_t top;        /* alternatives of each token */
  int32_t prompt_top;  /* alternatives of each prompt token; -1: none asked for */
  bool seed_given, max_given, logprobs, echo, stream, usage, ignore_eos, include_stop, show_special, return_tokens;
  bool base64;                                              /* embeddings as little-endian f32 in base64 */
  bool no_prompt_cache, no_generation_prompt, keep_special; /* keep_special: add_special_tokens = false */
} tn_gen;

/* false: *f says why, and *out holds nothing. Else tn_gen_free when done. */
bool tn_gen_parse(uint32_t api, const char *body, size_t n, tn_gen *out, tn_fault *f);
void tn_gen_free(tn_gen *g);

/* A body that is a JSON object, or NULL and *f. A new reference. */
json_t *tn_gen_object(const char *body, size_t n, tn_fault *f);

#endif
