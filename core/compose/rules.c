/* rules: see rules.h. */
#include "compose/rules.h"

#include "compose/tokens.h"
#include "config/host_params.h"
#include "engine/verify.h"

static const tn_engine_rule engine_rules[] = {
    {TN_ENGINE_ACTIVATIONS, TN_ACTIVATIONS_INT8, NULL, TN_RULE_NEEDS, "act.int8/1"},
    {TN_ENGINE_VERIFY, TN_VERIFY_LOSSLESS, "draft", TN_RULE_NEEDS, "draft.lossless/1"},
    {TN_ENGINE_ALLOW_UNTRAINED, 0, NULL, TN_RULE_EXCLUDES, "attn.untrained/1"},
    {TN_ENGINE_ALLOW_UNTRAINED, 0, NULL, TN_RULE_EXCLUDES, "weight.untrained/1"},
};

static const tn_key_rule key_rules[] = {
    {"kv", "kv.layouts/1"},    {"kv", TN_TOKEN_ENTRIES},       {"demote", "kv.layouts/1"},
    {"demote", "kv.demote/1"}, {"eviction", TN_TOKEN_ENTRIES}, {"draft", TN_TOKEN_ROLLBACK},
};

static const tn_token_rule token_rules[] = {
    {"draft.tree/1", "attn.tree/1"},
};

const tn_engine_rule *tn_engine_rule_at(size_t i) { return i < TN_ARRAY_LEN(engine_rules) ? &engine_rules[i] : NULL; }

const tn_key_rule *tn_key_rule_at(size_t i) { return i < TN_ARRAY_LEN(key_rules) ? &key_rules[i] : NULL; }

const tn_token_rule *tn_token_rule_at(size_t i) { return i < TN_ARRAY_LEN(token_rules) ? &token_rules[i] : NULL; }
