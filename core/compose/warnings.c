/* warnings: what a user should know although it is no error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compose/compose_int.h"
#include "config/ini.h"
#include "loader/slot.h"

static tn_status add(tn_warnings *w, char *text, tn_err *err)
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
    tn_status st = add(w,
                       tn_asprintf("%s: [%s] %s is deprecated: %s", e->where, e->section, e->key,
                                   o->params[i]->help ? o->params[i]->help : ""),
                       err);
    if (st) return st;
  }
  return TN_OK;
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

/* A section whose plugin does not exist is a slip of the pen in the user's own file, and a matter of what is installed in
 * an included one. */
static tn_status unread(const tn_stack *s, const tn_config_entry *e, tn_str name, tn_warnings *w, tn_err *err)
{
  tn_names names;
  tn_status st = s->catalog->names(s->catalog->ctx, e->slot, &names, err);
  if (st) return st;
  char word[TN_INI_MAX_NAME + 1];
  snprintf(word, sizeof word, "%.*s", (int)name.n, name.p);
  const char *slot = tn_slot_name(e->slot);
  bool known = tn_names_has(&names, word);
  const char *near = known ? NULL : tn_nearest(word, (const char *const *)names.at, names.n);
  if (!known && e->depth == 0) {
    st = tn_fail(err, TN_E_ARG, "%s: [%s]: there is no plugin '%s' of slot %s%s%s%s", e->where, e->section, word, slot,
                 near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
  } else if (e->depth == 0 || (!known && near)) {
    st = add(w, tn_asprintf("%s: [%s] has no effect: %s is not in the composition", e->where, e->section, word), err);
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
  for (size_t i = 0; !st && (e = tn_config_at(s->config, i)); i++) {
    tn_str name, key;
    if (e->kind != TN_SECTION_PLUGIN) continue;
    tn_section_plugin(e->section, &name, &key);
    if (!is_read(s, e, name, key) && !repeated(s->config, i)) st = unread(s, e, name, out, err);
  }
  return st;
}
