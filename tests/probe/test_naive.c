/* The oracle itself, against logits of Hugging Face transformers in double. */
#include <criterion/criterion.h>

#include "support/engine_rig.h"
#include "support/golden_logits.h"
#include "support/naive.h"

static double worst_error(const char *name)
{
  tn_err err = tn_err_init();
  tn_model *m;
  cr_assert(tn_model_open(rig_tiny(name), NULL, NULL, &m, &err) == TN_OK, "%s", err.msg);
  golden_logits *g = golden_logits_read(name);
  cr_assert(g);
  double worst = 0;
  for (uint32_t p = 0; p < g->n_prompts; p++) {
    naive *x = naive_open(m, NULL, g->prompts[p].n);
    for (uint32_t i = 0; i < g->prompts[p].n; i++) {
      naive_push(x, g->prompts[p].ids[i]);
      double e = naive_error(x, g->prompts[p].logits + (size_t)i * g->n_vocab);
      worst = naive_worse(worst, e);
    }
    naive_close(x);
  }
  golden_logits_free(g);
  tn_model_close(m);
  return worst;
}

#define GOLDEN(name_, file_, bound_)                                  \
  Test(probe_naive, name_)                                            \
  {                                                                   \
    double e = worst_error(file_);                                    \
    cr_assert(e < (bound_), "%s: the oracle is off by %g", file_, e); \
  }
GOLDEN(llama, "llama", 3e-5)
GOLDEN(tied, "llama-tied", 3e-5)
GOLDEN(qwen2, "qwen2", 3e-5)
GOLDEN(qwen3, "qwen3", 3e-5)
GOLDEN(gemma3, "gemma3", 3e-5)
