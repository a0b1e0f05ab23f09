/* The prefix index against a naive list of texts: a million operations. label: full */
#include <criterion/criterion.h>

#include "prefix_model.h"

Test(engine_kv_prefix_long, random_operations)
{
  for (uint64_t seed = 10; seed < 21; seed++)
    for (uint32_t i = 0; i < prefix_model_specs(); i++) prefix_model_run(i, seed, 10200);
}
