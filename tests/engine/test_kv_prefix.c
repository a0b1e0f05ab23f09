/* The prefix index against a naive list of texts, some 20,000 operations; and what it refuses. */
#include <criterion/criterion.h>
#include <string.h>

#include "prefix_model.h"

Test(engine_kv_prefix, random_operations)
{
  for (uint32_t i = 0; i < prefix_model_specs(); i++) prefix_model_run(i, 1, 2300);
}

/* Entries that depend on more than tokens and positions are not to be found again. */
Test(engine_kv_prefix, refused)
{
  static const kv_spec specs[] = {
      {.state = true}, {.gran = TN_GRAN_ALL, .rank_rope = true}, {.gran = TN_GRAN_LAYER, .n_layouts = 2}};
  for (size_t i = 0; i < TN_ARRAY_LEN(specs); i++) {
    kv_rig *r = kv_rig_open(&specs[i]);
    tn_err err = tn_err_init();
    cr_expect(tn_kv_prefix_open(r->store, &err) == TN_E_UNSUPPORTED && strstr(err.msg, "plain entries"));
    cr_expect(tn_kv_prefix_pin(r->store, &(tn_prefix_root){0}, (const int32_t[64]){0}, 64) == 0);
    kv_rig_close(r);
  }
}
