/* Questions with choices: what a line may look like, and scores against rows of whole texts. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "measure/tasks.h"
#include "quality_rig.h"

TestSuite(measure_tasks, .timeout = 60);

static tn_tasks parsed(const char *text)
{
  tn_tasks t;
  tn_err err = tn_err_init();
  cr_assert(eq(int, tn_tasks_parse("q.jsonl", text, strlen(text), &t, &err), TN_OK), "%s", err.msg);
  return t;
}

Test(measure_tasks, shapes_of_a_line)
{
  tn_tasks t =
      parsed("{\"context\": \"The sky is\", \"choices\": [\"blue\", \" green\"], \"gold\": 1}\n\n"
             "{\"question\": \"Why? \", \"choices\": {\"text\": [\"a\", \"b\", \"c\"]}, \"answerKey\": \"C\"}\r\n"
             "{\"ctx\": \"He\", \"endings\": [\"ran\", \"sat\"], \"label\": \"1\"}\n"
             "{\"query\": \"x\", \"choices\": [\"yes\", \"no\"], \"answer\": \"no\"}");
  cr_assert(eq(sz, t.n, 4));
  cr_expect(eq(str, t.at[0].choices[0], " blue"));
  cr_expect(eq(str, t.at[0].choices[1], " green"));
  cr_expect(eq(u32, t.at[0].gold, 1));
  cr_expect(eq(str, t.at[1].choices[2], "c"), "the context ends with a space");
  cr_expect(eq(u32, t.at[1].gold, 2));
  cr_expect(eq(u32, t.at[2].gold, 1));
  cr_expect(eq(u32, t.at[3].gold, 1));
  tn_tasks_free(&t);
}

static void refused(const char *text, const char *words)
{
  tn_tasks t;
  tn_err err = tn_err_init();
  cr_expect(eq(int, tn_tasks_parse("q.jsonl", text, strlen(text), &t, &err), TN_E_ARG));
  cr_expect(strstr(err.msg, words) != NULL, "'%s' has no '%s'", err.msg, words);
  cr_expect(t.at == NULL);
}

Test(measure_tasks, faulty_lines)
{
  static const char good[] = "{\"context\": \"a\", \"choices\": [\"b\"], \"gold\": 0}\n";
  char two[256];
  refused("", "q.jsonl: has no questions");
  snprintf(two, sizeof two, "%s{\"context\"", good);
  refused(two, "q.jsonl:2: is no JSON");
  refused("{\"choices\": [\"b\"], \"gold\": 0}", "q.jsonl:1: context: there is none");
  refused("{\"context\": \"a\", \"choices\": [], \"gold\": 0}", "choices: an array of 1 to 64 texts is wanted");
  refused("{\"context\": \"a\", \"choices\": [\"b\", 7], \"gold\": 0}", "choices[1]: is no text");
  refused("{\"context\": \"a\", \"choices\": [\"b\"], \"gold\": 1}", "gold: 1 is none of the 1 choices");
  refused("{\"context\": \"a\", \"choices\": [\"b\"], \"gold\": \"q\"}", "gold: \"q\" is none");
  refused("{\"context\": \"a\", \"choices\": [\"b\"]}", "gold: nothing is none");
}

typedef struct sum {
  const int32_t *ids;
  uint32_t n_vocab;
  double loglik;
} sum;

static tn_status on_row(void *ctx, int64_t pos, const float *row, tn_err *err)
{
  sum *s = ctx;
  double z = 0;
  (void)err;
  for (uint32_t i = 0; i < s->n_vocab; i++) z += exp((double)row[i]);
  s->loglik += (double)row[s->ids[pos + 1]] - log(z);
  return TN_OK;
}

/* ln p of each whole text less that of the context is that of the choice, where tokens do not join across. */
Test(measure_tasks, scores)
{
  tn_err err = tn_err_init();
  tn_tasks t =
      parsed("{\"context\": \"It rained all day\", \"choices\": [\"yes\", \"never in the morning\"], \"gold\": 0}");
  quality_rig *q = quality_open("llama", NULL);
  tn_subject s = quality_subject(q);
  tn_task_result r;
  cr_assert(eq(int, tn_task_score(&s, &t.at[0], &r, &err), TN_OK), "%s", err.msg);
  for (int i = 0; i < 2; i++) {
    char whole[128];
    int32_t *ids;
    size_t n, n_context;
    snprintf(whole, sizeof whole, "%s%s", t.at[0].context, t.at[0].choices[i]);
    cr_assert(eq(int,
                 tn_tokenize(q->s.tokenizer, t.at[0].context, strlen(t.at[0].context), TN_TOKENIZE_ADD_SPECIAL, &ids,
                             &n_context, &err),
                 TN_OK));
    free(ids);
    cr_assert(
        eq(int, tn_tokenize(q->s.tokenizer, whole, strlen(whole), TN_TOKENIZE_ADD_SPECIAL, &ids, &n, &err), TN_OK));
    sum all = {ids, q->s.model->shape.n_vocab, 0}, before = all;
    tn_score text = {.tokens = ids, .n = (int64_t)n, .row = on_row, .ctx = &all};
    cr_assert(eq(int, tn_scorer_run(q->scorer, q->s.engine, &text, &err), TN_OK), "%s", err.msg);
    text.n = (int64_t)n_context;
    text.ctx = &before;
    cr_assert(eq(int, tn_scorer_run(q->scorer, q->s.engine, &text, &err), TN_OK));
    cr_expect(epsilon_eq(dbl, r.loglik[i], all.loglik - before.loglik, 1e-6), "%g", r.loglik[i]);
    free(ids);
  }
  uint32_t best = r.loglik[1] > r.loglik[0], norm = r.loglik[1] / 20 > r.loglik[0] / 3;
  cr_expect(eq(u32, r.best, best));
  cr_expect(eq(u32, r.best_norm, norm));
  cr_expect(ne(u32, best, norm), "both rules choose alike: the test shows little");
  cr_expect(eq(int, r.right, best == 0));
  tn_tasks_free(&t);
  quality_close(q);
}
