/* perplexity: of a composed engine on a text, as llama-perplexity computes it.
 *
 * The text is tokenized once and cut into chunks of n_ctx tokens; what is left over is not used. Each chunk is a
 * sequence of its own; where the tokenizer adds BOS, the chunk's first token is replaced by it. Tokens after the first
 * half are scored: with first = n_ctx / 2, the rows first .. n_ctx - 2 predict their next token.
 *   PPL = exp(mean of -log p);  the error is that of the mean, by the delta method
 * (llama.cpp tools/perplexity/perplexity.cpp, perplexity()). */
#ifndef TN_CORE_MEASURE_PERPLEXITY_H
#define TN_CORE_MEASURE_PERPLEXITY_H

#include "setup/setup.h"

typedef struct tn_ppl {
  double ppl, error;
  int64_t n_scored, n_tokens;
  uint32_t n_chunks, n_done;
  bool partial; /* ended early */
} tn_ppl;

typedef struct tn_ppl_args {
  const char *text;
  size_t n_text;
  int64_t n_ctx;       /* tokens of a chunk, even, >= 4 */
  uint32_t max_chunks; /* 0: all */
  /* After each chunk; returning false ends early. May be NULL. */
  bool (*chunk)(void *ctx, const tn_ppl *so_far);
  void *ctx;
} tn_ppl_args;

typedef struct tn_ppl_run tn_ppl_run;

/* The run is made before the engine, because the engine's events go to it: pass tn_ppl_events as tn_setup_args.events. */
tn_ppl_run *tn_ppl_new(void);
tn_events tn_ppl_events(tn_ppl_run *r);
void tn_ppl_free(tn_ppl_run *r);

/* Errors: TN_E_ARG (a text shorter than two chunks of tokens, a context that does not fit), those of the engine. */
tn_status tn_ppl_measure(tn_ppl_run *r, tn_setup *s, const tn_ppl_args *args, tn_ppl *out, tn_err *err);

#endif
