/* ab: `tenon ab`, an experiment that compares compositions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "ab/report.h"
#include "cli/ab_int.h"

enum { MIN_PAIRS = 10, UNTIL_STEP = 5 };

static const tn_cli_option options[] = {
    TN_ENGINE_OPTIONS,
    {"prompt", 'p', "TEXT", "a prompt; may be given several times (default: ten that come with the command)"},
    {"file", 'f', "FILE", "prompts, one a line, or JSON lines with a field prompt or turns"},
    {"predict", 'n', "N", "tokens generated in each run (default 64)"},
    {"pairs", 'r', "N", "runs of each variant, at least 10 (default 20)"},
    {"seed", 's', "N", "of the order and the resamples; 0: a fresh one (default)"},
    {"slice", 0, "N", "tokens until the next variant has its turn; 0: whole runs (default 16)"},
    {"text", 0, "FILE", "text to measure perplexity on"},
    {"chunks", 0, "N", "chunks of the text at most (default 20)"},
    {"chunk-size", 0, "N", "tokens of a chunk (default 512)"},
    {"until", 0, "SHARE", "go on until the interval of decode speed is that narrow, as in 1%"},
    {"max-pairs", 0, "N", "with --until: pairs at most (default 200)"},
    {"estimate", 0, NULL, "only say how long it will take"},
    {"grid", 0, "TEXT", "all combinations, as in 'memory=paged,contiguous kv=int8,-', over one INI file"},
    {"allow-idle", 0, NULL, "compare although a technique does not act on these prompts"},
    {"out", 'o', "DIR", "keep the experiment in a new folder: inputs, samples, report"},
    {"html", 0, "FILE", "the report as one HTML file"},
    {"replay", 0, "DIR", "no run: the verdict of a kept experiment, computed again"},
};
enum {
  O_PROMPT = TN_N_ENGINE_OPTIONS,
  O_FILE,
  O_PREDICT,
  O_PAIRS,
  O_SEED,
  O_SLICE,
  O_TEXT,
  O_CHUNKS,
  O_CHUNK,
  O_UNTIL,
  O_MAX,
  O_ESTIMATE,
  O_GRID,
  O_IDLE,
  O_OUT,
  O_HTML,
  O_REPLAY
};

static const tn_cli_usage usage = {
    .command = "ab",
    .operands = "A.ini B.ini [C.ini...]",
    .summary =
        "Compares compositions: each pair is one prompt run by every variant, by turns in random order, from an empty\n"
        "cache. Per metric the paired difference to the first variant, its 95 % interval (studentized bootstrap of "
        "the\n"
        "trimmed mean), p (sign-flip permutation), p corrected for all metrics and variants (Holm), and a verdict.\n"
        "--set, -t and the like hold for every variant. Sampling is greedy; all runs have the same length.\n\n"
        "  tenon ab -m M.gguf conf/default.ini conf/recipes/fast-cpu.ini\n"
        "  tenon ab -m M.gguf a.ini b.ini -r 40 --text wiki.txt -o experiment\n"
        "  tenon ab -m M.gguf a.ini --grid 'memory=paged,contiguous kv=int8,-' --html report.html\n"
        "  tenon ab --replay experiment",
    .options = options,
    .n_options = TN_ARRAY_LEN(options),
};

/* "1%" or "0.01". */
static bool take_share(ab_args *a, const char *v)
{
  char *end;
  a->until = strtod(v, &end);
  if (*end == '%') a->until /= 100, end++;
  if (*end || !(a->until > 0 && a->until < 1))
    return tn_cli_mistake(&a->cli, "--until=%s: want a share, as in 1%%", v), false;
  return true;
}

static bool take_text(ab_args *a, const char *v)
{
  if (a->n_texts == AB_MAX_TEXTS) return tn_cli_mistake(&a->cli, "more than %d --prompt", AB_MAX_TEXTS), false;
  a->texts[a->n_texts++] = v;
  return true;
}

static bool take(ab_args *a, int i, const char *v)
{
  const char *name = options[i].name;
  switch (i) {
    case O_PROMPT: return take_text(a, v);
    case O_FILE: a->prompts = v; return true;
    case O_PREDICT: return tn_cli_number(&a->cli, name, v, 2, 1 << 20, &a->n_gen);
    case O_PAIRS: return tn_cli_number(&a->cli, name, v, MIN_PAIRS, TN_STAT_MAX, &a->pairs);
    case O_SEED: return tn_cli_number(&a->cli, name, v, 0, INT64_MAX, &a->seed);
    case O_SLICE: return tn_cli_number(&a->cli, name, v, 0, 1 << 20, &a->slice);
    case O_TEXT: a->text = v; return true;
    case O_CHUNKS: return tn_cli_number(&a->cli, name, v, 2, TN_STAT_MAX, &a->chunks);
    case O_CHUNK: return tn_cli_number(&a->cli, name, v, 4, 1 << 20, &a->chunk);
    case O_UNTIL: return take_share(a, v);
    case O_MAX: return tn_cli_number(&a->cli, name, v, MIN_PAIRS, TN_STAT_MAX, &a->max_pairs);
    case O_ESTIMATE: a->estimate = true; return true;
    case O_GRID: a->grid = v; return true;
    case O_IDLE: a->allow_idle = true; return true;
    case O_OUT: a->out = v; return true;
    case O_HTML: a->html = v; return true;
    case O_REPLAY: a->replay = v; return true;
    default: return tn_engine_args_take(&a->engine, i, v);
  }
}

static int specs(ab_args *a, int argc, char **argv)
{
  int first = a->cli.first_operand, n = argc - first;
  if (a->engine.n_conf)
    return tn_cli_mistake(&a->cli, "--conf: the variants' files are given without it: tenon ab A.ini B.ini");
  if (a->replay) return n ? tn_cli_mistake(&a->cli, "--replay takes no INI files") : -1;
  if (a->grid) {
    if (n > 1) return tn_cli_mistake(&a->cli, "--grid varies one INI file, %d are given", n);
    return ab_grid_specs(a, n ? argv[first] : NULL) ? -1 : TN_EXIT_USAGE;
  }
  if (n < 2 || n > TN_AB_MAX_VARIANTS)
    return tn_cli_mistake(&a->cli, "%d INI files: want 2 to %d, one a variant", n, TN_AB_MAX_VARIANTS);
  for (int i = 0; i < n; i++) {
    a->spec[a->n_specs] = (ab_spec){.conf = argv[first + i], .title = tn_strdup(argv[first + i])};
    if (!a->spec[a->n_specs++].title) return TN_EXIT_FAIL;
  }
  return -1;
}

static int parse(ab_args *a, int argc, char **argv)
{
  const char *v;
  int i;
  a->engine.cli = &a->cli;
  tn_cli_begin(&a->cli, &usage, argc, argv);
  while ((i = tn_cli_next(&a->cli, &v)) >= 0)
    if (!take(a, i, v)) return TN_EXIT_USAGE;
  if (i == TN_CLI_STOP) return a->cli.exit_code;
  if (a->until > 0 && a->max_pairs < a->pairs) a->max_pairs = a->pairs;
  return specs(a, argc, argv);
}

/* ---------------------------------------------------------------- the experiment */

/* Time for n pairs and the text, from what single runs took. */
static double seconds_for(const ab_bench *b, const ab_probe *p, int64_t n)
{
  double run = 0;
  for (uint32_t i = 0; i < b->e.n_variants; i++) run += p[i].run_s * (double)(n + 1) + p[i].open_s;
  return run;
}

static int estimate(const ab_bench *b, const ab_probe *p)
{
  double s = seconds_for(b, p, b->a->pairs);
  if (b->a->engine.json)
    return tn_cli_json("ab", json_pack("{s:f, s:I, s:i}", "seconds", s, "pairs", (json_int_t)b->a->pairs, "variants",
                                       (int)b->e.n_variants));
  printf("%lld pairs of %u variants take about %.0f s%s\n", (long long)b->a->pairs, b->e.n_variants, s,
         b->a->text ? ", and the text comes on top" : "");
  return tn_cli_done("ab", TN_EXIT_OK);
}

/* Every variant once, alone: does it run, and do its techniques act? */
static tn_status probe_all(ab_bench *b, ab_probe *p, tn_err *err)
{
  for (uint32_t i = 0; i < b->e.n_variants; i++) {
    tn_ab_variant *v = &b->e.variant[i];
    ab_probe_run(b, i, &p[i]);
    if (tn_cli_interrupted()) return tn_fail(err, TN_E_STATE, "interrupted before the first pair");
    if (p[i].status != TN_OK) return tn_fail(err, (tn_status)p[i].status, "%s (%s): %s", v->name, v->title, p[i].msg);
    v->rss_bytes = p[i].rss_bytes;
    if (!*p[i].idle) continue;
    if (!b->a->allow_idle)
      return tn_fail(
          err, TN_E_STATE,
          "%s (%s): not engaged on the longest prompt, %lld tokens and %lld more: %s; give longer prompts (-f), "
          "more tokens (-n), or --allow-idle to compare all the same",
          v->name, v->title, (long long)b->prompt[b->longest].n, (long long)b->e.n_gen, p[i].idle);
    tn_ab_exp_warn(&b->e, "%s (%s): not engaged on the longest prompt: %s", v->name, v->title, p[i].idle);
  }
  return TN_OK;
}

typedef struct shown {
  uint64_t start;
  int64_t pairs;
  bool tty;
} shown;

static bool go(void *ctx, const tn_ab_exp *e)
{
  shown *s = ctx;
  double spent = (double)(tn_now_ns() - s->start) / 1e9;
  if (s->tty && e->n_blocks > 0 && (int64_t)e->n_blocks < s->pairs)
    fprintf(stderr, "\rpair %u of %lld, %.0f s left  ", e->n_blocks, (long long)s->pairs,
            spent / e->n_blocks * (double)(s->pairs - e->n_blocks));
  return !tn_cli_interrupted();
}

/* Pairs, and with --until more of them. */
static tn_status pairs(ab_bench *b, tn_ab_run *run, tn_ab_results *r, tn_err *err)
{
  shown *s = run->ctx;
  tn_status st = tn_ab_warm_up(run, err);
  s->start = tn_now_ns();
  if (st == TN_OK) st = tn_ab_blocks(run, (uint32_t)b->a->pairs, err);
  if (st == TN_OK) st = tn_ab_analyse(&b->e, r, err);
  while (st == TN_OK && b->a->until > 0 && !b->e.partial && b->e.n_blocks < b->a->max_pairs &&
         tn_ab_width(r, b->e.n_variants, TN_AB_DECODE_TPS) > log1p(b->a->until)) {
    s->pairs = b->e.n_blocks + UNTIL_STEP;
    st = tn_ab_blocks(run, UNTIL_STEP, err);
    if (st == TN_OK) st = tn_ab_analyse(&b->e, r, err);
  }
  if (s->tty) fprintf(stderr, "\r%40s\r", "");
  return st;
}

static tn_status quality(ab_bench *b, tn_ab_run *run, tn_err *err)
{
  char *text;
  size_t n;
  if (!b->a->text || b->e.partial) return TN_OK;
  tn_status st = tn_file_read(b->a->text, (size_t)1 << 31, &text, &n, err);
  if (st != TN_OK) return st;
  st = tn_ab_quality(run, text, n, b->a->chunk, (uint32_t)b->a->chunks, err);
  free(text);
  b->e.text = tn_strdup(b->a->text);
  return st;
}

static tn_status measure(ab_bench *b, tn_ab_results *r, tn_err *err)
{
  shown s = {tn_now_ns(), b->a->pairs, isatty(STDERR_FILENO) == 1};
  tn_ab_run run = {.e = &b->e, .rig = b->rig, .prompt = b->prompt, .go = go, .ctx = &s};
  tn_status st = pairs(b, &run, r, err);
  if (st == TN_OK) st = quality(b, &run, err);
  if (st == TN_OK && b->e.n_blocks < 2) st = tn_fail(err, TN_E_STATE, "interrupted before the second pair");
  for (uint32_t i = 0; st == TN_OK && i < b->e.n_variants; i++) {
    tn_ab_variant *v = &b->e.variant[i];
    v->counters = tn_ab_rig_counters(&b->rig[i]);
    v->idle = tn_ab_rig_idle(&b->rig[i]);
    if (v->idle && !*v->idle) free(v->idle), v->idle = NULL;
    if (b->rig[i].n_cached) tn_ab_exp_warn(&b->e, "%s: prompts came from a cache: runs were not independent", v->name);
  }
  if (st == TN_OK) st = tn_ab_analyse(&b->e, r, err);
  if (st == TN_OK) tn_ab_pareto(&b->e, r);
  return st;
}

static tn_status prepare(ab_bench *b, tn_err *err)
{
  const ab_args *a = b->a;
  char now[32];
  time_t at = time(NULL);
  struct tm utc;
  uint64_t seed = (uint64_t)a->seed;
  if (seed == 0 && getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed) seed = tn_now_ns();
  b->e.seed = a->seed ? seed : seed >> 32;
  b->e.n_gen = a->n_gen;
  b->e.slice = a->slice;
  b->conf_dir = tn_cli_conf_dir();
  b->e.machine = tn_ab_machine();
  if (gmtime_r(&at, &utc) && strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", &utc) > 0) b->e.started = tn_strdup(now);
  tn_status st = ab_prompts_read(a, &b->e, err);
  return st == TN_OK ? ab_resolve(b, err) : st;
}

static int experiment(ab_args *a)
{
  ab_bench *b = tn_zalloc(1, sizeof *b);
  ab_probe *p = tn_zalloc(TN_AB_MAX_VARIANTS, sizeof *p);
  tn_ab_results *r = tn_zalloc(1, sizeof *r);
  tn_err err = tn_err_init();
  int code = TN_EXIT_FAIL;
  if (!b || !p || !r) {
    tn_fail(&err, TN_E_NOMEM, "no memory for the experiment");
    code = tn_cli_fail(&a->cli, &err);
  } else {
    tn_ab_exp_init(&b->e);
    b->a = a;
    tn_status st = prepare(b, &err);
    for (uint32_t i = 0; st == TN_OK && i < b->e.n_warnings; i++)
      fprintf(stderr, "tenon ab: warning: %s\n", b->e.warning[i]);
    if (st == TN_OK) st = probe_all(b, p, &err);
    if (st == TN_OK && a->estimate) {
      code = estimate(b, p);
    } else {
      if (st == TN_OK) st = ab_open(b, &err);
      if (st == TN_OK) st = measure(b, r, &err);
      code = st == TN_OK ? ab_print(a, &b->e, r) : tn_cli_fail(&a->cli, &err);
    }
    ab_close(b);
  }
  free(r);
  free(p);
  free(b);
  return tn_cli_interrupted() ? 130 : code;
}

int tn_cli_ab(int argc, char **argv)
{
  ab_args *a = tn_zalloc(1, sizeof *a);
  if (!a) return TN_EXIT_FAIL;
  a->n_gen = 64;
  a->pairs = 20;
  a->max_pairs = 200;
  a->slice = 16;
  a->chunks = 20;
  a->chunk = 512;
  int code = parse(a, argc, argv);
  tn_cli_catch_interrupt();
  if (code < 0) code = experiment(a);
  for (uint32_t i = 0; i < a->n_specs; i++) {
    free(a->spec[i].title);
    for (size_t k = 0; k < a->spec[i].n_sets; k++) free(a->spec[i].sets[k]);
  }
  tn_engine_args_release(&a->engine);
  free(a);
  return code;
}
