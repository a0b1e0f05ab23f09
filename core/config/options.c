/* options: see options.h. */
#include "config/options.h"

#include <stdlib.h>
#include <string.h>

#include "config/param.h"

static const char *const reserved[] = {"path", "sha256", "min"};

bool tn_option_reserved(const char *key)
{
  for (size_t i = 0; i < TN_ARRAY_LEN(reserved); i++)
    if (!strcmp(key, reserved[i])) return true;
  return false;
}

void tn_options_free(tn_options *o)
{
  for (uint32_t i = 0; i < o->n; i++) tn_value_free(&o->values[i]);
  free(o->values);
  free(o->from);
  *o = (tn_options){0};
}

static const tn_param *find_param(const tn_options *o, const char *key)
{
  for (uint32_t i = 0; i < o->n; i++)
    if (!strcmp(o->params[i]->key, key)) return o->params[i];
  return NULL;
}

const tn_value *tn_options_find(const tn_options *o, const char *key)
{
  for (uint32_t i = 0; i < o->n; i++)
    if (!strcmp(o->params[i]->key, key)) return &o->values[i];
  return NULL;
}

/* "there is no option 'windw'; did you mean 'window'?" */
static tn_status unknown(const tn_options_want *w, const tn_options *o, const tn_config_entry *e, tn_err *err)
{
  size_t n = o->n;
  const char **names = tn_zalloc(n + TN_ARRAY_LEN(reserved), sizeof *names);
  if (!names) return tn_fail(err, TN_E_NOMEM, "no memory for the options of [%s]", w->section);
  for (size_t i = 0; i < o->n; i++) names[i] = o->params[i]->key;
  if (w->plugin)
    for (size_t i = 0; i < TN_ARRAY_LEN(reserved); i++) names[n++] = reserved[i];
  const char *near = tn_nearest(e->key, names, n);
  if (near)
    tn_fail(err, TN_E_ARG, "%s: [%s] has no option '%s'; did you mean '%s'?", e->where, e->section, e->key, near);
  else if (o->n == 0)
    tn_fail(err, TN_E_ARG, "%s: [%s] has no option '%s'; it takes none", e->where, e->section, e->key);
  else
    tn_fail(err, TN_E_ARG, "%s: [%s] has no option '%s'; the first of its %u options is '%s'", e->where, e->section,
            e->key, o->n, o->params[0]->key);
  free(names);
  return TN_E_ARG;
}

static tn_status check_keys(const tn_config *c, const tn_options_want *w, const tn_options *o, tn_err *err)
{
  const tn_config_entry *e;
  for (size_t i = 0; (e = tn_config_at(c, i)); i++) {
    if (strcmp(e->section, w->section) != 0 && !(w->special && !strcmp(e->section, w->special))) continue;
    if ((w->plugin && tn_option_reserved(e->key)) || tn_options_find(o, e->key)) continue;
    return unknown(w, o, e, err);
  }
  return TN_OK;
}

static tn_status read_one(const tn_config *c, const tn_options_want *w, tn_options *o, uint32_t i, tn_err *err)
{
  const tn_param *p = o->params[i];
  const tn_config_entry *e = w->special ? tn_config_get(c, w->special, p->key) : NULL;
  if (!e) e = tn_config_get(c, w->section, p->key);
  if (!e && (p->flags & TN_P_REQUIRED)) {
    char *range = tn_param_range(p);
    tn_fail(err, TN_E_ARG, "[%s] %s has to be set: %s; want %s", w->section, p->key, p->help ? p->help : "",
            range ? range : "a value");
    free(range);
    return TN_E_ARG;
  }
  o->from[i] = e;
  tn_status st = e ? tn_param_parse(p, e->value, e->dir, &o->values[i], err) : tn_param_default(p, &o->values[i], err);
  if (st) o->values[i] = (tn_value){0};
  if (st && e) tn_err_prefix(err, "%s: [%s]", e->where, e->section);
  if (st && !e) tn_err_prefix(err, "[%s]", w->section);
  return st;
}

tn_status tn_options_check(const tn_config *c, const tn_options_want *w, tn_err *err)
{
  tn_options o = {.params = w->params};
  const tn_config_entry *e;
  while (w->params && w->params[o.n]) o.n++;
  for (size_t i = 0; (e = tn_config_at(c, i)); i++) {
    if (strcmp(e->section, w->section) != 0 || (w->plugin && tn_option_reserved(e->key))) continue;
    const tn_param *p = find_param(&o, e->key);
    if (!p) return unknown(w, &o, e, err);
    tn_value v;
    tn_status st = *e->value ? tn_param_parse(p, e->value, e->dir, &v, err) : TN_OK;
    if (st) {
      tn_err_prefix(err, "%s: [%s]", e->where, e->section);
      return st;
    }
    if (*e->value) tn_value_free(&v);
  }
  return TN_OK;
}

tn_status tn_options_read(const tn_config *c, const tn_options_want *w, tn_options *out, tn_err *err)
{
  uint32_t n = 0;
  while (w->params && w->params[n]) n++;
  *out = (tn_options){.params = w->params, .n = n};
  out->values = tn_zalloc(n, sizeof *out->values);
  out->from = tn_zalloc(n, sizeof *out->from);
  tn_status st = TN_OK;
  if (!out->values || !out->from) st = tn_fail(err, TN_E_NOMEM, "no memory for the options of [%s]", w->section);
  if (!st) st = check_keys(c, w, out, err);
  for (uint32_t i = 0; i < n && !st; i++) st = read_one(c, w, out, i, err);
  if (st) {
    if (!out->values) out->n = 0;
    tn_options_free(out);
  }
  return st;
}
