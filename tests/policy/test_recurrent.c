/* Recurrent attention: linear and performer. The features' laws, the state's size, the engine against the parallel form in
 * double, layers of both kinds, and what is refused. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_int.h"
#include "quant/dtype.h"
#include "support/engine_rig.h"
#include "support/naive.h"
#include "support/plugin_rig.h"

/* ---------------------------------------------------------------- what they say */

static const tn_state_spec *spec_of(const plugin_rig *p, uint32_t d_head)
{
  const tn_attention_v1 *v = p->vtable;
  tn_model_shape shape = {.struct_size = sizeof shape, .n_layers = 2, .n_kv_heads = 2, .d_head = d_head};
  tn_plan plan = {.struct_size = sizeof plan, .model = &shape};
  tn_attn_spec spec = {.struct_size = sizeof spec};
  tn_err err = tn_err_init();
  cr_assert(v->describe(p->inst, &plan, 1, 1, &spec, &err) == TN_OK, "%s", err.msg);
  cr_assert(eq(u32, spec.kind, TN_AT_STATE));
  cr_assert(spec.state && spec.state->fold == 64 && spec.state->eps == 1e-6);
  return spec.state;
}

Test(policy_recurrent, linear_is_elu_plus_one)
{
  plugin_rig *p = plugin_rig_open(TN_SLOT_ATTENTION, "linear", NULL);
  const tn_state_spec *s = spec_of(p, 64);
  cr_expect(s->phi == TN_PHI_ELU1 && s->n_features == 0 && s->features == NULL);
  cr_expect(s == spec_of(p, 64), "one state for all layers and heads, so one page group");
  plugin_rig_close(p);
}

/* Rows of a performer with m features of width d; owned by the rig. */
static const float *rows(plugin_rig **p, const char *seed, const char *features, bool orthogonal, uint32_t d)
{
  const char *const sets[] = {seed, features, orthogonal ? "orthogonal=yes" : "orthogonal=no", NULL};
  *p = plugin_rig_open(TN_SLOT_ATTENTION, "performer", sets);
  const tn_state_spec *s = spec_of(*p, d);
  cr_assert(s->phi == TN_PHI_FAVOR && s->features && s->n_features == (uint32_t)atoi(strchr(features, '=') + 1));
  return s->features;
}

static double dot(const float *a, const float *b, uint32_t d)
{
  double sum = 0;
  for (uint32_t i = 0; i < d; i++) sum += (double)a[i] * (double)b[i];
  return sum;
}

/* Blocks of d rows at right angles, and rows as long as Gaussian ones: squares of mean d and variance 2 d. */
Test(policy_recurrent, performer_rows)
{
  enum { D = 64, M = 400 };
  plugin_rig *p, *q;
  const float *w = rows(&p, "seed=1", "features=400", true, D), *other = rows(&q, "seed=2", "features=400", true, D);
  double mean = 0, var = 0;
  for (uint32_t i = 0; i < M; i++) {
    double len2 = dot(w + i * D, w + i * D, D);
    mean += len2 / M;
    var += (len2 - D) * (len2 - D) / M;
    for (uint32_t k = i / D * D; k < i; k++) {
      double cosine = dot(w + i * D, w + k * D, D) / sqrt(len2 * dot(w + k * D, w + k * D, D));
      cr_assert(fabs(cosine) < 1e-6, "rows %u and %u: cosine %g", i, k, cosine);
    }
  }
  cr_expect(fabs(mean - D) < 2.2, "mean square of a row is %g", mean); /* 4 deviations: sqrt(128 / 400) = 0.57 */
  cr_expect(var > 0.6 * 2 * D && var < 1.5 * 2 * D, "variance %g, want about %d", var, 2 * D);
  cr_expect(memcmp(w, other, sizeof *w * M * D) != 0, "another seed, other features");
  plugin_rig_close(p);
  plugin_rig_close(q);
}

/* ---------------------------------------------------------------- the estimate of exp(x . y) */

typedef struct moments {
  double mean, variance; /* of the estimate with m features */
} moments;

/* phi(x) . phi(y) over N draws of m features each; the plugin's rows, the map written out. */
static moments estimate(const double *x, const double *y, uint32_t d, uint32_t m, bool orthogonal, int n)
{
  char features[32], seed[32];
  double sum = 0, sum2 = 0, norms = 0;
  for (uint32_t i = 0; i < d; i++) norms += (x[i] * x[i] + y[i] * y[i]) / 2;
  snprintf(features, sizeof features, "features=%u", m * 100);
  for (int s = 0; s < n / 100; s++) { /* 100 draws an instance: blocks are independent */
    plugin_rig *p;
    snprintf(seed, sizeof seed, "seed=%d", s + 1);
    const float *w = rows(&p, seed, features, orthogonal, d);
    for (uint32_t k = 0; k < 100; k++) {
      double e = 0;
      for (uint32_t f = 0; f < m; f++) {
        double at = 0;
        for (uint32_t i = 0; i < d; i++) at += (double)w[(k * m + f) * d + i] * (x[i] + y[i]);
        e += exp(at - norms) / m;
      }
      sum += e, sum2 += e * e;
    }
    plugin_rig_close(p);
  }
  return (moments){sum / n, (sum2 - sum * sum / n) / (n - 1)};
}

/* Choromanski et al.: unbiased; independent rows: variance e^{|x+y|^2} e^{2 x.y} (1 - e^{-|x+y|^2}) / m; orthogonal rows
 * less. Norms of 0.8: heavy tails make larger ones unreliable. */
Test(policy_recurrent, performer_estimates_the_kernel)
{
  enum { D = 8, M = 8, N = 20000 };
  double x[D], y[D], xy = 0, sum2 = 0;
  for (int i = 0; i < D; i++) {
    x[i] = 0.8 * sqrt(1.0 / D);
    y[i] = i < 3 ? -x[i] : x[i];
    xy += x[i] * y[i];
    sum2 += (x[i] + y[i]) * (x[i] + y[i]);
  }
  double iid = exp(sum2) * exp(2 * xy) * (1 - exp(-sum2)) / M;
  moments independent = estimate(x, y, D, M, false, N), orthogonal = estimate(x, y, D, M, true, N);
  double z[2] = {(independent.mean - exp(xy)) / sqrt(independent.variance / N),
                 (orthogonal.mean - exp(xy)) / sqrt(orthogonal.variance / N)};
  cr_expect(fabs(z[0]) < 4, "independent rows: mean %g, want %g, z %g", independent.mean, exp(xy), z[0]);
  cr_expect(fabs(z[1]) < 4, "orthogonal rows: mean %g, want %g, z %g", orthogonal.mean, exp(xy), z[1]);
  cr_expect(fabs(independent.variance / iid - 1) < 0.15, "variance %g, want %g", independent.variance, iid);
  cr_expect(orthogonal.variance < 0.9 * independent.variance, "orthogonal rows: variance %g against %g",
            orthogonal.variance, independent.variance);
}

/* Mean error of attention over 24 keys by m features, against the softmax it estimates. */
static double attention_error(uint32_t m)
{
  enum { D = 16, KEYS = 24, SEEDS = 40 };
  double worst = 0, k[KEYS][D], q[D], exact = 0, sum = 0;
  for (int j = 0; j < KEYS; j++)
    for (int i = 0; i < D; i++) k[j][i] = sin(7 * j + 3 * i) / 4, q[i] = cos(2 * i) / 4;
  double score[KEYS];
  for (int j = 0; j < KEYS; j++) {
    score[j] = 0;
    for (int i = 0; i < D; i++) score[j] += q[i] * k[j][i];
    sum += exp(score[j]);
  }
  for (int j = 0; j < KEYS; j++) exact += exp(score[j]) / sum * (j % 5); /* values 0 .. 4 */
  for (int s = 0; s < SEEDS; s++) {
    char seed[32], features[32];
    plugin_rig *p;
    snprintf(seed, sizeof seed, "seed=%d", s);
    snprintf(features, sizeof features, "features=%u", m);
    const float *w = rows(&p, seed, features, true, D);
    double num = 0, den = 0;
    for (int j = 0; j < KEYS; j++)
      for (uint32_t f = 0; f < m; f++) {
        double at = 0;
        for (int i = 0; i < D; i++) at += (double)w[f * D + (uint32_t)i] * (q[i] + k[j][i]) - (k[j][i] * k[j][i]) / 2;
        num += exp(at) * (j % 5), den += exp(at);
      }
    worst += fabs(num / den - exact) / SEEDS;
    plugin_rig_close(p);
  }
  return worst;
}

/* As 1 / sqrt(m): sixteen times the features, a quarter of the error. */
Test(policy_recurrent, performer_error_falls_with_features)
{
  double few = attention_error(32), many = attention_error(512);
  cr_expect(few / many > 2.8 && few / many < 5.6, "errors %g and %g, ratio %g", few, many, few / many);
}

/* ---------------------------------------------------------------- on the engine */

enum { TOKENS = 150, FEATURES = 40 };

typedef struct oracle {
  const tn_state_spec *spec;
  tn_state_spec own;
  uint32_t d_head, layer0; /* layers from layer0 on are recurrent */
  bool f16;                /* rows of the cache are rounded */
} oracle;

static const tn_state_spec *state_of(void *ctx, uint32_t layer, uint32_t head)
{
  (void)head;
  const oracle *o = ctx;
  return layer >= o->layer0 ? &o->own : NULL;
}

static void stored(void *ctx, uint32_t layer, uint32_t head, int64_t i, int64_t j, float *k, float *v)
{
  (void)layer, (void)head, (void)i, (void)j;
  const oracle *o = ctx;
  for (uint32_t c = 0; o->f16 && c < o->d_head; c++) {
    k[c] = tnk_f16_to_f32(tnk_f32_to_f16(k[c]));
    v[c] = tnk_f16_to_f32(tnk_f32_to_f16(v[c]));
  }
}

static double error_of(const rig *r, const int32_t *text, oracle *o)
{
  naive_hooks hooks = {.ctx = o, .state = state_of, .stored = stored};
  naive *x = naive_open(r->s.model, &hooks, TOKENS);
  cr_assert(r->r[0].n_rows == TOKENS, "%s", r->r[0].msg);
  double worst = naive_worst(x, text, TOKENS, r->r[0].rows);
  naive_close(x);
  return worst;
}

/* Folded at 64 and 128, in chunks that do not end there: as the sum over all keys, of the plugin's own features. */
static void check_engine(const char *name, const char *model, uint32_t layer0)
{
  char set[80];
  if (layer0)
    snprintf(set, sizeof set, "compose.attention.layers=0-%u:full, %u-:%s", layer0 - 1, layer0, name);
  else
    snprintf(set, sizeof set, "compose.attention=%s", name);
  const char *const sets[] = {"compose.backend=ref",
                              "engine.threads=1",
                              "engine.activations=f32",
                              set,
                              "engine.allow_untrained=yes",
                              "engine.max_rows=47",
                              "attention.performer.features=40",
                              layer0 ? "compose.kv=probe" : NULL,
                              "quantizer.probe@kv.kv=f32",
                              NULL};
  int32_t text[TOKENS];
  rig *r = rig_open(rig_tiny(model), sets);
  rig_tokens(3, r->n_vocab, text, TOKENS);
  rig_score(r, text, TOKENS);
  rig_run(r, 1);
  oracle o = {.d_head = r->s.model->shape.d_head, .layer0 = layer0, .f16 = layer0 == 0};
  plugin_rig *p =
      plugin_rig_open(TN_SLOT_ATTENTION, name, strcmp(name, "linear") ? (const char *[]){"features=40", NULL} : NULL);
  o.own = *spec_of(p, o.d_head);
  double right = error_of(r, text, &o);
  cr_expect(right < (o.f16 ? 2e-3 : 1e-4), "%s on %s: off by %g", name, model, right);
  float shifted[FEATURES * 64];
  if (o.own.features) { /* other features, another result; and for linear another eps, as it has none */
    memcpy(shifted, o.own.features, FEATURES * o.d_head * sizeof *shifted);
    shifted[0] += 0.5f;
    o.own.features = shifted;
  } else {
    o.own.eps = 1;
  }
  double wrong = error_of(r, text, &o);
  cr_expect(wrong > 2 * right, "%s on %s: a fault of the oracle goes unseen: %g, %g", name, model, wrong, right);
  plugin_rig_close(p);
  rig_close(r);
}

Test(policy_recurrent, linear_on_the_engine) { check_engine("linear", "llama", 0); }
Test(policy_recurrent, linear_on_the_engine_qwen3) { check_engine("linear", "qwen3", 0); }
Test(policy_recurrent, linear_in_the_last_layers) { check_engine("linear", "llama", 1); }
Test(policy_recurrent, performer_on_the_engine) { check_engine("performer", "llama", 0); }
Test(policy_recurrent, performer_in_the_last_layers) { check_engine("performer", "llama", 2); }

/* The cache of a sequence does not grow with its text: a state and the rows since the last fold. */
Test(policy_recurrent, a_state_of_one_size)
{
  static const char *const base[] = {"compose.backend=ref", "compose.attention=linear", "engine.allow_untrained=yes",
                                     "engine.max_rows=32",  "engine.ctx=2000",          NULL};
  int32_t text[700];
  uint32_t most[2] = {0, 0};
  rig *r = rig_open(rig_tiny("llama"), base);
  tn_err err = tn_err_init();
  rig_tokens(3, r->n_vocab, text, 700);
  for (int k = 0; k < 2; k++) {
    rig_clear(r);
    rig_generate(r, text, k ? 650 : 130, 2);
    while (!r->r[0].done) {
      cr_assert(tn_engine_step(r->s.engine, &err) == TN_OK, "%s", err.msg);
      uint32_t used = 0;
      for (const tn_seq *s = r->s.engine->first; s; s = s->next)
        for (uint32_t g = 0; s->kv && g < r->s.engine->groups.n; g++) {
          const tn_kv_table *t = &s->kv->t[g];
          for (uint32_t i = 0; i < t->n_pages; i++) used += t->page[i] >= 0;
        }
      most[k] = used > most[k] ? used : most[k];
    }
  }
  cr_expect(most[0] > 0 && most[0] == most[1], "%u and %u pages", most[0], most[1]);
  rig_close(r);
}

/* ---------------------------------------------------------------- refused */

static void refused(const char *a, const char *b, const char *says, const char *change)
{
  const char *const sets[] = {a, b, NULL};
  tn_err err = tn_err_init();
  rig *r;
  cr_assert(rig_try(rig_tiny("llama"), sets, &r, &err) == TN_E_UNSUPPORTED);
  cr_expect(strstr(err.msg, says) && strstr(err.msg, change), "%s", err.msg);
}

Test(policy_recurrent, what_is_refused)
{
  static const char *const names[] = {"linear", "performer"};
  for (size_t i = 0; i < 2; i++) {
    char set[64], says[128];
    snprintf(set, sizeof set, "compose.attention=%s", names[i]);
    snprintf(says, sizeof says, "%s needs recurrent attention (attn.state/1), which cpu does not offer", names[i]);
    refused(set, "engine.allow_untrained=yes", says, "nearest working change: backend = ");
    snprintf(says, sizeof says,
             "excludes attention that the model was not trained for (attn.untrained/1), which %s brings", names[i]);
    refused(set, "compose.backend=ref", says, "nearest working change: engine.allow_untrained = true");
  }
}
