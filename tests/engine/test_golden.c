/* The whole engine on the tiny models, against logits of Hugging Face transformers in double. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "support/engine_rig.h"
#include "support/golden_logits.h"

static double kld(const float *p, const float *q, uint32_t n)
{
  double lp = tn_log_sum_exp(p, n), lq = tn_log_sum_exp(q, n), sum = 0;
  for (uint32_t i = 0; i < n; i++) sum += exp((double)p[i] - lp) * ((double)p[i] - lp - ((double)q[i] - lq));
  return sum;
}

/* Mean KL divergence of the engine's law from the golden one, over all rows of all prompts. */
static double divergence(const char *name, const char *const *sets)
{
  rig *r = rig_open(rig_tiny(name), sets);
  golden_logits *g = golden_logits_read(name);
  cr_assert(g, "%s.golden cannot be read", name);
  double sum = 0;
  uint32_t rows = 0;
  for (uint32_t p = 0; p < g->n_prompts; p++) {
    uint32_t at = rig_score(r, g->prompts[p].ids, g->prompts[p].n);
    rig_run(r, 1);
    cr_assert_eq(r->r[at].n_rows, g->prompts[p].n);
    for (uint32_t i = 0; i < g->prompts[p].n; i++, rows++)
      sum += kld(g->prompts[p].logits + (size_t)i * r->n_vocab, r->r[at].rows + (size_t)i * r->n_vocab, r->n_vocab);
  }
  golden_logits_free(g);
  rig_close(r);
  return sum / rows;
}

static const char *const exact[] = {"compose.backend=ref", "engine.activations=f32", NULL};

/* What is left is the rounding of cached keys and values to f16. */
#define GOLDEN(name_, file_)                          \
  Test(engine_golden, name_)                          \
  {                                                   \
    double d = divergence(file_, exact);              \
    cr_assert(d < 2e-5, "%s: mean KLD %g", file_, d); \
  }
GOLDEN(llama, "llama")
GOLDEN(llama_tied, "llama-tied")
GOLDEN(qwen2, "qwen2")
GOLDEN(qwen3, "qwen3")
GOLDEN(gemma3, "gemma3")
GOLDEN(yarn, "llama-yarn")

/* The file asks for yarn; with plain rotation the same test must see the difference. */
Test(engine_golden, a_wrong_position_is_seen)
{
  static const char *const plain[] = {"compose.backend=ref", "engine.activations=f32", "compose.position=rope", NULL};
  cr_assert(divergence("llama-yarn", plain) > 1e-3);
}
