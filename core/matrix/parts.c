/* parts: what there is to pair, and the settings that each part runs with. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "config/param.h"
#include "config/section.h"
#include "matrix/matrix_int.h"

#define MAX_PARTS 256u

static tn_status no_memory(tn_err *err) { return tn_fail(err, TN_E_NOMEM, "no memory for the matrix's parts"); }

/* Takes over set. */
static bool push_set(tn_matrix_part *p, char *set)
{
  char **at = set ? realloc(p->sets, (p->n_sets + 1) * sizeof *at) : NULL;
  if (!at) {
    free(set);
    return false;
  }
  p->sets = at;
  p->sets[p->n_sets++] = set;
  return true;
}

/* Does the part's run take this line of its technique's file? Its own options, the companions that it names, and the
 * host's keys but those that the matrix sets. */
static bool takes(const tn_matrix_part *p, const tn_config_entry *e)
{
  static const char *const ours[] = {"ctx", "threads", "seed", "max_seqs"};
  if (e->depth > 0) return false;
  if (e->kind == TN_SECTION_COMPOSE) {
    const tn_compose_key *k = tn_compose_key_find(e->key);
    return k && k->slot != p->slot;
  }
  if (e->kind == TN_SECTION_HOST) {
    for (size_t i = 0; i < TN_ARRAY_LEN(ours); i++)
      if (strcmp(e->key, ours[i]) == 0) return false;
    return strcmp(e->section, "engine") == 0;
  }
  tn_str name, key;
  tn_section_plugin(e->section, &name, &key);
  return e->slot == p->slot && name.n == strlen(p->name) && memcmp(name.p, p->name, name.n) == 0;
}

/* The lines of techniques/<name>.ini, if there is such a file. */
static tn_status read_technique(const tn_matrix_cfg *cfg, tn_matrix_part *p, tn_err *err)
{
  char *file = tn_asprintf("techniques/%s.ini", p->name), *path = NULL, *bytes = NULL;
  tn_config *c = tn_config_new(NULL, cfg->conf_dir);
  size_t n;
  tn_err none = tn_err_init();
  tn_status st = c && file ? TN_OK : no_memory(err);
  if (st == TN_OK && cfg->conf_dir) {
    st = tn_config_conf_file(c, file, &path, &bytes, &n, &none);
    if (st == TN_OK) st = tn_config_load(c, path, err);
    if (st == TN_E_IO && !path) st = TN_OK; /* there is none */
    if (st != TN_OK && none.msg[0]) st = tn_fail(err, st, "%s", none.msg);
  }
  const tn_config_entry *e;
  for (size_t i = 0; st == TN_OK && (e = tn_config_at(c, i)); i++)
    if (takes(p, e) && !push_set(p, tn_asprintf("%s.%s=%s", e->section, e->key, e->value))) st = no_memory(err);
  tn_config_free(c);
  free(file);
  free(path);
  free(bytes);
  return st;
}

/* The value that the part's settings give an option so far, or its default; NULL: none. */
static const char *text_of(const tn_matrix_part *p, const char *section, const tn_param *o)
{
  size_t n = strlen(section), k = strlen(o->key);
  for (size_t i = p->n_sets; i-- > 0;) {
    const char *s = p->sets[i];
    if (strncmp(s, section, n) == 0 && s[n] == '.' && strncmp(s + n + 1, o->key, k) == 0 && s[n + 1 + k] == '=')
      return s + n + k + 2;
  }
  return o->def;
}

/* Is it an option counted in tokens, and how many are set? */
static bool in_tokens(const tn_matrix_part *p, const char *section, const tn_param *o, int64_t *value)
{
  const char *text = text_of(p, section, o);
  return o->type == TN_T_I64 && o->unit && strcmp(o->unit, "tokens") == 0 && text &&
         tn_text_i64(text, strlen(text), value);
}

/* Numbers of tokens that a text of the matrix's length would not reach are made smaller, all of a part's by the same
 * factor; ranks are as many as asked. */
static tn_status fit_options(const tn_desc *d, uint32_t world, tn_matrix_part *p, tn_err *err)
{
  char *section = tn_asprintf("%s.%s", tn_slot_name(d->slot), d->name);
  tn_status st = section ? TN_OK : no_memory(err);
  int64_t value, most = TN_MATRIX_TOKENS;
  for (uint32_t i = 0; st == TN_OK && d->params && d->params[i]; i++)
    if (in_tokens(p, section, d->params[i], &value) && value > most) most = value;
  for (uint32_t i = 0; st == TN_OK && d->params && d->params[i]; i++) {
    const tn_param *o = d->params[i];
    int64_t want = -1;
    if (most > TN_MATRIX_TOKENS && in_tokens(p, section, o, &value) && value > 0)
      want = (int64_t)ceil((double)value * TN_MATRIX_TOKENS / (double)most);
    if (want >= 0 && want < o->imin) want = o->imin;
    if (d->slot == TN_SLOT_PARALLEL && strcmp(o->key, "world") == 0) want = world;
    if (want >= 0 && !push_set(p, tn_asprintf("%s.%s=%lld", section, o->key, (long long)want))) st = no_memory(err);
  }
  free(section);
  return st;
}

static tn_status add_part(const tn_matrix_cfg *cfg, const tn_found *f, const char *key, uint32_t world, tn_matrix *m,
                          tn_err *err)
{
  if (m->n_parts == MAX_PARTS)
    return tn_fail(err, TN_E_UNSUPPORTED, "more than %u plugins on the search path", MAX_PARTS);
  tn_matrix_part *at = realloc(m->parts, (m->n_parts + 1) * sizeof *at);
  if (!at) return no_memory(err);
  m->parts = at;
  tn_matrix_part *p = &m->parts[m->n_parts++];
  *p = (tn_matrix_part){.key = key, .slot = f->slot, .name = tn_strdup(f->name)};
  if (!p->name) return no_memory(err);
  const tn_plugin *plugin = NULL;
  tn_err why = tn_err_init();
  tn_status st = tn_loader_open(cfg->loader, f->slot, f->name, NULL, &plugin, &why);
  if (st == TN_E_NOMEM) return tn_fail(err, st, "%s", why.msg);
  if (st != TN_OK) return (p->problem = tn_strdup(why.msg)) ? TN_OK : no_memory(err);
  p->exact = (plugin->desc->flags & TN_F_EXACT) != 0;
  st = read_technique(cfg, p, err);
  return st == TN_OK ? fit_options(plugin->desc, world, p, err) : st;
}

static bool wanted(const tn_matrix_cfg *cfg, const tn_found *f)
{
  for (size_t i = 0; i < cfg->n_without; i++)
    if (strcmp(cfg->without[i], f->name) == 0) return false;
  return !f->shadowed;
}

/* Keys of the slot that stand for a pairing of their own: an engine needs no other part to use them. */
static bool pairs_under(const tn_compose_key *k, uint32_t slot)
{
  return k->slot == slot && strcmp(k->key, "demote") != 0;
}

/* A plugin of slot quantizer has to have layouts for the cache to be a part under kv; one that does not load is a part
 * that fails. */
static tn_status fits_key(const tn_matrix_cfg *cfg, const tn_found *f, const char *key, bool *fits, tn_err *err)
{
  const tn_plugin *p = NULL;
  tn_err why = tn_err_init();
  *fits = true;
  if (strcmp(key, "kv") != 0) return TN_OK;
  tn_status st = tn_loader_open(cfg->loader, f->slot, f->name, NULL, &p, &why);
  if (st == TN_E_NOMEM) return tn_fail(err, st, "%s", why.msg);
  if (st != TN_OK) return TN_OK;
  const tn_quantizer_v1 *v = p->desc->vtable;
  *fits = TN_CAN(v, kv_layout);
  return TN_OK;
}

tn_status tn_matrix_parts(const tn_matrix_cfg *cfg, uint32_t world, tn_matrix *m, tn_names *backends, tn_err *err)
{
  tn_found_list list = {0};
  tn_status st = tn_loader_scan(cfg->loader, &list, err);
  bool found = !cfg->only;
  const tn_compose_key *k;
  for (size_t i = 0; st == TN_OK && (k = tn_compose_key_at(i)); i++)
    for (size_t at = 0; st == TN_OK && at < list.n; at++) {
      const tn_found *f = &list.at[at];
      bool fits = false;
      if (pairs_under(k, f->slot) && wanted(cfg, f)) st = fits_key(cfg, f, k->key, &fits, err);
      if (!fits) continue;
      if (st == TN_OK) st = add_part(cfg, f, k->key, world, m, err);
      found = found || strcmp(f->name, cfg->only) == 0;
      if (st == TN_OK && f->slot == TN_SLOT_BACKEND && !f->problem && !tn_names_add(backends, f->name))
        st = no_memory(err);
    }
  if (st == TN_OK && !found) st = tn_fail(err, TN_E_ARG, "there is no plugin '%s' on the search path", cfg->only);
  tn_found_list_free(&list);
  return st;
}
