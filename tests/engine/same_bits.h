/* same_bits: sequences that must come out the same, bit by bit, whatever else is in the batch, how prompts were cut and
 * how many threads there are. */
#ifndef TN_TESTS_ENGINE_SAME_BITS_H
#define TN_TESTS_ENGINE_SAME_BITS_H

#include "support/engine_rig.h"

enum { SAME_FEW = 5, SAME_ALL = 8 }; /* sequences; the first few are the telling ones */

/* n sequences together, then each alone, then in chunks, then by other threads: logits of scored prompts, tokens and
 * logprobs of generated text. */
void same_bits_check(const char *model, const char *const *base, uint32_t n);

/* The same sequences under two compositions. */
void same_bits_equal(const char *model, const char *const *a, const char *const *b, uint32_t n);

#endif
