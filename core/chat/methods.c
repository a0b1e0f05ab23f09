/* methods: of lists, dicts and the loop; none changes what it is of. */
#include "chat/jinja.h"

#define ARGS tn_jrun *r, const tn_jv *self, const tn_jargs *all, const tn_jv *a, tn_jv *out
#define UNUSED (void)self, (void)all, (void)a, (void)out

/* ---------------------------------------------------------------- dicts */

enum { KEYS = 1, VALUES = 2 };

static bool entries(tn_jrun *r, const tn_jdict *d, int which, tn_jv *out)
{
  if (!tn_jv_list(r, TN_J_LIST, out)) return false;
  for (size_t i = 0; i < d->n; i++) {
    tn_jv pair = which == KEYS ? d->v[i].key : d->v[i].value;
    if (which == (KEYS | VALUES) && (!tn_jv_list(r, TN_J_TUPLE, &pair) || !tn_jlist_add(r, pair.list, d->v[i].key) ||
                                     !tn_jlist_add(r, pair.list, d->v[i].value)))
      return false;
    if (!tn_jlist_add(r, out->list, pair)) return false;
  }
  return true;
}

static bool m_items(ARGS) { return UNUSED, entries(r, self->dict, KEYS | VALUES, out); }
static bool m_keys(ARGS) { return UNUSED, entries(r, self->dict, KEYS, out); }
static bool m_values(ARGS) { return UNUSED, entries(r, self->dict, VALUES, out); }

static bool m_get(ARGS)
{
  const tn_jv *v = tn_jdict_get(self->dict, &a[0]);
  UNUSED;
  *out = v ? *v : a[1].kind == TN_J_ABSENT ? tn_jv_none() : a[1];
  return tn_j_tick(r, self->dict->n / 16);
}

static bool m_copy(ARGS)
{
  UNUSED;
  (void)r;
  *out = *self;
  return true;
}

static const tn_jbuiltin dict_methods[] = {{"items", "", m_items, 0},
                                           {"keys", "", m_keys, 0},
                                           {"values", "", m_values, 0},
                                           {"get", "key default", m_get, 1},
                                           {"copy", "", m_copy, 0}};

/* ---------------------------------------------------------------- lists */

static bool m_index(ARGS)
{
  UNUSED;
  bool same = false;
  for (size_t i = 0; i < self->list->n; i++) {
    if (!tn_jv_eq(r, &self->list->v[i], &a[0], &same)) return false;
    if (!same) continue;
    *out = tn_jv_int((int64_t)i);
    return true;
  }
  return tn_j_fail(r, TN_E_ARG, "the value is not in the list");
}

static bool m_count(ARGS)
{
  UNUSED;
  bool same = false;
  *out = tn_jv_int(0);
  for (size_t i = 0; i < self->list->n; i++) {
    if (!tn_jv_eq(r, &self->list->v[i], &a[0], &same)) return false;
    out->i += same;
  }
  return true;
}

static const tn_jbuiltin list_methods[] = {
    {"index", "value", m_index, 1}, {"count", "value", m_count, 1}, {"copy", "", m_copy, 0}};

/* What would change a list or dict, which the sandbox of chat templates forbids. */
static bool m_forbidden(ARGS)
{
  UNUSED;
  return tn_j_fail(r, TN_E_ARG, "a method that changes a %s is not allowed in a template", tn_jv_type(self));
}

/* Those of lists, then those of both, then those of dicts. */
static const tn_jbuiltin forbidden[] = {
    {"append", NULL, m_forbidden, 0},  {"extend", NULL, m_forbidden, 0},    {"insert", NULL, m_forbidden, 0},
    {"remove", NULL, m_forbidden, 0},  {"sort", NULL, m_forbidden, 0},      {"reverse", NULL, m_forbidden, 0},
    {"pop", NULL, m_forbidden, 0},     {"clear", NULL, m_forbidden, 0},     {"update", NULL, m_forbidden, 0},
    {"popitem", NULL, m_forbidden, 0}, {"setdefault", NULL, m_forbidden, 0}};
enum { OF_LISTS = 8, BEFORE_DICTS = 6 };

/* ---------------------------------------------------------------- loop */

static bool m_cycle(ARGS)
{
  UNUSED;
  if (all->n == 0) return tn_j_fail(r, TN_E_ARG, "no items for cycling given");
  *out = all->v[self->loop->at % all->n];
  return true;
}

static bool m_changed(ARGS)
{
  tn_jv v;
  bool same = false;
  UNUSED;
  if (!tn_jv_list(r, TN_J_TUPLE, &v)) return false;
  for (size_t i = 0; i < all->n; i++) {
    if (!tn_jlist_add(r, v.list, all->v[i])) return false;
  }
  if (self->loop->changed_once && !tn_jv_eq(r, &v, &self->loop->last, &same)) return false;
  self->loop->changed_once = true;
  self->loop->last = v;
  *out = tn_jv_bool(!same);
  return true;
}

static const tn_jbuiltin loop_methods[] = {{"cycle", NULL, m_cycle, 0}, {"changed", NULL, m_changed, 0}};

const tn_jbuiltin *tn_j_method(const tn_jv *self, tn_js name)
{
  const tn_jbuiltin *f;
  switch (self->kind) {
    case TN_J_STR: return tn_j_find(tn_j_text_methods, tn_j_n_text_methods, name);
    case TN_J_LOOP: return tn_j_find(loop_methods, TN_ARRAY_LEN(loop_methods), name);
    case TN_J_DICT:
      f = tn_j_find(dict_methods, TN_ARRAY_LEN(dict_methods), name);
      return f ? f : tn_j_find(forbidden + BEFORE_DICTS, TN_ARRAY_LEN(forbidden) - BEFORE_DICTS, name);
    case TN_J_LIST:
    case TN_J_TUPLE:
      f = tn_j_find(list_methods, TN_ARRAY_LEN(list_methods), name);
      return f || self->kind == TN_J_TUPLE ? f : tn_j_find(forbidden, OF_LISTS, name);
    default: return NULL;
  }
}
