/* config: the entries; see config.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config_int.h"
#include "config/section.h"
#include "loader/slot.h"
#include "utf8.h"

tn_config *tn_config_new(const tn_config_fs *fs, const char *conf_dir)
{
  tn_config *c = tn_zalloc(1, sizeof *c);
  if (!c) return NULL;
  if (fs) c->fs = *fs;
  if (conf_dir && !(c->conf_dir = tn_strdup(conf_dir))) {
    free(c);
    return NULL;
  }
  return c;
}

void tn_config_free(tn_config *c)
{
  if (!c) return;
  for (size_t i = 0; i < c->n_sources; i++) {
    free(c->sources[i].path);
    free(c->sources[i].id);
    free(c->sources[i].dir);
  }
  for (size_t i = 0; i < c->n_entries; i++) free(c->entries[i]);
  free(c->sources);
  free(c->entries);
  free(c->conf_dir);
  free(c);
}

/* Room for one more element of size bytes in *array. */
static bool grow(void **array, size_t n, size_t *cap, size_t size)
{
  if (n < *cap) return true;
  size_t want = *cap ? 2 * *cap : 16, bytes;
  if (!tn_mul_size(want, size, &bytes)) return false;
  void *p = realloc(*array, bytes);
  if (!p) return false;
  *array = p;
  *cap = want;
  return true;
}

tn_status tn_config_add_source(tn_config *c, tn_config_source s, uint32_t *index, tn_err *err)
{
  void *array = c->sources;
  tn_status st = TN_OK;
  if (!s.path || c->n_sources >= UINT32_MAX)
    st = TN_E_NOMEM;
  else if (!grow(&array, c->n_sources, &c->cap_sources, sizeof *c->sources))
    st = TN_E_NOMEM;
  if (st) {
    free(s.path);
    free(s.id);
    free(s.dir);
    return tn_fail(err, st, "no memory for the configuration");
  }
  c->sources = array;
  *index = (uint32_t)c->n_sources;
  c->sources[c->n_sources++] = s;
  return TN_OK;
}

/* Appends s to the strings behind an entry. */
static const char *put(char **at, const char *s)
{
  size_t n = strlen(s) + 1;
  char *to = *at;
  memcpy(to, s, n);
  *at += n;
  return to;
}

tn_status tn_config_add(tn_config *c, const tn_ini_item *item, uint32_t source, const char *where, tn_err *err)
{
  const tn_config_source *src = &c->sources[source];
  for (size_t i = c->n_entries; src->id && i-- > 0;) {
    const tn_config_entry *e = c->entries[i];
    if (e->file != source || strcmp(e->key, item->key) != 0 || strcmp(e->section, item->section) != 0) continue;
    return tn_fail(err, TN_E_ARG, "[%s] %s was set before, at %s", item->section, item->key, e->where);
  }
  void *array = c->entries;
  size_t strings = strlen(item->section) + strlen(item->key) + strlen(item->value) + strlen(where) + 4;
  tn_config_entry *e = NULL;
  if (grow(&array, c->n_entries, &c->cap_entries, sizeof *c->entries)) {
    c->entries = array;
    e = malloc(sizeof *e + strings);
  }
  if (!e) return tn_fail(err, TN_E_NOMEM, "no memory for the configuration");
  char *at = (char *)(e + 1);
  *e = (tn_config_entry){.dir = src->dir, .depth = src->depth, .file = source};
  e->section = put(&at, item->section);
  e->key = put(&at, item->key);
  e->value = put(&at, item->value);
  e->where = put(&at, where);
  c->entries[c->n_entries++] = e;
  return tn_section_read(e->section, &e->kind, &e->slot, err);
}

tn_status tn_config_check_names(const char *section, const char *key, tn_err *err)
{
  uint32_t kind, slot;
  tn_status st = tn_section_read(section, &kind, &slot, err);
  if (st) return st;
  return kind == TN_SECTION_COMPOSE ? tn_compose_key_check(key, err) : TN_OK;
}

/* Splits "section.key": a plugin's section has a dot of its own. false: a part is missing. */
static bool split(char *name, char **key)
{
  char *dot = strchr(name, '.');
  if (!dot) return false;
  *dot = '\0';
  if (tn_slot_by_name(name)) {
    *dot = '.';
    dot = strchr(dot + 1, '.');
    if (!dot) return false;
    *dot = '\0';
  }
  *key = dot + 1;
  return **key != '\0' && *name != '\0';
}

static char *trimmed(const char *p, size_t n)
{
  while (n && (*p == ' ' || *p == '\t')) p++, n--;
  while (n && (p[n - 1] == ' ' || p[n - 1] == '\t')) n--;
  return tn_strndup(p, n);
}

#define SET_FORM "want section.key=value, as in engine.threads=2 or quantizer.int8@kv.group=64"

static tn_status add_set(tn_config *c, char *name, const char *value, const char *where, tn_err *err)
{
  char *key;
  if (!split(name, &key)) return tn_fail(err, TN_E_ARG, SET_FORM);
  if (strlen(name) > TN_INI_MAX_NAME || strlen(key) > TN_INI_MAX_NAME || strlen(value) > TN_INI_MAX_VALUE)
    return tn_fail(err, TN_E_ARG, "a section or key name has over %d bytes, or a value over %d", TN_INI_MAX_NAME,
                   TN_INI_MAX_VALUE);
  tn_status st = tn_config_check_names(name, key, err);
  if (st) return st;
  uint32_t source;
  tn_config_source src = {.path = tn_strdup(where)};
  st = tn_config_add_source(c, src, &source, err);
  tn_ini_item item = {name, key, value, 0};
  return st ? st : tn_config_add(c, &item, source, where, err);
}

tn_status tn_config_set(tn_config *c, const char *assignment, tn_err *err)
{
  if (tn_utf8_valid(assignment, strlen(assignment)) < strlen(assignment))
    return tn_fail(err, TN_E_ARG, "--set: the argument is not UTF-8");
  char *where = tn_asprintf("--set %.200s", assignment);
  if (!where) return tn_fail(err, TN_E_NOMEM, "no memory for the configuration");
  tn_status st = tn_config_set_from(c, assignment, where, err);
  free(where);
  return st;
}

tn_status tn_config_set_from(tn_config *c, const char *assignment, const char *where, tn_err *err)
{
  const char *eq = strchr(assignment, '=');
  if (!eq) return tn_fail(err, TN_E_ARG, "%s: " SET_FORM, where);
  char *name = trimmed(assignment, (size_t)(eq - assignment)), *value = trimmed(eq + 1, strlen(eq + 1));
  tn_status st;
  if (name && value) {
    st = add_set(c, name, value, where, err);
    if (st) tn_err_prefix(err, "%s", where);
  } else {
    st = tn_fail(err, TN_E_NOMEM, "no memory for the configuration");
  }
  free(name);
  free(value);
  return st;
}

const tn_config_entry *tn_config_get(const tn_config *c, const char *section, const char *key)
{
  for (size_t i = c->n_entries; i-- > 0;) {
    const tn_config_entry *e = c->entries[i];
    if (strcmp(e->key, key) != 0 || strcmp(e->section, section) != 0) continue;
    bool none = *e->value == '\0' || (e->kind == TN_SECTION_COMPOSE && !strcmp(e->value, "-"));
    return none ? NULL : e;
  }
  return NULL;
}

const tn_config_entry *tn_config_at(const tn_config *c, size_t i) { return i < c->n_entries ? c->entries[i] : NULL; }

const char *tn_config_file(const tn_config *c, size_t i)
{
  for (size_t k = 0; k < c->n_sources; k++) {
    if (!c->sources[k].id) continue;
    if (i-- == 0) return c->sources[k].path;
  }
  return NULL;
}
