/* prefix_model: a KV store with its prefix index under random arrivals, growth, forks, truncations, swaps and ends. What an
 * entry must hold follows from the tokens up to it, so every entry of every sequence is checked, wherever its page came
 * from; and a naive list of all texts that were ever there says what had to be found. */
#ifndef TN_TESTS_ENGINE_PREFIX_MODEL_H
#define TN_TESTS_ENGINE_PREFIX_MODEL_H

#include "kv_rig.h"

/* A run of ops random operations on one of the shapes of stores. */
void prefix_model_run(uint32_t spec, uint64_t seed, uint32_t ops);

/* How many shapes there are. */
uint32_t prefix_model_specs(void);

#endif
