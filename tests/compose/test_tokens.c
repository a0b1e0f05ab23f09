/* The tables of tokens and rules are sound. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "compose/rules.h"
#include "compose/tokens.h"
#include "config/host_params.h"
#include "config/section.h"
#include "loader/slot.h"
#include "loader/words.h"

Test(tokens, table)
{
  const tn_token_info *t, *u;
  for (size_t i = 0; (t = tn_token_at(i)); i++) {
    cr_assert(tn_is_token(t->token), "%s", t->token);
    cr_assert(gt(sz, strlen(t->phrase), 3), "%s", t->token);
    cr_assert(le(sz, strlen(t->phrase), 60), "%s: the sentence has to stay short", t->token);
    cr_assert(t->giver <= TN_SLOT_LAST);
    for (size_t k = 0; k < i; k++) {
      u = tn_token_at(k);
      cr_assert(ne(str, (char *)t->token, (char *)u->token));
      cr_assert(ne(str, (char *)t->phrase, (char *)u->phrase));
    }
    cr_assert(eq(ptr, (void *)tn_capability_find(t->token), (void *)t));
  }
  cr_assert(zero(ptr, (void *)tn_capability_find("attn.scores/2")));
  cr_assert(eq(u32, tn_capability_find("attn.scores/1")->ability, 1));
  cr_assert(eq(u32, tn_capability_find("kv.history/1")->ability, 0));
}

Test(tokens, rules_use_known_tokens_and_keys)
{
  const tn_engine_rule *e;
  const tn_param *const *engine = tn_host_section_find("engine")->params;
  for (size_t i = 0; (e = tn_engine_rule_at(i)); i++) {
    cr_assert(tn_capability_find(e->token) != NULL, "%s", e->token);
    cr_assert(e->option < TN_ENGINE_N);
    const tn_param *p = engine[e->option];
    cr_assert(p->type == TN_T_ENUM ? e->value < p->n_choices : p->type == TN_T_BOOL && e->value <= 1, "%s", p->key);
    cr_assert(e->key == NULL || tn_compose_key_find(e->key) != NULL);
  }
  const tn_key_rule *k;
  for (size_t i = 0; (k = tn_key_rule_at(i)); i++) {
    cr_assert(tn_capability_find(k->token) != NULL, "%s", k->token);
    cr_assert(tn_compose_key_find(k->key) != NULL, "%s", k->key);
  }
  const tn_token_rule *t;
  for (size_t i = 0; (t = tn_token_rule_at(i)); i++)
    cr_assert(tn_capability_find(t->provides) != NULL && tn_capability_find(t->needs) != NULL, "%s", t->provides);
}
