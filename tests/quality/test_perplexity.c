/* Perplexity of real models on WikiText-2, chunk by chunk, against llama.cpp's llama-perplexity (of llama-cpp-python
 * 0.3.36, AVX2) on tests/data/wikitext-2-valid-60k.txt.
 *
 * Default composition: llama-perplexity -m models/<model>.gguf -f <text> -c 512. Both take 8-bit activations, each in
 * blocks of its own, so that figures differ in the third digit.
 * activations = f32: llama-perplexity -m <F32>.gguf -f <text> -c 512 -fa off -ctk f32 -ctv f32, where <F32>.gguf is the
 * model dequantized as contrib/make-golden-logprobs does it.
 * label: full */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "measure/quality.h"
#include "support/engine_rig.h"

#define SMOLLM2 "smollm2-135m-instruct-q4_1.gguf"
#define GEMMA3 "gemma-3-270m-q4_k_m.gguf"
#define CHUNKS 4

typedef struct expectation {
  double ppl[CHUNKS]; /* after each chunk */
  double tolerance;   /* part of it */
  const char *sets;
  uint32_t chunks; /* seen so far */
} expectation;

static bool on_chunk(void *ctx, const tn_quality *q)
{
  expectation *x = ctx;
  tn_kld_stats s;
  tn_err err = tn_err_init();
  cr_assert_eq(tn_kld_stats_of(q->tokens, q->n, false, &s, &err), TN_OK, "%s", err.msg);
  double expected = x->ppl[x->chunks++];
  cr_log_info("%s: [%u] %.4f, expected %.4f", x->sets, q->n_done, s.ppl.value, expected);
  cr_expect(fabs(s.ppl.value / expected - 1) < x->tolerance, "%s: [%u] %g, expected %g", x->sets, q->n_done,
            s.ppl.value, expected);
  cr_expect_eq(s.n, 255 * (int64_t)q->n_done);
  return true;
}

static void measure(const char *file, expectation x)
{
  if (!rig_real(file)) rig_skip(file);
  tn_err err = tn_err_init();
  tn_loader *loader;
  tn_loader_cfg cfg = {.path = TN_BUILD_DIR "/tests/plugins", .lib_dir = TN_BUILD_DIR "/lib/tenon"};
  cr_assert_eq(tn_loader_new(&cfg, &loader, &err), TN_OK, "%s", err.msg);
  tn_scorer *scorer = tn_scorer_new();
  tn_setup_args with = {.sets = &x.sets,
                        .n_sets = 1,
                        .model = rig_real(file),
                        .conf_dir = TN_SOURCE_DIR "/conf",
                        .loader = loader,
                        .events = tn_scorer_events(scorer)};
  tn_setup s;
  cr_assert_eq(tn_setup_open(&with, &s, &err), TN_OK, "%s", err.msg);
  char *text;
  size_t n;
  cr_assert_eq(tn_file_read(TN_SOURCE_DIR "/tests/data/wikitext-2-valid-60k.txt", 1 << 20, &text, &n, &err), TN_OK);
  tn_chunks c;
  tn_quality q = {0};
  cr_assert_eq(tn_chunks_cut(s.tokenizer, text, n, 512, 0, CHUNKS, &c, &err), TN_OK, "%s", err.msg);
  tn_quality_args args = {.tested = {.setup = &s, .scorer = scorer}, .chunks = &c, .chunk = on_chunk, .ctx = &x};
  cr_assert_eq(tn_quality_measure(&args, &q, &err), TN_OK, "%s", err.msg);
  cr_assert_eq(x.chunks, CHUNKS);
  tn_quality_free(&q);
  tn_chunks_free(&c);
  free(text);
  tn_setup_close(&s);
  tn_scorer_free(scorer);
  tn_loader_free(loader);
}

Test(quality_perplexity, smollm2)
{
  measure(SMOLLM2, (expectation){{16.3630, 14.9104, 13.9833, 14.6360}, 5e-3, "engine.activations=int8", 0});
}

Test(quality_perplexity, smollm2_f32)
{
  measure(SMOLLM2, (expectation){{16.3567, 14.9120, 13.9968, 14.6666}, 5e-4, "engine.activations=f32", 0});
}

Test(quality_perplexity, gemma3)
{
  measure(GEMMA3, (expectation){{12.3666, 12.3782, 11.3112, 13.1477}, 5e-3, "engine.activations=int8", 0});
}

Test(quality_perplexity, gemma3_f32)
{
  measure(GEMMA3, (expectation){{12.4047, 12.3620, 11.3018, 13.1611}, 5e-4, "engine.activations=f32", 0});
}
