/* The cpu backend against the ref backend on real models: the laws of the next token after each token of 16 prompts.
 *
 * With float activations both run on their own. With 8-bit activations cpu gets ref's inputs of matrix products
 * (same_inputs.h says why); on its own it must be no farther from ref with floats than ref with 8 bits is.
 * label: full */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "golden_law.h"
#include "same_inputs.h"
#include "support/engine_rig.h"

#define SMOLLM2 "smollm2-135m-instruct-q4_1"
#define GEMMA3 "gemma-3-270m-q4_k_m"

static const char *path_of(const char *model)
{
  char file[64];
  snprintf(file, sizeof file, "%s.gguf", model);
  if (!rig_real(file)) rig_skip(file);
  return rig_real(file);
}

static golden_set *prompts_of(const char *model, uint32_t n_vocab)
{
  golden_set *g = golden_set_read(model);
  cr_assert(g && g->n_vocab == n_vocab, "%s.golden cannot be read, or is of another model", model);
  cr_assert_eq(g->n_prompts * g->n_tokens, 16 * 64);
  return g;
}

/* n rows of the one side against those of the other. */
static void compare(law_distance *d, const float *one, const float *other, uint32_t n, uint32_t n_vocab)
{
  for (uint32_t i = 0; i < n; i++) {
    const float *p = one + (size_t)i * n_vocab, *q = other + (size_t)i * n_vocab;
    float lead, lead_q;
    bool differs = best_token(p, n_vocab, &lead) != best_token(q, n_vocab, &lead_q);
    law_distance_add(d, full_kld(p, q, n_vocab), lead, differs);
  }
}

static void tell(const char *model, const char *what, const law_distance *d)
{
  cr_log_info("%s, %s: %u rows, KLD mean %.3g, worst %.3g; %u of %u clear choices differ", model, what, d->rows,
              d->mean, d->worst, d->differ, d->clear);
}

static void is_close(const char *model, const char *what, const law_distance *d)
{
  tell(model, what, d);
  cr_expect(d->mean < 1e-4, "%s, %s: mean KLD %g", model, what, d->mean);
  cr_expect_eq(d->differ, 0, "%s, %s: %u of %u clear choices differ", model, what, d->differ, d->clear);
}

enum { REF_F32, REF_INT8, CPU_F32, CPU_INT8, N_RIGS };
static const char *const compositions[N_RIGS][3] = {{"compose.backend=ref", "engine.activations=f32", NULL},
                                                    {"compose.backend=ref", "engine.activations=int8", NULL},
                                                    {"compose.backend=cpu", "engine.activations=f32", NULL},
                                                    {"compose.backend=cpu", "engine.activations=int8", NULL}};

/* Distances of the other three from ref with floats. */
static void on_their_own(const char *model)
{
  rig *rigs[N_RIGS];
  law_distance d[N_RIGS] = {0};
  for (int k = 0; k < N_RIGS; k++) rigs[k] = rig_open(path_of(model), compositions[k]);
  const uint32_t n_vocab = rigs[0]->n_vocab;
  golden_set *g = prompts_of(model, n_vocab);
  for (uint32_t p = 0; p < g->n_prompts; p++) {
    for (int k = 0; k < N_RIGS; k++) {
      rig_score(rigs[k], g->ids + (size_t)p * g->n_tokens, g->n_tokens);
      rig_run(rigs[k], 0);
      cr_assert_eq(rigs[k]->r[0].n_rows, g->n_tokens);
      compare(&d[k], rigs[REF_F32]->r[0].rows, rigs[k]->r[0].rows, g->n_tokens, n_vocab);
      if (k != REF_F32) rig_clear(rigs[k]);
    }
    rig_clear(rigs[REF_F32]);
  }
  is_close(model, "cpu with floats", &d[CPU_F32]);
  tell(model, "ref with 8 bits against floats", &d[REF_INT8]);
  tell(model, "cpu with 8 bits against floats", &d[CPU_INT8]);
  cr_expect(d[CPU_INT8].mean < 1.3 * d[REF_INT8].mean, "%s: 8 bits cost %g on cpu, %g on ref", model, d[CPU_INT8].mean,
            d[REF_INT8].mean);
  golden_set_free(g);
  for (int k = 0; k < N_RIGS; k++) rig_close(rigs[k]);
}

Test(quality_cpu_vs_ref, smollm2) { on_their_own(SMOLLM2); }
Test(quality_cpu_vs_ref, gemma3) { on_their_own(GEMMA3); }

static void with_same_inputs(const char *model)
{
  const char *path = path_of(model), *name;
  same_inputs *s = same_inputs_open(path, 64);
  const uint32_t n_vocab = same_inputs_vocab(s);
  golden_set *g = prompts_of(model, n_vocab);
  size_t n = (size_t)g->n_tokens * n_vocab;
  float *ref = malloc(n * sizeof *ref), *cpu = malloc(n * sizeof *cpu);
  cr_assert(ref && cpu);
  law_distance d = {0};
  for (uint32_t p = 0; p < g->n_prompts; p++) {
    same_inputs_run(s, g->ids + (size_t)p * g->n_tokens, g->n_tokens, ref, cpu);
    compare(&d, ref, cpu, g->n_tokens, n_vocab);
  }
  double worst = same_inputs_worst(s, &name);
  is_close(model, "cpu with 8 bits and ref's inputs", &d);
  cr_log_info("%s: the farthest input, %s, is off by %.3g of its length", model, name, worst);
  cr_expect(worst < 3e-3, "%s: %s is off by %g of its length", model, name, worst);
  free(ref);
  free(cpu);
  golden_set_free(g);
  same_inputs_close(s);
}

Test(quality_cpu_vs_ref, smollm2_int8) { with_same_inputs(SMOLLM2); }
Test(quality_cpu_vs_ref, gemma3_int8) { with_same_inputs(GEMMA3); }
