/* eval_ppl: `tenon eval ppl` and `tenon eval kld`: a text through one engine, or through two side by side. */
#include <stdlib.h>
#include <string.h>

#include "cli/eval_ppl.h"

#define TEXT_OPTIONS                                                                                              \
  {"file", 'f', "FILE", "the text"}, {"chunks", 0, "N", "chunks to score at most; 0: all (default)"},             \
      {"prompt", 0, "K", "tokens of a chunk before the scored ones, for eviction the prompt; default: its half"}, \
      {"buckets", 0, "N", "also PPL for N equal ranges of text positions"},                                       \
      {"save-base", 0, "FILE", "record the laws that the reference, or without one the engine, gives"},           \
      {"compact", 0, "K", "record only the K most probable tokens of each"},                                      \
      {"decode", 0, NULL, "scored tokens one at a time, as generation runs; a draft plugin implies it"},          \
  {                                                                                                               \
    "resume", 0, "FILE", "keep what is done in FILE, and go on from what it holds"                                \
  }

static const tn_cli_option ppl_options[] = {TN_ENGINE_OPTIONS, TEXT_OPTIONS};
static const tn_cli_option kld_options[] = {
    TN_ENGINE_OPTIONS,
    TEXT_OPTIONS,
    TN_EVAL_REF_OPTIONS,
    {"base", 0, "FILE", "a recorded reference, llama-perplexity's or a compact one; it brings its own text"}};
enum {
  O_FILE = TN_N_ENGINE_OPTIONS,
  O_CHUNKS,
  O_PROMPT,
  O_BUCKETS,
  O_SAVE,
  O_COMPACT,
  O_DECODE,
  O_RESUME,
  O_REF,
  O_BASE = O_REF + TN_N_EVAL_REF_OPTIONS
};

/* -c is the chunk here, as in llama-perplexity. */
static const tn_cli_usage ppl_usage = {
    .command = "eval ppl",
    .operands = "",
    .summary = "Perplexity of the composed engine on a text, as llama-perplexity computes it: chunks of -c tokens\n"
               "(default 512), the second half of each scored.\n\n"
               "  tenon eval ppl -m M.gguf -f wiki.txt -c 512\n"
               "  tenon eval ppl -m M.gguf -f wiki.txt --conf evicting.ini -c 2048 --prompt 1024 --buckets 4\n"
               "  tenon eval ppl -m M-f16.gguf -f wiki.txt --save-base recorded.kld",
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
               "  tenon eval kld -m M-q4.gguf --ref-model M-f16.gguf -f wiki.txt\n"
               "  tenon eval kld -m M-q4.gguf --base recorded.kld",
    .options = kld_options,
    .n_options = TN_ARRAY_LEN(kld_options),
};

typedef struct shown {
  const ppl_args *a;
  const tn_chunks *chunks;
  tn_eval_progress progress;
  tn_journal *journal;
  tn_status status; /* of the journal */
  tn_err err;
  bool first;
} shown;

static bool on_chunk(void *ctx, const tn_quality *q)
{
  shown *w = ctx;
  tn_kld_stats s;
  tn_eval_progress_clear(&w->progress);
  if (!w->a->e.engine.json && tn_kld_stats_of(q->tokens, q->n, q->based, &s, NULL) == TN_OK) {
    if (w->a->kld)
      ppl_print_row(q, &s, w->first);
    else
      printf("[%u]%.4f,%s", q->n_done, s.ppl.value, q->n_done == q->n_chunks ? "\n" : "");
    fflush(stdout);
  }
  w->first = false;
  if (w->journal) w->status = ppl_keep(w->journal, q, w->chunks, &w->err);
  tn_eval_progress_show(&w->progress, q->n_done, q->n_chunks);
  return w->status == TN_OK && !tn_cli_interrupted();
}

static bool on_step(void *ctx)
{
  (void)ctx;
  return !tn_cli_interrupted();
}

/* The text's chunks, or the base's, and what is done of them. */
static tn_status prepare(ppl_args *a, tn_base *base, tn_str text, tn_chunks *c, shown *w, tn_quality *q, tn_err *err)
{
  const tn_setup *s = a->e.setup;
  uint32_t most = (uint32_t)a->chunks;
  tn_status st = base ? tn_chunks_of_base(base, &s[0], most, c, err)
                      : tn_chunks_cut(s[0].tokenizer, text.p, text.n, a->n_ctx, a->n_prompt, most, c, err);
  if (st == TN_OK && a->e.has_reference) st = tn_chunks_check(c, &s[0], &s[1], text.p, text.n, err);
  if (st == TN_OK && a->resume_file) st = ppl_resume(a, c, &w->journal, q, err);
  w->progress = tn_eval_progress_begin(q->n_done);
  return st;
}

static tn_status begin_save(const ppl_args *a, const tn_chunks *c, tn_base_writer **out, tn_err *err)
{
  const tn_setup *s = &a->e.setup[0];
  tn_base_info i = {(uint32_t)a->compact,    (uint32_t)c->n_ctx, (uint32_t)c->n_prompt,
                    s->model->shape.n_vocab, c->n_chunks,        c->tokens};
  return tn_base_create(a->save_file, &i, out, err);
}

static int measure(ppl_args *a, tn_base *base, tn_str text)
{
  tn_chunks c = {0};
  tn_quality q = {0};
  tn_err err = tn_err_init();
  int code = tn_eval_open(&a->e);
  if (code != TN_EXIT_OK) return code;
  shown show = {.a = a, .chunks = &c, .first = true};
  tn_quality_args args = {.tested = tn_eval_tested(&a->e),
                          .reference = tn_eval_reference(&a->e),
                          .base = base,
                          .chunks = &c,
                          .chunk = on_chunk,
                          .on = on_step,
                          .ctx = &show};
  tn_status st = prepare(a, base, text, &c, &show, &q, &err);
  if (st == TN_OK && a->save_file) st = begin_save(a, &c, &args.save, &err);
  if (st == TN_OK) st = tn_quality_measure(&args, &q, &err);
  if (st == TN_OK && show.status != TN_OK) st = tn_fail(&err, show.status, "%s", show.err.msg);
  tn_eval_progress_clear(&show.progress);
  tn_err saved = tn_err_init();
  if (tn_base_finish(args.save, &saved) != TN_OK) fprintf(stderr, "warning: --save-base %s\n", saved.msg);
  if (st != TN_OK) tn_engine_args_explain(&a->e.engine, &err);
  code = st == TN_OK ? ppl_report(a, &c, &q) : tn_cli_fail(&a->e.cli, &err);
  if (code == TN_EXIT_OK && saved.msg[0]) code = TN_EXIT_FAIL;
  tn_journal_close(show.journal);
  tn_chunks_free(&c);
  tn_quality_free(&q);
  return code;
}

static bool take(void *ctx, int i, const char *v)
{
  ppl_args *a = ctx;
  const tn_cli_args *cli = &a->e.cli;
  const char *name = cli->usage->options[i].name;
  if (cli->usage->options[i].letter == 'c')
    return a->ctx_given = true, tn_cli_number(cli, name, v, 4, 1 << 24, &a->n_ctx);
  if (i < O_FILE) return tn_engine_args_take(&a->e.engine, i, v);
  switch (i) {
    case O_FILE: a->file = v; return true;
    case O_CHUNKS: return tn_cli_number(cli, name, v, 0, 1 << 24, &a->chunks);
    case O_PROMPT: return tn_cli_number(cli, name, v, 1, 1 << 24, &a->n_prompt);
    case O_BUCKETS: return tn_cli_number(cli, name, v, 1, 1000, &a->buckets);
    case O_SAVE: a->save_file = v; return true;
    case O_COMPACT: return tn_cli_number(cli, name, v, 1, TN_BASE_MAX_K, &a->compact);
    case O_DECODE: a->e.decode = true; return true;
    case O_RESUME: a->resume_file = v; return true;
    case O_BASE: a->base_file = v; return true;
    default: return tn_eval_take_ref(&a->e, i - O_REF, v);
  }
}

/* Options that do not go together. -1: they do. */
static int check(const ppl_args *a)
{
  const tn_cli_args *cli = &a->e.cli;
  if (a->base_file && (a->file || a->e.has_reference || a->n_prompt || a->save_file))
    return tn_cli_mistake(cli, "--base brings text and reference: it goes without -f, --ref, --prompt and --save-base");
  if (!a->file && !a->base_file) return tn_cli_mistake(cli, "no text: give -f FILE");
  if (a->kld && !a->e.has_reference && !a->base_file)
    return tn_cli_mistake(cli, "nothing to compare with: give --ref FILE, --ref-set, --ref-model or --base FILE");
  if (a->compact && !a->save_file) return tn_cli_mistake(cli, "--compact says how --save-base records: give both");
  if (a->save_file && a->resume_file)
    return tn_cli_mistake(cli, "--save-base records from the first chunk on: it goes without --resume");
  return -1;
}

static int parse(ppl_args *a)
{
  const int code = tn_cli_options_only(&a->e.cli, take, a);
  return code == -1 ? check(a) : code;
}

/* The chunk's size is the engine's context. */
static bool set_ctx(ppl_args *a)
{
  char from[64];
  snprintf(from, sizeof from, "-c %lld", (long long)a->n_ctx);
  return tn_engine_args_set(&a->e.engine, from, "ctx", a->n_ctx);
}

static int run_text(ppl_args *a)
{
  char *text;
  size_t n;
  tn_err err = tn_err_init();
  if (!set_ctx(a)) return TN_EXIT_FAIL;
  if (tn_file_read(a->file, (size_t)1 << 31, &text, &n, &err) != TN_OK) return tn_cli_fail(&a->e.cli, &err);
  int code = measure(a, NULL, (tn_str){text, n});
  free(text);
  return code;
}

static int run_base(ppl_args *a)
{
  tn_base *base;
  tn_err err = tn_err_init();
  if (tn_base_open(a->base_file, &base, &err) != TN_OK) return tn_cli_fail(&a->e.cli, &err);
  int code = TN_EXIT_FAIL;
  if (a->ctx_given && a->n_ctx != tn_base_about(base)->n_ctx) {
    tn_fail(&err, TN_E_ARG, "-c %lld: %s was recorded with chunks of %u tokens", (long long)a->n_ctx, a->base_file,
            tn_base_about(base)->n_ctx);
    code = tn_cli_fail(&a->e.cli, &err);
  } else {
    a->n_ctx = tn_base_about(base)->n_ctx;
    if (set_ctx(a)) code = measure(a, base, (tn_str){0});
  }
  tn_base_free(base);
  return code;
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
    tn_cli_catch_interrupt();
    code = a->base_file ? run_base(a) : run_text(a);
  }
  tn_eval_close(&a->e);
  free(a);
  return tn_cli_interrupted() ? 130 : code;
}

int tn_cli_eval_ppl(int argc, char **argv) { return run(argc, argv, &ppl_usage, false); }

int tn_cli_eval_kld(int argc, char **argv) { return run(argc, argv, &kld_usage, true); }
