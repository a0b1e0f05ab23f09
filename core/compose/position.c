/* position: models.ini, which names the position plugin for each spelling of a model's rope scaling.
 *
 *   [position]
 *   none = <plugin>      ; models without scaling
 *   <word> = <plugin>    ; {arch}.rope.scaling.type of the model file */
#include <stdlib.h>
#include <string.h>

#include "compose/compose_int.h"
#include "config/ini.h"

#define MODELS_INI "models.ini"

typedef struct search {
  const char *word, *path;
  char *name, *where;
} search;

static tn_status on_item(void *ctx, const tn_ini_item *item, tn_err *err)
{
  search *s = ctx;
  if (strcmp(item->section, "position") != 0)
    return tn_fail(err, TN_E_ARG, "%s:%u: [%s] %s: only [position] is read here", s->path, item->line, item->section,
                   item->key);
  if (strcmp(item->key, s->word) != 0) return TN_OK;
  if (s->name)
    return tn_fail(err, TN_E_ARG, "%s:%u: %s was set before, at %s", s->path, item->line, item->key, s->where);
  s->name = tn_strdup(item->value);
  s->where = tn_asprintf("%s:%u", s->path, item->line);
  return s->name && s->where ? TN_OK : tn_fail(err, TN_E_NOMEM, "no memory for %s", s->path);
}

tn_status tn_position_of(const tn_config *c, const char *scaling, char **name, char **where, tn_err *err)
{
  char *path, *text;
  size_t n;
  *name = *where = NULL;
  tn_status st = tn_config_conf_file(c, MODELS_INI, &path, &text, &n, err);
  if (st) {
    tn_err_prefix(err, "[compose] position is not set, and what to take from the model cannot be read");
    return st;
  }
  search s = {.word = *scaling ? scaling : "none", .path = path};
  st = tn_ini_parse(path, text, n, on_item, &s, err);
  if (!st && !s.name)
    st = tn_fail(err, TN_E_UNSUPPORTED,
                 "[compose] position is not set, and %s has no plugin for the model's rope scaling "
                 "'%s': set position, or give the word a line there",
                 path, s.word);
  if (st) {
    free(s.name);
    free(s.where);
  } else {
    *name = s.name;
    *where = s.where;
  }
  free(path);
  free(text);
  return st;
}
