/* bench: `tenon bench`, the speed of a composed engine, with the model and the columns of llama-bench. */
#include <stdlib.h>
#include <string.h>

#include "cli/bench_out.h"
#include "cli/bench_sweep.h"
#include "cli/bench_trace.h"
#include "measure/rss.h"

enum { MAX_LIST = 32, MAX_REPS = 1000, MAX_DEPTH = 1 << 24 };

static const tn_cli_option options[] = {
    {"model", 'm', "FILE", "model, a GGUF file; over [model] path"},
    {"conf", 0, "FILE", "composition, an INI file; a.ini,b.ini: one after the other; may be given several times"},
    {"set", 0, "S.K=V", "one option, as in --set engine.max_rows=256; A,B: one after the other"},
    {"n-prompt", 'p', "N,...", "prompts of so many tokens; 0: none (default 512)"},
    {"n-gen", 'n', "N,...", "so many tokens generated; 0: none (default 128)"},
    {"pg", 0, "P,G", "a prompt of P tokens and G generated behind it; may be given several times (also -pg)"},
    {"n-depth", 'd', "N,...", "so many tokens in the cache beforehand (default 0)"},
    {"batch", 'b', "N,...", "so many sequences together (default 1; also -np)"},
    {"threads", 't', "N,...", "compute threads (default: as many CPUs as the process may use)"},
    {"repetitions", 'r', "N", "repetitions of each test (default 5)"},
    {"output", 'o', "FORMAT", "md (default), csv, json or jsonl"},
    {"no-warmup", 0, NULL, "without a repetition before that does not count"},
    {"ops", 0, NULL, "single records of the model instead: time against the bound, for 1 to 512 rows"},
    {"verbose", 'v', NULL, "what was loaded, and every plugin's counters, on stderr"},
    {"no-cache", 0, NULL, "neither use nor keep packed weights ([engine] weights_cache)"},
    TN_BENCH_TRACE_OPTIONS};
enum {
  O_MODEL,
  O_CONF,
  O_SET,
  O_PROMPT,
  O_GEN,
  O_PG,
  O_DEPTH,
  O_BATCH,
  O_THREADS,
  O_REPS,
  O_OUTPUT,
  O_COLD,
  O_OPS,
  O_VERBOSE,
  O_NO_CACHE,
  O_LOAD /* TN_BENCH_TRACE_OPTIONS */
};
static_assert(TN_ARRAY_LEN(options) == O_LOAD + TN_N_BENCH_TRACE, "an index an option");

static const tn_cli_usage usage = {
    .command = "bench",
    .operands = "",
    .summary =
        "Tokens a second of a composed engine: every combination of the lists, each test a mean of -r repetitions.\n"
        "Tests are named as in llama-bench: pp512 takes a prompt, tg128 generates, tg64 @ d4096 generates behind\n"
        "4096 cached tokens. Neither tokenization nor sampling is part of the time. With -b the figure is that of\n"
        "all sequences together. \"read %\" and \"int %\" are shares of what this machine reads from memory and of\n"
        "what the backend's inner loop computes at most, both measured in the same run.\n\n"
        "With --trace or --poisson: requests as they arrive, and what their clients feel, in the words of vLLM's\n"
        "serving benchmark; with --url those of any server. --null-forward runs the scheduler, the memory plugin and\n"
        "the prefix index at full speed without the model, so that hours of load take seconds.\n\n"
        "  tenon bench -m M.gguf\n"
        "  tenon bench -m M.gguf -p 0 -n 64 -d 0,4096 -t 1,2\n"
        "  tenon bench -m M.gguf -p 0 -n 64 -d 64 -b 1,8,32 -o json\n"
        "  tenon bench -m M.gguf --set compose.kv=,NAME --set engine.max_rows=128,512\n"
        "  tenon bench -m M.gguf --ops -d 512,4096\n"
        "  tenon bench -m M.gguf --trace requests.csv --speed 10 --target-ttft 500 --target-itl 50\n"
        "  tenon bench -m M.gguf --trace prompts.jsonl --concurrency 16 -o json\n"
        "  tenon bench -m M.gguf --poisson 2 --requests 100 --prompt-tokens 256 --gen-tokens 64\n"
        "  tenon bench -m M.gguf --trace requests.csv --null-forward --set compose.memory=paged,contiguous\n"
        "  tenon bench --trace prompts.jsonl --rate 4 --url http://127.0.0.1:8080",
    .options = options,
    .n_options = TN_ARRAY_LEN(options),
};

typedef struct list {
  uint32_t n;
  int64_t at[MAX_LIST];
} list;

typedef struct bench_args {
  tn_cli_args cli;
  tn_engine_args engine;
  list prompts, gens, depths, batches, threads;
  int64_t pairs[MAX_LIST][2];
  uint32_t n_pairs;
  int64_t reps;
  bool warm_up, ops;
  const char *fixed; /* an option of tests of fixed length */
  tn_bench_trace trace;
  tn_bench_out out;
} bench_args;

/* ---------------------------------------------------------------- the command line */

/* "512,128" behind what the list has. */
static bool take_list(const bench_args *a, const char *option, const char *text, int64_t min, int64_t max, list *out)
{
  char item[32];
  for (const char *p = text;; p++) {
    size_t n = strcspn(p, ",");
    if (out->n == MAX_LIST) return tn_cli_mistake(&a->cli, "--%s: more than %d numbers", option, MAX_LIST), false;
    snprintf(item, sizeof item, "%.*s", (int)(n < sizeof item ? n : sizeof item), p);
    if (!tn_cli_number(&a->cli, option, item, min, max, &out->at[out->n])) return false;
    out->n++;
    p += n;
    if (*p == '\0') return true;
  }
}

static bool take_pair(bench_args *a, const char *text)
{
  list two = {0};
  if (a->n_pairs == MAX_LIST) return tn_cli_mistake(&a->cli, "--pg: more than %d pairs", MAX_LIST), false;
  if (!take_list(a, "pg", text, 1, MAX_DEPTH, &two)) return false;
  if (two.n != 2) return tn_cli_mistake(&a->cli, "--pg=%s: want two numbers, prompt and generated", text), false;
  a->pairs[a->n_pairs][0] = two.at[0];
  a->pairs[a->n_pairs++][1] = two.at[1];
  return true;
}

static bool take_format(bench_args *a, const char *text)
{
  static const char *const formats[] = {"md", "csv", "json", "jsonl"};
  for (uint32_t i = 0; i < TN_ARRAY_LEN(formats); i++)
    if (strcmp(text, formats[i]) == 0) return a->out.format = i, true;
  return tn_cli_mistake(&a->cli, "--output=%s: want md, csv, json or jsonl", text), false;
}

static bool set_engine(tn_engine_args *e, const char *option, const char *key, int64_t value)
{
  char from[64];
  snprintf(from, sizeof from, "%s %lld", option, (long long)value);
  return tn_engine_args_set(e, from, key, value);
}

static bool take(void *ctx, int i, const char *v)
{
  bench_args *a = ctx;
  const char *name = options[i].name;
  if (i >= O_LOAD) return tn_bench_trace_take(&a->trace, i - O_LOAD, v);
  if ((i >= O_PROMPT && i <= O_BATCH) || i == O_REPS || i == O_COLD || i == O_OPS) a->fixed = name;
  switch (i) {
    case O_MODEL:
    case O_CONF:
    case O_SET: return tn_engine_args_take(&a->engine, i, v);
    case O_PROMPT: return take_list(a, name, v, 0, MAX_DEPTH, &a->prompts);
    case O_GEN: return take_list(a, name, v, 0, MAX_DEPTH, &a->gens);
    case O_PG: return take_pair(a, v);
    case O_DEPTH: return take_list(a, name, v, 0, MAX_DEPTH, &a->depths);
    case O_BATCH: return take_list(a, name, v, 1, 1024, &a->batches);
    case O_THREADS: return take_list(a, name, v, 1, 256, &a->threads);
    case O_REPS: return tn_cli_number(&a->cli, name, v, 1, MAX_REPS, &a->reps);
    case O_OUTPUT: return take_format(a, v);
    case O_COLD: a->warm_up = false; return true;
    case O_OPS: a->ops = true; return true;
    case O_VERBOSE: a->engine.verbose = true; return true;
    default: a->engine.no_cache = true; return true;
  }
}

static void preset(list *l, int64_t value)
{
  if (l->n == 0) l->at[l->n++] = value;
}

/* Two letters behind one dash, as llama.cpp spells them. */
static const char *const spelled[][2] = {{"-pg", "--pg"}, {"-np", "--batch"}};

static int check_trace(bench_args *a)
{
  int code = tn_bench_trace_check(&a->trace);
  if (code != TN_EXIT_OK || !tn_bench_trace_asked(&a->trace)) return code;
  if (a->fixed) return tn_cli_mistake(&a->cli, "--%s is for tests of fixed length, not for a replay", a->fixed);
  if (a->threads.n > 1) return tn_cli_mistake(&a->cli, "-t: a replay takes one number of threads");
  if (a->out.format == TN_BENCH_CSV)
    return tn_cli_mistake(&a->cli, "--output=csv: a replay's result is md, json or jsonl");
  if (a->threads.n == 1 && !set_engine(&a->engine, "-t", "threads", a->threads.at[0])) return TN_EXIT_FAIL;
  return TN_EXIT_OK;
}

static int parse(bench_args *a, int argc, char **argv)
{
  tn_cli_args *args = &a->cli;
  a->engine.cli = a->trace.cli = args;
  for (int i = 1; i < argc; i++)
    for (size_t k = 0; k < TN_ARRAY_LEN(spelled); k++)
      if (strcmp(argv[i], spelled[k][0]) == 0) argv[i] = (char *)(uintptr_t)spelled[k][1];
  tn_cli_begin(args, &usage, argc, argv);
  const int code = tn_cli_options_only(args, take, a);
  if (code != -1) return code;
  const int replay = check_trace(a);
  if (replay != TN_EXIT_OK) return replay;
  if (a->n_pairs == 0 || a->prompts.n > 0) preset(&a->prompts, 512);
  if (a->n_pairs == 0 || a->gens.n > 0) preset(&a->gens, 128);
  preset(&a->depths, a->ops ? 512 : 0);
  preset(&a->batches, 1);
  preset(&a->threads, 0);
  for (uint32_t k = 0; k < a->batches.n; k++) a->out.seqs = a->out.seqs || a->batches.at[k] > 1;
  return -1;
}

/* ---------------------------------------------------------------- running */

typedef struct run {
  const bench_args *a;
  tn_bench_out *out;
  tn_bench *bench;
  const tn_setup *s;
  tn_bounds bounds;
} run;

/* Test number i of a depth: prompts, then generation, then pairs. False: there are no more. */
static bool test_at(const bench_args *a, uint32_t i, int64_t depth, uint32_t seqs, tn_bench_test *t)
{
  *t = (tn_bench_test){.n_depth = depth, .n_seqs = seqs, .reps = (uint32_t)a->reps, .warm_up = a->warm_up};
  if (i < a->prompts.n) {
    t->n_prompt = a->prompts.at[i];
  } else if (i < a->prompts.n + a->gens.n) {
    t->n_gen = a->gens.at[i - a->prompts.n];
  } else if (i < a->prompts.n + a->gens.n + a->n_pairs) {
    t->n_prompt = a->pairs[i - a->prompts.n - a->gens.n][0];
    t->n_gen = a->pairs[i - a->prompts.n - a->gens.n][1];
  } else {
    return false;
  }
  return true;
}

/* The context that all tests fit into, with room for the scheduler's reserve. */
static int64_t context_of(const bench_args *a)
{
  int64_t most = 0;
  tn_bench_test t;
  for (uint32_t d = 0; d < a->depths.n; d++)
    for (uint32_t i = 0; test_at(a, i, a->depths.at[d], 1, &t); i++)
      if (tn_bench_ctx(&t) > most) most = tn_bench_ctx(&t);
  for (uint32_t d = 0; a->ops && d < a->depths.n; d++)
    if (a->depths.at[d] + 1024 > most) most = a->depths.at[d] + 1024;
  return most + 128;
}

static int run_tests(run *r, uint32_t seqs)
{
  int code = TN_EXIT_OK;
  tn_bench_test t;
  for (uint32_t d = 0; d < r->a->depths.n; d++)
    for (uint32_t i = 0; code == TN_EXIT_OK && test_at(r->a, i, r->a->depths.at[d], seqs, &t); i++) {
      if (t.n_prompt + t.n_gen == 0) continue;
      if (tn_cli_interrupted()) return 130;
      tn_bench_result result;
      tn_err err = tn_err_init();
      if (tn_bench_run(r->bench, r->s->engine, &t, &result, &err) != TN_OK) return tn_cli_fail(&r->a->cli, &err);
      code = tn_bench_out_test(r->out, r->s, &r->bounds, &t, &result);
      free(result.ns);
    }
  return code;
}

static bool on_op(void *ctx, const tn_bench_op *op)
{
  run *r = ctx;
  return tn_bench_out_op(r->out, r->s, &r->bounds, op) == TN_EXIT_OK && !tn_cli_interrupted();
}

static int run_ops(run *r)
{
  static const uint32_t rows[] = {1, 2, 4, 8, 16, 32, 512};
  tn_bench_ops ops = {.rows = rows,
                      .n_rows = TN_ARRAY_LEN(rows),
                      .depths = r->a->depths.at,
                      .n_depths = r->a->depths.n,
                      .seconds = 0.2 * (double)r->a->reps,
                      .figure = on_op,
                      .ctx = r};
  tn_err err = tn_err_init();
  tn_status st = tn_bench_ops_run(r->s->engine, &ops, &err);
  return st == TN_OK ? TN_EXIT_OK : tn_cli_fail(&r->a->cli, &err);
}

/* One engine: its composition, threads and sequences are fixed when it opens. */
static int run_engine(bench_args *a, uint32_t variant, int64_t threads, int64_t seqs)
{
  tn_engine_args e;
  char name[128];
  tn_err err = tn_err_init();
  tn_setup s;
  if (!tn_bench_sweep_at(&a->engine, variant, &e, name)) return TN_EXIT_FAIL;
  a->out.variant = *name ? name : NULL;
  run r = {.a = a, .out = &a->out, .bench = tn_bench_new(), .s = &s};
  bool ok = r.bench && (threads == 0 || set_engine(&e, "-t", "threads", threads)) &&
            set_engine(&e, "-b", "max_seqs", seqs) && set_engine(&e, "the tests' context,", "ctx", context_of(a));
  tn_setup_args more = {.events = r.bench ? tn_bench_events(r.bench) : (tn_events){0}};
  int code = ok ? tn_engine_args_open(&e, &more, &s) : TN_EXIT_FAIL;
  if (code == TN_EXIT_OK) {
    if (e.verbose) tn_engine_print_memory(stderr, &s, true);
    tn_status st = tn_roofline_read(tn_engine_stat(s.engine).threads, &r.bounds.read, &err);
    if (st == TN_OK) st = tn_roofline_int_ops(s.engine, &r.bounds, &err);
    if (st != TN_OK) {
      code = tn_cli_fail(&a->cli, &err);
    } else {
      tn_rss_reset();
      tn_bench_out_bounds(&a->out, &s, &r.bounds);
      code = a->ops ? run_ops(&r) : run_tests(&r, (uint32_t)seqs);
    }
    if (e.verbose) tn_engine_print_counters(stderr, s.engine);
    tn_setup_close(&s);
  }
  tn_bench_free(r.bench);
  tn_engine_args_release(&e);
  return code;
}

int tn_cli_bench(int argc, char **argv)
{
  bench_args *a = tn_zalloc(1, sizeof *a);
  if (!a) return TN_EXIT_FAIL;
  a->reps = 5;
  a->warm_up = true;
  int code = parse(a, argc, argv);
  if (code < 0) {
    code = TN_EXIT_OK;
    tn_cli_catch_interrupt();
    bool replay = tn_bench_trace_asked(&a->trace);
    if (replay) code = tn_bench_trace_run(&a->trace, &a->engine, &a->out);
    for (uint32_t v = 0; !replay && code == TN_EXIT_OK && v < tn_bench_sweep_n(&a->engine); v++)
      for (uint32_t t = 0; code == TN_EXIT_OK && t < a->threads.n; t++)
        for (uint32_t b = 0; code == TN_EXIT_OK && b < a->batches.n; b++)
          code = run_engine(a, v, a->threads.at[t], a->batches.at[b]);
    a->out.variant = NULL;
    if (!replay) code = tn_bench_out_end(&a->out, code);
  }
  tn_engine_args_release(&a->engine);
  free(a);
  return code;
}
