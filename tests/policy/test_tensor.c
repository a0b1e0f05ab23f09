/* tensor: the ranks' shares add up to the whole, and what does not divide is refused with both numbers. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "support/plugin_rig.h"

static plugin_rig *tensor_of(uint32_t world)
{
  char set[24];
  snprintf(set, sizeof set, "world=%u", world);
  return plugin_rig_open(TN_SLOT_PARALLEL, "tensor", (const char *const[]){set, NULL});
}

static tn_model_shape shape_of(uint32_t heads, uint32_t kv_heads, uint32_t dh, uint32_t ff)
{
  return (tn_model_shape){.struct_size = sizeof(tn_model_shape),
                          .n_layers = 3,
                          .n_heads = heads,
                          .n_kv_heads = kv_heads,
                          .d_model = heads * dh,
                          .d_head = dh,
                          .d_ff = ff,
                          .n_vocab = 1000};
}

Test(policy_tensor, shares_are_a_partition)
{
  tn_model_shape m = shape_of(16, 8, 64, 1024);
  tn_plan plan = {.struct_size = sizeof plan, .model = &m};
  for (uint32_t world = 1; world <= 8; world *= 2) {
    plugin_rig *p = tensor_of(world);
    const tn_parallel_v1 *v = p->vtable;
    cr_assert(eq(u32, v->world(p->inst), world));
    cr_expect(plugin_rig_validate(p, &plan, NULL) == TN_OK);
    uint32_t head = 0, kv_head = 0;
    int64_t ff = 0;
    for (uint32_t r = 0; r < world; r++) {
      tn_par_plan x = {.struct_size = sizeof x};
      cr_assert(v->plan(p->inst, &plan, r, &x, NULL) == TN_OK);
      cr_expect(x.world == world && x.rank == r && x.layer0 == 0 && x.layer1 == 3);
      cr_expect(x.head0 == head && x.kv_head0 == kv_head && x.ff0 == ff, "rank %u of %u", r, world);
      cr_expect(x.n_heads / x.n_kv_heads == 2, "queries stay with their keys");
      cr_expect(x.vocab0 == 0 && x.n_vocab == 1000 && x.in_flight == 1 && x.sequence == TN_SEQ_WHOLE);
      head += x.n_heads, kv_head += x.n_kv_heads, ff += x.n_ff;
    }
    cr_expect(head == 16 && kv_head == 8 && ff == 1024, "%u ranks", world);
    plugin_rig_close(p);
  }
}

static void refused(tn_model_shape m, uint32_t world, const char *what)
{
  tn_plan plan = {.struct_size = sizeof plan, .model = &m};
  tn_err err = tn_err_init(), later = tn_err_init();
  tn_par_plan x = {.struct_size = sizeof x};
  char number[24];
  plugin_rig *p = tensor_of(world);
  snprintf(number, sizeof number, "world = %u", world);
  cr_expect(plugin_rig_validate(p, &plan, &err) == TN_E_ARG, "%u ranks: %s", world, what);
  cr_expect(strstr(err.msg, number) && strstr(err.msg, what), "'%s' does not say %s", err.msg, what);
  const tn_parallel_v1 *v = p->vtable;
  cr_expect(v->plan(p->inst, &plan, 0, &x, &later) == TN_E_ARG);
  cr_expect(strcmp(err.msg, later.msg) == 0);
  plugin_rig_close(p);
}

Test(policy_tensor, what_does_not_divide_is_refused)
{
  refused(shape_of(16, 8, 64, 1024), 3, "KV heads (8)");
  refused(shape_of(9, 3, 64, 1536), 2, "KV heads (3)");
  refused(shape_of(16, 8, 64, 1000), 2, "feed-forward");
  refused(shape_of(4, 4, 16, 1024), 2, "attention output");
}

Test(policy_tensor, without_a_model_nothing_is_refused)
{
  plugin_rig *p = tensor_of(7);
  tn_plan plan = {.struct_size = sizeof plan};
  cr_expect(plugin_rig_validate(p, &plan, NULL) == TN_OK);
  plugin_rig_close(p);
}
