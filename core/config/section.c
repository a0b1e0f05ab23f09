/* section: see section.h. */
#include "config/section.h"

#include <stdio.h>
#include <string.h>

#include "config/host_params.h"
#include "config/ini.h"
#include "loader/slot.h"

static const tn_compose_key keys[] = {
    {"backend", TN_SLOT_BACKEND, 1},     {"memory", TN_SLOT_MEMORY, 1},     {"attention", TN_SLOT_ATTENTION, 1},
    {"scheduler", TN_SLOT_SCHEDULER, 1}, {"position", TN_SLOT_POSITION, 1}, {"eviction", TN_SLOT_EVICTION, 0},
    {"weights", TN_SLOT_QUANTIZER, 0},   {"kv", TN_SLOT_QUANTIZER, 0},      {"demote", TN_SLOT_QUANTIZER, 0},
    {"draft", TN_SLOT_DRAFT, 0},         {"parallel", TN_SLOT_PARALLEL, 0},
};

const tn_compose_key *tn_compose_key_at(size_t i) { return i < TN_ARRAY_LEN(keys) ? &keys[i] : NULL; }

const tn_compose_key *tn_compose_key_find(const char *key)
{
  for (size_t i = 0; i < TN_ARRAY_LEN(keys); i++)
    if (!strcmp(keys[i].key, key)) return &keys[i];
  return NULL;
}

tn_status tn_compose_key_check(const char *key, tn_err *err)
{
  if (tn_compose_key_find(key) || !strcmp(key, TN_KEY_ATTENTION_LAYERS)) return TN_OK;
  const char *names[TN_ARRAY_LEN(keys) + 1];
  size_t n = 0;
  for (; n < TN_ARRAY_LEN(keys); n++) names[n] = keys[n].key;
  names[n++] = TN_KEY_ATTENTION_LAYERS;
  const char *near = tn_nearest(key, names, n);
  if (near) return tn_fail(err, TN_E_ARG, "[compose] has no key '%s'; did you mean '%s'?", key, near);
  return tn_fail(err, TN_E_ARG,
                 "[compose] has no key '%s'; its keys are backend, memory, attention, %s, scheduler, "
                 "position, eviction, weights, kv, demote, draft, parallel",
                 key, TN_KEY_ATTENTION_LAYERS);
}

bool tn_plugin_name_ok(tn_str s)
{
  if (s.n == 0 || s.p[0] < 'a' || s.p[0] > 'z') return false;
  for (size_t i = 1; i < s.n; i++) {
    char c = s.p[i];
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_')) return false;
  }
  return true;
}

void tn_section_plugin(const char *section, tn_str *name, tn_str *key)
{
  const char *dot = strchr(section, '.'), *from = dot ? dot + 1 : section, *at = strchr(from, '@');
  size_t n = strlen(from);
  *name = (tn_str){from, at ? (size_t)(at - from) : n};
  *key = at ? (tn_str){at + 1, n - name->n - 1} : (tn_str){from + n, 0};
}

/* No slot and no section of the host is called `head`. */
static tn_status unknown(const char *section, const char *head, tn_err *err)
{
  const char *names[32];
  size_t n = 0;
  names[n++] = "compose";
  for (size_t i = 0; tn_host_section_at(i); i++) names[n++] = tn_host_section_at(i)->name;
  for (uint32_t s = TN_SLOT_FIRST; s <= TN_SLOT_LAST; s++) names[n++] = tn_slot_name(s);
  const char *near = tn_nearest(head, names, n), *rest = strchr(section, '.');
  if (near)
    return tn_fail(err, TN_E_ARG, "there is no section [%s]; did you mean [%s%s]?", section, near, rest ? rest : "");
  return tn_fail(err, TN_E_ARG, "there is no section [%s]: it is [compose], [engine], [model] or [slot.name]", section);
}

tn_status tn_section_read(const char *section, uint32_t *kind, uint32_t *slot, tn_err *err)
{
  *slot = 0;
  *kind = TN_SECTION_COMPOSE;
  if (!strcmp(section, "compose")) return TN_OK;
  *kind = TN_SECTION_HOST;
  if (tn_host_section_find(section)) return TN_OK;
  *kind = TN_SECTION_PLUGIN;
  char head[TN_INI_MAX_NAME + 1];
  size_t n = strcspn(section, ".");
  if (n >= sizeof head) n = sizeof head - 1;
  memcpy(head, section, n);
  head[n] = '\0';
  *slot = tn_slot_by_name(head);
  if (!*slot) return unknown(section, head, err);
  tn_str name, key;
  tn_section_plugin(section, &name, &key);
  if (!strchr(section, '.') || name.n == 0)
    return tn_fail(err, TN_E_ARG, "[%s] names a slot, options belong to a plugin of it: [%s.name]", section, head);
  if (!tn_plugin_name_ok(name))
    return tn_fail(err, TN_E_ARG, "[%s]: '%.*s' is no plugin name: a lower-case letter, then letters, digits and _",
                   section, (int)name.n, name.p);
  if (!strchr(section, '@')) return TN_OK;
  char word[TN_INI_MAX_NAME + 1];
  snprintf(word, sizeof word, "%.*s", (int)key.n, key.p);
  const tn_compose_key *k = tn_compose_key_find(word);
  if (k && k->slot == *slot) return TN_OK;
  return tn_fail(err, TN_E_ARG, "[%s]: '%s' is no key of [compose] that a plugin of slot %s can fill", section, word,
                 head);
}
