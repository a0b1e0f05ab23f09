/* options: the field `tenon` of a request: options of plugins that may be set while the engine runs. */
#include <stdlib.h>
#include <string.h>

#include "config/param.h"
#include "loader/slot.h"
#include "serve/loop_int.h"

typedef struct target {
  const tn_choice *part;
  const tn_param *param;
} target;

/* "slot.plugin.option" as a part of the composition and a row of its table. */
static target find(const tn_composition *c, const char *key)
{
  const char *first = strchr(key, '.'), *last = strrchr(key, '.');
  target t = {0};
  if (!first || first == last) return t;
  for (size_t i = 0; i < tn_composition_n(c); i++) {
    const tn_choice *p = tn_composition_at(c, i);
    const char *slot = tn_slot_name(p->slot), *name = p->desc->name;
    bool here = strlen(slot) == (size_t)(first - key) && !strncmp(slot, key, strlen(slot)) &&
                strlen(name) == (size_t)(last - first - 1) && !strncmp(name, first + 1, strlen(name));
    if (!here) continue;
    t.part = p;
    for (uint32_t k = 0; p->desc->params && p->desc->params[k]; k++)
      if (!strcmp(p->desc->params[k]->key, last + 1)) t.param = p->desc->params[k];
  }
  return t;
}

static char *text_of(const json_t *v)
{
  return json_is_string(v) ? tn_strdup(json_string_value(v)) : json_dumps(v, JSON_ENCODE_ANY);
}

static bool set_one(tn_loop *l, const char *key, const json_t *v, tn_fault *f)
{
  target t = find(l->setup->composition, key);
  tn_value value;
  tn_err err = tn_err_init();
  if (!t.param) return tn_fault_field(f, "tenon", "tenon.%s: the composition has no such option", key);
  /* What can change tokens would change those of other clients, too. */
  if (!(t.param->flags & TN_P_RUNTIME) || (t.param->flags & TN_P_OUTPUT))
    return tn_fault_field(f, "tenon", "tenon.%s cannot be set by a request: it is fixed when the server starts", key);
  char *text = text_of(v);
  if (!text) return tn_fault_status(f, 503, "no memory for the request");
  tn_status st = tn_param_parse(t.param, text, NULL, &value, &err);
  free(text);
  if (st != TN_OK) return tn_fault_field(f, "tenon", "tenon.%s: %s", key, err.msg);
  st = tn_engine_set(l->setup->engine, t.part->slot, t.part->desc->name, t.param->key, &value, &err);
  tn_value_free(&value);
  return st == TN_OK ? true : tn_fault_field(f, "tenon", "tenon.%s: %s", key, err.msg);
}

bool tn_loop_set_options(tn_loop *l, const json_t *options, tn_fault *f)
{
  const char *key;
  json_t *v;
  json_object_foreach((json_t *)(uintptr_t)options, key, v)
  {
    if (!set_one(l, key, v, f)) return false;
  }
  return true;
}
