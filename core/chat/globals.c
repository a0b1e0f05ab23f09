/* globals: the functions that every template may call. */
#include "chat/jinja.h"

#define ARGS tn_jrun *r, const tn_jv *self, const tn_jargs *all, const tn_jv *a, tn_jv *out
#define UNUSED (void)self, (void)all, (void)a

enum { RANGE_MAX = 100000 }; /* the sandbox's */

static bool g_range(ARGS)
{
  int64_t v[3] = {0, 0, 1};
  UNUSED;
  if (all->n < 1 || all->n > 3 || all->n_kw) return tn_j_fail(r, TN_E_ARG, "range takes 1 to 3 whole numbers");
  for (size_t i = 0; i < all->n; i++) {
    if (!tn_jv_integer(&all->v[i], &v[all->n == 1 ? 1 : i]))
      return tn_j_fail(r, TN_E_ARG, "'%s' object cannot be interpreted as an integer", tn_jv_type(&all->v[i]));
    if (v[i] < -(1ll << 60) || v[i] > 1ll << 60) return tn_j_fail(r, TN_E_ARG, "Range too big");
  }
  if (v[2] == 0) return tn_j_fail(r, TN_E_ARG, "range() arg 3 must not be zero");
  if (!tn_jv_list(r, TN_J_LIST, out)) return false;
  for (int64_t i = v[0]; v[2] > 0 ? i < v[1] : i > v[1]; i += v[2]) {
    if (out->list->n == RANGE_MAX)
      return tn_j_fail(r, TN_E_ARG, "Range too big. The sandbox blocks ranges larger than %d.", RANGE_MAX);
    if (!tn_jlist_add(r, out->list, tn_jv_int(i))) return false;
  }
  return true;
}

/* From another dict and from names. */
static bool made(tn_jrun *r, const tn_jargs *all, tn_jkind kind, tn_jv *out)
{
  if (!tn_jv_dict(r, kind, out)) return false;
  for (size_t k = 0; k < all->n; k++) {
    const tn_jv *from = &all->v[k];
    if (from->kind != TN_J_DICT)
      return tn_j_fail(r, TN_E_UNSUPPORTED, "dict() or namespace() of a %s is not supported", tn_jv_type(from));
    for (size_t i = 0; i < from->dict->n; i++) {
      if (!tn_jdict_set(r, out->dict, from->dict->v[i].key, from->dict->v[i].value)) return false;
    }
  }
  for (size_t i = 0; i < all->n_kw; i++) {
    if (!tn_jdict_set(r, out->dict, tn_jv_str(all->kw[i].name), all->kw[i].value)) return false;
  }
  return true;
}

static bool g_dict(ARGS) { return UNUSED, made(r, all, TN_J_DICT, out); }
static bool g_namespace(ARGS) { return UNUSED, made(r, all, TN_J_SPACE, out); }

static bool g_raise_exception(ARGS)
{
  tn_js s;
  UNUSED;
  (void)out;
  if (!tn_jv_text(r, &a[0], &s)) return false;
  r->status =
      tn_fail(r->err, TN_E_ARG, "the chat template refuses the messages: %.*s", (int)(s.n < 400 ? s.n : 400), s.p);
  return false;
}

static bool g_strftime_now(ARGS)
{
  char format[128], text[512];
  UNUSED;
  if (a[0].kind != TN_J_STR || a[0].s.n >= sizeof format)
    return tn_j_fail(r, TN_E_ARG, "strftime_now wants a format of at most %zu bytes", sizeof format - 1);
  memcpy(format, a[0].s.p, a[0].s.n);
  format[a[0].s.n] = '\0';
  size_t n = *format ? strftime(text, sizeof text, format, r->now) : 0;
  tn_jbuf b = {0};
  if (!tn_jbuf_add(r, &b, (tn_js){text, NULL, n})) return false;
  *out = tn_jv_str(tn_jbuf_str(&b));
  return true;
}

static const tn_jbuiltin globals[] = {
    {"range", NULL, g_range, 0},
    {"dict", NULL, g_dict, 0},
    {"namespace", NULL, g_namespace, 0},
    {"raise_exception", "message", g_raise_exception, 1},
    {"strftime_now", "format", g_strftime_now, 1},
};

const tn_jbuiltin *tn_j_global(tn_js name) { return tn_j_find(globals, TN_ARRAY_LEN(globals), name); }
