/* Perplexity of real models on WikiText-2 with the default composition, chunk by chunk, against llama-perplexity.
 *
 * The expected figures are what llama.cpp's llama-perplexity (of llama-cpp-python 0.3.36, AVX2) prints for
 *   llama-perplexity -m models/<model>.gguf -f tests/data/wikitext-2-valid-60k.txt -c 512
 * Its matrix products take 8-bit activations as well, in blocks of its own.
 * label: full */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "measure/perplexity.h"
#include "support/engine_rig.h"

#define CHUNKS 4
#define TOLERANCE 0.005 /* of each figure */

static const double smollm2[CHUNKS] = {16.3630, 14.9104, 13.9833, 14.6360};
static const double gemma3[CHUNKS] = {12.3666, 12.3782, 11.3112, 13.1477};

typedef struct progress {
  const double *expected;
  const char *sets;
  uint32_t chunks;
} progress;

static bool on_chunk(void *ctx, const tn_ppl *p)
{
  progress *x = ctx;
  double expected = x->expected[x->chunks++];
  cr_log_info("%s: [%u] %.4f, expected %.4f", x->sets, p->n_done, p->ppl, expected);
  cr_expect(fabs(p->ppl / expected - 1) < TOLERANCE, "%s: [%u] %g, expected %g", x->sets, p->n_done, p->ppl, expected);
  cr_expect_eq(p->n_scored, 255 * (int64_t)p->n_done);
  return true;
}

static void measure(const char *file, const char *sets, const double *expected)
{
  if (!rig_real(file)) rig_skip(file);
  tn_err err = tn_err_init();
  tn_loader *loader;
  tn_loader_cfg cfg = {.path = TN_BUILD_DIR "/tests/plugins", .lib_dir = TN_BUILD_DIR "/lib/tenon"};
  cr_assert_eq(tn_loader_new(&cfg, &loader, &err), TN_OK, "%s", err.msg);
  tn_ppl_run *r = tn_ppl_new();
  tn_setup_args with = {.sets = &sets,
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
  progress x = {.expected = expected, .sets = sets};
  tn_ppl_args args = {.text = text, .n_text = n, .n_ctx = 512, .max_chunks = CHUNKS, .chunk = on_chunk, .ctx = &x};
  tn_ppl p;
  cr_assert_eq(tn_ppl_measure(r, &s, &args, &p, &err), TN_OK, "%s", err.msg);
  cr_assert_eq(x.chunks, CHUNKS);
  free(text);
  tn_setup_close(&s);
  tn_ppl_free(r);
  tn_loader_free(loader);
}

Test(quality_perplexity, smollm2) { measure("smollm2-135m-instruct-q4_1.gguf", "engine.ctx=512", smollm2); }
Test(quality_perplexity, gemma3) { measure("gemma-3-270m-q4_k_m.gguf", "engine.ctx=512", gemma3); }
