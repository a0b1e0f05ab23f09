/* The ref backend with float activations on real models, against logprobs of llama.cpp on the same weights.
 *
 * What is left: keys and values are f16 here and f32 there, and llama.cpp reads GELU from a table of f16.
 * label: full */
#include <criterion/criterion.h>

#include "golden_law.h"
#include "support/engine_rig.h"

#define SMOLLM2 "smollm2-135m-instruct-q4_1"
#define GEMMA3 "gemma-3-270m-q4_k_m"
#define BAR 1e-5 /* mean KL divergence in nats; measured: 2.3e-7 and 3.4e-7 */

/* The first n_prompts prompts; 0: all. */
static law_distance measure(const char *model, const char *position, uint32_t n_prompts)
{
  char file[64];
  snprintf(file, sizeof file, "%s.gguf", model);
  if (!rig_real(file)) rig_skip(file);
  const char *const sets[] = {"compose.backend=ref", "engine.activations=f32", position, NULL};
  rig *r = rig_open(rig_real(file), sets);
  golden_set *g = golden_set_read(model);
  cr_assert(g && g->n_vocab == r->n_vocab, "%s.golden cannot be read, or is of another model", model);
  law_distance d = {0};
  for (uint32_t p = 0; p < (n_prompts ? n_prompts : g->n_prompts); p++) {
    rig_score(r, g->ids + (size_t)p * g->n_tokens, g->n_tokens);
    rig_run(r, 0);
    cr_assert_eq(r->r[0].n_rows, g->n_tokens);
    for (uint32_t i = 0; i < g->n_tokens; i++) {
      const golden_law *law = g->rows + (size_t)p * g->n_tokens + i;
      const float *row = r->r[0].rows + (size_t)i * r->n_vocab;
      float lead;
      bool differs = best_token(row, r->n_vocab, &lead) != law->id[0];
      law_distance_add(&d, golden_kld(law, row, r->n_vocab), law->logprob[0] - law->logprob[1], differs);
    }
    rig_clear(r);
  }
  cr_log_info("%s: %u rows, KLD mean %.3g, worst %.3g; %u of %u clear choices differ", model, d.rows, d.mean, d.worst,
              d.differ, d.clear);
  golden_set_free(g);
  rig_close(r);
  return d;
}

static void is_close(const char *model)
{
  law_distance d = measure(model, NULL, 0);
  cr_assert_eq(d.rows, 16 * 64);
  cr_assert(d.mean < BAR, "%s: mean KLD %g", model, d.mean);
  cr_assert_eq(d.differ, 0, "%s: %u of %u clear choices differ", model, d.differ, d.clear);
}

Test(quality_ref_vs_golden, smollm2) { is_close(SMOLLM2); }
Test(quality_ref_vs_golden, gemma3) { is_close(GEMMA3); }

/* SmolLM2's base is 100000. */
Test(quality_ref_vs_golden, a_wrong_rope_base_is_seen)
{
  law_distance d = measure(SMOLLM2, "position.rope.base=120000", 2);
  cr_assert(d.mean > BAR, "mean KLD %g", d.mean);
}
