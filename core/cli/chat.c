/* chat: `tenon chat`, a conversation: lines in, answers out, until the end of the input. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/chat_int.h"

static const tn_cli_option options[] = {
    TN_ENGINE_OPTIONS,
    {"system", 0, "TEXT", "a system message before all others"},
    {"chat-template", 0, "NAME", "template by name (chatml, llama3, gemma, ...) or file; default: the model's"},
    {"load", 0, "FILE", "begin with a conversation that /save wrote"},
    {"predict", 'n', "N", "tokens of an answer at most; -1: until the context is full (default)"},
    {"seed", 's', "N", "seed of the random draws; 0: a fresh one"},
    {"temp", 0, "T", "temperature; default 0, which is greedy"},
    {"top-k", 0, "K", "only the K best tokens; 0: off (default)"},
    {"top-p", 0, "P", "only the fewest best tokens whose mass reaches P; 1: off (default)"},
    {"min-p", 0, "P", "only tokens at least P times as likely as the best; 0: off (default)"},
    {"repeat-penalty", 0, "X", "divides the logits of tokens seen before; 1: off (default)"},
    {"ignore-eos", 0, NULL, "answers go on past the end-of-generation tokens, up to -n"},
};

static void more(FILE *out)
{
  fputs("\nA line is a message; it is answered on stdout. Lines that begin with a slash are commands:\n", out);
  chat_command_help(out);
  fputs("After each answer, on stderr: tokens that were run for the prompt, tokens that the cache held, times.\n"
        "With --json: an answer a line, with these figures. Control tokens spelled in a message are plain text.\n",
        out);
}

static const tn_cli_usage usage = {
    .command = "chat",
    .operands = "",
    .summary = "Talks with a model. The conversation stays in the KV cache.\n\n"
               "  tenon chat -m models/smollm2-135m-instruct-q4_1.gguf\n"
               "  tenon chat -m M.gguf --system 'Answer in one sentence.' --temp 0.7\n"
               "  printf 'Hello\\n/plan\\n' | tenon chat -m M.gguf --json -n 64",
    .options = options,
    .n_options = TN_ARRAY_LEN(options),
    .more = more,
};

static bool take(chat_args *a, int i, const char *v)
{
  const char *name = options[i].name;
  int64_t n = 0;
  switch (i - (int)TN_N_ENGINE_OPTIONS) {
    case 0: a->system = v; return true;
    case 1: a->template = v; return true;
    case 2: a->load = v; return true;
    case 3: return tn_cli_number(&a->cli, name, v, -1, 1 << 30, &a->n_predict);
    case 4: a->seed_given = true; return tn_cli_number(&a->cli, name, v, 0, INT64_MAX, &a->seed);
    case 5: return tn_cli_real(&a->cli, name, v, &a->sampling.temperature);
    case 6:
      if (!tn_cli_number(&a->cli, name, v, 0, 1 << 30, &n)) return false;
      a->sampling.top_k = (int32_t)n;
      return true;
    case 7: return tn_cli_real(&a->cli, name, v, &a->sampling.top_p);
    case 8: return tn_cli_real(&a->cli, name, v, &a->sampling.min_p);
    case 9: return tn_cli_real(&a->cli, name, v, &a->sampling.repetition);
    default: a->ignore_eos = true; return true;
  }
}

static int parse(chat_args *a, int argc, char **argv)
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
  if (args->first_operand < argc) return tn_cli_mistake(args, "'%s' is no option", argv[args->first_operand]);
  tn_err err = tn_err_init();
  if (tn_sampling_check(&a->sampling, INT32_MAX, &err) != TN_OK) return tn_cli_mistake(args, "%s", err.msg);
  return -1;
}

/* A message: lines that end in a backslash go on. NULL: the input is at its end, or there was a Ctrl-C. The caller's. */
static char *read_message(chat_line *l, size_t *n, bool *interrupted)
{
  char *text = NULL;
  size_t len;
  *n = 0;
  for (;;) {
    const char *line = chat_line_read(l, &len, interrupted);
    if (!line) break;
    char *grown = realloc(text, *n + len + 2);
    if (!grown) break;
    text = grown;
    memcpy(text + *n, line, len);
    *n += len;
    text[*n] = '\0';
    if (len == 0 || line[len - 1] != '\\') return text;
    text[*n - 1] = '\n';
  }
  if (*interrupted || *n == 0) {
    free(text);
    return NULL;
  }
  return text;
}

/* Until the end of the input. An answer that failed makes the exit code of a session without a terminal. */
static int talk(chat_session *s, chat_line *l)
{
  int code = TN_EXIT_OK;
  for (;;) {
    size_t n;
    bool interrupted;
    char *text = read_message(l, &n, &interrupted);
    if (!text && interrupted && s->terminal) {
      fputs("\n(/quit or Ctrl-D ends)\n", stderr);
      tn_cli_forget_interrupt();
      continue;
    }
    if (!text) return interrupted ? 130 : code;
    int what = CHAT_GO;
    tn_err err = tn_err_init();
    if (text[0] == '/') {
      what = chat_command(s, text);
    } else if (n > 0 && chat_answer(s, text, n, &err) != TN_OK) {
      tn_engine_args_explain(&s->a->engine, &err);
      int failed = tn_cli_fail(&s->a->cli, &err);
      if (!s->terminal) code = failed;
    }
    free(text);
    if (what == CHAT_QUIT) return s->setup.engine ? code : TN_EXIT_FAIL;
  }
}

static int begin(chat_session *s)
{
  tn_err err = tn_err_init();
  int code = chat_open(s);
  if (code != TN_EXIT_OK) return code;
  if (!chat_reset(s)) tn_fail(&err, TN_E_NOMEM, "no memory for the conversation");
  if (err.code == TN_OK && s->a->load) chat_load(s, s->a->load, &err);
  if (err.code != TN_OK) return tn_cli_fail(&s->a->cli, &err);
  if (s->terminal) fputs("A line is a message; /help lists the commands, Ctrl-D ends.\n", stderr);
  return TN_EXIT_OK;
}

static int run(chat_args *a)
{
  chat_session s = {.a = a, .terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)};
  tn_cli_catch_interrupt();
  chat_line *l = chat_line_new(s.terminal);
  s.messages = json_array();
  s.piece = malloc(CHAT_MAX_PIECE);
  s.shown = malloc(TN_UTF8_FEED_MAX(CHAT_MAX_PIECE));
  int code = l && s.messages && s.piece && s.shown ? begin(&s) : TN_EXIT_FAIL;
  if (code == TN_EXIT_OK) code = talk(&s, l);
  chat_close(&s);
  json_decref(s.messages);
  free(s.piece);
  free(s.shown);
  free(s.answer);
  chat_line_free(l);
  return tn_cli_done("chat", code);
}

int tn_cli_chat(int argc, char **argv)
{
  chat_args a = {.n_predict = -1, .sampling = tn_sampling_default()};
  int code = parse(&a, argc, argv);
  if (code < 0) code = run(&a);
  tn_engine_args_release(&a.engine);
  return code;
}
