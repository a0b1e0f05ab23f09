/* facts: a composition as a flat list: parts with their options, then the host's options. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compose/compose_int.h"
#include "config/param.h"
#include "loader/slot.h"

void tn_facts_free(tn_facts *f)
{
  for (size_t i = 0; i < f->n; i++) {
    free(f->at[i].name);
    free(f->at[i].value);
  }
  free(f->at);
  *f = (tn_facts){0};
}

/* Appends; takes over name and value. */
static tn_status add(tn_facts *f, tn_fact fact)
{
  tn_fact *at = fact.name && fact.value ? realloc(f->at, (f->n + 1) * sizeof *at) : NULL;
  if (!at) {
    free(fact.name);
    free(fact.value);
    return TN_E_NOMEM;
  }
  f->at = at;
  f->at[f->n++] = fact;
  return TN_OK;
}

/* The options of one table; prefix as in "eviction.h2o." */
static tn_status add_options(tn_facts *f, const tn_options *o, const char *prefix, uint32_t part)
{
  tn_status st = TN_OK;
  for (uint32_t i = 0; i < o->n && !st; i++) {
    const tn_param *p = o->params[i];
    st = add(f, (tn_fact){.name = tn_asprintf("%s%s", prefix, p->key),
                          .value = tn_param_render(p, &o->values[i]),
                          .where = o->from[i] ? o->from[i]->where : NULL,
                          .part = part,
                          .param = p,
                          .output = (p->flags & TN_P_OUTPUT) != 0});
  }
  return st;
}

void tn_option_prefix(const tn_choice *p, char *buf, size_t n)
{
  bool several = p->slot == TN_SLOT_QUANTIZER;
  snprintf(buf, n, "%s.%s%s%s.", tn_slot_name(p->slot), p->desc->name, several ? "@" : "", several ? p->key : "");
}

static tn_status add_part(tn_facts *f, const tn_choice *p, uint32_t index)
{
  char range[32], prefix[128];
  tn_range_words(p, range);
  tn_fact fact = {.value = tn_strdup(p->desc->name), .where = p->where, .part = index, .is_part = true, .output = true};
  fact.name = tn_is_range(p) ? tn_asprintf(TN_KEY_ATTENTION_LAYERS " %s", range) : tn_strdup(p->key);
  tn_status st = add(f, fact);
  if (st) return st;
  tn_option_prefix(p, prefix, sizeof prefix);
  return add_options(f, &p->options, prefix, index);
}

tn_status tn_facts_of(const tn_composition *c, tn_facts *out)
{
  *out = (tn_facts){0};
  tn_status st = TN_OK;
  for (uint32_t i = 0; i < c->stack.n && !st; i++) st = add_part(out, &c->stack.part[i], i);
  if (!st) st = add_options(out, &c->host.engine, "engine.", TN_FACT_HOST);
  if (!st) st = add_options(out, &c->host.model, "model.", TN_FACT_HOST);
  if (st) tn_facts_free(out);
  return st;
}
