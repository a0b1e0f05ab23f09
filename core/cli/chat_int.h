/* chat_int: what the files of `tenon chat` share: chat.c is the command line, chat_line.c what is typed, chat_command.c
 * the commands, chat_session.c the engine and its answers. */
#ifndef TN_CORE_CLI_CHAT_INT_H
#define TN_CORE_CLI_CHAT_INT_H

#include "chat/chat.h"
#include "cli/engine_args.h"
#include "utf8.h"

typedef struct chat_args {
  tn_cli_args cli;
  tn_engine_args engine;
  const char *system, *template, *load;
  int64_t n_predict, seed;
  tn_sampling sampling;
  bool seed_given, ignore_eos;
} chat_args;

typedef struct chat_line chat_line;

/* What was said in text and what of it lies in the cache. The KV of the conversation is kept as the engine's bytes
 * between answers: a sequence ends with its answer. */
typedef struct chat_cache {
  uint8_t *bytes; /* [n] of tn_engine_save; NULL: nothing is kept */
  size_t n;
  int32_t *pending; /* [n_pending] tokens of the answer that were not yet run */
  size_t n_pending;
  char *text; /* [n_text] the prompt's text with the answer behind it */
  size_t n_text;
} chat_cache;

typedef struct chat_session {
  chat_args *a;
  tn_setup setup;
  tn_chat chat;
  json_t *messages; /* array of {"role", "content"} */
  chat_cache cache;
  /* of the answer that is being made */
  tn_utf8_stream stream;
  char *piece, *shown; /* [CHAT_MAX_PIECE] and what feed makes of it */
  char *answer;        /* [n_answer] */
  size_t n_answer, cap_answer;
  uint64_t seq, start_ns, first_ns, last_ns, n_new;
  int64_t n_prompt, n_cached;
  uint32_t why;
  tn_err error; /* of an event */
  uint64_t turns;
  bool terminal; /* both ends are a terminal */
} chat_session;

#define CHAT_MAX_PIECE 65536u

/* Opens the engine and the template; also after a failure closed by chat_close. TN_EXIT_OK or the exit code. */
int chat_open(chat_session *s);
void chat_close(chat_session *s);

/* Forgets the conversation; a system message given on the command line stays. false: no memory. */
bool chat_reset(chat_session *s);
void chat_forget_cache(chat_session *s);

/* One message of the user, answered on stdout. TN_OK also when the answer was stopped. After an error the message is
 * taken back. */
tn_status chat_answer(chat_session *s, const char *text, size_t n, tn_err *err);

enum { CHAT_GO, CHAT_QUIT };
/* A line that begins with a slash. */
int chat_command(chat_session *s, const char *line);
void chat_command_help(FILE *out);

/* Messages from a JSON file, an array or an object with "messages". TN_E_IO, TN_E_ARG. */
tn_status chat_load(chat_session *s, const char *path, tn_err *err);
tn_status chat_save(const chat_session *s, const char *path, tn_err *err);

/* Lines from the terminal, with editing and history, or from standard input as it is. NULL: no memory. */
chat_line *chat_line_new(bool terminal);
void chat_line_free(chat_line *l);
/* The next line without its newline, valid until the next call; NULL at the end. *interrupted: there was a Ctrl-C and no
 * line. */
const char *chat_line_read(chat_line *l, size_t *n, bool *interrupted);

#endif
