/* filters_select: filters that take another filter or a test by its name: map, select, reject and their kin. */
#include "chat/jinja.h"

#define ARGS tn_jrun *r, const tn_jv *self, const tn_jargs *all, const tn_jv *a, tn_jv *out

/* The arguments behind the first n. */
static tn_jargs behind(const tn_jargs *all, size_t n) { return (tn_jargs){all->v + n, all->n - n, all->kw, all->n_kw}; }

static const tn_jv *keyword(const tn_jargs *all, const char *name)
{
  for (size_t i = 0; i < all->n_kw; i++) {
    if (tn_js_is(all->kw[i].name, name)) return &all->kw[i].value;
  }
  return NULL;
}

/* map(attribute=path, default=x) or map('filter', ...). */
static bool f_map(ARGS)
{
  const tn_jv *items, *path = all->n == 0 ? keyword(all, "attribute") : NULL, *fill = keyword(all, "default");
  size_t n;
  (void)a;
  if (!path && (all->n == 0 || all->v[0].kind != TN_J_STR))
    return tn_j_fail(r, TN_E_ARG, "map requires a filter argument");
  if (!tn_jv_items(r, self, &items, &n) || !tn_jv_list(r, TN_J_GEN, out)) return false;
  for (size_t i = 0; i < n; i++) {
    tn_jv v;
    tn_jargs rest = path ? (tn_jargs){0} : behind(all, 1);
    if (path ? !tn_j_by_attribute(r, &items[i], path, fill, &v)
             : !tn_j_apply_filter(r, all->v[0].s, &items[i], &rest, &v))
      return false;
    if (!tn_jlist_add(r, out->list, v)) return false;
  }
  return true;
}

/* The items, or their attributes named first, for which a test gives want. Without a test: which are true. */
static bool choose(tn_jrun *r, const tn_jv *self, const tn_jargs *all, bool by_attribute, bool want, tn_jv *out)
{
  const tn_jv *items;
  size_t n, used = by_attribute;
  if (by_attribute && all->n == 0) return tn_j_fail(r, TN_E_ARG, "Missing parameter for attribute name");
  const tn_jv *test = all->n > used ? &all->v[used] : NULL;
  if (test && test->kind != TN_J_STR) return tn_j_fail(r, TN_E_ARG, "the name of a test is a %s", tn_jv_type(test));
  if (!tn_jv_items(r, self, &items, &n) || !tn_jv_list(r, TN_J_GEN, out)) return false;
  for (size_t i = 0; i < n; i++) {
    tn_jv v = items[i];
    if (by_attribute && !tn_j_by_attribute(r, &items[i], &all->v[0], NULL, &v)) return false;
    bool holds = tn_jv_true(&v);
    tn_jargs rest = test ? behind(all, used + 1) : (tn_jargs){0};
    if (test && !tn_j_apply_test(r, test->s, &v, &rest, &holds)) return false;
    if (holds == want && !tn_jlist_add(r, out->list, items[i])) return false;
  }
  return true;
}

static bool f_select(ARGS) { return (void)a, choose(r, self, all, false, true, out); }
static bool f_reject(ARGS) { return (void)a, choose(r, self, all, false, false, out); }
static bool f_selectattr(ARGS) { return (void)a, choose(r, self, all, true, true, out); }
static bool f_rejectattr(ARGS) { return (void)a, choose(r, self, all, true, false, out); }

const tn_jbuiltin tn_j_filters_select[] = {
    {"map", NULL, f_map, 0},
    {"select", NULL, f_select, 0},
    {"reject", NULL, f_reject, 0},
    {"selectattr", NULL, f_selectattr, 0},
    {"rejectattr", NULL, f_rejectattr, 0},
};
const size_t tn_j_n_filters_select = TN_ARRAY_LEN(tn_j_filters_select);
