/* diff: `tenon diff A.ini B.ini -p TEXT`, where two compositions part. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/engine_args.h"
#include "measure/diff.h"

static const tn_cli_option options[] = {
    TN_ENGINE_OPTIONS,
    {"prompt", 'p', "TEXT", "the text that both read"},
    {"n-predict", 'n', "N", "tokens that follow it: the first composition's own choices (default 16)"},
    {"dump", 0, "DIR", "write what every record gave as DIR/a/<record>.npy and DIR/b/<record>.npy"},
};
static const tn_cli_usage usage = {
    .command = "diff",
    .operands = "A.ini B.ini",
    .summary =
        "Runs two compositions on the same tokens, record by record, and names the first record, row and element\n"
        "where they are not bitwise equal, with the size; then the first token whose choice changes. Options\n"
        "apply to both. Programs run unfused, without drafts. Exits with 0 when nothing differs, with 1 when\n"
        "something does.\n\n"
        "  tenon diff conf/default.ini mine.ini -m M.gguf -p \"The capital of France\"\n"
        "  tenon diff a.ini b.ini -m M.gguf -p TEXT -n 64 --dump /tmp/tensors",
    .options = options,
    .n_options = TN_ARRAY_LEN(options),
};
enum { O_PROMPT = TN_N_ENGINE_OPTIONS, O_N, O_DUMP };

typedef struct choice { /* the best token behind a text position */
  int32_t token;
  double logprob;
} choice;

typedef struct diff_run {
  tn_cli_args cli;
  tn_engine_args engine;
  const char *file[2], *prompt, *dump;
  int64_t n_new, n_prompt, n; /* tokens generated, of the prompt, of the text */
  int32_t *text;              /* [n] */
  choice *best[2];            /* [n] */
  char *word[2];              /* of the choices that differ */
  uint32_t n_vocab;
  int side;
  bool failed;
  char why[256], fingerprint[2][TN_FINGERPRINT_HEX + 1];
  tn_diff d;
  int64_t changed; /* first position whose choice changes, -1: none */
} diff_run;

static void on_token(void *ctx, const tn_token_event *e)
{
  diff_run *r = ctx;
  if (!r->d.on && r->n < r->n_prompt + r->n_new) r->text[r->n++] = e->token;
}

static void on_logits(void *ctx, uint64_t seq, void *user, int64_t pos, const float *row)
{
  (void)seq, (void)user;
  diff_run *r = ctx;
  if (!r->d.on || pos < 0 || pos >= r->n) return;
  choice *c = &r->best[r->side][pos];
  c->token = 0;
  for (uint32_t i = 1; i < r->n_vocab; i++)
    if (row[i] > row[c->token]) c->token = (int32_t)i;
  c->logprob = (double)row[c->token] - tn_log_sum_exp(row, r->n_vocab);
}

static void on_finish(void *ctx, const tn_seq *seq, uint32_t why, const char *msg)
{
  (void)seq;
  diff_run *r = ctx;
  if (why != TN_FINISH_ERROR) return;
  r->failed = true;
  snprintf(r->why, sizeof r->why, "%.250s", msg ? msg : "");
}

static tn_status drive(diff_run *r, tn_engine *e, const tn_request *q, tn_err *err)
{
  uint64_t seq;
  tn_status st = tn_engine_submit(e, q, &seq, err);
  while (st == TN_OK && !tn_engine_idle(e)) {
    st = tn_engine_step(e, err);
    if (st == TN_OK && tn_cli_interrupted()) st = tn_fail(err, TN_E_STATE, "interrupted");
  }
  if (st == TN_OK && r->failed) st = tn_fail(err, TN_E_INTERNAL, "%s: %s", r->file[r->side], r->why);
  if (st != TN_OK && r->d.err.msg[0]) tn_fail(err, st, "%s", r->d.err.msg);
  return st;
}

/* The prompt's tokens, and behind them what the first composition chooses. */
static tn_status make_text(diff_run *r, tn_setup *s, tn_err *err)
{
  int32_t *ids = NULL;
  size_t n = 0;
  tn_status st = tn_tokenize(s->tokenizer, r->prompt, strlen(r->prompt), TN_TOKENIZE_ADD_SPECIAL, &ids, &n, err);
  if (st == TN_OK && n == 0) st = tn_fail(err, TN_E_ARG, "-p: the text has no tokens");
  r->n = r->n_prompt = (int64_t)n;
  if (st == TN_OK) {
    size_t most = n + (size_t)r->n_new;
    r->text = tn_zalloc(most, sizeof *r->text);
    for (int i = 0; i < 2; i++) r->best[i] = tn_zalloc(most, sizeof *r->best[i]);
    if (!r->text || !r->best[0] || !r->best[1]) st = tn_fail(err, TN_E_NOMEM, "no memory for %zu tokens", most);
  }
  if (st == TN_OK) memcpy(r->text, ids, n * sizeof *ids);
  free(ids);
  if (st != TN_OK || r->n_new == 0) return st;
  tn_request q = {.prompt = r->text, .n_prompt = r->n_prompt, .max_new = r->n_new, .sampling = tn_sampling_default()};
  return drive(r, s->engine, &q, err);
}

/* Both sides have to read the same. */
static tn_status same_text(const diff_run *r, const tn_setup *s, tn_err *err)
{
  int32_t *ids = NULL;
  size_t n = 0;
  tn_status st = tn_tokenize(s->tokenizer, r->prompt, strlen(r->prompt), TN_TOKENIZE_ADD_SPECIAL, &ids, &n, err);
  if (st == TN_OK && ((int64_t)n != r->n_prompt || memcmp(ids, r->text, n * sizeof *ids) != 0 ||
                      s->model->shape.n_vocab != r->n_vocab))
    st = tn_fail(err, TN_E_ARG, "%s and %s have models that read the text as different tokens", r->file[0], r->file[1]);
  free(ids);
  return st;
}

/* One side: its engine, the text, everything that its records give. */
static int run_side(diff_run *r, int side)
{
  tn_setup s;
  tn_err err = tn_err_init();
  tn_engine_args ea = r->engine;
  if (ea.n_conf == TN_ARRAY_LEN(ea.conf) || ea.n_sets + 2 > TN_MAX_SETS)
    return tn_cli_mistake(&r->cli, "too many --conf or --set");
  memmove(&ea.conf[1], &ea.conf[0], ea.n_conf * sizeof ea.conf[0]);
  ea.conf[0] = r->file[side];
  ea.n_conf++;
  ea.sets[ea.n_sets] = "engine.unfused=yes", ea.from[ea.n_sets++] = "diff";
  ea.sets[ea.n_sets] = "compose.draft=-", ea.from[ea.n_sets++] = "diff";
  r->side = side;
  tn_setup_args more = {.events = {.ctx = r, .token = on_token, .logits = on_logits, .finish = on_finish},
                        .trace = tn_diff_trace,
                        .trace_ctx = &r->d};
  int code = tn_engine_args_open(&ea, &more, &s);
  if (code != TN_EXIT_OK) return code;
  tn_composition_short(s.composition, r->fingerprint[side]);
  r->n_vocab = side ? r->n_vocab : s.model->shape.n_vocab;
  tn_status st = side ? same_text(r, &s, &err) : make_text(r, &s, &err);
  if (st == TN_OK && side == 0) tn_diff_init(&r->d, r->n, r->dump != NULL);
  r->d.on = true;
  r->d.second = side == 1;
  tn_request q = {.prompt = r->text,
                  .n_prompt = r->n,
                  .sampling = tn_sampling_default(),
                  .score = 1,
                  .score_from = r->n_prompt - 1};
  if (st == TN_OK) st = drive(r, s.engine, &q, &err);
  r->d.on = false;
  for (int64_t i = r->n_prompt - 1; st == TN_OK && side == 1 && r->changed < 0 && i < r->n; i++)
    if (r->best[0][i].token != r->best[1][i].token) r->changed = i;
  for (int i = 0; st == TN_OK && r->changed >= 0 && i < 2; i++) {
    size_t n;
    (void)tn_detokenize(s.tokenizer, &r->best[i][r->changed].token, 1, TN_PIECE_SPECIAL, &r->word[i], &n, NULL);
  }
  if (st != TN_OK) tn_engine_args_explain(&r->engine, &err);
  code = st == TN_OK ? TN_EXIT_OK : tn_cli_fail(&r->cli, &err);
  tn_setup_close(&s);
  return code;
}

/* ---------------------------------------------------------------- the report */

static int dump(const diff_run *r)
{
  tn_err err = tn_err_init();
  tn_status st = TN_OK;
  char path[4096];
  static const char *const folders[] = {"", "/a", "/b"};
  for (size_t i = 0; st == TN_OK && i < TN_ARRAY_LEN(folders); i++) {
    snprintf(path, sizeof path, "%s%s", r->dump, folders[i]);
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
      st = tn_fail(&err, TN_E_IO, "--dump %s: %s: %s", r->dump, path, strerror(errno));
  }
  for (size_t i = 0; st == TN_OK && i < r->d.n; i++)
    for (int side = 0; st == TN_OK && side < 2; side++) {
      snprintf(path, sizeof path, "%s%s/%s.npy", r->dump, folders[1 + side], r->d.at[i]->name);
      st = tn_diff_npy(&r->d, r->d.at[i], side, path, &err);
    }
  return st == TN_OK ? TN_EXIT_OK : tn_cli_fail(&r->cli, &err);
}

static size_t n_different(const tn_diff *d)
{
  size_t n = 0;
  for (size_t i = 0; i < d->n; i++) n += d->at[i]->row >= 0;
  return n;
}

static void print_text(const diff_run *r)
{
  const tn_diff_record *f = tn_diff_first(&r->d);
  printf("a: %s (composition %s)\nb: %s (composition %s)\n%lld tokens, %zu records\n", r->file[0], r->fingerprint[0],
         r->file[1], r->fingerprint[1], (long long)r->n, r->d.n);
  if (r->d.n_unmatched) printf("%zu outputs of b have no counterpart in a and were not compared\n", r->d.n_unmatched);
  if (!f) {
    printf("everything is bitwise equal\n");
    return;
  }
  printf("first difference: %s, row %lld, element %lld: a %.9g, b %.9g: %.3g apart, %u ulp\n", f->name,
         (long long)f->row, (long long)f->col, (double)f->a, (double)f->b, fabs((double)f->a - (double)f->b),
         tn_diff_ulps(f->a, f->b));
  printf("layer %d, record kind %s; %lld of its %lld rows differ, by %.3g at most\n", f->layer, tn_diff_kind(f->kind),
         (long long)f->n_differ, (long long)f->n_rows, f->largest);
  printf("%zu of %zu records differ\n", n_different(&r->d), r->d.n);
  if (r->changed < 0) {
    printf("no token's choice changes\n");
    return;
  }
  const choice *a = &r->best[0][r->changed], *b = &r->best[1][r->changed];
  printf("first choice that changes: behind position %lld: a %d '%s' (logprob %.4f), b %d '%s' (logprob %.4f)\n",
         (long long)r->changed, a->token, r->word[0] ? r->word[0] : "", a->logprob, b->token,
         r->word[1] ? r->word[1] : "", b->logprob);
}

static json_t *number(double x) { return isfinite(x) ? json_real(x) : json_null(); }

static json_t *report_json(const diff_run *r)
{
  const tn_diff_record *f = tn_diff_first(&r->d);
  json_t *first = json_null(), *choice_ = json_null(), *all = json_array();
  if (f)
    first = json_pack("{ss si ss sI sI so so so sI}", "record", f->name, "layer", f->layer, "kind",
                      tn_diff_kind(f->kind), "row", (json_int_t)f->row, "element", (json_int_t)f->col, "a",
                      number((double)f->a), "b", number((double)f->b), "abs", number(fabs((double)f->a - (double)f->b)),
                      "ulp", (json_int_t)tn_diff_ulps(f->a, f->b));
  if (r->changed >= 0)
    choice_ = json_pack("{sI si si so so}", "position", (json_int_t)r->changed, "a", r->best[0][r->changed].token, "b",
                        r->best[1][r->changed].token, "logprob_a", number(r->best[0][r->changed].logprob), "logprob_b",
                        number(r->best[1][r->changed].logprob));
  for (size_t i = 0; i < r->d.n; i++)
    if (r->d.at[i]->row >= 0)
      json_array_append_new(all, json_pack("{ss sI sI so}", "record", r->d.at[i]->name, "first_row",
                                           (json_int_t)r->d.at[i]->row, "rows", (json_int_t)r->d.at[i]->n_differ,
                                           "largest", number(r->d.at[i]->largest)));
  return json_pack("{sb sI sI sI s[s,s] s[s,s] so so so}", "equal", f == NULL, "tokens", (json_int_t)r->n, "records",
                   (json_int_t)r->d.n, "unmatched", (json_int_t)r->d.n_unmatched, "files", r->file[0], r->file[1],
                   "fingerprints", r->fingerprint[0], r->fingerprint[1], "first", first, "choice", choice_, "differing",
                   all);
}

static int parse(diff_run *r, int argc, char **argv)
{
  tn_cli_args *args = &r->cli;
  const char *v;
  int i;
  r->engine.cli = args;
  tn_cli_begin(args, &usage, argc, argv);
  while ((i = tn_cli_next(args, &v)) >= 0) {
    bool ok = true;
    if (i < (int)TN_N_ENGINE_OPTIONS)
      ok = tn_engine_args_take(&r->engine, i, v);
    else if (i == O_PROMPT)
      r->prompt = v;
    else if (i == O_N)
      ok = tn_cli_number(args, options[i].name, v, 0, 1 << 20, &r->n_new);
    else
      r->dump = v;
    if (!ok) return TN_EXIT_USAGE;
  }
  if (i == TN_CLI_STOP) return args->exit_code;
  if (args->first_operand + 2 != argc) return tn_cli_mistake(args, "takes two INI files, A.ini and B.ini");
  if (!r->prompt) return tn_cli_mistake(args, "no text: give -p TEXT");
  r->file[0] = argv[args->first_operand];
  r->file[1] = argv[args->first_operand + 1];
  return -1;
}

int tn_cli_diff(int argc, char **argv)
{
  diff_run r = {.n_new = 16, .changed = -1};
  int code = parse(&r, argc, argv);
  if (code < 0) {
    tn_cli_catch_interrupt();
    code = run_side(&r, 0);
    if (code == TN_EXIT_OK) code = run_side(&r, 1);
    if (code == TN_EXIT_OK && r.dump) code = dump(&r);
    if (code == TN_EXIT_OK) {
      if (!r.engine.json) print_text(&r);
      code = r.engine.json ? tn_cli_json("diff", report_json(&r)) : tn_cli_done("diff", TN_EXIT_OK);
      if (code == TN_EXIT_OK && tn_diff_first(&r.d)) code = TN_EXIT_FAIL;
    }
  }
  for (int i = 0; i < 2; i++) {
    free(r.best[i]);
    free(r.word[i]);
  }
  free(r.text);
  tn_diff_release(&r.d);
  tn_engine_args_release(&r.engine);
  return tn_cli_interrupted() ? 130 : code;
}
