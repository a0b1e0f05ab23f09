/* What measures an open engine, with each allocation failing in turn: perplexity against a reference, answers, recall,
 * questions, speed. A failure leaves the engine as it was: the next measurement gives what the first one gave. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "measure/answer.h"
#include "measure/bench.h"
#include "measure/recall.h"
#include "measure/tasks.h"
#include "oom.h"

typedef struct subject { /* an open engine */
  tn_loader *loader;
  tn_scorer *scorer;
  tn_bench *bench;
  tn_setup s;
} subject;

static subject a, b;

static void open_one(subject *x, const char *set, bool bench)
{
  const char *sets[] = {"engine.threads=1", "engine.ctx=512", "engine.max_seqs=2", "compose.backend=cpu", set};
  tn_loader_cfg cfg = {.path = "", .lib_dir = TN_BUILD_DIR "/lib/tenon"};
  tn_err err = tn_err_init();
  cr_assert(tn_loader_new(&cfg, &x->loader, &err) == TN_OK, "%s", err.msg);
  x->scorer = tn_scorer_new();
  x->bench = tn_bench_new();
  tn_setup_args args = {.sets = sets,
                        .n_sets = TN_ARRAY_LEN(sets),
                        .model = TN_SOURCE_DIR "/tests/data/tiny/llama.gguf",
                        .conf_dir = TN_SOURCE_DIR "/conf",
                        .loader = x->loader,
                        .events = bench ? tn_bench_events(x->bench) : tn_scorer_events(x->scorer)};
  cr_assert(tn_setup_open(&args, &x->s, &err) == TN_OK, "%s", err.msg);
}

static void close_one(subject *x)
{
  tn_setup_close(&x->s);
  tn_scorer_free(x->scorer);
  tn_bench_free(x->bench);
  tn_loader_free(x->loader);
}

/* The work's figure, the same whenever it succeeds. */
typedef tn_status (*work)(double *figure, tn_err *err);

static void engine_is_empty(uint64_t n, const subject *x)
{
  tn_err err = tn_err_init();
  if (!x->s.engine) return;
  cr_assert(tn_engine_idle(x->s.engine), "allocation %lu: a sequence is left", (unsigned long)n);
  cr_assert(tn_engine_check(x->s.engine, &err), "allocation %lu: %s", (unsigned long)n, err.msg);
}

/* Every failure says that there is no memory; its status is TN_E_NOMEM but where the engine gave up a sequence. */
static void sweep(work w, uint64_t least)
{
  double want = 0, have = 0;
  uint64_t failed = 0, n = 1;
  tn_err err = tn_err_init();
  for (int i = 0; i < 2; i++) cr_assert(w(&want, &err) == TN_OK, "%s", err.msg); /* makes what an engine keeps */
  for (bool last = false; !last; n++) {
    int64_t live = oom_live();
    err = tn_err_init();
    oom_arm(n);
    tn_status st = w(&have, &err);
    last = !oom_fired();
    bool said = st == TN_E_NOMEM || strstr(err.msg, "cannot start: no memory");
    cr_expect(st == TN_OK || (!last && said), "allocation %lu: %s: %s", (unsigned long)n, tn_status_name(st), err.msg);
    cr_expect(st != TN_OK || have == want, "allocation %lu: %g, not %g", (unsigned long)n, have, want);
    cr_expect(oom_live() == live, "allocation %lu: %ld stay behind", (unsigned long)n, (long)(oom_live() - live));
    failed += st != TN_OK;
    engine_is_empty(n, &a);
    engine_is_empty(n, &b);
  }
  cr_expect(failed >= least, "only %lu of %lu failed", (unsigned long)failed, (unsigned long)n);
}

static char *text;
static size_t n_text;

static void setup(void)
{
  tn_err err = tn_err_init();
  cr_assert(tn_file_read(TN_SOURCE_DIR "/tests/data/wikitext-2-valid-60k.txt", 1 << 20, &text, &n_text, &err) == TN_OK);
  n_text = 2000;
}

static void teardown(void)
{
  free(text);
  close_one(&a);
  if (b.s.engine) close_one(&b);
}
TestSuite(oom_quality, .init = setup, .fini = teardown, .timeout = 300);

static tn_subject subject_of(subject *x, bool decode)
{
  return (tn_subject){.setup = &x->s, .scorer = x->scorer, .decode = decode};
}

static tn_status against_reference(double *figure, tn_err *err)
{
  tn_chunks c;
  tn_quality q = {0};
  tn_kld_stats s;
  tn_status st = tn_chunks_cut(a.s.tokenizer, text, n_text, 32, 0, 2, &c, err);
  if (st != TN_OK) return st;
  tn_quality_args args = {.tested = subject_of(&a, false), .reference = subject_of(&b, true), .chunks = &c};
  st = tn_chunks_check(&c, &a.s, &b.s, text, n_text, err);
  if (st == TN_OK) st = tn_quality_measure(&args, &q, err);
  if (st == TN_OK) st = tn_kld_stats_of(q.tokens, q.n, true, &s, err);
  if (st == TN_OK) *figure = s.kld.value;
  tn_quality_free(&q);
  tn_chunks_free(&c);
  return st;
}

Test(oom_quality, against_reference)
{
  open_one(&a, "compose.kv=int8", false);
  open_one(&b, "compose.kv=-", false);
  sweep(against_reference, 10);
}

static tn_status recall(double *figure, tn_err *err)
{
  tn_recall r;
  tn_answer answer;
  tn_recall_spec spec = {
      .kind = TN_RECALL_MULTIKEY, .length = 400, .depth = 0.5, .seed = 3, .haystack = {text, n_text}};
  tn_subject s = subject_of(&a, false);
  tn_status st = tn_recall_make(a.s.tokenizer, &spec, &r, err);
  if (st == TN_OK) st = tn_answer_score(&s, r.tokens, r.n, r.n_prompt, &answer, err);
  if (st == TN_OK) *figure = answer.loglik;
  tn_recall_free(&r);
  return st;
}

Test(oom_quality, recall)
{
  open_one(&a, "compose.kv=int8", false);
  sweep(recall, 10);
}

static tn_status greedy(double *figure, tn_err *err)
{
  static const int32_t prompt[] = {5, 6, 7, 8};
  tn_match m;
  tn_subject x = subject_of(&a, false), y = subject_of(&b, false);
  tn_status st = tn_match_greedy(&x, &y, prompt, 4, 8, &m, err);
  if (st == TN_OK) *figure = (double)m.n_same;
  return st;
}

Test(oom_quality, greedy)
{
  open_one(&a, "compose.kv=int8", false);
  open_one(&b, "compose.kv=-", false);
  sweep(greedy, 4);
}

static tn_status question(double *figure, tn_err *err)
{
  static const char line[] = "{\"context\": \"one and one is\", \"choices\": [\"two\", \"three\"], \"gold\": 0}\n";
  tn_tasks t = {0};
  tn_task_result r;
  tn_subject s = subject_of(&a, false);
  tn_status st = tn_tasks_parse("made.jsonl", line, sizeof line - 1, &t, err);
  if (st == TN_OK) st = tn_task_score(&s, &t.at[0], &r, err);
  if (st == TN_OK) *figure = r.loglik[1];
  tn_tasks_free(&t);
  return st;
}

Test(oom_quality, question)
{
  open_one(&a, "compose.kv=int8", false);
  sweep(question, 10);
}

static tn_status bench(double *figure, tn_err *err)
{
  tn_bench_result r;
  tn_bench_test t = {.n_prompt = 8, .n_gen = 4, .n_depth = 20, .n_seqs = 2, .reps = 2, .warm_up = true};
  tn_status st = tn_bench_run(a.bench, a.s.engine, &t, &r, err);
  *figure = (double)r.steps;
  free(r.ns);
  return st;
}

Test(oom_quality, bench)
{
  open_one(&a, "compose.kv=int8", true);
  sweep(bench, 8);
}
