/* The host's services, asked by drafters (draft/service, draft/ops): what they compute, against the forward pass in double;
 * what they refuse; and that a draft made with them changes no token. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/rng.h"
#include "probe_rig.h"
#include "quant/dtype.h"
#include "support/naive.h"

enum { N_PROMPT = 21, N_NEW = 41 };

static probe_service *record_of(const rig *r) { return probe_record(&r->s.engine->draft); }

static rig *run(const char *model, probe_sets *s, const char *const *more, float *logits)
{
  int32_t prompt[N_PROMPT];
  for (; more && *more; more++) probe_set(s, "%s", *more);
  rig *r = probe_open(rig_tiny(model), s);
  if (logits) record_of(r)->logits = logits;
  rig_tokens(3, r->n_vocab, prompt, N_PROMPT);
  tn_request q = {.prompt = prompt,
                  .n_prompt = N_PROMPT,
                  .max_new = N_NEW,
                  .sampling = tn_sampling_default(),
                  .n_logprobs = 1,
                  .ignore_eog = 1,
                  .key = 99};
  rig_submit(r, &q);
  rig_run(r, 1);
  return r;
}

/* Text of the request up to n tokens. */
static void text_of(const rig *r, int32_t *text, int64_t n)
{
  rig_tokens(3, r->n_vocab, text, N_PROMPT);
  for (int64_t i = N_PROMPT; i < n; i++) text[i] = r->r[0].tokens[i - N_PROMPT];
}

static double worst(const double *want, const float *got, uint32_t n)
{
  double e = 0;
  for (uint32_t i = 0; i < n; i++) e = fmax(e, fabs(want[i] - (double)got[i]) / fmax(1, fabs(want[i])));
  return e;
}

/* ---------------------------------------------------------------- early exit */

static void early_exit(const char *model, uint32_t layer, const char *const *more)
{
  int32_t text[N_PROMPT + N_NEW];
  char exit[64];
  probe_sets plain, s;
  snprintf(exit, sizeof exit, "draft.service.exit=%u", layer);
  probe_base_f32(&plain);
  for (size_t i = 0; more && more[i]; i++) probe_set(&plain, "%s", more[i]);
  s = plain;
  probe_set(&s, "compose.draft=service");
  float *logits = calloc(512, sizeof *logits);
  double *want = calloc(512, sizeof *want);
  rig *a = run(model, &plain, NULL, NULL), *b = run(model, &s, (const char *const[]){exit, NULL}, logits);
  const probe_service *seen = record_of(b);
  probe_equal("early exit", a, b);
  cr_assert(seen->checks >= 7 && seen->bad == 0, "%llu of %llu answers were wrong", (unsigned long long)seen->bad,
            (unsigned long long)seen->checks);
  cr_assert_gt(seen->nodes, 30);
  if (!more) {
    naive *x = naive_open(b->s.model, NULL, seen->n);
    text_of(b, text, seen->n);
    for (int64_t i = 0; i < seen->n; i++) naive_push(x, text[i]);
    naive_head(x, x->hidden + (size_t)layer * b->s.model->shape.d_model, want);
    double e = worst(want, logits, b->n_vocab);
    cr_assert(e < 1e-4, "logits behind layer %u are off by %g", layer, e);
    naive_close(x);
  }
  if (layer + 1 == b->s.model->shape.n_layers)
    cr_assert_eq(b->r[0].n_accepted, b->r[0].n_drafted, "the whole model drafts");
  free(logits);
  free(want);
  rig_close(a);
  rig_close(b);
}
Test(probe_services, early_exit) { early_exit("llama", 0, NULL); }
Test(probe_services, late_exit) { early_exit("llama", 1, NULL); }
Test(probe_services, no_exit_at_all) { early_exit("llama", 2, NULL); }
Test(probe_services, early_exit_windows) { early_exit("gemma3", 3, NULL); }
Test(probe_services, early_exit_tiles)
{
  early_exit("llama", 1, (const char *const[]){"compose.attention=probe", "attention.probe.kind=tiles", NULL});
}
Test(probe_services, early_exit_states)
{
  early_exit("llama", 1, (const char *const[]){"compose.attention=probe", "attention.probe.kind=halves", NULL});
}
Test(probe_services, early_exit_eviction)
{
  early_exit(
      "llama", 1,
      (const char *const[]){"compose.eviction=probe", "eviction.probe.gran=head", "eviction.probe.budget=20", NULL});
}
Test(probe_services, early_exit_ranks)
{
  early_exit("llama", 1, (const char *const[]){"compose.parallel=tensor", NULL});
}

/* Ranges of records are those of a rank, so stages have none: the drafter is told, not fed nonsense. */
Test(probe_services, early_exit_stages)
{
  probe_sets s;
  int32_t prompt[8];
  tn_err err = tn_err_init();
  probe_base(&s);
  probe_set(&s, "compose.draft=service");
  probe_set(&s, "compose.parallel=probe");
  probe_set(&s, "parallel.probe.layers=1, 2");
  rig *r = probe_open(rig_tiny("llama"), &s);
  rig_tokens(3, r->n_vocab, prompt, 8);
  rig_generate(r, prompt, 8, 4);
  tn_status st = TN_OK;
  while (st == TN_OK && !tn_engine_idle(r->s.engine)) st = tn_engine_step(r->s.engine, &err);
  cr_assert(st != TN_OK && strstr(err.msg, "draft/service: propose"), "%s", err.msg);
  rig_close(r);
}

/* ---------------------------------------------------------------- second model */

static void second(const char *model, const char *drafter, const char *const *more, bool oracle)
{
  int32_t text[N_PROMPT + N_NEW];
  char path[256];
  probe_sets plain, s;
  snprintf(path, sizeof path, "draft.service.model=%.200s", rig_tiny(drafter));
  probe_base_f32(&plain);
  for (size_t i = 0; more && more[i]; i++) probe_set(&plain, "%s", more[i]);
  s = plain;
  probe_set(&s, "compose.draft=service");
  float *logits = calloc(512, sizeof *logits);
  rig *a = run(model, &plain, NULL, NULL);
  rig *b = run(model, &s, (const char *const[]){"draft.service.mode=second", path, NULL}, logits);
  const probe_service *seen = record_of(b);
  probe_equal("second model", a, b);
  cr_assert(seen->checks == 3 && seen->bad == 0);
  if (strcmp(model, drafter) == 0 && !more) { /* the target itself: every draft stands */
    cr_assert_eq(b->r[0].n_accepted, b->r[0].n_drafted);
    cr_assert_gt(b->r[0].n_accepted, 25);
  }
  if (oracle) {
    tn_err err = tn_err_init();
    tn_model *m;
    cr_assert(tn_model_open(rig_tiny(drafter), NULL, NULL, &m, &err) == TN_OK, "%s", err.msg);
    naive *x = naive_open(m, NULL, seen->n);
    text_of(b, text, seen->n);
    for (int64_t i = 0; i < seen->n; i++) naive_push(x, text[i]);
    double e = worst(x->logits, logits, b->n_vocab);
    cr_assert(e < 1e-4, "the second model's logits are off by %g", e);
    naive_close(x);
    tn_model_close(m);
  }
  free(logits);
  rig_close(a);
  rig_close(b);
}
Test(probe_services, second_model) { second("llama", "llama-tied", NULL, true); }
Test(probe_services, the_same_model_twice) { second("llama", "llama", NULL, true); }
Test(probe_services, second_model_windows) { second("gemma3", "gemma3", NULL, true); }
Test(probe_services, second_model_tiles)
{
  second("llama", "qwen3", (const char *const[]){"compose.attention=probe", "attention.probe.kind=tiles", NULL}, false);
}
Test(probe_services, second_model_eviction)
{
  second("llama", "llama-tied", (const char *const[]){"compose.eviction=probe", "eviction.probe.budget=20", NULL},
         true);
}
Test(probe_services, second_model_ranks)
{
  second("llama", "llama-tied", (const char *const[]){"compose.parallel=tensor", NULL}, true);
}

static void not_opened(const char *path, const char *says)
{
  char text[256];
  const char *const sets[] = {"compose.backend=ref", "compose.draft=service", "draft.service.mode=second", text, NULL};
  rig *r;
  tn_err err = tn_err_init();
  snprintf(text, sizeof text, "draft.service.model=%.200s", path);
  cr_assert(rig_try(rig_tiny("llama"), sets, &r, &err) != TN_OK);
  cr_assert(strstr(err.msg, "draft/service") && strstr(err.msg, says), "%s", err.msg);
}
Test(probe_services, a_second_model_that_is_not_there) { not_opened("/nowhere/model.gguf", "/nowhere/model.gguf"); }
Test(probe_services, a_second_model_of_another_vocabulary)
{
  not_opened(rig_tiny("gemma3"), "a vocabulary of 320 tokens, the target has 288");
}

/* ---------------------------------------------------------------- single records */

/* q of the first layer for one token: embedding, norm, projection. */
static void first_q(const tn_model *m, int32_t token, double *q)
{
  uint32_t d = m->shape.d_model;
  double h[512], sum = 0;
  float *w = malloc((size_t)m->shape.n_vocab * d * sizeof *w), g[512], p[512];
  const tn_gguf_tensor *e = tn_model_tensor(m, TN_PART_TOKEN_EMBD, 0), *n = tn_model_tensor(m, TN_PART_ATTN_NORM, 0),
                       *t = tn_model_tensor(m, TN_PART_ATTN_Q, 0);
  cr_assert(w && tnk_decode(e->dtype, e->data, w, (size_t)m->shape.n_vocab * d) && tnk_decode(n->dtype, n->data, g, d));
  const float *x = w + (size_t)token * d;
  for (uint32_t i = 0; i < d; i++) sum += (double)x[i] * (double)x[i];
  for (uint32_t i = 0; i < d; i++) h[i] = (double)x[i] / sqrt(sum / d + m->norm_eps) * (double)g[i];
  for (int64_t o = 0; o < t->ne[1]; o++) {
    cr_assert(tnk_decode(t->dtype, t->data + (size_t)o * d * 2, p, d));
    q[o] = 0;
    for (uint32_t i = 0; i < d; i++) q[o] += (double)p[i] * h[i];
  }
  free(w);
}

Test(probe_services, single_records)
{
  int32_t text[N_PROMPT + 1];
  float got[3 * 512];
  double want[512];
  probe_sets plain, s;
  probe_base_f32(&plain);
  s = plain;
  rig *a = run("llama", &plain, NULL, NULL),
      *b = run("llama", &s, (const char *const[]){"compose.draft=ops", NULL}, got);
  const probe_service *seen = record_of(b);
  probe_equal("ops", a, b);
  cr_assert(seen->checks > 1000 && seen->bad == 0, "%llu of %llu answers were wrong", (unsigned long long)seen->bad,
            (unsigned long long)seen->checks);
  for (uint32_t i = 0; i < 4; i++)
    cr_assert(seen->uniform[i] == tn_rng_uniform(99, N_PROMPT + 1, TN_RNG_PLUGIN + 5, i));
  text_of(b, text, N_PROMPT + 1);
  const int32_t rows[3] = {text[0], text[1], text[N_PROMPT]};
  uint32_t d = b->s.model->shape.d_model;
  cr_assert_eq(tn_model_tensor(b->s.model, TN_PART_ATTN_Q, 0)->dtype, TN_DT_F16);
  for (int i = 0; i < 3; i++) {
    first_q(b->s.model, rows[i], want);
    double e = worst(want, got + (size_t)i * d, d);
    cr_assert(e < 1e-5, "row %d is off by %g", i, e);
  }
  rig_close(a);
  rig_close(b);
}
