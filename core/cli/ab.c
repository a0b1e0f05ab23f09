/* ab: `tenon ab`, an experiment that compares compositions. */
#include <stdlib.h>
#include <string.h>

#include "cli/ab_int.h"

enum { MIN_PAIRS = 10, SLICE = 16 };

static const tn_cli_option options[] = {
    TN_ENGINE_OPTIONS,
    {"prompt", 'p', "TEXT", "a prompt; may be given several times (default: ten that come with the command)"},
    {"file", 'f', "FILE", "prompts, one a line, or JSON lines with a field prompt or turns"},
    {"predict", 'n', "N", "tokens generated in each run (default 64)"},
    {"pairs", 'r', "N", "runs of each variant, at least 10 (default 20)"},
    {"seed", 's', "N", "of the order and the resamples; 0: a fresh one (default)"},
    {"slice", 0, "N", "tokens until the next variant has its turn; 0: whole runs (default 16)"},
    {"text", 0, "FILE", "text to measure perplexity on"},
    {"chunks", 0, "N", "chunks of the text, at most; each is a pair (default 20)"},
    {"chunk-size", 0, "N", "tokens of a chunk (default 512)"},
    {"until", 0, "SHARE", "go on until the interval of decode speed is that narrow, as in 1%"},
    {"max-pairs", 0, "N", "with --until: pairs at most (default 200)"},
    {"estimate", 0, NULL, "only say how long it will take"},
    {"grid", 0, "TEXT", "all combinations, as in 'memory=paged,contiguous kv=int8,-', over one INI file"},
    {"url", 0, "NAME=URL", "a running server that speaks OpenAI's API, in place of an INI file; once for each"},
    {"allow-different-models", 0, NULL, "with --url: compare servers that name different models"},
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
  O_URL,
  O_MODELS,
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
        "  tenon ab --url old=http://127.0.0.1:8080 --url new=http://127.0.0.1:8081\n"
        "  tenon ab --replay experiment\n\n"
        "Servers are seen from outside, by what comes over the connection: time to the first token, gaps, decode "
        "speed,\n"
        "and whether texts are the same. They run whole answers, one after the other in random order. The API key is\n"
        "that of TENON_API_KEY or OPENAI_API_KEY.",
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

static bool take_url(ab_args *a, const char *v)
{
  if (a->n_urls == TN_AB_MAX_VARIANTS) return tn_cli_mistake(&a->cli, "more than %d --url", TN_AB_MAX_VARIANTS), false;
  a->urls[a->n_urls++] = v;
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
    case O_URL: return take_url(a, v);
    case O_MODELS: a->allow_models = true; return true;
    case O_IDLE: a->allow_idle = true; return true;
    case O_OUT: a->out = v; return true;
    case O_HTML: a->html = v; return true;
    case O_REPLAY: a->replay = v; return true;
    default: return tn_engine_args_take(&a->engine, i, v);
  }
}

/* Options for engines in this process mean nothing to a server. */
static int check_urls(const ab_args *a, int n_files)
{
  const struct {
    bool given;
    const char *what;
  } none[] = {
      {n_files > 0, "INI files"},     {a->engine.model != NULL, "-m"}, {a->engine.n_sets > 0, "--set, -c, -t and -b"},
      {a->grid != NULL, "--grid"},    {a->text != NULL, "--text"},     {a->slice >= 0, "--slice"},
      {a->allow_idle, "--allow-idle"}};
  for (size_t i = 0; i < TN_ARRAY_LEN(none); i++)
    if (none[i].given)
      return tn_cli_mistake(&a->cli, "%s with --url: that is for engines which run in this process", none[i].what);
  if (a->n_urls < 2) return tn_cli_mistake(&a->cli, "one --url: want 2 to %d, one a variant", TN_AB_MAX_VARIANTS);
  return -1;
}

static int specs(ab_args *a, int argc, char **argv)
{
  int first = a->cli.first_operand, n = argc - first;
  if (a->engine.n_conf)
    return tn_cli_mistake(&a->cli, "--conf: the variants' files are given without it: tenon ab A.ini B.ini");
  if (a->n_urls > 0 && !a->replay) return check_urls(a, n);
  if (a->allow_models) return tn_cli_mistake(&a->cli, "--allow-different-models is for --url");
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

int tn_cli_ab(int argc, char **argv)
{
  ab_args *a = tn_zalloc(1, sizeof *a);
  if (!a) return TN_EXIT_FAIL;
  a->n_gen = 64;
  a->pairs = 20;
  a->max_pairs = 200;
  a->slice = -1;
  a->chunks = 20;
  a->chunk = 512;
  int code = parse(a, argc, argv);
  if (a->slice < 0) a->slice = a->n_urls ? 0 : SLICE;
  tn_cli_catch_interrupt();
  if (code < 0) code = a->replay ? ab_replay(a) : a->n_urls ? ab_servers(a) : ab_experiment(a);
  for (uint32_t i = 0; i < a->n_specs; i++) {
    free(a->spec[i].title);
    for (size_t k = 0; k < a->spec[i].n_sets; k++) free(a->spec[i].sets[k]);
  }
  tn_engine_args_release(&a->engine);
  free(a);
  return code;
}
