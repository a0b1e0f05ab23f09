/* Drafts that are drawn: the law of what the engine emits is the model's, for both kinds of draws, by chi-square over the
 * first three tokens of a prompt; and the same test sees a drafter that lies about its law. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "probe_rig.h"
#include "support/naive.h"

enum { N_PROMPT = 5, TOP = 3, OUTCOMES = TOP * TOP * TOP, BATCH = 64, ROUNDS = 48 };
#define TEMPERATURE 4.0

typedef struct law { /* of the three tokens behind the prompt */
  int32_t prompt[N_PROMPT];
  int32_t path[OUTCOMES][3];
  double p[OUTCOMES];
} law;

/* The TOP best tokens behind a text, and their probabilities. */
static void top_of(const tn_model *m, const int32_t *text, int64_t n, int32_t id[TOP], double p[TOP])
{
  double sum = 0;
  naive *x = naive_open(m, NULL, n);
  for (int64_t i = 0; i < n; i++) naive_push(x, text[i]);
  for (int k = 0; k < TOP; k++) {
    id[k] = -1;
    for (int32_t v = 0; v < (int32_t)m->shape.n_vocab; v++) {
      bool taken = false;
      for (int i = 0; i < k; i++) taken = taken || id[i] == v;
      if (!taken && (id[k] < 0 || x->logits[v] > x->logits[id[k]])) id[k] = v;
    }
  }
  for (int k = 0; k < TOP; k++) sum += p[k] = exp((x->logits[id[k]] - x->logits[id[0]]) / TEMPERATURE);
  for (int k = 0; k < TOP; k++) p[k] /= sum;
  naive_close(x);
}

static void law_of(const tn_model *m, law *l)
{
  int32_t text[N_PROMPT + 2], a[TOP], b[TOP], c[TOP];
  double pa[TOP], pb[TOP], pc[TOP];
  rig_tokens(11, m->shape.n_vocab, l->prompt, N_PROMPT);
  for (int i = 0; i < N_PROMPT; i++) text[i] = l->prompt[i];
  top_of(m, text, N_PROMPT, a, pa);
  for (int i = 0; i < TOP; i++) {
    text[N_PROMPT] = a[i];
    top_of(m, text, N_PROMPT + 1, b, pb);
    for (int k = 0; k < TOP; k++) {
      text[N_PROMPT + 1] = b[k];
      top_of(m, text, N_PROMPT + 2, c, pc);
      for (int j = 0; j < TOP; j++) {
        int at = (i * TOP + k) * TOP + j;
        l->path[at][0] = a[i], l->path[at][1] = b[k], l->path[at][2] = c[j];
        l->p[at] = pa[i] * pb[k] * pc[j];
      }
    }
  }
}

/* A law of the drafter's own: some mass on what the model may say, unevenly, a little everywhere else. */
static void drafters_law(const law *l, uint32_t n_vocab, bool reversed, float *q)
{
  double sum = 0;
  for (uint32_t v = 0; v < n_vocab; v++) q[v] = 0.0005f;
  for (int at = 0; at < OUTCOMES; at++)
    for (int i = 1; i < 3; i++) {
      int32_t t = l->path[at][i];
      q[t] = 0.05f + (float)(reversed ? 6 - t % 7 : t % 7);
    }
  for (uint32_t v = 0; v < n_vocab; v++) sum += (double)q[v];
  for (uint32_t v = 0; v < n_vocab; v++) q[v] = (float)((double)q[v] / sum);
}

/* Chi-square of BATCH * ROUNDS requests; every text must be one of the possible ones. */
static double chi_square(const char *mode, bool lies, uint64_t *accepted)
{
  probe_sets s;
  law l;
  uint32_t count[OUTCOMES] = {0};
  probe_base_f32(&s);
  probe_set(&s, "engine.max_seqs=%d", BATCH);
  probe_set(&s, "engine.ctx=64");
  if (mode) probe_set(&s, "compose.draft=probe");
  if (mode) probe_set(&s, "draft.probe.mode=%s", mode);
  rig *r = probe_open(rig_tiny("llama-tied"), &s);
  float *q = calloc(2 * (size_t)r->n_vocab, sizeof *q);
  law_of(r->s.model, &l);
  drafters_law(&l, r->n_vocab, false, q);
  drafters_law(&l, r->n_vocab, true, q + r->n_vocab);
  probe_draft *seen = mode ? probe_record(&r->s.engine->draft) : NULL;
  if (mode) seen->law = q, seen->drawn = lies ? q + r->n_vocab : NULL;
  tn_sampling how = tn_sampling_default();
  how.temperature = TEMPERATURE;
  how.top_k = TOP;
  for (uint64_t round = 0; round < ROUNDS; round++) {
    rig_clear(r);
    for (uint64_t i = 0; i < BATCH; i++)
      rig_submit(r, &(tn_request){.prompt = l.prompt,
                                  .n_prompt = N_PROMPT,
                                  .max_new = 3,
                                  .sampling = how,
                                  .ignore_eog = 1,
                                  .key = round * BATCH + i + 1});
    rig_run(r, 0);
    for (uint32_t i = 0; i < BATCH; i++) {
      int at = 0;
      const int32_t *t = r->r[i].tokens;
      while (at < OUTCOMES && (t[0] != l.path[at][0] || t[1] != l.path[at][1] || t[2] != l.path[at][2])) at++;
      cr_assert(at < OUTCOMES, "%d %d %d is no text that the law allows", t[0], t[1], t[2]);
      count[at]++;
    }
  }
  if (mode) cr_assert_eq(seen->bad, 0);
  *accepted = mode ? seen->accepted : 0;
  double x = 0, n = BATCH * ROUNDS;
  for (int at = 0; at < OUTCOMES; at++) {
    cr_assert(n * l.p[at] > 5);
    x += (count[at] - n * l.p[at]) * (count[at] - n * l.p[at]) / (n * l.p[at]);
  }
  free(q);
  rig_close(r);
  return x;
}

/* Of OUTCOMES - 1 degrees of freedom at 1e-4, by Wilson and Hilferty. */
static double critical(void)
{
  double df = OUTCOMES - 1, a = 2 / (9 * df);
  return df * pow(1 - a + 3.719 * sqrt(a), 3);
}

Test(probe_draft_law, plain_decoding)
{
  uint64_t accepted;
  double x = chi_square(NULL, false, &accepted);
  cr_assert(x < critical(), "chi-square %g, limit %g", x, critical());
}

#define LAW(name_, mode_)                                                                                        \
  Test(probe_draft_law, name_)                                                                                   \
  {                                                                                                              \
    uint64_t accepted = 0;                                                                                       \
    double x = chi_square(mode_, false, &accepted);                                                              \
    cr_assert(x < critical(), "chi-square %g, limit %g", x, critical());                                         \
    cr_assert(accepted > BATCH * ROUNDS / 4, "%llu drafts accepted", (unsigned long long)accepted);              \
  }                                                                                                              \
  Test(probe_draft_law, name_##_sees_a_lie)                                                                      \
  {                                                                                                              \
    uint64_t accepted = 0;                                                                                       \
    double x = chi_square(mode_, true, &accepted);                                                               \
    cr_assert(x > 2 * critical(), "a drafter that lies goes unnoticed: chi-square %g, limit %g", x, critical()); \
  }
LAW(independent_draws, "iid")
LAW(draws_without_replacement, "wor")
