/* warnings: what a user should know although it is no error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compose/compose_int.h"
#include "compose/rules.h"
#include "compose/tokens.h"
#include "config/ini.h"
#include "loader/slot.h"

tn_status tn_warnings_add(tn_warnings *w, char *text, tn_err *err)
{
  char **at = text ? realloc(w->at, (w->n + 1) * sizeof *at) : NULL;
  if (!at) {
    free(text);
    return tn_fail(err, TN_E_NOMEM, "no memory to compose");
  }
  w->at = at;
  w->at[w->n++] = text;
  return TN_OK;
}

static tn_status deprecated(const tn_options *o, tn_warnings *w, tn_err *err)
{
  for (uint32_t i = 0; i < o->n; i++) {
    const tn_config_entry *e = o->from[i];
    if (!e || !(o->params[i]->flags & TN_P_DEPRECATED)) continue;
    char *text = tn_asprintf("%s: [%s] %s is deprecated: %s", e->where, e->section, e->key,
                             o->params[i]->help ? o->params[i]->help : "");
    tn_status st = tn_warnings_add(w, text, err);
    if (st) return st;
  }
  return TN_OK;
}

/* Is there an earlier part of the same plugin and key? Ranges of layers may name one twice. */
static bool named_before(const tn_stack *s, uint32_t part)
{
  for (uint32_t i = 0; i < part; i++)
    if (s->part[i].desc == s->part[part].desc && !strcmp(s->part[i].key, s->part[part].key)) return true;
  return false;
}

/* Does the part bring what engine.allow_untrained = false excludes? */
static bool is_untrained(const tn_choice *p)
{
  const tn_engine_rule *r;
  for (size_t i = 0; (r = tn_engine_rule_at(i)); i++)
    if (r->option == TN_ENGINE_ALLOW_UNTRAINED && tn_token_in(p->desc->provides, r->token) &&
        tn_token_counts(p, r->token))
      return true;
  return false;
}

const tn_choice *tn_composition_untrained(const tn_composition *c, size_t i)
{
  for (uint32_t k = 0; k < c->stack.n; k++)
    if (is_untrained(&c->stack.part[k]) && !named_before(&c->stack, k) && i-- == 0) return &c->stack.part[k];
  return NULL;
}

/* Techniques that the model would have to be trained for, where that is allowed; where it is not, they are refused. */
static tn_status untrained(const tn_stack *s, tn_warnings *w, tn_err *err)
{
  tn_status st = TN_OK;
  for (uint32_t i = 0; i < s->n && !st && s->set[TN_ENGINE_ALLOW_UNTRAINED]; i++) {
    const tn_choice *p = &s->part[i];
    if (!is_untrained(p) || named_before(s, i)) continue;
    st = tn_warnings_add(w,
                         tn_asprintf("%s: %s = %s: the model was not trained for it, so its answers and every figure "
                                     "are those of another model",
                                     p->where, tn_is_range(p) ? TN_KEY_ATTENTION_LAYERS : p->key, p->desc->name),
                         err);
  }
  return st;
}

/* Is the section of a plugin in the composition, under the section's key where it names one? */
static bool is_read(const tn_stack *s, const tn_config_entry *e, tn_str name, tn_str key)
{
  for (uint32_t i = 0; i < s->n; i++) {
    const tn_choice *p = &s->part[i];
    if (p->slot != e->slot || strlen(p->desc->name) != name.n || memcmp(p->desc->name, name.p, name.n) != 0) continue;
    if (key.n == 0 || (strlen(p->key) == key.n && !memcmp(p->key, key.p, key.n))) return true;
  }
  return false;
}

/* Why nothing reads the section of a plugin: "int8 fills kv, not weights", "int8 is not in the composition". */
static void unread_words(const tn_stack *s, uint32_t slot, const char *word, tn_str key, char *buf, size_t n)
{
  size_t at = 0;
  char keys[128] = "";
  for (uint32_t i = 0; i < s->n && at < sizeof keys; i++) {
    const tn_choice *p = &s->part[i];
    if (p->slot != slot || strcmp(p->desc->name, word) != 0) continue;
    at += (size_t)snprintf(keys + at, sizeof keys - at, "%s%s", at ? " and " : "", p->key);
  }
  if (at)
    snprintf(buf, n, "%s fills %s, not %.*s", word, keys, (int)key.n, key.p);
  else
    snprintf(buf, n, "%s is not in the composition", word);
}

/* A section whose plugin does not exist is a slip of the pen in the user's own file, and a matter of what is installed in
 * an included one. Where the plugin is known, what the section says has to be right although nothing reads it. */
static tn_status unread(const tn_stack *s, const tn_config_entry *e, tn_str name, tn_str key, tn_warnings *w,
                        tn_err *err)
{
  tn_names names;
  tn_status st = s->catalog->names(s->catalog->ctx, e->slot, &names, err);
  if (st) return st;
  char word[TN_INI_MAX_NAME + 1], why[512];
  snprintf(word, sizeof word, "%.*s", (int)name.n, name.p);
  const char *slot = tn_slot_name(e->slot);
  bool known = tn_names_has(&names, word);
  const char *near = known ? NULL : tn_nearest(word, (const char *const *)names.at, names.n);
  if (!known && e->depth == 0) {
    st = tn_fail(err, TN_E_ARG, "%s: [%s]: there is no plugin '%s' of slot %s%s%s%s", e->where, e->section, word, slot,
                 near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
  } else {
    unread_words(s, e->slot, word, key, why, sizeof why);
    if (known) st = tn_section_check(s, e, name, err);
    if (!st && (e->depth == 0 || (!known && near)))
      st = tn_warnings_add(w, tn_asprintf("%s: [%s] has no effect: %s", e->where, e->section, why), err);
  }
  tn_names_free(&names);
  return st;
}

/* Is an earlier entry of the same section and file? */
static bool repeated(const tn_config *c, size_t i)
{
  const tn_config_entry *e = tn_config_at(c, i);
  for (size_t k = 0; k < i; k++) {
    const tn_config_entry *o = tn_config_at(c, k);
    if (o->file == e->file && !strcmp(o->section, e->section)) return true;
  }
  return false;
}

tn_status tn_warnings_find(const tn_composition *c, tn_warnings *out, tn_err *err)
{
  const tn_stack *s = &c->stack;
  const tn_config_entry *e;
  tn_status st = deprecated(&c->host.engine, out, err);
  for (uint32_t i = 0; i < s->n && !st; i++) st = deprecated(&s->part[i].options, out, err);
  if (!st) st = untrained(s, out, err);
  if (!st) st = tn_context_check(c, out, err);
  for (size_t i = 0; !st && (e = tn_config_at(s->config, i)); i++) {
    tn_str name, key;
    if (e->kind != TN_SECTION_PLUGIN) continue;
    tn_section_plugin(e->section, &name, &key);
    if (!is_read(s, e, name, key) && !repeated(s->config, i)) st = unread(s, e, name, key, out, err);
  }
  return st;
}
