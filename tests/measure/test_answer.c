/* The probability of a continuation against rows of the whole text; greedy continuations against each other. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>

#include "measure/answer.h"
#include "quality_rig.h"
#include "support/engine_rig.h"

TestSuite(measure_answer, .timeout = 60);

Test(measure_answer, against_rows_of_the_whole_text)
{
  enum { N = 24, PROMPT = 15 };
  int32_t tokens[N];
  tn_answer out;
  tn_err err = tn_err_init();
  quality_rig *q = quality_open("llama", NULL);
  rig *r = rig_open(rig_tiny("llama"), (const char *[]){NULL});
  rig_tokens(4, r->n_vocab, tokens, N);
  uint32_t i = rig_score(r, tokens, N);
  rig_run(r, 0);
  /* one token of the continuation is the most probable one */
  tokens[PROMPT] = tn_argmax(r->r[i].rows + (PROMPT - 1) * r->n_vocab, r->n_vocab);
  rig_clear(r);
  i = rig_score(r, tokens, N);
  rig_run(r, 0);
  double loglik = 0;
  int64_t n_top = 0;
  for (int pos = PROMPT - 1; pos < N - 1; pos++) {
    const float *row = r->r[i].rows + pos * (int)r->n_vocab;
    double z = 0;
    for (uint32_t k = 0; k < r->n_vocab; k++) z += exp((double)row[k]);
    loglik += (double)row[tokens[pos + 1]] - log(z);
    n_top += tn_argmax(row, r->n_vocab) == tokens[pos + 1];
  }
  tn_subject s = quality_subject(q);
  cr_assert(eq(int, tn_answer_score(&s, tokens, N, PROMPT, &out, &err), TN_OK), "%s", err.msg);
  cr_expect(epsilon_eq(dbl, out.loglik, loglik, 1e-9), "%g, %g", out.loglik, loglik);
  cr_expect(eq(i64, out.n, N - PROMPT));
  cr_expect(eq(i64, out.n_top, n_top));
  cr_expect(ge(i64, n_top, 1));
  cr_assert(eq(int, tn_answer_score(&s, tokens, PROMPT + 1, PROMPT, &out, &err), TN_OK));
  cr_expect(out.exact);
  cr_expect(eq(int, tn_answer_score(&s, tokens, N, N, &out, &err), TN_E_ARG));
  rig_close(r);
  quality_close(q);
}

Test(measure_answer, greedy_match)
{
  int32_t prompt[20];
  tn_match m;
  tn_err err = tn_err_init();
  quality_rig *a = quality_open("llama", NULL), *b = quality_open("llama", NULL),
              *c = quality_open("llama", (const char *[]){"compose.kv=int4", NULL});
  tn_subject sa = quality_subject(a), sb = quality_subject(b), sc = quality_subject(c);
  rig_tokens(4, a->s.model->shape.n_vocab, prompt, 20);
  cr_assert(eq(int, tn_match_greedy(&sa, &sb, prompt, 20, 24, &m, &err), TN_OK), "%s", err.msg);
  cr_expect(m.exact);
  cr_expect(eq(i64, m.n_same, m.n));
  bool differ = false;
  for (int seed = 5; seed < 15 && !differ; seed++) {
    rig_tokens((uint32_t)seed, a->s.model->shape.n_vocab, prompt, 20);
    cr_assert(eq(int, tn_match_greedy(&sa, &sc, prompt, 20, 32, &m, &err), TN_OK));
    cr_expect(le(i64, m.n_same, m.n));
    differ = !m.exact;
  }
  cr_expect(differ, "coarse keys and values never change a token");
  quality_close(a);
  quality_close(b);
  quality_close(c);
}
