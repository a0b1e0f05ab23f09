/* eval_ppl: `tenon eval ppl` and `tenon eval kld`: a text through one engine, or through two side by side. */
#include <stdlib.h>
#include <string.h>

#include "cli/eval.h"

#define TEXT_OPTIONS                                                                                              \
  {"file", 'f', "FILE", "the text"}, {"chunks", 0, "N", "chunks to score at most; 0: all (default)"},             \
      {"prompt", 0, "K", "tokens of a chunk before the scored ones, for eviction the prompt; default: its half"}, \
  {                                                                                                               \
    "buckets", 0, "N", "also PPL for N equal ranges of text positions"                                            \
  }

static const tn_cli_option ppl_options[] = {TN_ENGINE_OPTIONS, TEXT_OPTIONS};
static const tn_cli_option kld_options[] = {TN_ENGINE_OPTIONS, TEXT_OPTIONS, TN_EVAL_REF_OPTIONS};
enum { O_FILE = TN_N_ENGINE_OPTIONS, O_CHUNKS, O_PROMPT, O_BUCKETS, O_REF };

/* -c is the chunk here, as in llama-perplexity. */
static const tn_cli_usage ppl_usage = {
    .command = "eval ppl",
    .operands = "",
    .summary = "Perplexity of the composed engine on a text, as llama-perplexity computes it: chunks of -c tokens\n"
               "(default 512), the second half of each scored.\n\n"
               "  tenon eval ppl -m M.gguf -f wiki.txt -c 512\n"
               "  tenon eval ppl -m M.gguf -f wiki.txt --conf evicting.ini -c 2048 --prompt 1024 --buckets 4",
    .options = ppl_options,
    .n_options = TN_ARRAY_LEN(ppl_options),
};
static const tn_cli_usage kld_usage = {
    .command = "eval kld",
    .operands = "",
    .summary = "How far the composed engine's laws are from those of a reference: llama-perplexity's KL divergence\n"
               "report. The reference is a composition that runs beside the tested one, chunk by chunk. Chunks are\n"
               "those of `tenon eval ppl`; -c, -t and -b hold for both.\n\n"
               "  tenon eval kld -m M.gguf -f wiki.txt --conf x.ini --ref ref.ini\n"
               "  tenon eval kld -m M.gguf -f wiki.txt --set compose.kv=NAME --ref conf/default.ini --json\n"
               "  tenon eval kld -m M-q4.gguf --ref-model M-f16.gguf -f wiki.txt",
    .options = kld_options,
    .n_options = TN_ARRAY_LEN(kld_options),
};

typedef struct ppl_args {
  tn_eval e;
  const char *file;
  int64_t n_ctx, chunks, n_prompt, buckets;
  bool kld;
} ppl_args;

typedef struct shown {
  const ppl_args *a;
  tn_eval_progress progress;
  bool first;
} shown;

/* One row of llama-perplexity's running table. */
static void print_row(const tn_quality *q, const tn_kld_stats *s, bool first)
{
  if (first)
    printf("chunk             PPL               ln(PPL(Q)/PPL(base))          KL Divergence              Δp RMS"
           "            Same top p\n");
  printf("%4u    %9.4f ± %9.4f    %10.5f ± %10.5f    %10.5f ± %10.5f    %6.3f ± %6.3f %%    %6.3f ± %6.3f %%\n",
         q->n_done, s->ppl.value, s->ppl.error, s->ln_ratio.value, s->ln_ratio.error, s->kld.value, s->kld.error,
         100 * s->dp_rms.value, 100 * s->dp_rms.error, 100 * s->same_top.value, 100 * s->same_top.error);
}

static bool on_chunk(void *ctx, const tn_quality *q)
{
  shown *w = ctx;
  tn_kld_stats s;
  tn_eval_progress_clear(&w->progress);
  if (!w->a->e.engine.json && tn_kld_stats_of(q->tokens, q->n, q->based, &s, NULL) == TN_OK) {
    if (w->a->kld)
      print_row(q, &s, w->first);
    else
      printf("[%u]%.4f,%s", q->n_done, s.ppl.value, q->n_done == q->n_chunks ? "\n" : "");
    fflush(stdout);
  }
  w->first = false;
  tn_eval_progress_show(&w->progress, q->n_done, q->n_chunks);
  return !tn_cli_interrupted();
}

static bool on_step(void *ctx)
{
  (void)ctx;
  return !tn_cli_interrupted();
}

static int print_text(ppl_args *a, const tn_chunks *c, const tn_quality *q, const tn_kld_stats *s)
{
  char print[TN_FINGERPRINT_HEX + 1];
  tn_err err = tn_err_init();
  const char *partial = q->n_done < q->n_chunks ? " (partial)" : "";
  if (q->n_done < q->n_chunks && !a->kld) printf("\n");
  if (a->kld) {
    printf("\n");
    tn_eval_print_stats(s);
  } else {
    printf("Final estimate: PPL = %.4f +/- %.5f%s\n", s->ppl.value, s->ppl.error, partial);
  }
  if (tn_eval_print_buckets(q, c, (uint32_t)a->buckets, &err) != TN_OK) return tn_cli_fail(&a->e.cli, &err);
  tn_composition_short(a->e.setup[0].composition, print);
  printf("%s%lld tokens scored in %u of %u chunks%s; composition %s", a->kld || a->buckets ? "\n" : "", (long long)q->n,
         q->n_done, q->n_chunks, partial, print);
  if (a->e.has_reference) {
    tn_composition_short(a->e.setup[1].composition, print);
    printf(", reference %s", print);
  }
  printf("\n");
  tn_eval_print_untrained(&a->e.setup[0], "tested composition");
  if (a->e.has_reference) tn_eval_print_untrained(&a->e.setup[1], "reference");
  return tn_cli_done(a->e.cli.usage->command, TN_EXIT_OK);
}

static int print_json(ppl_args *a, const tn_chunks *c, const tn_quality *q, const tn_kld_stats *s)
{
  json_t *j = tn_eval_subject_json(&a->e.setup[0]);
  json_t *more =
      json_pack("{s:I, s:I, s:I, s:I, s:i, s:i, s:b}", "n_scored", (json_int_t)q->n, "n_tokens",
                (json_int_t)c->n_tokens, "n_ctx", (json_int_t)c->n_ctx, "n_prompt", (json_int_t)c->n_prompt, "n_chunks",
                (int)q->n_chunks, "n_done", (int)q->n_done, "partial", (int)(q->n_done < q->n_chunks));
  if (j && more && !a->kld) {
    json_object_set_new(more, "ppl", json_real(s->ppl.value));
    json_object_set_new(more, "error", json_real(s->ppl.error));
  } else if (j && more) {
    json_object_set_new(more, "stats", tn_eval_stats_json(s));
    if (a->e.has_reference) json_object_set_new(more, "reference", tn_eval_subject_json(&a->e.setup[1]));
  }
  if (j && more && a->buckets) json_object_set_new(more, "buckets", tn_eval_buckets_json(q, c, (uint32_t)a->buckets));
  if (j && more && json_object_update(more, j) == 0) {
    json_decref(j);
    return tn_cli_json(a->e.cli.usage->command, more);
  }
  json_decref(j);
  json_decref(more);
  return tn_cli_json(a->e.cli.usage->command, NULL);
}

static int report(ppl_args *a, const tn_chunks *c, const tn_quality *q)
{
  tn_kld_stats s;
  tn_err err = tn_err_init();
  if (q->n == 0) {
    tn_fail(&err, TN_E_STATE, "ended before the first chunk was done: there is nothing to report");
    return tn_cli_fail(&a->e.cli, &err);
  }
  if (tn_kld_stats_of(q->tokens, q->n, q->based, &s, &err) != TN_OK) return tn_cli_fail(&a->e.cli, &err);
  return a->e.engine.json ? print_json(a, c, q, &s) : print_text(a, c, q, &s);
}

static int measure(ppl_args *a, const char *text, size_t n)
{
  tn_chunks c = {0};
  tn_quality q = {0};
  tn_err err = tn_err_init();
  int code = tn_eval_open(&a->e);
  if (code != TN_EXIT_OK) return code;
  shown show = {a, tn_eval_progress_begin(0), true};
  tn_quality_args args = {.tested = tn_eval_tested(&a->e),
                          .reference = tn_eval_reference(&a->e),
                          .chunks = &c,
                          .chunk = on_chunk,
                          .on = on_step,
                          .ctx = &show};
  tn_status st = tn_chunks_cut(a->e.setup[0].tokenizer, text, n, a->n_ctx, a->n_prompt, (uint32_t)a->chunks, &c, &err);
  if (st == TN_OK && a->e.has_reference) st = tn_chunks_check(&c, &a->e.setup[0], &a->e.setup[1], text, n, &err);
  if (st == TN_OK) st = tn_quality_measure(&args, &q, &err);
  tn_eval_progress_clear(&show.progress);
  if (st != TN_OK) tn_engine_args_explain(&a->e.engine, &err);
  code = st == TN_OK ? report(a, &c, &q) : tn_cli_fail(&a->e.cli, &err);
  tn_chunks_free(&c);
  tn_quality_free(&q);
  return code;
}

static bool take(ppl_args *a, int i, const char *v)
{
  const tn_cli_args *cli = &a->e.cli;
  const char *name = cli->usage->options[i].name;
  if (cli->usage->options[i].letter == 'c') return tn_cli_number(cli, name, v, 4, 1 << 24, &a->n_ctx);
  if (i < O_FILE) return tn_engine_args_take(&a->e.engine, i, v);
  switch (i) {
    case O_FILE: a->file = v; return true;
    case O_CHUNKS: return tn_cli_number(cli, name, v, 0, 1 << 24, &a->chunks);
    case O_PROMPT: return tn_cli_number(cli, name, v, 1, 1 << 24, &a->n_prompt);
    case O_BUCKETS: return tn_cli_number(cli, name, v, 1, 1000, &a->buckets);
    default: return tn_eval_take_ref(&a->e, i - O_REF, v);
  }
}

static int parse(ppl_args *a)
{
  tn_cli_args *cli = &a->e.cli;
  const char *v;
  int i;
  while ((i = tn_cli_next(cli, &v)) >= 0)
    if (!take(a, i, v)) return TN_EXIT_USAGE;
  if (i == TN_CLI_STOP) return cli->exit_code;
  if (cli->first_operand < cli->argc)
    return tn_cli_mistake(cli, "'%s': %s takes options only", cli->argv[cli->first_operand], cli->usage->command);
  if (!a->file) return tn_cli_mistake(cli, "no text: give -f FILE");
  if (a->kld && !a->e.has_reference)
    return tn_cli_mistake(cli, "nothing to compare with: give --ref FILE, --ref-set or --ref-model");
  char from[64];
  snprintf(from, sizeof from, "-c %lld", (long long)a->n_ctx);
  return tn_engine_args_set(&a->e.engine, from, "ctx", a->n_ctx) ? -1 : TN_EXIT_FAIL;
}

static int run(int argc, char **argv, const tn_cli_usage *usage, bool kld)
{
  ppl_args *a = tn_zalloc(1, sizeof *a);
  if (!a) return TN_EXIT_FAIL;
  a->n_ctx = 512;
  a->kld = kld;
  tn_eval_begin(&a->e, usage, argc, argv);
  int code = parse(a);
  if (code < 0) {
    char *text;
    size_t n;
    tn_err err = tn_err_init();
    tn_cli_catch_interrupt();
    if (tn_file_read(a->file, (size_t)1 << 31, &text, &n, &err) != TN_OK) {
      code = tn_cli_fail(&a->e.cli, &err);
    } else {
      code = measure(a, text, n);
      free(text);
    }
  }
  tn_eval_close(&a->e);
  free(a);
  return tn_cli_interrupted() ? 130 : code;
}

int tn_cli_eval_ppl(int argc, char **argv) { return run(argc, argv, &ppl_usage, false); }

int tn_cli_eval_kld(int argc, char **argv) { return run(argc, argv, &kld_usage, true); }
