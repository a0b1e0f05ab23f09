/* rules: what options and keys of the host itself need or exclude, in tokens. No rule names a plugin.
 *
 * Constant data: any thread. */
#ifndef TN_CORE_COMPOSE_RULES_H
#define TN_CORE_COMPOSE_RULES_H

#include "base.h"

enum { TN_RULE_NEEDS = 1, TN_RULE_EXCLUDES = 2 };

typedef struct tn_engine_rule { /* [engine] option = value, and in force only if key is filled */
  uint32_t option;              /* TN_ENGINE_*; ENUM or BOOL */
  int64_t value;
  const char *key; /* of [compose], or NULL: always in force */
  uint32_t kind;   /* TN_RULE_* */
  const char *token;
} tn_engine_rule;

typedef struct tn_key_rule { /* whatever fills this key needs the token */
  const char *key, *token;
} tn_key_rule;

typedef struct tn_token_rule { /* whatever provides a token needs another */
  const char *provides, *needs;
} tn_token_rule;

/* Row i of each table, NULL past the end. */
const tn_engine_rule *tn_engine_rule_at(size_t i);
const tn_key_rule *tn_key_rule_at(size_t i);
const tn_token_rule *tn_token_rule_at(size_t i);

#endif
