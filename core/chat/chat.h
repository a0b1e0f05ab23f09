/* chat: the template that a model's conversations go by, with what it needs of the vocabulary.
 *
 * Threads: one opens and closes; in between it never changes. */
#ifndef TN_CORE_CHAT_CHAT_H
#define TN_CORE_CHAT_CHAT_H

#include "chat/template.h"
#include "model/gguf.h"

typedef struct tn_chat { /* zero-initialised to begin; owns all of it */
  tn_chat_template *t;
  char *bos, *eos; /* as the vocabulary spells them; NULL: it has none */
} tn_chat;

/* choice: a name (tn_chat_builtin) or the path of a file with a template; NULL: the one in the model's file. Errors:
 * TN_E_UNSUPPORTED where the file has none, TN_E_IO for a choice that is neither a name nor a file, what
 * tn_chat_template_compile says, TN_E_NOMEM. On failure there is nothing to close. */
tn_status tn_chat_open(const tn_gguf *g, const tn_tokenizer *tok, const char *choice, tn_chat *out, tn_err *err);
void tn_chat_close(tn_chat *c);

/* The messages (an array) as text, with answer as the prompt of the next one; tools and kwargs may be NULL. Errors:
 * tn_chat_render. */
tn_status tn_chat_prompt(const tn_chat *c, const json_t *messages, const json_t *tools, const json_t *kwargs,
                         bool answer, tn_chat_text *out, tn_err *err);

#endif
