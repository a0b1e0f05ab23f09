/* tokenize: `tenon tokenize`, text to ids and back. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "config/config.h"
#include "tokenizer/tokenizer.h"

enum { OPT_MODEL, OPT_PROMPT, OPT_FILE, OPT_IDS, OPT_NO_BOS, OPT_NO_SPECIAL, OPT_JSON };
static const tn_cli_option options[] = {
    [OPT_MODEL] = {"model", 'm', "FILE", "GGUF file whose tokenizer is used"},
    [OPT_PROMPT] = {"prompt", 'p', "TEXT", "the text"},
    [OPT_FILE] = {"file", 'f', "FILE", "the text from a file"},
    [OPT_IDS] = {"ids", 0, NULL, "print ids only, on one line"},
    [OPT_NO_BOS] = {"no-bos", 0, NULL, "add neither BOS nor EOS"},
    [OPT_NO_SPECIAL] = {"no-parse-special", 0, NULL, "special tokens spelled in the text are plain text"},
    [OPT_JSON] = {"json", 0, NULL, "ids and pieces as JSON"},
};
static const tn_cli_usage usage = {
    .command = "tokenize",
    .operands = "",
    .summary = "Prints the tokens of a text, one a line: id and piece.\n\n"
               "  tenon tokenize -m M.gguf -p 'Hello world'\n"
               "  tenon tokenize -m M.gguf -f book.txt --ids",
    .options = options,
    .n_options = TN_ARRAY_LEN(options),
};

typedef struct tokenize_args {
  tn_cli_args cli;
  const char *model, *prompt, *file;
  bool ids, json;
  uint32_t flags;
} tokenize_args;

static int parse(tokenize_args *a, int argc, char **argv)
{
  tn_cli_args *args = &a->cli;
  tn_cli_begin(args, &usage, argc, argv);
  const char *v;
  int i;
  while ((i = tn_cli_next(args, &v)) >= 0) {
    switch (i) {
      case OPT_MODEL: a->model = v; break;
      case OPT_PROMPT: a->prompt = v; break;
      case OPT_FILE: a->file = v; break;
      case OPT_IDS: a->ids = true; break;
      case OPT_NO_BOS: a->flags &= ~(uint32_t)TN_TOKENIZE_ADD_SPECIAL; break;
      case OPT_NO_SPECIAL: a->flags &= ~(uint32_t)TN_TOKENIZE_PARSE_SPECIAL; break;
      default: a->json = true; break;
    }
  }
  if (i == TN_CLI_STOP) return args->exit_code;
  if (args->first_operand < argc)
    return tn_cli_mistake(args, "'%s' is no option; the text goes behind -p", argv[args->first_operand]);
  if (!a->model) return tn_cli_mistake(args, "no model: give -m FILE");
  if (!a->prompt == !a->file) return tn_cli_mistake(args, "give the text with -p or with -f");
  return -1;
}

static int print(const tn_tokenizer *t, const int32_t *ids, size_t n, const tokenize_args *a)
{
  size_t max = tn_token_piece_max(t);
  char *piece = malloc(max + 1);
  json_t *list = a->json ? json_array() : NULL, *pieces = a->json ? json_array() : NULL;
  if (!piece) return TN_EXIT_FAIL;
  for (size_t i = 0; i < n; i++) {
    size_t len = tn_token_piece(t, ids[i], TN_PIECE_SPECIAL, piece, max);
    if (a->json) {
      json_t *text = json_stringn(piece, len); /* NULL for half a character */
      json_array_append_new(list, json_integer(ids[i]));
      json_array_append_new(pieces, text ? text : json_null());
    } else if (a->ids) {
      printf("%s%d", i ? " " : "", ids[i]);
    } else {
      printf("%6d  '%.*s'\n", ids[i], (int)len, piece);
    }
  }
  free(piece);
  if (a->json) return tn_cli_json("tokenize", json_pack("{s:o, s:o}", "ids", list, "pieces", pieces));
  if (a->ids) fputs("\n", stdout);
  return tn_cli_done("tokenize", TN_EXIT_OK);
}

int tn_cli_tokenize(int argc, char **argv)
{
  tokenize_args a = {.flags = TN_TOKENIZE_ADD_SPECIAL | TN_TOKENIZE_PARSE_SPECIAL};
  int code = parse(&a, argc, argv);
  if (code >= 0) return code;
  tn_err err = tn_err_init();
  tn_gguf *g = NULL;
  tn_tokenizer *t = NULL;
  char *bytes = NULL;
  int32_t *ids = NULL;
  size_t n_text = a.prompt ? strlen(a.prompt) : 0, n = 0;
  tn_status st = tn_gguf_open(a.model, &g, &err);
  if (st == TN_OK) st = tn_tokenizer_load(g, &t, &err);
  if (st == TN_OK && a.file) st = tn_file_read(a.file, TN_TEXT_MAX, &bytes, &n_text, &err);
  if (st == TN_OK) st = tn_tokenize(t, a.prompt ? a.prompt : bytes, n_text, a.flags, &ids, &n, &err);
  code = st == TN_OK ? print(t, ids, n, &a) : tn_cli_fail(&a.cli, &err);
  free(ids);
  free(bytes);
  tn_tokenizer_free(t);
  tn_gguf_close(g);
  return code;
}
