/* run: `tenon run`, one prompt, the answer as it comes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/run_int.h"

static const tn_cli_option options[] = {
    TN_ENGINE_OPTIONS,
    {"prompt", 'p', "TEXT", "the prompt; special tokens spelled in it are parsed"},
    {"file", 'f', "FILE", "the prompt from a file; - is standard input"},
    {"predict", 'n', "N", "tokens to generate at most; -1: until the context is full; default 128"},
    {"seed", 's', "N", "seed of the random draws; 0: a fresh one, which is then printed"},
    {"temp", 0, "T", "temperature; default 0, which is greedy"},
    {"top-k", 0, "K", "only the K best tokens; 0: off (default)"},
    {"top-p", 0, "P", "only the fewest best tokens whose mass reaches P; 1: off (default)"},
    {"min-p", 0, "P", "only tokens at least P times as likely as the best; 0: off (default)"},
    {"repeat-penalty", 0, "X", "divides the logits of tokens seen before; 1: off (default)"},
    {"presence-penalty", 0, "X", "taken from the logits of tokens seen before; 0: off (default)"},
    {"frequency-penalty", 0, "X", "the same, times how often they were seen; 0: off (default)"},
    {"repeat-last-n", 0, "N", "tokens that penalties look back on; -1: all; default 64"},
    {"logit-bias", 0, "ID=X", "adds X to the logit of token ID; may be given several times; -inf bans it"},
    {"ignore-eos", 0, NULL, "go on past the end-of-generation tokens"},
    {"logprobs", 0, "N", "with --json: the N best alternatives of each token, at most 20"},
    {"no-display-prompt", 0, NULL, "print the answer only"},
    {"save", 0, "FILE", "save the session when done, to be continued with --load"},
    {"load", 0, "FILE", "continue a saved session: a prompt follows its text; without one its answer goes on"},
};
/* The lines on stderr, for --help. */
static void more(FILE *out)
{
  fputs("\nOn stderr, besides warnings:\n"
        "  KV cache size: N tokens of all requests together, M MiB\n"
        "                                          tokens whose keys and values fit into the cache ([engine]\n"
        "                                          kv_budget, or max_seqs times the context), and its memory\n"
        "  Maximum concurrency for N tokens per request: Rx\n"
        "                                          so many requests of the whole context N (-c) fit at once\n"
        "  prompt eval time = T / N tokens         from the start to the first token; N tokens were run for it\n"
        "         eval time = T / N tokens         from the first token to the last, N behind the first\n"
        "  draft acceptance rate = R               drafted tokens that the model agreed with\n"
        "  composition = X                         fingerprint of plugins, options and model: answers of one\n"
        "                                          fingerprint and seed are the same\n",
        out);
}

static const tn_cli_usage usage = {
    .command = "run",
    .operands = "",
    .summary = "Runs one prompt and prints the answer as it comes.\n\n"
               "  tenon run -m models/smollm2-135m-instruct-q4_1.gguf -p 'The capital of France is' -n 32\n"
               "  tenon run --conf conf/recipes/long-text.ini -m M.gguf -f book.txt -n 200 --temp 0.7 -s 1\n"
               "  tenon run -m M.gguf -p Hello --set compose.draft=ngram --json",
    .options = options,
    .n_options = TN_ARRAY_LEN(options),
    .more = more,
};

static bool add_bias(run_args *a, const char *text)
{
  char *end;
  long id = strtol(text, &end, 10);
  double x = 0;
  if (end == text || *end != '=') return tn_cli_mistake(&a->cli, "--logit-bias %s: want ID=VALUE", text), false;
  if (!tn_cli_real(&a->cli, "logit-bias", end + 1, &x)) return false;
  if (id < 0 || id > INT32_MAX)
    return tn_cli_mistake(&a->cli, "--logit-bias %s: a token id is 0 to %d", text, INT32_MAX), false;
  if (isnan(x)) return tn_cli_mistake(&a->cli, "--logit-bias %s: not a number", text), false;
  if (a->sampling.n_bias == RUN_MAX_BIAS)
    return tn_cli_mistake(&a->cli, "more than %u --logit-bias", RUN_MAX_BIAS), false;
  a->bias_token[a->sampling.n_bias] = (int32_t)id;
  a->bias[a->sampling.n_bias++] = (float)x;
  return true;
}

static bool take(run_args *a, int i, const char *v)
{
  const char *name = options[i].name;
  int64_t n = 0;
  switch (i - (int)TN_N_ENGINE_OPTIONS) {
    case 0: a->prompt = v; return true;
    case 1: a->file = v; return true;
    case 2: return tn_cli_number(&a->cli, name, v, -1, 1 << 30, &a->n_predict);
    case 3: a->seed_given = true; return tn_cli_number(&a->cli, name, v, 0, INT64_MAX, &a->seed);
    case 4: return tn_cli_real(&a->cli, name, v, &a->sampling.temperature);
    case 5:
      if (!tn_cli_number(&a->cli, name, v, 0, 1 << 30, &n)) return false;
      a->sampling.top_k = (int32_t)n;
      return true;
    case 6: return tn_cli_real(&a->cli, name, v, &a->sampling.top_p);
    case 7: return tn_cli_real(&a->cli, name, v, &a->sampling.min_p);
    case 8: return tn_cli_real(&a->cli, name, v, &a->sampling.repetition);
    case 9: return tn_cli_real(&a->cli, name, v, &a->sampling.presence);
    case 10: return tn_cli_real(&a->cli, name, v, &a->sampling.frequency);
    case 11:
      if (!tn_cli_number(&a->cli, name, v, -1, 1 << 30, &n)) return false;
      a->sampling.penalty_last = (int32_t)n;
      return true;
    case 12: return add_bias(a, v);
    case 13: a->ignore_eos = true; return true;
    case 14:
      if (!tn_cli_number(&a->cli, name, v, 0, TN_MAX_LOGPROBS, &n)) return false;
      a->n_logprobs = (uint32_t)n;
      return true;
    case 15: a->no_prompt = true; return true;
    case 16: a->save = v; return true;
    default: a->load = v; return true;
  }
}

static int parse(run_args *a, int argc, char **argv)
{
  tn_cli_args *args = &a->cli;
  a->engine.cli = args;
  tn_cli_begin(args, &usage, argc, argv);
  const char *v;
  int i;
  while ((i = tn_cli_next(args, &v)) >= 0) {
    bool ok = i < (int)TN_N_ENGINE_OPTIONS ? tn_engine_args_take(&a->engine, i, v) : take(a, i, v);
    if (!ok) return TN_EXIT_USAGE;
  }
  if (i == TN_CLI_STOP) return args->exit_code;
  if (args->first_operand < argc)
    return tn_cli_mistake(&a->cli, "'%s' is no option; the prompt goes behind -p", argv[args->first_operand]);
  if (!a->prompt && !a->file && !a->load) return tn_cli_mistake(&a->cli, "no prompt: give -p TEXT or -f FILE");
  if (a->prompt && a->file) return tn_cli_mistake(&a->cli, "-p and -f: give one of them");
  if (a->n_logprobs && !a->engine.json)
    return tn_cli_mistake(&a->cli, "--logprobs: they are in the output of --json only");
  tn_err err = tn_err_init(); /* now, not after a model was loaded; token ids are checked against it later */
  if (tn_sampling_check(&a->sampling, INT32_MAX, &err) != TN_OK) return tn_cli_mistake(&a->cli, "%s", err.msg);
  return -1;
}

int tn_cli_run(int argc, char **argv)
{
  run_args a = {.n_predict = 128, .sampling = tn_sampling_default()};
  a.sampling.bias_token = a.bias_token;
  a.sampling.bias = a.bias;
  int code = parse(&a, argc, argv);
  tn_err err = tn_err_init();
  if (code < 0 && a.save && tn_run_file_check(a.save, &err) != TN_OK) code = tn_cli_fail(&a.cli, &err);
  if (code < 0) code = tn_run_session(&a);
  tn_engine_args_release(&a.engine);
  return code;
}
