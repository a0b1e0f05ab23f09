/* validate: see validate.h. Parameters are in validate_params.c. */
#include "loader/validate.h"

#include <string.h>

#include "loader/slot.h"
#include "loader/words.h"
#include "utf8.h"

#define KNOWN_FLAGS ((uint32_t)TN_F_DETERMINISTIC | (uint32_t)TN_F_EXACT)

size_t tn_list_len(const void *list)
{
  const void *const *p = list;
  size_t n = 0;
  while (p && n <= TN_LIST_MAX && p[n]) n++;
  return n;
}

/* What a descriptor is called in a message, before its id is known to be good. */
static const char *label(const tn_desc *d) { return d->id && *d->id ? d->id : "without id"; }

#define FAIL(d, fmt, ...) tn_fail(err, TN_E_UNSUPPORTED, "descriptor '%.63s': " fmt, label(d), __VA_ARGS__)

static tn_status check_module_size(const tn_module *m, tn_err *err)
{
  if (m->struct_size != sizeof *m)
    return tn_fail(err, TN_E_UNSUPPORTED, "tn_module.struct_size is %u, plugin ABI %u.%u has %zu", m->struct_size,
                   TN_ABI_MAJOR, TN_ABI_MINOR, sizeof *m);
  if (m->abi_major != TN_ABI_MAJOR || m->abi_minor != TN_ABI_MINOR)
    return tn_fail(err, TN_E_VERSION, "tn_module says plugin ABI %u.%u, this host has %u.%u", m->abi_major,
                   m->abi_minor, TN_ABI_MAJOR, TN_ABI_MINOR);
  return TN_OK;
}

tn_status tn_validate_module(const tn_module *m, tn_err *err)
{
  tn_status st = check_module_size(m, err);
  if (st != TN_OK) return st;
  if (!m->name || !*m->name || strnlen(m->name, TN_TEXT_MAX) == TN_TEXT_MAX)
    return tn_fail(err, TN_E_UNSUPPORTED, "tn_module.name is empty or over %u bytes", TN_TEXT_MAX);
  if (!m->version || !tn_is_version(m->version))
    return tn_fail(err, TN_E_UNSUPPORTED, "tn_module.version is '%.63s', want a version such as 1.0.0",
                   m->version ? m->version : "");
  if (m->n_desc == 0 || m->n_desc > TN_NOTE_MAX)
    return tn_fail(err, TN_E_UNSUPPORTED, "tn_module.n_desc is %u, want 1 to %d", m->n_desc, TN_NOTE_MAX);
  if (!m->desc) return tn_fail(err, TN_E_UNSUPPORTED, "tn_module.desc is NULL, n_desc is %u", m->n_desc);
  for (uint32_t i = 0; i < m->n_desc; i++) {
    if (!m->desc[i]) return tn_fail(err, TN_E_UNSUPPORTED, "tn_module.desc[%u] is NULL, n_desc is %u", i, m->n_desc);
    for (uint32_t k = 0; k < i; k++)
      if (m->desc[i]->id && m->desc[k]->id && strcmp(m->desc[i]->id, m->desc[k]->id) == 0)
        return tn_fail(err, TN_E_UNSUPPORTED, "descriptors %u and %u have one id, '%.63s'", k, i, m->desc[i]->id);
  }
  return TN_OK;
}

tn_status tn_rule_sizes(const tn_desc *d, tn_err *err)
{
  if (d->struct_size != sizeof *d)
    return tn_fail(err, TN_E_UNSUPPORTED, "tn_desc.struct_size is %u, plugin ABI %u.%u has %zu", d->struct_size,
                   TN_ABI_MAJOR, TN_ABI_MINOR, sizeof *d);
  size_t n;
  uint32_t size;
  if (!tn_slot_hooks(d->slot, &n, &size))
    return FAIL(d, "slot is %u, slots are %d to %d", d->slot, TN_SLOT_FIRST, TN_SLOT_LAST);
  if (d->slot_version != TN_SLOT_VERSION)
    return tn_fail(err, TN_E_VERSION, "descriptor '%.63s': slot_version is %u, this host has %u of the slot %s",
                   label(d), d->slot_version, TN_SLOT_VERSION, tn_slot_name(d->slot));
  if (!d->vtable) return FAIL(d, "%s is NULL", "vtable");
  uint32_t got = *(const uint32_t *)d->vtable;
  if (got != size)
    return FAIL(d, "tn_%s_v1.struct_size is %u, plugin ABI %u.%u has %u", tn_slot_name(d->slot), got, TN_ABI_MAJOR,
                TN_ABI_MINOR, size);
  n = tn_list_len(d->params);
  if (n > TN_LIST_MAX) return FAIL(d, "params has no NULL among its first %u entries", TN_LIST_MAX);
  for (size_t i = 0; i < n; i++)
    if (d->params[i]->struct_size != sizeof(tn_param))
      return FAIL(d, "params[%zu].struct_size is %u, plugin ABI %u.%u has %zu", i, d->params[i]->struct_size,
                  TN_ABI_MAJOR, TN_ABI_MINOR, sizeof(tn_param));
  return TN_OK;
}

tn_status tn_rule_reserved(const tn_desc *d, tn_err *err)
{
  uint32_t reserved = ((const uint32_t *)d->vtable)[1];
  if (reserved != 0) return FAIL(d, "tn_%s_v1.reserved0 is %u, want 0", tn_slot_name(d->slot), reserved);
  if (d->flags & ~KNOWN_FLAGS) return FAIL(d, "flags is %#x, this ABI knows the bits %#x", d->flags, KNOWN_FLAGS);
  return TN_OK;
}

tn_status tn_rule_words(const tn_desc *d, tn_err *err)
{
  if (!d->id || !tn_is_id(d->id))
    return FAIL(d, "id is '%.63s', want lower-case words joined by dots, such as org.example.name",
                d->id ? d->id : "NULL");
  if (!d->name || !tn_is_name(d->name))
    return FAIL(d, "name is '%.63s', want a lower-case letter, then letters, digits and _, at most %d",
                d->name ? d->name : "NULL", TN_NAME_MAX);
  if (!d->version || !tn_is_version(d->version))
    return FAIL(d, "version is '%.63s', want one such as 1.0.0", d->version ? d->version : "NULL");
  size_t n = d->summary ? strnlen(d->summary, TN_TEXT_MAX) : 0;
  if (n == 0 || n == TN_TEXT_MAX) return FAIL(d, "summary has %zu bytes, want 1 to %u", n, TN_TEXT_MAX - 1);
  if (memchr(d->summary, '\n', n)) return FAIL(d, "summary has %s, want one line", "a line break");
  size_t good = tn_utf8_valid(d->summary, n);
  if (good != n) return FAIL(d, "summary is not UTF-8 at byte %zu", good);
  return TN_OK;
}

tn_status tn_rule_hooks(const tn_desc *d, tn_err *err)
{
  if (!d->create) return FAIL(d, "%s is NULL, every plugin needs it", "create");
  if (!d->destroy) return FAIL(d, "%s is NULL, every plugin needs it", "destroy");
  size_t n;
  uint32_t size;
  const tn_hook *hooks = tn_slot_hooks(d->slot, &n, &size);
  for (size_t i = 0; i < n; i++) {
    void (*fn)(void);
    memcpy(&fn, (const char *)d->vtable + hooks[i].offset, sizeof fn);
    if (!fn && hooks[i].required)
      return FAIL(d, "tn_%s_v1.%s is NULL, the slot needs it", tn_slot_name(d->slot), hooks[i].name);
  }
  if (d->slot == TN_SLOT_EVICTION) {
    const tn_eviction_v1 *v = d->vtable;
    if (!v->when != !v->score)
      return FAIL(d, "tn_eviction_v1.%s is NULL and %s is not", v->when ? "score" : "when", v->when ? "when" : "score");
  }
  return TN_OK;
}

/* One list of tokens: spelt well, each once. */
static tn_status check_tokens(const tn_desc *d, const char *what, const char *const *list, tn_err *err)
{
  size_t n = tn_list_len(list);
  if (n > TN_LIST_MAX) return FAIL(d, "%s has no NULL among its first %u entries", what, TN_LIST_MAX);
  for (size_t i = 0; i < n; i++) {
    if (!tn_is_token(list[i]))
      return FAIL(d, "%s[%zu] is '%.63s', want a token such as kv.token_drop/1", what, i, list[i]);
    for (size_t k = 0; k < i; k++)
      if (strcmp(list[i], list[k]) == 0) return FAIL(d, "%s has '%s' twice", what, list[i]);
  }
  return TN_OK;
}

tn_status tn_rule_tokens(const tn_desc *d, tn_err *err)
{
  tn_status st = check_tokens(d, "provides", d->provides, err);
  if (st == TN_OK) st = check_tokens(d, "needs", d->needs, err);
  if (st == TN_OK) st = check_tokens(d, "conflicts", d->conflicts, err);
  if (st != TN_OK || !d->needs || !d->conflicts) return st;
  for (size_t i = 0; d->needs[i]; i++)
    for (size_t k = 0; d->conflicts[k]; k++)
      if (strcmp(d->needs[i], d->conflicts[k]) == 0) return FAIL(d, "'%s' is in needs and in conflicts", d->needs[i]);
  return TN_OK;
}

tn_status tn_rule_counters(const tn_desc *d, tn_err *err)
{
  size_t n = tn_list_len(d->counters);
  if (n > TN_COUNTER_MAX) return FAIL(d, "counters has more than %u names", TN_COUNTER_MAX);
  for (size_t i = 0; i < n; i++) {
    if (!tn_is_name(d->counters[i]))
      return FAIL(d, "counters[%zu] is '%.63s', want lower-case letters, digits and _", i, d->counters[i]);
    for (size_t k = 0; k < i; k++)
      if (strcmp(d->counters[i], d->counters[k]) == 0) return FAIL(d, "counters has '%s' twice", d->counters[i]);
  }
  return TN_OK;
}

const tn_desc_rule *tn_desc_rules(size_t *n)
{
  static const tn_desc_rule rules[] = {
      {"sizes", true, tn_rule_sizes},        {"reserved words", false, tn_rule_reserved},
      {"words", false, tn_rule_words},       {"hooks", false, tn_rule_hooks},
      {"tokens", false, tn_rule_tokens},     {"parameters", false, tn_rule_params},
      {"counters", false, tn_rule_counters},
  };
  *n = TN_ARRAY_LEN(rules);
  return rules;
}

tn_status tn_validate_desc(const tn_desc *d, tn_err *err)
{
  size_t n;
  const tn_desc_rule *rules = tn_desc_rules(&n);
  tn_status st = TN_OK;
  for (size_t i = 0; i < n && st == TN_OK; i++) st = rules[i].check(d, err);
  return st;
}

tn_status tn_validate_notes(const tn_module *m, const tn_notes *notes, tn_err *err)
{
  for (uint32_t i = 0; i < m->n_desc; i++) {
    const tn_desc *d = m->desc[i];
    const tn_note *note = NULL;
    for (size_t k = 0; k < notes->n && !note; k++)
      if (strcmp(notes->at[k].id, d->id) == 0) note = &notes->at[k];
    if (!note)
      return tn_fail(err, TN_E_UNSUPPORTED, "the descriptor's id is '%s', the note says '%s'", d->id,
                     notes->at[i < notes->n ? i : 0].id);
    if (note->slot != d->slot)
      return tn_fail(err, TN_E_UNSUPPORTED, "descriptor '%s' is for the slot %s, its note says %s", d->id,
                     tn_slot_name(d->slot), tn_slot_name(note->slot));
  }
  if (notes->n != m->n_desc)
    return tn_fail(err, TN_E_UNSUPPORTED, "the file has %zu notes and %u descriptors", notes->n, m->n_desc);
  return TN_OK;
}
