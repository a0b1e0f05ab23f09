/* Attention plugins: patterns that hide nothing change no bit, and none depends on the batch, the chunks, the threads or the
 * drafts. */
#include <criterion/criterion.h>

#include "same_bits.h"

/* ---------------------------------------------------------------- what hides nothing changes nothing */

#define FULL(name_, model_, backend_, ...)                                                                         \
  Test(engine_attention_bits, name_)                                                                               \
  {                                                                                                                \
    static const char *const a[] = {"compose.backend=" backend_, NULL};                                            \
    static const char *const b[] = {"compose.backend=" backend_, "engine.allow_untrained=yes", __VA_ARGS__, NULL}; \
    same_bits_equal(rig_tiny(model_), a, b, SAME_ALL);                                                             \
  }
FULL(dilated_by_one_is_full, "gemma3", "cpu", "compose.attention=dilated", "attention.dilated.dilation=1")
FULL(wide_global_is_full, "gemma3", "cpu", "compose.attention=global")
FULL(global_positions_in_a_wide_window, "llama", "ref", "compose.attention=global", "attention.global.positions=9, 80")
FULL(few_blocks_are_all_random, "llama", "ref", "compose.attention=random")
FULL(few_blocks_are_all_bigbird, "llama", "ref", "compose.attention=bigbird")

/* ---------------------------------------------------------------- batch, chunks, threads */

#define BITS(name_, ...)                                                                 \
  Test(engine_attention_bits, name_)                                                     \
  {                                                                                      \
    static const char *const base[] = {"engine.allow_untrained=yes", __VA_ARGS__, NULL}; \
    same_bits_check(rig_tiny("llama"), base, SAME_FEW);                                  \
  }
BITS(dilated_same_bits, "compose.backend=cpu", "compose.attention=dilated", "attention.dilated.window=7",
     "attention.dilated.dilation=2, 5")
BITS(global_same_bits, "compose.backend=cpu", "compose.attention=global", "attention.global.first=3",
     "attention.global.window=21")
BITS(global_positions_same_bits, "compose.backend=ref", "compose.attention=global", "attention.global.window=21",
     "attention.global.positions=30, 77", "compose.draft=ngram")
BITS(random_same_bits, "compose.backend=ref", "compose.attention=random", "attention.random.blocks=1")
BITS(bigbird_same_bits, "compose.backend=ref", "compose.attention=bigbird", "attention.bigbird.blocks=1",
     "attention.bigbird.window=1", "compose.draft=ngram")

BITS(linear_same_bits, "compose.backend=ref", "compose.attention=linear", "compose.draft=ngram")
BITS(performer_same_bits, "compose.backend=ref", "compose.attention=performer", "attention.performer.features=24")
BITS(layers_of_three_kinds_same_bits, "compose.backend=ref", "compose.draft=ngram",
     "compose.attention.layers=0:bigbird, 1:performer, 2-:dilated", "attention.performer.features=24",
     "attention.bigbird.blocks=1", "attention.dilated.window=7")
BITS(ntk_same_bits, "compose.backend=cpu", "compose.position=ntk", "position.ntk.mode=dynamic",
     "position.ntk.original_ctx=64", "position.ntk.step=1")
