/* json: a composition for programs. */
#include <string.h>

#include "compose/compose_int.h"
#include "loader/slot.h"
#include "sha256.h"

/* A value in its own type where JSON has one, else as text. */
static json_t *value_of(const tn_options *o, uint32_t i, const char *text)
{
  const tn_value *v = &o->values[i];
  switch (v->type) {
    case TN_T_BOOL: return json_boolean(v->v.i != 0);
    case TN_T_I64:
    case TN_T_BYTES: return json_integer(v->v.i);
    case TN_T_F64: return json_real(v->v.f);
    default: return json_string(text);
  }
}

/* {"window": {"value": 508, "from": "a.ini:3", "changes_tokens": true}, ...} of the options of one part or section. */
static json_t *options_of(const tn_facts *facts, uint32_t part, const tn_options *o)
{
  json_t *all = json_object();
  for (size_t k = 0; all && k < facts->n; k++) {
    const tn_fact *f = &facts->at[k];
    if (f->part != part || f->is_part) continue;
    for (uint32_t i = 0; i < o->n; i++) {
      if (o->params[i] != f->param) continue;
      json_t *one = json_pack("{s:o, s:s, s:b}", "value", value_of(o, i, f->value), "from",
                              f->where ? f->where : "default", "changes_tokens", f->output);
      if (json_object_set_new(all, f->param->key, one) == 0) continue;
      json_decref(all);
      return NULL;
    }
  }
  return all;
}

static json_t *tokens_of(const char *const *tokens)
{
  json_t *list = json_array();
  for (size_t i = 0; list && tokens && tokens[i]; i++)
    if (json_array_append_new(list, json_string(tokens[i])) != 0) {
      json_decref(list);
      return NULL;
    }
  return list;
}

static json_t *part_of(const tn_composition *c, const tn_facts *facts, uint32_t i)
{
  const tn_choice *p = &c->stack.part[i];
  const tn_desc *d = p->desc;
  json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s?, s:o, s:o, s:o, s:o}", "key", p->key, "slot",
                        tn_slot_name(p->slot), "name", d->name, "id", d->id, "version", d->version, "from", p->where,
                        "why", p->why, "provides", tokens_of(d->provides), "needs", tokens_of(d->needs), "conflicts",
                        tokens_of(d->conflicts), "options", options_of(facts, i, &p->options));
  if (!o) return NULL;
  char hex[65];
  bool ok = true;
  if (p->slot == TN_SLOT_ATTENTION) {
    ok = json_object_set_new(o, "first_layer", json_integer(p->layer0)) == 0;
    json_t *last = p->layer1 == TN_LAYER_END ? json_null() : json_integer(p->layer1 - 1);
    ok = json_object_set_new(o, "last_layer", last) == 0 && ok;
  }
  if (p->plugin->path) ok = json_object_set_new(o, "file", json_string(p->plugin->path)) == 0 && ok;
  if (p->plugin->path && tn_plugin_sha256(p->plugin, hex, NULL) == TN_OK)
    ok = json_object_set_new(o, "sha256", json_string(hex)) == 0 && ok;
  if (ok) return o;
  json_decref(o);
  return NULL;
}

static json_t *parts_of(const tn_composition *c, const tn_facts *facts)
{
  json_t *list = json_array();
  for (uint32_t i = 0; list && i < c->stack.n; i++)
    if (json_array_append_new(list, part_of(c, facts, i)) != 0) {
      json_decref(list);
      return NULL;
    }
  return list;
}

static json_t *strings_of(const tn_composition *c, const char *(*at)(const tn_composition *, size_t))
{
  json_t *list = json_array();
  const char *s;
  for (size_t i = 0; list && (s = at(c, i)); i++)
    if (json_array_append_new(list, json_string(s)) != 0) {
      json_decref(list);
      return NULL;
    }
  return list;
}

static const char *file_at(const tn_composition *c, size_t i) { return tn_config_file(c->stack.config, i); }

json_t *tn_composition_json(const tn_composition *c)
{
  tn_facts facts;
  if (tn_facts_of(c, &facts)) return NULL;
  char hex[65], short_hex[TN_FINGERPRINT_HEX + 1];
  tn_sha256_hex(c->fingerprint, hex);
  tn_composition_short(c, short_hex);
  json_t *o = json_pack("{s:s, s:s, s:b, s:o, s:o, s:o, s:o, s:o}", "fingerprint", short_hex, "sha256", hex, "model",
                        c->stack.model != NULL, "files", strings_of(c, file_at), "warnings",
                        strings_of(c, tn_composition_warning), "parts", parts_of(c, &facts), "engine",
                        options_of(&facts, TN_FACT_HOST, &c->host.engine), "model_options",
                        options_of(&facts, TN_FACT_HOST, &c->host.model));
  tn_facts_free(&facts);
  return o;
}
