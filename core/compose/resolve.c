/* resolve: can these parts work together? Tokens first, then the plugins' own validate(). See tokens.h and rules.h. */
#include <string.h>

#include "compose/compose_int.h"
#include "compose/rules.h"
#include "compose/tokens.h"

bool tn_token_counts(const tn_choice *p, const char *token)
{
  if (p->slot != TN_SLOT_QUANTIZER) return true;
  bool weights = !strcmp(p->key, "weights");
  return strncmp(token, weights ? "kv." : "weight.", weights ? 3 : 7) != 0;
}

static bool provides(const tn_choice *p, const char *token)
{
  return tn_token_in(p->desc->provides, token) && tn_token_counts(p, token);
}

const char *tn_choice_need(const tn_choice *p, size_t k)
{
  for (size_t i = 0; p->desc->needs && p->desc->needs[i]; i++)
    if (tn_token_counts(p, p->desc->needs[i]) && k-- == 0) return p->desc->needs[i];
  const tn_key_rule *kr;
  for (size_t i = 0; (kr = tn_key_rule_at(i)); i++)
    if (!strcmp(kr->key, p->key) && !tn_token_in(p->desc->needs, kr->token) && k-- == 0) return kr->token;
  const tn_token_rule *tr;
  for (size_t i = 0; (tr = tn_token_rule_at(i)); i++)
    if (provides(p, tr->provides) && !tn_token_in(p->desc->needs, tr->needs) && k-- == 0) return tr->needs;
  return NULL;
}

static bool needs(const tn_choice *p, const char *token)
{
  const char *t;
  for (size_t k = 0; (t = tn_choice_need(p, k)); k++)
    if (!strcmp(t, token)) return true;
  return false;
}

static tn_side part_side(uint32_t i) { return (tn_side){TN_SIDE_PART, i}; }

/* The first part of a slot; else the empty slot. */
static tn_side slot_side(const tn_stack *s, uint32_t slot)
{
  for (uint32_t i = 0; i < s->n; i++)
    if (s->part[i].slot == slot) return part_side(i);
  return (tn_side){TN_SIDE_SLOT, slot};
}

/* Does any layer keep an entry for each token? Those whose attention is recurrent keep a state. */
static bool has_entries(const tn_stack *s)
{
  bool all_state = false;
  for (uint32_t i = 0; i < s->n; i++) {
    if (s->part[i].slot != TN_SLOT_ATTENTION) continue;
    all_state = needs(&s->part[i], TN_TOKEN_STATE);
    if (!all_state) return true;
  }
  return !all_state;
}

tn_side tn_resolve_giver(const tn_stack *s, const char *token, bool *found)
{
  *found = !strcmp(token, TN_TOKEN_ROLLBACK) || !strcmp(token, TN_TOKEN_HIDDEN_LAST) ||
           (!strcmp(token, TN_TOKEN_ENTRIES) && has_entries(s));
  for (uint32_t i = 0; i < s->n && !*found; i++) {
    if (!provides(&s->part[i], token)) continue;
    *found = true;
    return part_side(i);
  }
  return (tn_side){TN_SIDE_NONE, 0};
}

/* Who should have provided a token that nothing provides. */
static tn_side blame(const tn_stack *s, const char *token)
{
  if (!strcmp(token, TN_TOKEN_ENTRIES)) return slot_side(s, TN_SLOT_ATTENTION);
  const tn_token_info *info = tn_capability_find(token);
  return info && info->giver ? slot_side(s, info->giver) : (tn_side){TN_SIDE_NONE, 0};
}

static bool need_unmet(const tn_stack *s, tn_side a, const char *token, tn_clash *clash)
{
  bool found;
  tn_resolve_giver(s, token, &found);
  if (found) return false;
  *clash = (tn_clash){.kind = TN_CLASH_NEED, .a = a, .b = blame(s, token), .token = token};
  return true;
}

static bool in_force(const tn_stack *s, const tn_engine_rule *r)
{
  if (s->set[r->option] != r->value) return false;
  if (!r->key) return true;
  for (uint32_t i = 0; i < s->n; i++)
    if (!strcmp(s->part[i].key, r->key)) return true;
  return false;
}

static bool needs_ok(const tn_stack *s, tn_clash *clash)
{
  const char *token;
  for (uint32_t i = 0; i < s->n; i++)
    for (size_t k = 0; (token = tn_choice_need(&s->part[i], k)); k++)
      if (need_unmet(s, part_side(i), token, clash)) return false;
  const tn_engine_rule *r;
  for (size_t i = 0; (r = tn_engine_rule_at(i)); i++) {
    if (r->kind != TN_RULE_NEEDS || !in_force(s, r)) continue;
    if (need_unmet(s, (tn_side){TN_SIDE_ENGINE, r->option}, r->token, clash)) return false;
  }
  return true;
}

/* A side excludes a token: is there another that needs it, or brings it as a trait? */
static bool conflict_hits(const tn_stack *s, tn_side a, const char *token, tn_clash *clash)
{
  const tn_token_info *info = tn_capability_find(token);
  bool trait = !info || !info->ability;
  *clash = (tn_clash){.kind = TN_CLASH_CONFLICT, .a = a, .token = token};
  for (uint32_t i = 0; i < s->n; i++) {
    if (a.kind == TN_SIDE_PART && a.index == i) continue;
    clash->b = part_side(i);
    clash->b_needs = needs(&s->part[i], token);
    if (clash->b_needs || (trait && provides(&s->part[i], token))) return true;
  }
  const tn_engine_rule *r;
  for (size_t i = 0; (r = tn_engine_rule_at(i)); i++) {
    if (r->kind != TN_RULE_NEEDS || strcmp(r->token, token) != 0 || !in_force(s, r)) continue;
    clash->b = (tn_side){TN_SIDE_ENGINE, r->option};
    clash->b_needs = true;
    return true;
  }
  return false;
}

static bool conflicts_ok(const tn_stack *s, tn_clash *clash)
{
  for (uint32_t i = 0; i < s->n; i++) {
    const tn_choice *p = &s->part[i];
    for (size_t k = 0; p->desc->conflicts && p->desc->conflicts[k]; k++) {
      const char *token = p->desc->conflicts[k];
      if (tn_token_counts(p, token) && conflict_hits(s, part_side(i), token, clash)) return false;
    }
  }
  const tn_engine_rule *r;
  for (size_t i = 0; (r = tn_engine_rule_at(i)); i++) {
    if (r->kind != TN_RULE_EXCLUDES || !in_force(s, r)) continue;
    if (conflict_hits(s, (tn_side){TN_SIDE_ENGINE, r->option}, r->token, clash)) return false;
  }
  return true;
}

/* A quantizer that says no layout for cached keys and values cannot fill a key for the cache. */
static bool uses_ok(const tn_stack *s, tn_clash *clash)
{
  for (uint32_t i = 0; i < s->n; i++) {
    const tn_choice *p = &s->part[i];
    if (p->slot != TN_SLOT_QUANTIZER || !strcmp(p->key, "weights")) continue;
    const tn_quantizer_v1 *v = p->desc->vtable;
    if (v && TN_CAN(v, kv_layout)) continue;
    *clash = (tn_clash){.kind = TN_CLASH_USE, .a = part_side(i)};
    return false;
  }
  return true;
}

static bool validate_ok(const tn_stack *s, tn_clash *clash)
{
  tn_plan_store store;
  tn_plan_fill(s, &store);
  for (uint32_t i = 0; i < s->n; i++) {
    const tn_desc *d = s->part[i].desc;
    if (!TN_CAN(d, validate)) continue;
    *clash = (tn_clash){.kind = TN_CLASH_VALIDATE, .a = part_side(i), .text = tn_err_init()};
    tn_status st = d->validate(&store.plan, s->part[i].options.values, &clash->text);
    if (st) return false;
  }
  return true;
}

bool tn_resolve(const tn_stack *s, tn_clash *clash)
{
  return uses_ok(s, clash) && needs_ok(s, clash) && conflicts_ok(s, clash) && validate_ok(s, clash);
}
