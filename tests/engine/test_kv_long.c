/* The KV store against its naive copy: more than a million operations. label: full */
#include <criterion/criterion.h>

#include "kv_model.h"

Test(engine_kv_long, random_operations)
{
  for (uint64_t seed = 100; seed < 104; seed++)
    for (uint32_t i = 0; kv_spec_at(i); i++)
      for (uint32_t slabs = 0; slabs < 2; slabs++) kv_model_run(i, slabs, seed, 12000);
}
