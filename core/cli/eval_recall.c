/* eval_recall: `tenon eval needle`, `passkey`, `multikey`, `vartrack`: what a composed engine still finds in a long text,
 * by depth and length. */
#include <stdlib.h>
#include <string.h>

#include "cli/eval.h"
#include "measure/answer.h"
#include "measure/journal.h"
#include "measure/recall.h"

enum { MAX_LENGTHS = 16, MAX_DEPTHS = 64 };

static const tn_cli_option options[] = {
    TN_ENGINE_OPTIONS,
    {"file", 'f', "FILE", "the haystack, a text; passkey needs none"},
    {"lengths", 'l', "N,...", "tokens of a text, question and answer included (default 512,1024,2048)"},
    {"depths", 'd', "N", "so many depths from 0 to 100 % (default 5)"},
    {"samples", 'n', "N", "texts of each length and depth (default 1)"},
    {"seed", 's', "N", "of the numbers and names (default 1)"},
    {"resume", 0, "FILE", "keep what is done in FILE, and go on from what it holds"},
};
enum { O_FILE = TN_N_ENGINE_OPTIONS, O_LENGTHS, O_DEPTHS, O_SAMPLES, O_SEED, O_RESUME };

#define SUMMARY(what, name, more)                                                                                   \
  what "\nThe answer is read, not written (teacher forcing): each cell of the table says which part of the texts\n" \
       "would have been answered exactly by greedy decoding, and ln p of the answer, a token. RULER's kinds.\n\n"   \
       "  tenon eval " name " -m M.gguf" more " -l 1024,4096 -d 9\n"                                                \
       "  tenon eval " name " -m M.gguf" more " --conf evicting.ini --json"
#define USAGE(kind, what, more)                                                                        \
  {                                                                                                    \
    .command = "eval " kind, .operands = "", .summary = SUMMARY(what, kind, more), .options = options, \
    .n_options = TN_ARRAY_LEN(options)                                                                 \
  }
static const tn_cli_usage usages[TN_RECALL_N] = {
    USAGE("needle", "A sentence with a number in a long text: is the number found?", " -f wiki.txt"),
    USAGE("passkey", "A number in repeated noise: is it found?", ""),
    USAGE("multikey", "Four names with numbers in a long text: is the right number found?", " -f wiki.txt"),
    USAGE("vartrack", "Variables that get their values from one another: are all of them found?", " -f wiki.txt"),
};

typedef struct cell {
  uint32_t n;
  double exact, right, loglik, per_token; /* sums over n texts */
} cell;

typedef struct recall_args {
  tn_eval e;
  uint32_t kind;
  const char *file, *resume_file;
  int64_t lengths[MAX_LENGTHS], depths, samples, seed;
  uint32_t n_lengths;
  cell cells[MAX_DEPTHS][MAX_LENGTHS];
  uint32_t done; /* texts */
  bool ctx_given;
} recall_args;

static double depth_of(const recall_args *a, uint32_t i)
{
  return a->depths > 1 ? (double)i / (double)(a->depths - 1) : 0.5;
}

static uint32_t all_texts(const recall_args *a) { return (uint32_t)(a->depths * a->samples) * a->n_lengths; }

static void add(cell *c, double loglik, double n, double n_top)
{
  c->n++;
  c->exact += n_top == n;
  c->right += n_top / n;
  c->loglik += loglik;
  c->per_token += loglik / n;
}

static cell *cell_of(recall_args *a, uint32_t text)
{
  uint32_t per_length = (uint32_t)(a->depths * a->samples);
  return &a->cells[text % per_length / (uint32_t)a->samples][text / per_length];
}

/* Texts come length by length, the short ones first. */
static tn_status run_text(recall_args *a, uint32_t text, tn_str hay, tn_answer *out, tn_err *err)
{
  uint32_t per_length = (uint32_t)(a->depths * a->samples);
  tn_subject s = tn_eval_tested(&a->e);
  tn_recall r;
  tn_recall_spec spec = {.kind = a->kind,
                         .length = a->lengths[text / per_length],
                         .depth = depth_of(a, text % per_length / (uint32_t)a->samples),
                         .seed = (uint64_t)a->seed * 1000003u + text,
                         .haystack = hay};
  tn_status st = tn_recall_make(a->e.setup[0].tokenizer, &spec, &r, err);
  if (st == TN_OK) st = tn_answer_score(&s, r.tokens, r.n, r.n_prompt, out, err);
  tn_recall_free(&r);
  return st;
}

static json_t *about(const recall_args *a)
{
  char print[TN_FINGERPRINT_HEX + 1];
  json_t *lengths = json_array();
  tn_composition_short(a->e.setup[0].composition, print);
  for (uint32_t i = 0; i < a->n_lengths; i++) json_array_append_new(lengths, json_integer(a->lengths[i]));
  return json_pack("{s:s, s:s, s:s, s:o, s:I, s:I, s:I}", "measures", a->e.cli.usage->command, "composition", print,
                   "file", a->file ? a->file : "", "lengths", lengths, "depths", (json_int_t)a->depths, "samples",
                   (json_int_t)a->samples, "seed", (json_int_t)a->seed);
}

static tn_status resume(recall_args *a, tn_journal **out, tn_err *err)
{
  const json_t *p;
  tn_status st = tn_journal_open(a->resume_file, about(a), out, err);
  while (st == TN_OK && a->done < all_texts(a) && (p = tn_journal_at(*out, a->done))) {
    double n = json_number_value(json_object_get(p, "n"));
    if (!(n >= 1)) return tn_fail(err, TN_E_IO, "%s: text %u has no tokens", a->resume_file, a->done + 1);
    add(cell_of(a, a->done++), json_number_value(json_object_get(p, "loglik")), n,
        json_number_value(json_object_get(p, "n_top")));
  }
  return st;
}

static tn_status run_texts(recall_args *a, tn_str hay, tn_err *err)
{
  tn_journal *journal = NULL;
  tn_status st = a->resume_file ? resume(a, &journal, err) : TN_OK;
  tn_eval_progress progress = tn_eval_progress_begin(a->done);
  while (st == TN_OK && a->done < all_texts(a) && !tn_cli_interrupted()) {
    tn_answer r;
    st = run_text(a, a->done, hay, &r, err);
    if (st == TN_OK) add(cell_of(a, a->done++), r.loglik, (double)r.n, (double)r.n_top);
    if (st == TN_OK && journal)
      st = tn_journal_add(
          journal, json_pack("{s:f, s:I, s:I}", "loglik", r.loglik, "n", (json_int_t)r.n, "n_top", (json_int_t)r.n_top),
          err);
    tn_eval_progress_show(&progress, a->done, all_texts(a));
  }
  tn_eval_progress_clear(&progress);
  tn_journal_close(journal);
  return st;
}

/* ---------------------------------------------------------------- output */

/* From red (nothing) to green (all): a colour of the 6 x 6 x 6 cube. */
static void print_cell(const cell *c, bool colour)
{
  if (c->n == 0) {
    printf(" %14s", "-");
    return;
  }
  double exact = c->exact / c->n;
  int green = (int)(exact * 4 + 0.5);
  if (colour) printf(" \033[30;48;5;%dm", 16 + 36 * (5 - green) + 6 * (green + 1));
  printf(colour ? "%5.0f %% %6.2f" : " %5.0f %% %6.2f", 100 * exact, c->per_token / c->n);
  if (colour) printf(" \033[0m");
}

static int print_text(recall_args *a)
{
  char print[TN_FINGERPRINT_HEX + 1];
  bool colour = tn_cli_colour(stdout);
  cell sum = {0};
  printf("%-8s", "depth");
  for (uint32_t l = 0; l < a->n_lengths; l++) printf(" %14lld", (long long)a->lengths[l]);
  printf("   tokens: exact answers, ln p a token\n");
  for (uint32_t d = 0; d < a->depths; d++) {
    printf("%5.0f %% ", 100 * depth_of(a, d));
    for (uint32_t l = 0; l < a->n_lengths; l++) {
      const cell *c = &a->cells[d][l];
      print_cell(c, colour);
      sum.n += c->n, sum.exact += c->exact, sum.right += c->right, sum.per_token += c->per_token;
    }
    printf("\n");
  }
  if (sum.n > 0)
    printf("\n%s: %.1f %% exact, %.1f %% of the answers' tokens right, ln p %.3f a token, over %u texts%s\n",
           tn_recall_names[a->kind], 100 * sum.exact / sum.n, 100 * sum.right / sum.n, sum.per_token / sum.n, sum.n,
           a->done < all_texts(a) ? " (partial)" : "");
  tn_composition_short(a->e.setup[0].composition, print);
  printf("composition %s\n", print);
  tn_eval_print_untrained(&a->e.setup[0], "tested composition");
  return tn_cli_done(a->e.cli.usage->command, TN_EXIT_OK);
}

static int print_json(recall_args *a)
{
  json_t *j = tn_eval_subject_json(&a->e.setup[0]), *cells = json_array();
  for (uint32_t l = 0; l < a->n_lengths; l++)
    for (uint32_t d = 0; d < a->depths; d++) {
      const cell *c = &a->cells[d][l];
      if (c->n == 0) continue;
      json_array_append_new(cells, json_pack("{s:I, s:f, s:i, s:f, s:f, s:f, s:f}", "length", (json_int_t)a->lengths[l],
                                             "depth", depth_of(a, d), "n", (int)c->n, "exact", c->exact / c->n,
                                             "tokens_right", c->right / c->n, "loglik", c->loglik / c->n,
                                             "loglik_per_token", c->per_token / c->n));
    }
  if (j) json_object_set_new(j, "kind", json_string(tn_recall_names[a->kind]));
  if (j) json_object_set_new(j, "partial", json_boolean(a->done < all_texts(a)));
  if (j) json_object_set_new(j, "seed", json_integer(a->seed));
  if (j) json_object_set_new(j, "cells", cells);
  return tn_cli_json(a->e.cli.usage->command, j);
}

/* ---------------------------------------------------------------- the command line */

static bool take_lengths(recall_args *a, const char *text)
{
  char item[32];
  a->n_lengths = 0;
  for (const char *p = text;; p++) {
    size_t n = strcspn(p, ",");
    snprintf(item, sizeof item, "%.*s", (int)(n < sizeof item ? n : sizeof item), p);
    if (a->n_lengths == MAX_LENGTHS)
      return tn_cli_mistake(&a->e.cli, "--lengths: more than %d numbers", (int)MAX_LENGTHS), false;
    if (!tn_cli_number(&a->e.cli, "lengths", item, 32, 1 << 24, &a->lengths[a->n_lengths])) return false;
    a->n_lengths++;
    p += n;
    if (*p == '\0') return true;
  }
}

static bool take(void *ctx, int i, const char *v)
{
  recall_args *a = ctx;
  const char *name = options[i].name;
  a->ctx_given = a->ctx_given || options[i].letter == 'c';
  if (i < O_FILE) return tn_engine_args_take(&a->e.engine, i, v);
  switch (i) {
    case O_FILE: a->file = v; return true;
    case O_LENGTHS: return take_lengths(a, v);
    case O_DEPTHS: return tn_cli_number(&a->e.cli, name, v, 1, MAX_DEPTHS, &a->depths);
    case O_SAMPLES: return tn_cli_number(&a->e.cli, name, v, 1, 1000, &a->samples);
    case O_SEED: return tn_cli_number(&a->e.cli, name, v, 0, INT32_MAX, &a->seed);
    default: a->resume_file = v; return true;
  }
}

static int parse(recall_args *a)
{
  tn_cli_args *cli = &a->e.cli;
  int64_t most = 0;
  const int code = tn_cli_options_only(cli, take, a);
  if (code != -1) return code;
  if (a->kind == TN_RECALL_PASSKEY && a->file) return tn_cli_mistake(cli, "passkey has a haystack of its own: no -f");
  if (a->kind != TN_RECALL_PASSKEY && !a->file) return tn_cli_mistake(cli, "no haystack: give -f FILE");
  for (uint32_t k = 0; k < a->n_lengths; k++) most = a->lengths[k] > most ? a->lengths[k] : most;
  char from[64];
  snprintf(from, sizeof from, "--lengths %lld", (long long)most);
  return a->ctx_given || tn_engine_args_set(&a->e.engine, from, "ctx", most) ? -1 : TN_EXIT_FAIL;
}

static int measure(recall_args *a)
{
  char *text = NULL;
  size_t n = 0;
  tn_err err = tn_err_init();
  tn_status st = a->file ? tn_file_read(a->file, (size_t)1 << 31, &text, &n, &err) : TN_OK;
  int code = st == TN_OK ? tn_eval_open(&a->e) : tn_cli_fail(&a->e.cli, &err);
  if (code == TN_EXIT_OK) {
    st = run_texts(a, (tn_str){text, n}, &err);
    if (st != TN_OK) tn_engine_args_explain(&a->e.engine, &err);
    code = st != TN_OK ? tn_cli_fail(&a->e.cli, &err) : a->e.engine.json ? print_json(a) : print_text(a);
  }
  free(text);
  return code;
}

static int run(int argc, char **argv, uint32_t kind)
{
  recall_args *a = tn_zalloc(1, sizeof *a);
  if (!a) return TN_EXIT_FAIL;
  a->kind = kind;
  a->lengths[0] = 512, a->lengths[1] = 1024, a->lengths[2] = 2048;
  a->n_lengths = 3;
  a->depths = 5;
  a->samples = a->seed = 1;
  tn_eval_begin(&a->e, &usages[kind], argc, argv);
  int code = parse(a);
  if (code < 0) {
    tn_cli_catch_interrupt();
    code = measure(a);
  }
  tn_eval_close(&a->e);
  free(a);
  return tn_cli_interrupted() ? 130 : code;
}

int tn_cli_eval_needle(int argc, char **argv) { return run(argc, argv, TN_RECALL_NEEDLE); }
int tn_cli_eval_passkey(int argc, char **argv) { return run(argc, argv, TN_RECALL_PASSKEY); }
int tn_cli_eval_multikey(int argc, char **argv) { return run(argc, argv, TN_RECALL_MULTIKEY); }
int tn_cli_eval_vartrack(int argc, char **argv) { return run(argc, argv, TN_RECALL_VARTRACK); }
