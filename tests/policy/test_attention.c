/* Attention plugins: what they say of every layer and head, and that the engine then sees so far and no further. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "support/engine_rig.h"
#include "support/naive.h"
#include "support/plugin_rig.h"

static tn_mask mask_of(const char *name, const char *set)
{
  const char *const sets[] = {set, NULL};
  plugin_rig *p = plugin_rig_open(TN_SLOT_ATTENTION, name, sets);
  const tn_attention_v1 *v = p->vtable;
  tn_mask first = {0};
  for (uint32_t layer = 0; layer < 3; layer++)
    for (uint32_t head = 0; head < 2; head++) {
      tn_attn_spec spec = {.struct_size = sizeof spec};
      cr_assert(v->describe(p->inst, NULL, layer, head, &spec, NULL) == TN_OK);
      cr_assert(eq(u32, spec.kind, TN_AT_MASK));
      if (layer + head == 0) first = spec.mask;
      cr_assert(memcmp(&first, &spec.mask, sizeof first) == 0, "layer %u head %u", layer, head);
    }
  cr_expect(eq(u64, plugin_rig_count(p, 0), 6));
  plugin_rig_close(p);
  return first;
}

Test(policy_attention, masks)
{
  static const tn_mask all = TN_MASK_ALL;
  tn_mask full = mask_of("full", NULL), narrow = mask_of("sliding_window", "window=24");
  cr_expect(memcmp(&full, &all, sizeof all) == 0);
  cr_expect(narrow.lo == 0 && narrow.hi == 24 && narrow.stride == 1 && narrow.residue == 0 && narrow.sinks == 0);
  cr_expect(mask_of("sliding_window", NULL).hi == 1024);
}

/* ---------------------------------------------------------------- on the engine */

enum { TOKENS = 90 };

typedef struct window {
  int64_t hi;
} window;

static bool in_window(void *ctx, uint32_t layer, uint32_t head, int64_t i, int64_t j)
{
  (void)layer, (void)head;
  return i - j < ((const window *)ctx)->hi;
}

/* Largest error of a scored prompt against the naive pass under a window of hi. */
static double error_of(const rig *r, uint32_t result, const int32_t *prompt, int64_t hi)
{
  window w = {hi};
  naive_hooks hooks = {.ctx = &w, .sees = in_window};
  naive *x = naive_open(r->s.model, &hooks, TOKENS);
  double worst = naive_worst(x, prompt, TOKENS, r->r[result].rows);
  naive_close(x);
  return worst;
}

/* gemma3 has windows of its own of 8 on most layers, which stay in force. */
static void check_window(const char *model, int64_t hi)
{
  char set[64];
  snprintf(set, sizeof set, "attention.sliding_window.window=%d", (int)hi);
  const char *const sets[] = {"compose.backend=ref",
                              "engine.threads=1",
                              "engine.activations=f32",
                              "compose.attention=sliding_window",
                              "compose.kv=probe",
                              "quantizer.probe@kv.kv=f32",
                              set,
                              NULL}; /* f32 keys and values */
  int32_t prompt[TOKENS];
  rig *r = rig_open(rig_tiny(model), sets);
  rig_tokens(3, r->n_vocab, prompt, TOKENS);
  uint32_t at = rig_score(r, prompt, TOKENS);
  rig_run(r, 1);
  double right = error_of(r, at, prompt, hi), short_by_one = error_of(r, at, prompt, hi - 1);
  cr_expect(right < 1e-4, "%s, window %d: off by %g", model, (int)hi, right);
  cr_expect(short_by_one > 50 * right, "%s: a window of %d would do as well: %g", model, (int)hi - 1, short_by_one);
  rig_close(r);
}

Test(policy_attention, a_window_sees_so_far_and_no_further)
{
  check_window("llama", 1);
  check_window("llama", 24);
  check_window("llama", 64);
  check_window("gemma3", 5);
  check_window("gemma3", 30);
}

Test(policy_attention, layers_may_differ)
{
  static const char *const sets[] = {"compose.backend=ref",
                                     "engine.threads=1",
                                     "engine.activations=f32",
                                     "compose.attention.layers=0:full, 1-:sliding_window",
                                     "attention.sliding_window.window=7",
                                     NULL};
  int32_t prompt[TOKENS];
  tn_err err = tn_err_init();
  rig *r;
  cr_assert(rig_try(rig_tiny("llama"), sets, &r, &err) == TN_OK, "%s", err.msg);
  rig_tokens(3, r->n_vocab, prompt, TOKENS);
  uint32_t at = rig_score(r, prompt, TOKENS);
  rig_run(r, 1);
  cr_expect(error_of(r, at, prompt, 7) > 1e-2, "the first layer sees all");
  cr_expect(tn_engine_stat(r->s.engine).n_groups == 2);
  rig_close(r);
}
