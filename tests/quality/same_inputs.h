/* same_inputs: a model on ref and on cpu with 8-bit activations, where every matrix product of cpu's layers gets the
 * input that ref's had.
 *
 * Left to itself, a difference in the last bit of a value near the middle of two steps becomes a whole step, the few
 * such steps of one layer make more in the next, and after some layers two backends that both are right are as far
 * apart as 8-bit activations are from floats. With the same inputs each product is held to its own accuracy. */
#ifndef TN_TESTS_SAME_INPUTS_H
#define TN_TESTS_SAME_INPUTS_H

#include <stdint.h>

typedef struct same_inputs same_inputs;

/* For texts of n tokens at most. Ends the test on a failure. Free with same_inputs_close. */
same_inputs *same_inputs_open(const char *file, uint32_t n);
void same_inputs_close(same_inputs *s);

uint32_t same_inputs_vocab(const same_inputs *s);

/* Logits of both after each of the n tokens, [n][n_vocab]. */
void same_inputs_run(same_inputs *s, const int32_t *ids, uint32_t n, float *ref, float *cpu);

/* Largest distance of an input of cpu's from ref's before it was replaced, as a part of the row's length, and the name
 * of the record. */
double same_inputs_worst(const same_inputs *s, const char **name);

#endif
