/* Whole models of every architecture on the cpu backend: near ref with f32 activations, and the same bits on every
 * instruction set, number of threads and chunk, fused or not, on one rank or several. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/isa.h"
#include "support/mini_forward.h"
#include "support/tiny_model.h"

enum { N = 70, V = 96 };

static const tiny_spec specs[] = {
    {.arch = "llama", .layers = 3, .heads = 6, .kv_heads = 2, .dh = 32, .d = 96, .ff = 192, .dtype = TN_DT_Q4_0},
    {.arch = "qwen2", .layers = 2, .heads = 4, .kv_heads = 2, .dh = 32, .ff = 192, .dtype = TN_DT_Q8_0, .biases = true},
    {.arch = "qwen3", .layers = 2, .heads = 4, .kv_heads = 4, .dh = 16},
    {.arch = "gemma3", .layers = 7, .heads = 4, .kv_heads = 1, .dh = 32, .ff = 160, .window = 24, .dtype = TN_DT_Q8_0}};

static const int32_t *prompt(void)
{
  static int32_t tokens[N];
  for (int i = 0; i < N; i++) tokens[i] = (i * 37 + 11) % V;
  return tokens;
}

/* Logits [N][V] of the prompt in chunks, on a backend of its own. */
static void logits_of(const tn_model *m, const char *name, int isa, uint32_t threads, uint32_t prepare, uint32_t chunk,
                      const tn_par_plan *pars, float *out)
{
  tn_err err = tn_err_init();
  const tn_value values[] = {{.type = TN_T_ENUM, .v = {.i = 1 + isa}}, {.type = TN_T_BOOL, .v = {.i = 1}}};
  backend *b = backend_open(name, threads, values, &err);
  cr_assert(b != NULL, "%s", err.msg);
  const mini_cfg cfg = {.backend = b,
                        .model = m,
                        .kv_dtype = TN_DT_F16,
                        .max_tokens = N,
                        .prepare = prepare,
                        .pars = pars,
                        .world = pars ? 2 : 0};
  mini_forward *f = mini_open(&cfg, &err);
  cr_assert(f != NULL, "%s", err.msg);
  for (uint32_t at = 0; at < N; at += chunk) {
    const uint32_t n = at + chunk < N ? chunk : N - at;
    cr_assert(eq(i32, mini_run(f, prompt() + at, n, out + at * V), TN_OK));
  }
  mini_close(f);
  cr_assert(eq(u64, backend_close(b), 0));
}

static float first[N * V], other[N * V];

static void near_ref(const tn_model *m, const char *arch)
{
  double most = 0, scale = 0;
  logits_of(m, "ref", 0, 1, 0, N, NULL, other);
  logits_of(m, "cpu", tnk_isa_best(), 2, 0, 16, NULL, first);
  for (int i = 0; i < N * V; i++) {
    most = fmax(most, fabs((double)first[i] - (double)other[i]));
    scale = fmax(scale, fabs((double)other[i]));
  }
  /* a key or value may round to the neighbouring half */
  cr_assert(le(dbl, most, 2e-3 * scale), "%s", arch);
}

static void same_bits(const tn_model *m, const char *arch)
{
  static const uint32_t chunks[] = {1, 7, 64, N, 33};
  logits_of(m, "cpu", TNK_ISA_SCALAR, 1, TN_PREP_ACT_INT8 | TN_PREP_UNFUSED, 9, NULL, first);
  for (int i = 0; i < N * V; i++) cr_assert(isfinite(first[i]), "%s", arch);
  for (int isa = 0; isa < TNK_ISA_COUNT; isa++) {
    if (!tnk_isa_runs(isa)) continue;
    for (uint32_t n = 0; n < 10; n++) {
      const uint32_t how = TN_PREP_ACT_INT8 | (n >= 5 ? TN_PREP_UNFUSED : 0);
      logits_of(m, "cpu", isa, 1 + n % 3, how, chunks[n % 5], NULL, other);
      cr_assert(eq(i32, memcmp(first, other, sizeof first), 0), "%s, %s, case %u", arch, tnk_isa_name(isa), n);
    }
  }
}

Test(cpu_model, near_ref_and_the_same_bits_everywhere)
{
  for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
    void *bytes;
    tn_model *m = tiny_open(&specs[i], &bytes);
    near_ref(m, specs[i].arch);
    same_bits(m, specs[i].arch);
    tn_model_close(m);
    free(bytes);
  }
}

/* Two ranks add the same parts in the same order as one. */
Test(cpu_model, ranks_change_no_bit)
{
  const tiny_spec spec = {.arch = "llama", .dh = 32, .heads = 8, .kv_heads = 4, .ff = 256, .dtype = TN_DT_Q8_0};
  void *bytes;
  tn_model *m = tiny_open(&spec, &bytes);
  tn_par_plan pars[2];
  for (uint32_t r = 0; r < 2; r++) {
    tn_par_plan *p = &pars[r];
    *p = tn_par_whole(m);
    p->world = 2, p->rank = r;
    p->n_heads = 4, p->head0 = 4 * r;
    p->n_kv_heads = 2, p->kv_head0 = 2 * r;
    p->n_ff = 128, p->ff0 = 128 * r;
    p->n_vocab = V / 2, p->vocab0 = V / 2 * r;
  }
  logits_of(m, "cpu", tnk_isa_best(), 2, TN_PREP_ACT_INT8, 20, NULL, first);
  logits_of(m, "cpu", tnk_isa_best(), 2, TN_PREP_ACT_INT8, 20, pars, other);
  cr_assert(eq(i32, memcmp(first, other, sizeof first), 0));
  tn_model_close(m);
  free(bytes);
}
