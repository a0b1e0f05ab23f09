/* tokens: what the host knows about capability tokens: who usually brings one, and how a person would say it.
 *
 * A plugin states tokens it `provides`, `needs` and `conflicts` with. They are resolved over the whole composition:
 *   - a need is met when any part, or the host, provides the very token;
 *   - a conflict with a token hits another part that needs it, or that provides it unless it is an ability. An ability
 *     (of the backend or the memory) does nothing until a part needs it; every other token is a trait, which is there
 *     when it is provided;
 *   - of a quantizer, tokens weight.* count under the key weights only, tokens kv.* under kv only.
 * A token that is not in the table is a trait that any slot may bring; plugins are free to agree on more of them.
 *
 * Constant data: any thread. */
#ifndef TN_CORE_COMPOSE_TOKENS_H
#define TN_CORE_COMPOSE_TOKENS_H

#include "base.h"

typedef struct tn_token_info {
  const char *token;  /* "attn.scores/1" */
  uint32_t giver;     /* slot that brings it; 0: the host */
  uint32_t ability;   /* 1: inert until needed */
  const char *phrase; /* a noun phrase: "attention scores per head" */
} tn_token_info;

/* Row i, NULL past the end. */
const tn_token_info *tn_token_at(size_t i);

/* The row of a token, or NULL. */
const tn_token_info *tn_capability_find(const char *token);

/* Is token in the NULL-terminated list? list may be NULL. */
bool tn_token_in(const char *const *list, const char *token);

/* Tokens that the host always provides, and the one that it withholds when no layer keeps entries (resolve.c). */
#define TN_TOKEN_ROLLBACK "kv.rollback/1"
#define TN_TOKEN_HIDDEN_LAST "hidden.last/1"
#define TN_TOKEN_ENTRIES "kv.entries/1"
#define TN_TOKEN_STATE "attn.state/1"

/* Tokens that tell whether a context may be longer than the trained one (context.c). */
#define TN_TOKEN_STRETCH "rope.stretch/1"
#define TN_TOKEN_RENUMBER "rope.renumber/1"

#endif
