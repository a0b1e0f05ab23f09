/* forward, against the logits that Hugging Face transformers computes with the same weights (tests/data/tiny): file,
 * program, weights and reference backend together. YaRN's angles are the engine's, so llama-yarn is only opened. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/golden_logits.h"
#include "support/mini_forward.h"

static tn_model *open_tiny(const char *name)
{
  char path[512];
  tn_err err = tn_err_init();
  tn_model *m = NULL;
  golden_path(name, ".gguf", path, sizeof path);
  cr_assert(tn_model_open(path, NULL, NULL, &m, &err) == TN_OK, "%s", err.msg);
  return m;
}

static uint32_t argmax(const float *x, uint32_t n)
{
  uint32_t best = 0;
  for (uint32_t i = 1; i < n; i++)
    if (x[i] > x[best]) best = i;
  return best;
}

/* One prompt, in chunks of 5; the greatest difference over the greatest logit stays under limit. */
static void check_prompt(mini_forward *f, const char *name, const golden_prompt *p, uint32_t n_vocab, float limit)
{
  float *got = calloc((size_t)p->n * n_vocab, sizeof *got), worst = 0, scale = 0;
  cr_assert(got != NULL);
  mini_restart(f);
  for (uint32_t at = 0; at < p->n; at += 5) {
    uint32_t n = at + 5 < p->n ? 5 : p->n - at;
    cr_assert(mini_run(f, p->ids + at, n, got + (size_t)at * n_vocab) == TN_OK, "%s", name);
  }
  for (size_t i = 0; i < (size_t)p->n * n_vocab; i++) {
    float d = fabsf(got[i] - p->logits[i]);
    worst = d <= worst ? worst : d; /* a NaN comes through */
    scale = fmaxf(scale, fabsf(p->logits[i]));
  }
  cr_expect(worst <= limit * scale, "%s: logits differ by %g, the greatest is %g", name, (double)worst, (double)scale);
  free(got);
}

static void check_model(const char *name, uint32_t kv_dtype, float limit)
{
  tn_err err = tn_err_init();
  golden_logits *g = golden_logits_read(name);
  tn_model *m = open_tiny(name);
  backend *b = backend_open("ref", 1, NULL, &err);
  cr_assert(g != NULL && b != NULL, "%s: %s", name, err.msg);
  mini_cfg cfg = {.backend = b, .model = m, .kv_dtype = kv_dtype, .max_tokens = 64};
  mini_forward *f = mini_open(&cfg, &err);
  cr_assert(f != NULL, "%s: %s", name, err.msg);
  cr_assert(eq(u32, g->n_vocab, m->shape.n_vocab));
  cr_assert(g->n_prompts >= 2);
  for (uint32_t i = 0; i < g->n_prompts; i++) check_prompt(f, name, &g->prompts[i], g->n_vocab, limit);
  mini_close(f);
  backend_close(b);
  tn_model_close(m);
  golden_logits_free(g);
}

static const char *const names[] = {"llama", "llama-tied", "qwen2", "qwen3", "gemma3"};

Test(forward_golden, logits)
{
  for (size_t i = 0; i < TN_ARRAY_LEN(names); i++) check_model(names[i], TN_DT_F32, 1e-5f);
}

Test(forward_golden, logits_with_f16_cache)
{
  for (size_t i = 0; i < TN_ARRAY_LEN(names); i++) check_model(names[i], TN_DT_F16, 5e-3f);
}

/* Token by token, each chosen from the last row, as a greedy generation is. */
Test(forward_golden, greedy_continuation)
{
  for (size_t i = 0; i < TN_ARRAY_LEN(names); i++) {
    tn_err err = tn_err_init();
    golden_logits *g = golden_logits_read(names[i]);
    tn_model *m = open_tiny(names[i]);
    backend *b = backend_open("ref", 1, NULL, &err);
    mini_cfg cfg = {.backend = b, .model = m, .kv_dtype = TN_DT_F16, .max_tokens = 64};
    mini_forward *f = mini_open(&cfg, &err);
    float *logits = calloc(8 * (size_t)m->shape.n_vocab, sizeof *logits);
    cr_assert(g != NULL && f != NULL && logits != NULL, "%s: %s", names[i], err.msg);
    const golden_prompt *p = &g->prompts[1];
    cr_assert(mini_run(f, p->ids, 8, logits) == TN_OK);
    int32_t next = (int32_t)argmax(logits + 7 * (size_t)g->n_vocab, g->n_vocab);
    for (uint32_t at = 8; at < p->n; at++) {
      cr_expect(next == p->ids[at], "%s: token %u is %d, want %d", names[i], at, next, p->ids[at]);
      cr_assert(mini_run(f, &p->ids[at], 1, logits) == TN_OK);
      next = (int32_t)argmax(logits, g->n_vocab);
    }
    free(logits);
    mini_close(f);
    backend_close(b);
    tn_model_close(m);
    golden_logits_free(g);
  }
}

Test(forward_golden, yarn_metadata)
{
  tn_model *m = open_tiny("llama-yarn");
  const tn_rope_query *q = &m->rope[0];
  cr_expect(eq(str, (char *)q->scaling, "yarn"));
  cr_expect(eq(dbl, q->factor, 4.0));
  cr_expect(eq(i64, q->n_ctx_orig, 512));
  cr_expect(eq(i64, q->n_ctx_train, 2048));
  cr_expect(eq(u32, q->dims, 32));
  tn_model_close(m);
}

Test(forward_golden, shapes_of_the_files)
{
  tn_model *m = open_tiny("gemma3");
  static const uint32_t classes[6] = {0, 0, 0, 0, 0, 1};
  cr_expect(eq(u32, m->shape.n_classes, 2));
  for (int i = 0; i < 6; i++) cr_expect(eq(u32, m->shape.layer_class[i], classes[i]));
  cr_expect(eq(i64, m->shape.class_window[0], 8));
  cr_expect(eq(dbl, m->shape.class_rope_base[1], 1e6));
  cr_expect(m->tied_head);
  tn_model_close(m);
  m = open_tiny("qwen2");
  cr_expect(tn_model_bias(m, TN_PART_ATTN_Q, 0) != NULL);
  tn_model_close(m);
}
