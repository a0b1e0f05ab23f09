/* The cpu backend against the ref backend on real models: the laws of the next token after each token of 16 prompts.
 *
 * With 8-bit activations ref follows NUMERICS.md in f32, and the logits are the same bits. With float activations ref
 * sums in double, and the laws are as close as f32 allows. Between the two lies what 8 bits cost.
 * label: full */
#include <criterion/criterion.h>
#include <string.h>

#include "golden_law.h"
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
    const bool same = memcmp(p, q, n_vocab * sizeof *p) == 0; /* full_kld would say 0, slowly */
    law_distance_add(d, same ? 0 : full_kld(p, q, n_vocab), lead, differs);
  }
}

static void tell(const char *model, const char *what, const law_distance *d)
{
  cr_log_info("%s, %s: %u rows, KLD mean %.3g, worst %.3g; %u of %u clear choices differ", model, what, d->rows,
              d->mean, d->worst, d->differ, d->clear);
}

enum { REF_F32, CPU_F32, REF_INT8, CPU_INT8, N_RIGS };
static const char *const compositions[N_RIGS][3] = {{"compose.backend=ref", "engine.activations=f32", NULL},
                                                    {"compose.backend=cpu", "engine.activations=f32", NULL},
                                                    {"compose.backend=ref", "engine.activations=int8", NULL},
                                                    {"compose.backend=cpu", "engine.activations=int8", NULL}};

/* Scores one prompt on all. */
static void score(rig *const rigs[N_RIGS], const int32_t *ids, uint32_t n)
{
  for (int k = 0; k < N_RIGS; k++) {
    rig_clear(rigs[k]);
    rig_score(rigs[k], ids, n);
    rig_run(rigs[k], 0);
    cr_assert_eq(rigs[k]->r[0].n_rows, n);
  }
}

static void check(const char *model)
{
  rig *rigs[N_RIGS];
  law_distance f32 = {0}, int8 = {0}, cost = {0};
  for (int k = 0; k < N_RIGS; k++) rigs[k] = rig_open(path_of(model), compositions[k]);
  const uint32_t n_vocab = rigs[0]->n_vocab;
  golden_set *g = prompts_of(model, n_vocab);
  const uint32_t n = g->n_tokens;
  for (uint32_t p = 0; p < g->n_prompts; p++) {
    score(rigs, g->ids + (size_t)p * n, n);
    compare(&f32, rigs[REF_F32]->r[0].rows, rigs[CPU_F32]->r[0].rows, n, n_vocab);
    compare(&int8, rigs[REF_INT8]->r[0].rows, rigs[CPU_INT8]->r[0].rows, n, n_vocab);
    compare(&cost, rigs[REF_F32]->r[0].rows, rigs[CPU_INT8]->r[0].rows, n, n_vocab);
    cr_expect(rig_same(rigs[REF_INT8], 0, rigs[CPU_INT8], 0), "%s, prompt %u: other bits with 8 bits", model, p);
  }
  tell(model, "cpu against ref with floats", &f32);
  tell(model, "cpu against ref with 8 bits", &int8);
  tell(model, "8 bits against floats", &cost);
  cr_expect(f32.mean < 1e-4, "%s: mean KLD %g with floats", model, f32.mean);
  cr_expect_eq(f32.differ, 0, "%s: %u of %u clear choices differ with floats", model, f32.differ, f32.clear);
  cr_expect_eq(int8.worst, 0, "%s: worst KLD %g with 8 bits", model, int8.worst);
  cr_expect_eq(int8.differ, 0, "%s: %u of %u clear choices differ with 8 bits", model, int8.differ, int8.clear);
  cr_expect(cost.mean > 1e-4 && cost.mean < 3e-2, "%s: 8 bits cost %g", model, cost.mean);
  golden_set_free(g);
  for (int k = 0; k < N_RIGS; k++) rig_close(rigs[k]);
}

Test(quality_cpu_vs_ref, smollm2) { check(SMOLLM2); }
Test(quality_cpu_vs_ref, gemma3) { check(GEMMA3); }
