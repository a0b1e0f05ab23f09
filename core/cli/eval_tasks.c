/* eval_tasks: `tenon eval tasks` and `tenon eval match`: questions with choices, and greedy continuations against a
 * reference composition. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/eval.h"
#include "measure/journal.h"
#include "measure/tasks.h"

#define LIST_OPTIONS(what)                                                                                 \
  TN_ENGINE_OPTIONS, {"file", 'f', "FILE", what}, {"limit", 0, "N", "only the first N; 0: all (default)"}, \
  {                                                                                                        \
    "resume", 0, "FILE", "keep what is done in FILE, and go on from what it holds"                         \
  }
static const tn_cli_option task_options[] = {LIST_OPTIONS("the questions, JSON lines")};
static const tn_cli_option match_options[] = {
    LIST_OPTIONS("the prompts, one a line; lines of JSON have them as \"prompt\""),
    TN_EVAL_REF_OPTIONS,
    {"n-predict", 'n', "N", "tokens to write at most behind each (default 64)"}};
enum { O_FILE = TN_N_ENGINE_OPTIONS, O_LIMIT, O_RESUME, O_REF, O_N = O_REF + TN_N_EVAL_REF_OPTIONS };

static const tn_cli_usage task_usage = {
    .command = "eval tasks",
    .operands = "",
    .summary =
        "Multiple-choice questions by log-likelihood, as lm-evaluation-harness scores them: acc by ln p of a\n"
        "choice, acc_norm by ln p over its characters. A line of the file is an object with \"context\", \"choices\"\n"
        "and \"gold\" (the index, the letter or the text of the right one); the names of ARC, HellaSwag and\n"
        "MMLU files are known as well.\n\n"
        "  tenon eval tasks -m M.gguf -f arc_easy.jsonl --limit 100\n"
        "  tenon eval tasks -m M.gguf -f hellaswag.jsonl --set compose.kv=NAME --json",
    .options = task_options,
    .n_options = TN_ARRAY_LEN(task_options),
};
static const tn_cli_usage match_usage = {
    .command = "eval match",
    .operands = "",
    .summary =
        "Greedy continuations of prompts by the composed engine and by a reference: how many are exactly equal,\n"
        "and after how many tokens the others part.\n\n"
        "  tenon eval match -m M.gguf -f prompts.txt --conf x.ini --ref ref.ini -n 128",
    .options = match_options,
    .n_options = TN_ARRAY_LEN(match_options),
};

typedef struct list_args {
  tn_eval e;
  const char *file, *resume_file;
  int64_t limit, n_predict;
  bool match;
  tn_tasks tasks; /* of match: contexts alone */
  size_t n, done;
  double sum[2]; /* right, right by length; or exact, tokens that are equal at the start */
  double tokens; /* of match: that the reference wrote */
} list_args;

/* ---------------------------------------------------------------- work */

/* A line is a prompt, or an object that has one. */
static tn_status parse_prompts(list_args *a, const char *text, size_t n_text, tn_err *err)
{
  size_t lines = 1;
  for (size_t i = 0; i < n_text; i++) lines += text[i] == '\n';
  a->tasks.at = tn_zalloc(lines, sizeof *a->tasks.at);
  if (!a->tasks.at) return tn_fail(err, TN_E_NOMEM, "%s: no memory for its prompts", a->file);
  for (size_t at = 0, n; at < n_text; at += n + 1) {
    const char *nl = memchr(text + at, '\n', n_text - at);
    n = nl ? (size_t)(nl - (text + at)) : n_text - at;
    if (n == 0) continue;
    json_t *line = text[at] == '{' ? json_loadb(text + at, n, 0, NULL) : NULL;
    const char *prompt = json_string_value(json_object_get(line, "prompt"));
    char *copy = prompt ? tn_strdup(prompt) : tn_strndup(text + at, n);
    json_decref(line);
    if (!copy) return tn_fail(err, TN_E_NOMEM, "%s: no memory for its prompts", a->file);
    a->tasks.at[a->tasks.n++].context = copy;
  }
  return a->tasks.n ? TN_OK : tn_fail(err, TN_E_ARG, "%s: has no prompts", a->file);
}

static tn_status match_one(list_args *a, const char *prompt, tn_match *m, tn_err *err)
{
  int32_t *ids;
  size_t n;
  tn_subject tested = tn_eval_tested(&a->e), reference = tn_eval_reference(&a->e);
  tn_status st = tn_tokenize(a->e.setup[0].tokenizer, prompt, strlen(prompt), TN_TOKENIZE_ADD_SPECIAL, &ids, &n, err);
  if (st == TN_OK) st = tn_match_greedy(&tested, &reference, ids, (int64_t)n, a->n_predict, m, err);
  if (st == TN_OK) free(ids);
  return st;
}

/* The figures of one question or prompt, as they are kept. */
static tn_status run_one(list_args *a, size_t i, double out[3], tn_err *err)
{
  tn_subject tested = tn_eval_tested(&a->e);
  tn_task_result r;
  tn_match m;
  tn_status st =
      a->match ? match_one(a, a->tasks.at[i].context, &m, err) : tn_task_score(&tested, &a->tasks.at[i], &r, err);
  if (st != TN_OK) {
    tn_err_prefix(err, "%s: %s %zu", a->file, a->match ? "prompt" : "question", i + 1);
    return st;
  }
  out[0] = a->match ? m.exact : r.right;
  out[1] = a->match ? (double)m.n_same : r.right_norm;
  out[2] = a->match ? (double)m.n_reference : 0;
  return TN_OK;
}

static void add(list_args *a, const double v[3])
{
  a->sum[0] += v[0], a->sum[1] += v[1], a->tokens += v[2];
  a->done++;
}

static tn_status resume(list_args *a, tn_journal **out, tn_err *err)
{
  char tested[TN_FINGERPRINT_HEX + 1], reference[TN_FINGERPRINT_HEX + 1] = "";
  const json_t *p;
  tn_composition_short(a->e.setup[0].composition, tested);
  if (a->match) tn_composition_short(a->e.setup[1].composition, reference);
  tn_status st =
      tn_journal_open(a->resume_file,
                      json_pack("{s:s, s:s, s:s, s:s, s:I}", "measures", a->e.cli.usage->command, "composition", tested,
                                "reference", reference, "file", a->file, "n_predict", (json_int_t)a->n_predict),
                      out, err);
  while (st == TN_OK && a->done < a->n && (p = tn_journal_at(*out, a->done))) {
    double v[3];
    for (size_t i = 0; i < 3; i++) v[i] = json_number_value(json_array_get(json_object_get(p, "v"), i));
    add(a, v);
  }
  return st;
}

static tn_status run_all(list_args *a, tn_err *err)
{
  tn_journal *journal = NULL;
  tn_status st = a->resume_file ? resume(a, &journal, err) : TN_OK;
  tn_eval_progress progress = tn_eval_progress_begin((uint32_t)a->done);
  while (st == TN_OK && a->done < a->n && !tn_cli_interrupted()) {
    double v[3];
    st = run_one(a, a->done, v, err);
    if (st == TN_OK) add(a, v);
    if (st == TN_OK && journal) st = tn_journal_add(journal, json_pack("{s:[f, f, f]}", "v", v[0], v[1], v[2]), err);
    tn_eval_progress_show(&progress, (uint32_t)a->done, (uint32_t)a->n);
  }
  tn_eval_progress_clear(&progress);
  tn_journal_close(journal);
  return st;
}

/* ---------------------------------------------------------------- output */

/* Standard error of a share, as lm-evaluation-harness gives it. */
static tn_measured share(double sum, size_t n)
{
  double p = n ? sum / (double)n : 0;
  return (tn_measured){p, n > 1 ? sqrt(p * (1 - p) / (double)(n - 1)) : 0};
}

static int print_text(list_args *a)
{
  char print[TN_FINGERPRINT_HEX + 1];
  const char *partial = a->done < a->n ? " (partial)" : "";
  tn_measured first = share(a->sum[0], a->done), second = share(a->sum[1], a->done);
  if (a->match) {
    printf("exact match: %.4f ± %.4f of %zu prompts%s\n", first.value, first.error, a->done, partial);
    printf("equal from the start: %.0f of %.0f tokens\n", a->sum[1], a->tokens);
  } else {
    printf("acc:      %.4f ± %.4f\nacc_norm: %.4f ± %.4f\n%zu questions%s\n", first.value, first.error, second.value,
           second.error, a->done, partial);
  }
  tn_composition_short(a->e.setup[0].composition, print);
  printf("composition %s", print);
  if (a->match) tn_composition_short(a->e.setup[1].composition, print);
  printf(a->match ? ", reference %s\n" : "\n", print);
  tn_eval_print_untrained(&a->e.setup[0], "tested composition");
  if (a->match) tn_eval_print_untrained(&a->e.setup[1], "reference");
  return tn_cli_done(a->e.cli.usage->command, TN_EXIT_OK);
}

static int print_json(list_args *a)
{
  tn_measured first = share(a->sum[0], a->done), second = share(a->sum[1], a->done);
  json_t *j = tn_eval_subject_json(&a->e.setup[0]);
  json_t *more = a->match ? json_pack("{s:f, s:f, s:f, s:f, s:o}", "exact_match", first.value, "exact_match_stderr",
                                      first.error, "tokens_equal", a->sum[1], "tokens_reference", a->tokens,
                                      "reference", tn_eval_subject_json(&a->e.setup[1]))
                          : json_pack("{s:f, s:f, s:f, s:f}", "acc", first.value, "acc_stderr", first.error, "acc_norm",
                                      second.value, "acc_norm_stderr", second.error);
  if (j && more && json_object_update(j, more) != 0) {
    json_decref(j);
    j = NULL;
  }
  json_decref(more);
  if (j) json_object_set_new(j, "n", json_integer((json_int_t)a->n));
  if (j) json_object_set_new(j, "n_done", json_integer((json_int_t)a->done));
  if (j) json_object_set_new(j, "partial", json_boolean(a->done < a->n));
  return tn_cli_json(a->e.cli.usage->command, j);
}

/* ---------------------------------------------------------------- the command line */

static bool take(void *ctx, int i, const char *v)
{
  list_args *a = ctx;
  const tn_cli_args *cli = &a->e.cli;
  const char *name = cli->usage->options[i].name;
  if (i < O_FILE) return tn_engine_args_take(&a->e.engine, i, v);
  switch (i) {
    case O_FILE: a->file = v; return true;
    case O_LIMIT: return tn_cli_number(cli, name, v, 0, INT32_MAX, &a->limit);
    case O_RESUME: a->resume_file = v; return true;
    case O_N: return tn_cli_number(cli, name, v, 1, 1 << 20, &a->n_predict);
    default: return tn_eval_take_ref(&a->e, i - O_REF, v);
  }
}

static int parse(list_args *a)
{
  tn_cli_args *cli = &a->e.cli;
  const int code = tn_cli_options_only(cli, take, a);
  if (code != -1) return code;
  if (!a->file) return tn_cli_mistake(cli, "no %s: give -f FILE", a->match ? "prompts" : "questions");
  if (a->match && !a->e.has_reference)
    return tn_cli_mistake(cli, "nothing to compare with: give --ref FILE, --ref-set or --ref-model");
  return -1;
}

static int measure(list_args *a)
{
  char *text = NULL;
  size_t n = 0;
  tn_err err = tn_err_init();
  tn_status st = tn_file_read(a->file, (size_t)1 << 31, &text, &n, &err);
  if (st == TN_OK) st = a->match ? parse_prompts(a, text, n, &err) : tn_tasks_parse(a->file, text, n, &a->tasks, &err);
  free(text);
  int code = st == TN_OK ? tn_eval_open(&a->e) : tn_cli_fail(&a->e.cli, &err);
  if (code != TN_EXIT_OK) return code;
  a->n = a->limit && (size_t)a->limit < a->tasks.n ? (size_t)a->limit : a->tasks.n;
  st = run_all(a, &err);
  if (st != TN_OK) tn_engine_args_explain(&a->e.engine, &err);
  return st != TN_OK ? tn_cli_fail(&a->e.cli, &err) : a->e.engine.json ? print_json(a) : print_text(a);
}

static int run(int argc, char **argv, const tn_cli_usage *usage, bool match)
{
  list_args *a = tn_zalloc(1, sizeof *a);
  if (!a) return TN_EXIT_FAIL;
  a->match = match;
  a->n_predict = 64;
  tn_eval_begin(&a->e, usage, argc, argv);
  int code = parse(a);
  if (code < 0) {
    tn_cli_catch_interrupt();
    code = measure(a);
  }
  tn_tasks_free(&a->tasks);
  tn_eval_close(&a->e);
  free(a);
  return tn_cli_interrupted() ? 130 : code;
}

int tn_cli_eval_tasks(int argc, char **argv) { return run(argc, argv, &task_usage, false); }
int tn_cli_eval_match(int argc, char **argv) { return run(argc, argv, &match_usage, true); }
