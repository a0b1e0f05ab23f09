/* tokens: see tokens.h. */
#include "compose/tokens.h"

#include <string.h>

enum { HOST = 0, TRAIT = 0, ABILITY = 1 };

static const tn_token_info table[] = {
    {"attn.mask/1", TN_SLOT_BACKEND, ABILITY, "attention by parametric masks"},
    {"attn.tiles/1", TN_SLOT_BACKEND, ABILITY, "attention by lists of key tiles"},
    {"attn.tree/1", TN_SLOT_BACKEND, ABILITY, "attention over drafted trees"},
    {"attn.scores/1", TN_SLOT_BACKEND, ABILITY, "attention scores per head"},
    {"attn.lse/1", TN_SLOT_BACKEND, ABILITY, "the log-sum-exp of attention rows"},
    {TN_TOKEN_STATE, TN_SLOT_BACKEND, ABILITY, "recurrent attention"},
    {TN_TOKEN_RENUMBER, TN_SLOT_BACKEND, ABILITY, "renumbered positions for kept first tokens"},
    {"kv.raw/1", TN_SLOT_BACKEND, ABILITY, "keys cached before rotation"},
    {"kv.per_head/1", TN_SLOT_BACKEND, ABILITY, "a cache of its own for each KV head"},
    {"kv.layouts/1", TN_SLOT_BACKEND, ABILITY, "cached keys and values in other layouts"},
    {"hidden.tap/1", TN_SLOT_BACKEND, ABILITY, "copies of hidden rows"},
    {"observe/1", TN_SLOT_BACKEND, ABILITY, "observers of activations"},
    {"collective/1", TN_SLOT_BACKEND, ABILITY, "exchange between ranks"},
    {"act.int8/1", TN_SLOT_BACKEND, ABILITY, "int8 activations"},
    {"weight.affine/1", TN_SLOT_BACKEND, ABILITY, "weights in affine groups"},
    {"weight.fp8/1", TN_SLOT_BACKEND, ABILITY, "float8 weights"},
    {"weight.table/1", TN_SLOT_BACKEND, ABILITY, "weights by table look-up"},
    {"run.range/1", TN_SLOT_BACKEND, ABILITY, "runs of a range of layers"},
    {"kv.pages/1", TN_SLOT_MEMORY, ABILITY, "a cache in pages"},
    {"kv.share/1", TN_SLOT_MEMORY, ABILITY, "pages that sequences share"},
    {"kv.grow/1", TN_SLOT_MEMORY, ABILITY, "a cache that grows with its sequence"},
    {"kv.token_drop/1", TN_SLOT_MEMORY, ABILITY, "dropping tokens from the cache"},
    {TN_TOKEN_STRETCH, TN_SLOT_POSITION, TRAIT, "positions stretched over more text than was trained"},
    {"kv.history/1", TN_SLOT_EVICTION, TRAIT, "a cache that depends on what was attended before"},
    {"kv.demote/1", TN_SLOT_EVICTION, TRAIT, "a policy that demotes entries to fewer bits"},
    {"draft.tree/1", TN_SLOT_DRAFT, TRAIT, "drafts that branch"},
    {"draft.lossless/1", TN_SLOT_DRAFT, TRAIT, "the law that each draft was drawn from"},
    {"attn.names_evicted/1", TN_SLOT_ATTENTION, TRAIT, "a pattern that names tokens which may have been dropped"},
    {"attn.untrained/1", TN_SLOT_ATTENTION, TRAIT, "attention that the model was not trained for"},
    {"weight.untrained/1", TN_SLOT_QUANTIZER, TRAIT, "weights that the model was not trained for"},
    {TN_TOKEN_ROLLBACK, HOST, ABILITY, "taking back cached drafts"},
    {TN_TOKEN_HIDDEN_LAST, HOST, ABILITY, "the last hidden rows"},
    {TN_TOKEN_ENTRIES, HOST, ABILITY, "a cache entry for each token"},
};

const tn_token_info *tn_token_at(size_t i) { return i < TN_ARRAY_LEN(table) ? &table[i] : NULL; }

const tn_token_info *tn_capability_find(const char *token)
{
  for (size_t i = 0; i < TN_ARRAY_LEN(table); i++)
    if (!strcmp(table[i].token, token)) return &table[i];
  return NULL;
}

bool tn_token_in(const char *const *list, const char *token)
{
  for (size_t i = 0; list && list[i]; i++)
    if (!strcmp(list[i], token)) return true;
  return false;
}
