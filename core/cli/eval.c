/* eval: `tenon eval ppl`, the quality of a composed engine. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/engine_args.h"
#include "measure/perplexity.h"

static const tn_cli_option options[] = {
    TN_ENGINE_OPTIONS,
    {"file", 'f', "FILE", "the text"},
    {"chunks", 0, "N", "chunks to score at most; 0: all (default)"},
};
/* -c is the chunk here, as in llama-perplexity. */
static const tn_cli_usage usage = {
    .command = "eval",
    .operands = "ppl",
    .summary = "Perplexity of the composed engine on a text, as llama-perplexity computes it: chunks of -c tokens\n"
               "(default 512), the second half of each scored.\n\n"
               "  tenon eval ppl -m M.gguf -f wiki.txt -c 512\n"
               "  tenon eval ppl -m M.gguf -f wiki.txt --set compose.kv=int8 --json",
    .options = options,
    .n_options = TN_ARRAY_LEN(options),
};

typedef struct eval_args {
  tn_cli_args cli;
  tn_engine_args engine;
  const char *file;
  int64_t chunks, n_ctx;
} eval_args;

typedef struct shown {
  uint64_t start;
  bool json, tty;
} shown;

static bool on_chunk(void *ctx, const tn_ppl *p)
{
  shown *s = ctx;
  double spent = (double)(tn_now_ns() - s->start) / 1e9, left = spent / p->n_done * (p->n_chunks - p->n_done);
  if (s->tty) fprintf(stderr, "\r[%u/%u] PPL %.4f, %.0f s left ", p->n_done, p->n_chunks, p->ppl, left);
  if (!s->json) {
    printf("[%u]%.4f,%s", p->n_done, p->ppl, p->n_done == p->n_chunks ? "\n" : "");
    fflush(stdout);
  }
  return !tn_cli_interrupted();
}

static int print(const tn_setup *s, const tn_ppl *p, bool json)
{
  char print_[TN_FINGERPRINT_HEX + 1];
  tn_composition_short(s->composition, print_);
  if (!json) {
    printf("Final estimate: PPL = %.4f +/- %.5f%s\n", p->ppl, p->error, p->partial ? " (partial)" : "");
    printf("%lld tokens scored in %u of %u chunks; composition %s\n", (long long)p->n_scored, p->n_done, p->n_chunks,
           print_);
    return tn_cli_done("eval", TN_EXIT_OK);
  }
  return tn_cli_json("eval",
                     json_pack("{s:f, s:f, s:I, s:I, s:i, s:i, s:b, s:s, s:o}", "ppl", p->ppl, "error", p->error,
                               "n_scored", (json_int_t)p->n_scored, "n_tokens", (json_int_t)p->n_tokens, "n_chunks",
                               (int)p->n_chunks, "n_done", (int)p->n_done, "partial", (int)p->partial, "fingerprint",
                               print_, "counters", tn_engine_counters_json(s->engine)));
}

static int measure(const eval_args *a, const char *text, size_t n)
{
  tn_ppl_run *r = tn_ppl_new();
  if (!r) return TN_EXIT_FAIL;
  tn_setup s;
  tn_setup_args more = {.events = tn_ppl_events(r)};
  int code = tn_engine_args_open(&a->engine, &more, &s);
  if (code == TN_EXIT_OK) {
    shown show = {tn_now_ns(), a->engine.json, a->engine.json && isatty(STDERR_FILENO)};
    tn_ppl_args args = {.text = text,
                        .n_text = n,
                        .n_ctx = a->n_ctx,
                        .max_chunks = (uint32_t)a->chunks,
                        .chunk = on_chunk,
                        .ctx = &show};
    tn_ppl p;
    tn_err err = tn_err_init();
    if (a->engine.verbose) tn_engine_print_memory(stderr, &s, true);
    tn_status st = tn_ppl_measure(r, &s, &args, &p, &err);
    if (show.tty) fputs("\n", stderr);
    if (p.partial && !a->engine.json) fputs("\n", stdout);
    if (st != TN_OK) tn_engine_args_explain(&a->engine, &err);
    code = st == TN_OK ? print(&s, &p, a->engine.json) : tn_cli_fail(&a->cli, &err);
    if (a->engine.verbose) tn_engine_print_counters(stderr, s.engine);
    tn_setup_close(&s);
  }
  tn_ppl_free(r);
  return tn_cli_interrupted() ? 130 : code;
}

static int parse(eval_args *a, int argc, char **argv)
{
  tn_cli_args *args = &a->cli;
  a->engine.cli = args;
  tn_cli_begin(args, &usage, argc, argv);
  const char *v;
  int i;
  while ((i = tn_cli_next(args, &v)) >= 0) {
    bool ok = true;
    if (options[i].letter == 'c')
      ok = tn_cli_number(args, options[i].name, v, 4, 1 << 24, &a->n_ctx);
    else if (i < (int)TN_N_ENGINE_OPTIONS)
      ok = tn_engine_args_take(&a->engine, i, v);
    else if (options[i].letter == 'f')
      a->file = v;
    else
      ok = tn_cli_number(args, options[i].name, v, 0, 1 << 24, &a->chunks);
    if (!ok) return TN_EXIT_USAGE;
  }
  if (i == TN_CLI_STOP) return args->exit_code;
  if (args->first_operand + 1 != argc || strcmp(argv[args->first_operand], "ppl") != 0)
    return tn_cli_mistake(args, "say what to measure: ppl");
  if (!a->file) return tn_cli_mistake(args, "no text: give -f FILE");
  char from[64];
  snprintf(from, sizeof from, "-c %lld", (long long)a->n_ctx);
  return tn_engine_args_set(&a->engine, from, "ctx", a->n_ctx) ? -1 : TN_EXIT_FAIL;
}

int tn_cli_eval(int argc, char **argv)
{
  eval_args a = {.n_ctx = 512};
  int code = parse(&a, argc, argv);
  if (code < 0) {
    char *text;
    size_t n;
    tn_err err = tn_err_init();
    tn_cli_catch_interrupt();
    if (tn_file_read(a.file, (size_t)1 << 31, &text, &n, &err) != TN_OK) {
      code = tn_cli_fail(&a.cli, &err);
    } else {
      code = measure(&a, text, n);
      free(text);
    }
  }
  tn_engine_args_release(&a.engine);
  return code;
}
