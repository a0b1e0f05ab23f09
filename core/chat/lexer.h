/* lexer: a template's source as tokens, with white space around tags taken away as trim_blocks, lstrip_blocks and the
 * signs - and + ask for. */
#ifndef TN_CORE_CHAT_LEXER_H
#define TN_CORE_CHAT_LEXER_H

#include "chat/jinja.h"

typedef enum tn_jtok_kind {
  TN_JT_END,
  TN_JT_DATA, /* text outside tags */
  TN_JT_BLOCK_BEGIN,
  TN_JT_BLOCK_END,
  TN_JT_PRINT_BEGIN,
  TN_JT_PRINT_END,
  TN_JT_NAME,
  TN_JT_STRING, /* text: without quotes and escapes */
  TN_JT_INT,    /* i */
  TN_JT_FLOAT,  /* f */
  TN_JT_OP      /* text: the operator */
} tn_jtok_kind;

typedef struct tn_jtok {
  tn_jtok_kind kind;
  uint32_t line;
  tn_js text;
  int64_t i;
  double f;
} tn_jtok;

typedef struct tn_jlex { /* also what the parser reads from */
  tn_arena *arena;
  const char *name; /* of the template */
  tn_err *err;
  tn_status status; /* of the first failure */
  const char *s;    /* [n] the source, newlines as \n */
  size_t n, at;
  uint32_t line;
  bool line_starts; /* the last tag took a newline with it */
  tn_jtok *tok;     /* [n_tok], the last is END */
  size_t n_tok, cap_tok;
  size_t pos;     /* of the parser */
  uint32_t depth; /* of the parser */
} tn_jlex;

/* "name, line N: text" into the error; always false. */
bool tn_jlex_fail(tn_jlex *x, uint32_t line, tn_status code, const char *fmt, ...) TN_PRINTF(4, 5);
bool tn_jlex_nomem(tn_jlex *x);

/* Fills tok. */
bool tn_jlex_all(tn_jlex *x, const char *source, size_t n);

/* One token of an expression at x->at, which is no white space (lexer_expr.c). */
bool tn_jlex_expr(tn_jlex *x);
bool tn_jlex_push(tn_jlex *x, tn_jtok t);
void tn_jlex_skip_space(tn_jlex *x);

#endif
