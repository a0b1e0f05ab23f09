/* template: chat templates, the Jinja text in a model's file that turns messages into the prompt the model was trained
 * on. What is understood is what such templates use, and renders as Jinja2 does with trim_blocks and lstrip_blocks on,
 * its loop controls, the immutable sandbox, and the globals raise_exception and strftime_now. Anything else is refused
 * with its name and line.
 *
 *   source -> lexer.c -> parse.c, parse_expr.c -> nodes -> run.c, run_expr.c, run_call.c -> text
 *
 * Trust: the template may write control tokens, a conversation may not. Every byte of the output is known to come from
 * the template or from the messages, and tn_chat_tokens parses control tokens in the former only.
 *
 * Threads: a compiled template never changes; any number of threads may render it at once. */
#ifndef TN_CORE_CHAT_TEMPLATE_H
#define TN_CORE_CHAT_TEMPLATE_H

#include <jansson.h>
#include <time.h>

#include "base.h"
#include "tokenizer/tokenizer.h"

typedef struct tn_chat_template tn_chat_template;

#define TN_CHAT_TEMPLATE_MAX ((size_t)1 << 20) /* longest source, bytes */

/* Parses text[0, n), which is not needed afterwards. name says in messages where the template comes from, "m.gguf". On
 * failure *out is NULL and *err names the template, the line and the construct: TN_E_UNSUPPORTED for one that is not
 * offered, TN_E_ARG for a fault of syntax or a source that is too long or no UTF-8, TN_E_NOMEM. */
tn_status tn_chat_template_compile(const char *text, size_t n, const char *name, tn_chat_template **out, tn_err *err);

/* Accepts NULL. */
void tn_chat_template_free(tn_chat_template *t);

/* The source of a template that has a name ("chatml"), NUL-terminated, static; NULL for an unknown name. */
const char *tn_chat_builtin(const char *name);

/* The i-th of those names, NULL past the end. */
const char *tn_chat_builtin_name(size_t i);

typedef struct tn_chat_limits { /* 0: the default */
  uint64_t steps;               /* expressions, statements and 64-byte blocks of text worked on; 20 million */
  size_t memory_bytes;          /* values made while rendering; 256 MiB */
  size_t output_bytes;          /* 64 MiB */
  uint32_t depth;               /* expressions, blocks and macro calls inside each other; 200 */
} tn_chat_limits;

typedef struct tn_chat_input { /* borrowed until render returns */
  const json_t *messages;      /* array of objects; NULL: the template sees none */
  const json_t *tools;         /* NULL: none */
  const json_t *kwargs;        /* object of further variables, or NULL; none of them replaces one of the others */
  const char *bos, *eos;       /* bos_token and eos_token; NULL: undefined in the template */
  const struct tm *now;        /* local time of strftime_now; NULL: the time of the call */
  bool add_generation_prompt;
  tn_chat_limits limits;
} tn_chat_input;

typedef struct tn_chat_text { /* owned by the caller: tn_chat_text_clear */
  char *p;                    /* [n] and a NUL; UTF-8 */
  size_t n;
  tn_span *plain; /* [n_plain] ascending: what comes from messages, tools and kwargs */
  size_t n_plain;
} tn_chat_text;

/* On failure *out is empty and *err is one sentence: TN_E_ARG with the template's own words where it raises an exception,
 * or with the line where it meets a value that it cannot use; TN_E_UNSUPPORTED with line and name; TN_E_FULL with the
 * limit that was reached; TN_E_NOMEM. */
tn_status tn_chat_render(const tn_chat_template *t, const tn_chat_input *in, tn_chat_text *out, tn_err *err);
void tn_chat_text_clear(tn_chat_text *t);

/* The rendered text as tokens. Control tokens are parsed in what the template wrote alone. BOS stands before it where the
 * vocabulary asks for it and the template has not written it. *ids is owned by the caller, free(). Errors: those of
 * tn_tokenize. */
tn_status tn_chat_tokens(const tn_tokenizer *t, const tn_chat_text *text, int32_t **ids, size_t *n_ids, tn_err *err);

#endif
