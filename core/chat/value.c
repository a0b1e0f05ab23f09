/* value: making, comparing and counting values, with Python's rules. */
#include <math.h>

#include "chat/jinja.h"

/* ---------------------------------------------------------------- lists and dicts */

bool tn_jv_list(tn_jrun *r, tn_jkind kind, tn_jv *out)
{
  *out = (tn_jv){.kind = (uint8_t)kind};
  out->list = tn_j_alloc(r, 1, sizeof *out->list);
  return out->list != NULL;
}

bool tn_jv_dict(tn_jrun *r, tn_jkind kind, tn_jv *out)
{
  *out = (tn_jv){.kind = (uint8_t)kind};
  out->dict = tn_j_alloc(r, 1, sizeof *out->dict);
  return out->dict != NULL;
}

bool tn_jlist_add(tn_jrun *r, tn_jlist *l, tn_jv v)
{
  if (l->n == l->cap) {
    size_t cap = l->cap ? 2 * l->cap : 8;
    tn_jv *grown = tn_j_alloc(r, cap, sizeof *grown);
    if (!grown) return false;
    if (l->n) memcpy(grown, l->v, l->n * sizeof *grown);
    l->v = grown;
    l->cap = cap;
  }
  l->v[l->n++] = v;
  return tn_j_tick(r, 1);
}

tn_jv *tn_jdict_find(const tn_jdict *d, tn_js key)
{
  for (size_t i = 0; i < d->n; i++) {
    if (d->v[i].key.kind == TN_J_STR && tn_js_eq(d->v[i].key.s, key)) return &d->v[i].value;
  }
  return NULL;
}

tn_jv *tn_jdict_get(const tn_jdict *d, const tn_jv *key)
{
  if (key->kind == TN_J_STR) return tn_jdict_find(d, key->s);
  double want, have;
  bool number = tn_jv_number(key, &want);
  for (size_t i = 0; i < d->n; i++) {
    const tn_jv *k = &d->v[i].key;
    if (number ? tn_jv_number(k, &have) && have == want : k->kind == key->kind) return &d->v[i].value;
  }
  return NULL;
}

bool tn_jdict_set(tn_jrun *r, tn_jdict *d, tn_jv key, tn_jv value)
{
  double f;
  if (key.kind != TN_J_STR && key.kind != TN_J_NONE && !tn_jv_number(&key, &f))
    return tn_j_fail(r, TN_E_UNSUPPORTED, "a %s as the key of a dict is not supported", tn_jv_type(&key));
  tn_jv *old = tn_jdict_get(d, &key);
  if (old) {
    *old = value;
    return tn_j_tick(r, 1 + d->n / 16);
  }
  if (d->n == d->cap) {
    size_t cap = d->cap ? 2 * d->cap : 8;
    tn_jpair *grown = tn_j_alloc(r, cap, sizeof *grown);
    if (!grown) return false;
    if (d->n) memcpy(grown, d->v, d->n * sizeof *grown);
    d->v = grown;
    d->cap = cap;
  }
  d->v[d->n++] = (tn_jpair){key, value};
  return tn_j_tick(r, 1 + d->n / 16);
}

/* ---------------------------------------------------------------- kinds */

const char *tn_jv_type(const tn_jv *v)
{
  static const char *const names[] = {[TN_J_ABSENT] = "missing argument",
                                      [TN_J_UNDEF] = "Undefined",
                                      [TN_J_NONE] = "NoneType",
                                      [TN_J_BOOL] = "bool",
                                      [TN_J_INT] = "int",
                                      [TN_J_FLOAT] = "float",
                                      [TN_J_STR] = "str",
                                      [TN_J_LIST] = "list",
                                      [TN_J_TUPLE] = "tuple",
                                      [TN_J_GEN] = "generator",
                                      [TN_J_DICT] = "dict",
                                      [TN_J_SPACE] = "Namespace",
                                      [TN_J_LOOP] = "LoopContext",
                                      [TN_J_MACRO] = "Macro",
                                      [TN_J_FUNC] = "function",
                                      [TN_J_METHOD] = "method"};
  return names[v->kind];
}

bool tn_jv_missing(tn_jrun *r, const tn_jv *v)
{
  const tn_jv owner = {.kind = v->owner};
  int n = (int)(v->s.n < 80 ? v->s.n : 80);
  if (v->owner == TN_J_ABSENT) return tn_j_fail(r, TN_E_ARG, "'%.*s' is undefined", n, v->s.p);
  if (v->element) return tn_j_fail(r, TN_E_ARG, "%s object has no element %.*s", tn_jv_type(&owner), n, v->s.p);
  if (v->owner == TN_J_NONE) return tn_j_fail(r, TN_E_ARG, "'None' has no attribute '%.*s'", n, v->s.p);
  return tn_j_fail(r, TN_E_ARG, "'%s object' has no attribute '%.*s'", tn_jv_type(&owner), n, v->s.p);
}

bool tn_jv_true(const tn_jv *v)
{
  switch (v->kind) {
    case TN_J_ABSENT:
    case TN_J_UNDEF:
    case TN_J_NONE: return false;
    case TN_J_BOOL: return v->b;
    case TN_J_INT: return v->i != 0;
    case TN_J_FLOAT: return v->f != 0;
    case TN_J_STR: return v->s.n > 0;
    case TN_J_LIST:
    case TN_J_TUPLE: return v->list->n > 0;
    case TN_J_DICT: return v->dict->n > 0;
    default: return true;
  }
}

bool tn_jv_number(const tn_jv *v, double *f)
{
  if (v->kind == TN_J_FLOAT)
    *f = v->f;
  else if (v->kind == TN_J_INT)
    *f = (double)v->i;
  else if (v->kind == TN_J_BOOL)
    *f = v->b;
  else
    return false;
  return true;
}

bool tn_jv_integer(const tn_jv *v, int64_t *i)
{
  if (v->kind != TN_J_INT && v->kind != TN_J_BOOL) return false;
  *i = v->kind == TN_J_INT ? v->i : v->b;
  return true;
}

bool tn_jv_len(tn_jrun *r, const tn_jv *v, int64_t *out)
{
  switch (v->kind) {
    case TN_J_UNDEF: *out = 0; return true;
    case TN_J_STR: *out = (int64_t)tn_js_chars(v->s); return tn_j_tick(r, v->s.n / 64);
    case TN_J_LIST:
    case TN_J_TUPLE: *out = (int64_t)v->list->n; return true;
    case TN_J_DICT: *out = (int64_t)v->dict->n; return true;
    case TN_J_LOOP: *out = (int64_t)v->loop->n; return true;
    default: return tn_j_fail(r, TN_E_ARG, "object of type '%s' has no len()", tn_jv_type(v));
  }
}

/* ---------------------------------------------------------------- order */

static bool lists_eq(tn_jrun *r, const tn_jlist *a, const tn_jlist *b, bool *out)
{
  *out = a->n == b->n;
  for (size_t i = 0; *out && i < a->n; i++) {
    if (!tn_jv_eq(r, &a->v[i], &b->v[i], out)) return false;
  }
  return true;
}

static bool dicts_eq(tn_jrun *r, const tn_jdict *a, const tn_jdict *b, bool *out)
{
  *out = a->n == b->n;
  for (size_t i = 0; *out && i < a->n; i++) {
    const tn_jv *other = tn_jdict_get(b, &a->v[i].key);
    if (!tn_j_tick(r, b->n / 16)) return false;
    *out = other != NULL;
    if (other && !tn_jv_eq(r, &a->v[i].value, other, out)) return false;
  }
  return true;
}

bool tn_jv_eq(tn_jrun *r, const tn_jv *a, const tn_jv *b, bool *out)
{
  double x, y;
  bool ok = true;
  if (!tn_j_enter(r)) return tn_j_leave(r), false;
  if (a->kind == TN_J_INT && b->kind == TN_J_INT) {
    *out = a->i == b->i;
  } else if (tn_jv_number(a, &x) && tn_jv_number(b, &y)) {
    *out = x == y;
  } else if (a->kind != b->kind) {
    *out = false;
  } else if (a->kind == TN_J_STR) {
    *out = tn_js_eq(a->s, b->s);
    ok = tn_j_tick(r, a->s.n / 256);
  } else if (a->kind == TN_J_LIST || a->kind == TN_J_TUPLE) {
    ok = lists_eq(r, a->list, b->list, out);
  } else if (a->kind == TN_J_DICT) {
    ok = dicts_eq(r, a->dict, b->dict, out);
  } else {
    *out = a->kind == TN_J_NONE || a->kind == TN_J_UNDEF || a->list == b->list;
  }
  tn_j_leave(r);
  return ok;
}

bool tn_jv_cmp(tn_jrun *r, const tn_jv *a, const tn_jv *b, const char *op, int *out)
{
  double x, y;
  bool ok = true, eq = true;
  if (!tn_j_enter(r)) return tn_j_leave(r), false;
  if (a->kind == TN_J_INT && b->kind == TN_J_INT) {
    *out = (a->i > b->i) - (a->i < b->i);
  } else if (tn_jv_number(a, &x) && tn_jv_number(b, &y)) {
    *out = (x > y) - (x < y);
  } else if (a->kind == TN_J_STR && b->kind == TN_J_STR) {
    *out = tn_js_cmp(a->s, b->s);
    ok = tn_j_tick(r, a->s.n / 256);
  } else if (a->kind == b->kind && (a->kind == TN_J_LIST || a->kind == TN_J_TUPLE)) {
    size_t n = a->list->n < b->list->n ? a->list->n : b->list->n, i = 0;
    while (ok && i < n && (ok = tn_jv_eq(r, &a->list->v[i], &b->list->v[i], &eq)) && eq) i++;
    *out = (a->list->n > b->list->n) - (a->list->n < b->list->n);
    if (ok && i < n) ok = tn_jv_cmp(r, &a->list->v[i], &b->list->v[i], op, out);
  } else if (a->kind == TN_J_UNDEF || b->kind == TN_J_UNDEF) {
    ok = tn_jv_missing(r, a->kind == TN_J_UNDEF ? a : b);
  } else {
    ok = tn_j_fail(r, TN_E_ARG, "'%s' not supported between instances of '%s' and '%s'", op, tn_jv_type(a),
                   tn_jv_type(b));
  }
  tn_j_leave(r);
  return ok;
}

/* ---------------------------------------------------------------- going through */

/* The characters of a text, each a text. */
static bool characters(tn_jrun *r, tn_js s, tn_jlist *l)
{
  for (size_t i = 0; i < s.n;) {
    size_t n = tn_js_offset(tn_js_cut(s, i, s.n), 1);
    if (!tn_jlist_add(r, l, tn_jv_str(tn_js_cut(s, i, i + n)))) return false;
    i += n;
  }
  return true;
}

bool tn_jv_items(tn_jrun *r, const tn_jv *v, const tn_jv **items, size_t *n)
{
  tn_jv list;
  *items = NULL;
  *n = 0;
  switch (v->kind) {
    case TN_J_UNDEF: return true;
    case TN_J_LIST:
    case TN_J_TUPLE:
    case TN_J_GEN:
      *items = v->list->v;
      *n = v->list->n;
      if (v->kind == TN_J_GEN) v->list->n = v->list->cap = 0; /* it is used up */
      return true;
    case TN_J_STR:
    case TN_J_DICT:
      if (!tn_jv_list(r, TN_J_LIST, &list)) return false;
      if (v->kind == TN_J_STR && !characters(r, v->s, list.list)) return false;
      for (size_t i = 0; v->kind == TN_J_DICT && i < v->dict->n; i++) {
        if (!tn_jlist_add(r, list.list, v->dict->v[i].key)) return false;
      }
      *items = list.list->v;
      *n = list.list->n;
      return true;
    default: return tn_j_fail(r, TN_E_ARG, "'%s' object is not iterable", tn_jv_type(v));
  }
}
