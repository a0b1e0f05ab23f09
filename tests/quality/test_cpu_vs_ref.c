/* The cpu backend against the ref backend on real models with the same activations: the laws of the next token after
 * each token of 16 prompts.
 * label: full */
#include <criterion/criterion.h>

#include "golden_law.h"
#include "support/engine_rig.h"

#define SMOLLM2 "smollm2-135m-instruct-q4_1"
#define GEMMA3 "gemma-3-270m-q4_k_m"

static rig *open_rig(const char *model, const char *backend, const char *activations)
{
  char file[64];
  snprintf(file, sizeof file, "%s.gguf", model);
  if (!rig_real(file)) rig_skip(file);
  const char *const sets[] = {backend, activations, NULL};
  return rig_open(rig_real(file), sets);
}

static void compare_rows(const rig *ref, const rig *cpu, law_distance *d)
{
  cr_assert_eq(ref->r[0].n_rows, cpu->r[0].n_rows);
  for (uint32_t i = 0; i < ref->r[0].n_rows; i++) {
    const float *p = ref->r[0].rows + (size_t)i * ref->n_vocab, *q = cpu->r[0].rows + (size_t)i * ref->n_vocab;
    float lead, other;
    bool differs = best_token(p, ref->n_vocab, &lead) != best_token(q, ref->n_vocab, &other);
    law_distance_add(d, full_kld(p, q, ref->n_vocab), lead, differs);
  }
}

/* The first n_prompts prompts; 0: all. */
static law_distance measure(const char *model, const char *ref_activations, const char *cpu_activations,
                            uint32_t n_prompts)
{
  rig *ref = open_rig(model, "compose.backend=ref", ref_activations);
  rig *cpu = open_rig(model, "compose.backend=cpu", cpu_activations);
  golden_set *g = golden_set_read(model);
  cr_assert(g && g->n_vocab == ref->n_vocab, "%s.golden cannot be read, or is of another model", model);
  law_distance d = {0};
  for (uint32_t p = 0; p < (n_prompts ? n_prompts : g->n_prompts); p++) {
    const int32_t *ids = g->ids + (size_t)p * g->n_tokens;
    rig_score(ref, ids, g->n_tokens);
    rig_run(ref, 0);
    rig_score(cpu, ids, g->n_tokens);
    rig_run(cpu, 0);
    compare_rows(ref, cpu, &d);
    rig_clear(ref);
    rig_clear(cpu);
  }
  cr_log_info("%s, %s: %u rows, KLD mean %.3g, worst %.3g; %u of %u clear choices differ", model, cpu_activations,
              d.rows, d.mean, d.worst, d.differ, d.clear);
  golden_set_free(g);
  rig_close(ref);
  rig_close(cpu);
  return d;
}

static void is_close(const char *model, const char *activations)
{
  law_distance d = measure(model, activations, activations, 0);
  cr_assert_eq(d.rows, 16 * 64);
  cr_assert(d.mean < 1e-4, "%s: mean KLD %g", model, d.mean);
  cr_assert_eq(d.differ, 0, "%s: %u of %u clear choices differ", model, d.differ, d.clear);
}

Test(quality_cpu_vs_ref, smollm2_int8) { is_close(SMOLLM2, "engine.activations=int8"); }
Test(quality_cpu_vs_ref, smollm2_f32) { is_close(SMOLLM2, "engine.activations=f32"); }
Test(quality_cpu_vs_ref, gemma3_int8) { is_close(GEMMA3, "engine.activations=int8"); }
Test(quality_cpu_vs_ref, gemma3_f32) { is_close(GEMMA3, "engine.activations=f32"); }

/* The bar is below what 8-bit activations cost. */
Test(quality_cpu_vs_ref, other_activations_are_seen)
{
  law_distance d = measure(SMOLLM2, "engine.activations=f32", "engine.activations=int8", 2);
  cr_assert(d.mean > 1e-4, "mean KLD %g", d.mean);
}
