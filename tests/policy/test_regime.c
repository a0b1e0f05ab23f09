/* Positions that depend on a sequence's length, on the engine: the regime is fixed at admission, by what the sequence may
 * reach, and every key and query of the sequence is turned by it, whatever else is in the batch. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/engine_rig.h"
#include "support/naive.h"
#include "support/tiny_model.h"

enum { SHORT = 50, LONG = 90, ORIGINAL = 64, MAX_PAIRS = 64 };

typedef struct turning { /* what the oracle turns by */
  double f[MAX_PAIRS], mscale;
  uint32_t d_head;
} turning;

static double frequency(void *ctx, uint32_t cls, uint32_t pair)
{
  (void)cls;
  return ((const turning *)ctx)->f[pair];
}

/* Queries and keys are both scaled; scores are the same when keys take all of it. */
static void scale_key(void *ctx, uint32_t layer, uint32_t head, int64_t i, int64_t j, float *k, float *v)
{
  (void)layer, (void)head, (void)i, (void)j, (void)v;
  const turning *t = ctx;
  for (uint32_t c = 0; c < t->d_head; c++) k[c] = (float)((double)k[c] * t->mscale * t->mscale);
}

static naive *oracle(const tn_model *m, turning *t)
{
  naive_hooks hooks = {.ctx = t, .frequency = frequency, .stored = scale_key};
  t->d_head = m->shape.d_head;
  return naive_open(m, &hooks, LONG);
}

/* Largest error of the scored rows of n tokens. */
static double error_of(const rig *r, uint32_t at, const int32_t *text, int n, turning *t)
{
  naive *x = oracle(r->s.model, t);
  cr_assert(r->r[at].done && r->r[at].n_rows == (uint32_t)n, "%s", r->r[at].msg);
  double worst = naive_worst(x, text, n, r->r[at].rows);
  naive_close(x);
  return worst;
}

/* Largest error of the logprobs of what followed a prompt of n tokens. */
static double error_of_text(const rig *r, uint32_t at, const int32_t *prompt, int n, turning *t)
{
  naive *x = oracle(r->s.model, t);
  double worst = 0;
  cr_assert(r->r[at].n > 0, "%s", r->r[at].msg);
  for (int i = 0; i < n; i++) naive_push(x, prompt[i]);
  for (uint32_t i = 0; i < r->r[at].n; i++) {
    double sum = 0;
    for (uint32_t v = 0; v < r->n_vocab; v++) sum += exp(x->logits[v]);
    worst = naive_worse(worst, fabs(x->logits[r->r[at].tokens[i]] - log(sum) - r->r[at].logprobs[i]));
    if (i + 1 < r->r[at].n) naive_push(x, r->r[at].tokens[i]);
  }
  naive_close(x);
  return worst;
}

/* A text that fits, one that does not, and one that begins short and may become long, together: each as its own law says
 * and clearly not as the other's. */
static void check(const char *model, const char *const *own, turning *fits, turning *beyond)
{
  const char *sets[16] = {"compose.backend=ref", "engine.threads=1",          "engine.activations=f32",
                          "compose.kv=probe",    "quantizer.probe@kv.kv=f32", "engine.ctx=256"};
  for (int n = 6; *own; own++) sets[n++] = *own;
  int32_t text[LONG];
  rig *r = rig_open(model, sets);
  rig_tokens(7, r->n_vocab, text, LONG);
  uint32_t a = rig_score(r, text, SHORT), b = rig_score(r, text, LONG);
  uint32_t c = rig_generate(r, text, SHORT, LONG - SHORT);
  rig_run(r, 1);
  double e[3] = {error_of(r, a, text, SHORT, fits), error_of(r, b, text, LONG, beyond),
                 error_of_text(r, c, text, SHORT, beyond)};
  for (int i = 0; i < 3; i++) cr_expect(e[i] < 2e-4, "sequence %d is off by %g", i, e[i]);
  double not [3] = {error_of(r, a, text, SHORT, beyond), error_of(r, b, text, LONG, fits),
                    error_of_text(r, c, text, SHORT, fits)};
  for (int i = 0; i < 3; i++) cr_expect(not [i] > 2e-3, "sequence %d would do in the other regime: %g", i, not [i]);
  rig_close(r);
}

static tn_model *model_of(const char *path)
{
  tn_err err = tn_err_init();
  tn_model *m;
  cr_assert(tn_model_open(path, NULL, NULL, &m, &err) == TN_OK, "%s", err.msg);
  cr_assert(m->shape.rope_dims / 2 <= MAX_PAIRS);
  return m;
}

Test(policy_regime, ntk)
{
  static const char *const own[] = {"compose.position=ntk", "position.ntk.mode=dynamic",    "position.ntk.factor=3",
                                    "position.ntk.step=32", "position.ntk.original_ctx=64", NULL};
  tn_model *m = model_of(rig_tiny("llama"));
  turning fits = {.mscale = 1}, beyond = {.mscale = 1};
  double d = m->shape.rope_dims, base = m->shape.class_rope_base[0], length = 96; /* LONG rounded up */
  double wider = base * pow(3 * length / ORIGINAL - 2, d / (d - 2));
  for (int i = 0; i < d / 2; i++) fits.f[i] = pow(base, -2 * i / d), beyond.f[i] = pow(wider, -2 * i / d);
  check(rig_tiny("llama"), own, &fits, &beyond);
  tn_model_close(m);
}

static float lists[2][MAX_PAIRS];

static void fill(const tn_model *m, turning *fits, turning *beyond)
{
  uint32_t n = m->shape.rope_dims / 2;
  for (uint32_t i = 0; i < n; i++) {
    double plain = pow(m->shape.class_rope_base[0], -(double)i / n);
    lists[0][i] = 1 + 0.03f * (float)i;
    lists[1][i] = 2 + 0.7f * (float)i;
    fits->f[i] = plain / (double)lists[0][i];
    beyond->f[i] = plain / (double)lists[1][i];
  }
}

Test(policy_regime, longrope_by_a_file)
{
  char path[] = "/tmp/tenon-regime-XXXXXX", set[80];
  const char *const own[] = {"compose.position=longrope", "position.longrope.original_ctx=64",
                             "position.longrope.factor=4", set, NULL};
  tn_model *m = model_of(rig_tiny("llama"));
  turning fits, beyond;
  fill(m, &fits, &beyond);
  fits.mscale = beyond.mscale = sqrt(1 + log(4) / log(ORIGINAL));
  int fd = mkstemp(path);
  FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
  cr_assert(f != NULL);
  for (int k = 0; k < 2; k++) {
    fprintf(f, "%s =", k ? "\nlong" : "short");
    for (uint32_t i = 0; i < m->shape.rope_dims / 2; i++) fprintf(f, " %.9g", (double)lists[k][i]);
  }
  cr_assert(fclose(f) == 0);
  snprintf(set, sizeof set, "position.longrope.factors=%s", path);
  check(rig_tiny("llama"), own, &fits, &beyond);
  unlink(path);
  tn_model_close(m);
}

/* Both lists, the original context and the attention factor from the model file, and no word of the plugin anywhere. */
Test(policy_regime, longrope_by_the_model)
{
  static const char *const own[] = {NULL};
  static const tiny_spec spec = {.vocab = 300, .dh = 32};
  char path[TINY_PATH];
  turning fits, beyond;
  void *bytes;
  tn_model *m = tiny_open(&spec, &bytes);
  fill(m, &fits, &beyond);
  fits.mscale = beyond.mscale = 1.125;
  int64_t n = m->shape.rope_dims / 2;
  tn_model_close(m);
  free(bytes);
  gguf_writer *w = tiny_writer(&spec);
  tiny_put_tokenizer(w, spec.vocab);
  gguf_put_u32(w, "llama.rope.scaling.original_context_length", ORIGINAL);
  gguf_put_f32(w, "llama.rope.scaling.attn_factor", 1.125f);
  gguf_put_tensor(w, "rope_factors_short.weight", TN_DT_F32, 1, &n, lists[0], (size_t)n * sizeof(float));
  gguf_put_tensor(w, "rope_factors_long.weight", TN_DT_F32, 1, &n, lists[1], (size_t)n * sizeof(float));
  tiny_write(w, path);
  check(path, own, &fits, &beyond);
  unlink(path);
}

Test(policy_regime, longrope_without_factors)
{
  static const char *const sets[] = {"compose.backend=ref", "compose.position=longrope", NULL};
  tn_err err = tn_err_init();
  rig *r;
  cr_assert(rig_try(rig_tiny("llama"), sets, &r, &err) != TN_OK);
  cr_assert(strstr(err.msg, "position/longrope: there are no factors"), "%s", err.msg);
}
