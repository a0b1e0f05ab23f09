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

#include "measure/perplexity.h"
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

static bool on_chunk(void *ctx, const tn_ppl *p)
{
  expectation *x = ctx;
  double expected = x->ppl[x->chunks++];
  cr_log_info("%s: [%u] %.4f, expected %.4f", x->sets, p->n_done, p->ppl, expected);
  cr_expect(fabs(p->ppl / expected - 1) < x->tolerance, "%s: [%u] %g, expected %g", x->sets, p->n_done, p->ppl,
            expected);
  cr_expect_eq(p->n_scored, 255 * (int64_t)p->n_done);
  return true;
}

static void measure(const char *file, expectation x)
{
  if (!rig_real(file)) rig_skip(file);
  tn_err err = tn_err_init();
  tn_loader *loader;
  tn_loader_cfg cfg = {.path = TN_BUILD_DIR "/tests/plugins", .lib_dir = TN_BUILD_DIR "/lib/tenon"};
  cr_assert_eq(tn_loader_new(&cfg, &loader, &err), TN_OK, "%s", err.msg);
  tn_ppl_run *r = tn_ppl_new();
  tn_setup_args with = {.sets = &x.sets,
                        .n_sets = 1,
                        .model = rig_real(file),
                        .conf_dir = TN_SOURCE_DIR "/conf",
                        .loader = loader,
                        .events = tn_ppl_events(r)};
  tn_setup s;
  cr_assert_eq(tn_setup_open(&with, &s, &err), TN_OK, "%s", err.msg);
  char *text;
  size_t n;
  cr_assert_eq(tn_file_read(TN_SOURCE_DIR "/tests/data/wikitext-2-valid-60k.txt", 1 << 20, &text, &n, &err), TN_OK);
  tn_ppl_args args = {.text = text, .n_text = n, .n_ctx = 512, .max_chunks = CHUNKS, .chunk = on_chunk, .ctx = &x};
  tn_ppl p;
  cr_assert_eq(tn_ppl_measure(r, &s, &args, &p, &err), TN_OK, "%s", err.msg);
  cr_assert_eq(x.chunks, CHUNKS);
  free(text);
  tn_setup_close(&s);
  tn_ppl_free(r);
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
