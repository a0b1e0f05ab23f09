/* attn_oracle: the patterns of attention/probe as hooks of the naive forward pass. */
#ifndef TN_TESTS_ATTN_ORACLE_H
#define TN_TESTS_ATTN_ORACLE_H

#include "plugins/probe.h"
#include "support/naive.h"

enum { ORACLE_MASK, ORACLE_MASKS, ORACLE_TILES, ORACLE_ELU, ORACLE_FAVOR, ORACLE_HALVES };

typedef struct attn_oracle { /* the options of attention/probe */
  int kind;
  tn_mask mask;
  uint32_t seed, layer0, layer1; /* layers [layer0, layer1) have the pattern, the others see everything */
  uint32_t d_head, f16;          /* f16: the cache's values are rounded to it */
  tn_state_spec spec;            /* filled by attn_oracle_hooks */
  float features[PROBE_FEATURES * 64];
} attn_oracle;

/* Hooks over o, which must stay. */
naive_hooks attn_oracle_hooks(attn_oracle *o, const tn_model *m);

#endif
