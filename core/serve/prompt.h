/* prompt: from a checked request to the tokens that the engine is given.
 *
 * Thread rule: any thread; the tokenizer does not change. */
#ifndef TN_CORE_SERVE_PROMPT_H
#define TN_CORE_SERVE_PROMPT_H

#include "chat/template.h"
#include "serve/job.h"

/* The tokens of every prompt; chat: one rendered by its template, else NULL. false: *f says why. Free with
 * tn_prompts_free. */
bool tn_prompts_make(const tn_gen *g, const tn_tokenizer *t, const tn_chat_text *chat, tn_prompt **out, uint32_t *n,
                     tn_fault *f);

#endif
