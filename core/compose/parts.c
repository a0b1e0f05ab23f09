/* parts: the plugin and the options of every key; see compose.h. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compose/compose_int.h"
#include "config/ini.h"
#include "config/section.h"
#include "loader/slot.h"

enum { SECTION_MAX = 128 }; /* "slot.name@key" with the longest of each */

/* What the loader reads in a plugin's section. */
typedef struct pins {
  const tn_config_entry *path, *sha256, *min;
} pins;

static const tn_config_entry *pin(const tn_config *c, const char *section, const char *special, const char *key)
{
  const tn_config_entry *e = tn_config_get(c, special, key);
  return e ? e : tn_config_get(c, section, key);
}

/* A path of the INI as an absolute one. NULL: no memory, or no working directory. */
static char *absolute(const tn_config_entry *e)
{
  char *path = tn_path_from(e->dir, e->value);
  if (!path || path[0] == '/') return path;
  char cwd[PATH_MAX], *whole = getcwd(cwd, sizeof cwd) ? tn_asprintf("%s/%s", cwd, path) : NULL;
  free(path);
  return whole;
}

static tn_status open_plugin(const tn_stack *s, uint32_t slot, const char *name, const pins *pin, const tn_plugin **out,
                             tn_err *err)
{
  tn_plugin_want want = {.slot = slot, .name = name};
  char *path = NULL;
  if (pin->path && !(path = absolute(pin->path))) return tn_fail(err, TN_E_NOMEM, "no memory for a path");
  want.path = path;
  want.sha256 = pin->sha256 ? pin->sha256->value : NULL;
  want.min = pin->min ? pin->min->value : NULL;
  tn_status st = s->catalog->open(s->catalog->ctx, &want, out, err);
  free(path);
  return st;
}

tn_status tn_choice_open(const tn_stack *s, const tn_compose_key *key, tn_str name, const char *where, tn_choice *out,
                         tn_err *err)
{
  char word[TN_INI_MAX_NAME + 1], section[SECTION_MAX], special[SECTION_MAX + 32];
  *out = (tn_choice){.key = key->key, .slot = key->slot, .layer1 = TN_LAYER_END, .where = where};
  if (!tn_plugin_name_ok(name) || name.n >= sizeof word)
    return tn_fail(err, TN_E_ARG,
                   "%s: %s = %.*s: no plugin has such a name: a lower-case letter, then letters, digits "
                   "and _",
                   where, key->key, (int)(name.n < 60 ? name.n : 60), name.p);
  snprintf(word, sizeof word, "%.*s", (int)name.n, name.p);
  snprintf(section, sizeof section, "%s.%s", tn_slot_name(key->slot), word);
  snprintf(special, sizeof special, "%s@%.30s", section, key->key);
  pins p = {pin(s->config, section, special, "path"), pin(s->config, section, special, "sha256"),
            pin(s->config, section, special, "min")};
  tn_status st = open_plugin(s, key->slot, word, &p, &out->plugin, err);
  if (st) {
    tn_err_prefix(err, "%s: %s = %s", where, key->key, word);
    return st;
  }
  out->desc = out->plugin->desc;
  tn_options_want want = {section, special, out->desc->params, true};
  return tn_options_read(s->config, &want, &out->options, err);
}

tn_status tn_section_check(const tn_stack *s, const tn_config_entry *e, tn_str name, tn_err *err)
{
  char word[TN_INI_MAX_NAME + 1], section[SECTION_MAX];
  const tn_plugin *plugin;
  if (name.n >= sizeof word) return TN_OK;
  snprintf(word, sizeof word, "%.*s", (int)name.n, name.p);
  snprintf(section, sizeof section, "%s.%s", tn_slot_name(e->slot), word);
  pins p = {pin(s->config, section, e->section, "path"), pin(s->config, section, e->section, "sha256"),
            pin(s->config, section, e->section, "min")};
  tn_status st = open_plugin(s, e->slot, word, &p, &plugin, err);
  if (st) return st == TN_E_NOMEM ? st : TN_OK; /* one that does not open hinders no composition without it */
  tn_options_want want = {.section = e->section, .params = plugin->desc->params, .plugin = true};
  return tn_options_check(s->config, &want, err);
}

void tn_choice_close(tn_choice *p) { tn_options_free(&p->options); }

static tn_status add(tn_stack *s, const tn_compose_key *key, tn_str name, const char *where, tn_err *err)
{
  if (s->n == TN_MAX_PARTS) return tn_fail(err, TN_E_ARG, "%s: over %d parts", where, TN_MAX_PARTS);
  tn_status st = tn_choice_open(s, key, name, where, &s->part[s->n], err);
  if (!st) s->n++;
  return st;
}

static tn_status add_layers(tn_stack *s, const tn_compose_key *key, const tn_config_entry *e, tn_err *err)
{
  tn_layer_range range[TN_MAX_LAYER_PARTS];
  uint32_t n;
  tn_status st = tn_layers_parse(e->value, s->model ? s->model->shape->n_layers : 0, range, &n, err);
  if (st) {
    tn_err_prefix(err, "%s: " TN_KEY_ATTENTION_LAYERS, e->where);
    return st;
  }
  for (uint32_t i = 0; i < n && !st; i++) {
    st = add(s, key, range[i].name, e->where, err);
    if (st) break;
    s->part[s->n - 1].layer0 = range[i].layer0;
    s->part[s->n - 1].layer1 = range[i].layer1;
  }
  return st;
}

/* Is a set behind b in the configuration? */
static bool later(const tn_config *c, const tn_config_entry *a, const tn_config_entry *b)
{
  if (!a || !b) return a != NULL;
  const tn_config_entry *e;
  bool seen_b = false;
  for (size_t i = 0; (e = tn_config_at(c, i)); i++) {
    if (e == b) seen_b = true;
    if (e == a) return seen_b;
  }
  return false;
}

/* position without a key: what models.ini has for the model. */
static tn_status add_position(tn_composition *c, const tn_compose_key *key, tn_err *err)
{
  tn_stack *s = &c->stack;
  const char *scaling = s->model ? s->model->rope_scaling : "";
  tn_status st = tn_position_of(s->config, scaling, &c->position_name, &c->position_where, err);
  if (st) return st;
  if (!s->model)
    c->position_why = tn_strdup("no key, and no model is open: positions are plain");
  else if (*scaling)
    c->position_why = tn_asprintf("no key; the model's rope scaling is '%s'", scaling);
  else
    c->position_why = tn_strdup("no key; the model has no rope scaling");
  if (!c->position_why) return tn_fail(err, TN_E_NOMEM, "no memory to compose");
  st = add(s, key, (tn_str){c->position_name, strlen(c->position_name)}, c->position_where, err);
  if (!st) s->part[s->n - 1].why = c->position_why;
  return st;
}

/* A required key is not set: names what could fill it. */
static tn_status missing(const tn_stack *s, const tn_compose_key *key, tn_err *err)
{
  char list[256] = "";
  size_t at = 0;
  tn_names names = {0};
  if (!s->catalog->names(s->catalog->ctx, key->slot, &names, NULL)) {
    for (size_t i = 0; i < names.n && at < sizeof list - 40; i++)
      at += (size_t)snprintf(list + at, sizeof list - at, "%s%.31s", i ? ", " : "", names.at[i]);
  }
  tn_names_free(&names);
  return tn_fail(err, TN_E_ARG, "[compose] %s is not set; %s%s", key->key,
                 *list ? "there are: " : "no plugin of that slot was found", list);
}

tn_status tn_parts_read(tn_composition *c, tn_err *err)
{
  tn_stack *s = &c->stack;
  tn_status st = TN_OK;
  const tn_compose_key *key;
  for (size_t i = 0; !st && (key = tn_compose_key_at(i)); i++) {
    const tn_config_entry *e = tn_config_get(s->config, "compose", key->key), *layers = NULL;
    if (key->slot == TN_SLOT_ATTENTION) layers = tn_config_get(s->config, "compose", TN_KEY_ATTENTION_LAYERS);
    if (layers && later(s->config, layers, e))
      st = add_layers(s, key, layers, err);
    else if (e)
      st = add(s, key, (tn_str){e->value, strlen(e->value)}, e->where, err);
    else if (key->slot == TN_SLOT_POSITION)
      st = add_position(c, key, err);
    else if (key->required)
      st = missing(s, key, err);
  }
  return st;
}
