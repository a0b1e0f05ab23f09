/* methods_text: the methods of text, as Python's str has them. */
#include "chat/jinja.h"

#define ARGS tn_jrun *r, const tn_jv *self, const tn_jargs *all, const tn_jv *a, tn_jv *out
#define UNUSED (void)r, (void)all, (void)a

static bool give(tn_jv *out, tn_js s)
{
  *out = tn_jv_str(s);
  return true;
}

/* The argument must be a text; absent stays absent. */
static bool want_text(tn_jrun *r, const tn_jv *v)
{
  if (v->kind == TN_J_STR || v->kind == TN_J_ABSENT) return true;
  return tn_j_fail(r, TN_E_ARG, "a method of str wants a str, not %s", tn_jv_type(v));
}

static bool stripped(tn_jrun *r, const tn_jv *self, const tn_jv *a, bool left, bool right, tn_jv *out)
{
  const tn_js *set = a->kind == TN_J_STR ? &a->s : NULL;
  if (a->kind != TN_J_NONE && !want_text(r, a)) return false;
  return tn_j_tick(r, self->s.n / 64) && give(out, tn_js_strip(self->s, set, left, right));
}

static bool m_strip(ARGS) { return UNUSED, stripped(r, self, a, true, true, out); }
static bool m_lstrip(ARGS) { return UNUSED, stripped(r, self, a, true, false, out); }
static bool m_rstrip(ARGS) { return UNUSED, stripped(r, self, a, false, true, out); }

static bool cased(tn_jrun *r, const tn_jv *self, int how, tn_jv *out)
{
  *out = tn_jv_str((tn_js){0});
  return tn_js_case(r, self->s, how, &out->s);
}

static bool m_upper(ARGS) { return UNUSED, cased(r, self, TN_JCASE_UPPER, out); }
static bool m_lower(ARGS) { return UNUSED, cased(r, self, TN_JCASE_LOWER, out); }
static bool m_capitalize(ARGS) { return UNUSED, cased(r, self, TN_JCASE_CAPITAL, out); }
static bool m_title(ARGS) { return UNUSED, cased(r, self, TN_JCASE_TITLE, out); }

static bool class_is(tn_jrun *r, const tn_jv *self, tn_jclass c, tn_jv *out)
{
  bool b = false;
  if (!tn_js_class(r, self->s, c, &b)) return false;
  *out = tn_jv_bool(b);
  return true;
}

static bool m_isupper(ARGS) { return UNUSED, class_is(r, self, TN_JC_UPPER, out); }
static bool m_islower(ARGS) { return UNUSED, class_is(r, self, TN_JC_LOWER, out); }
static bool m_isalpha(ARGS) { return UNUSED, class_is(r, self, TN_JC_ALPHA, out); }
static bool m_isdigit(ARGS) { return UNUSED, class_is(r, self, TN_JC_DIGIT, out); }
static bool m_isalnum(ARGS) { return UNUSED, class_is(r, self, TN_JC_ALNUM, out); }
static bool m_isspace(ARGS) { return UNUSED, class_is(r, self, TN_JC_SPACE, out); }

static bool begins(tn_js s, tn_js part) { return s.n >= part.n && tn_js_eq(tn_js_cut(s, 0, part.n), part); }
static bool ends(tn_js s, tn_js part) { return s.n >= part.n && tn_js_eq(tn_js_cut(s, s.n - part.n, s.n), part); }

/* One text, or a tuple of which one fits. */
static bool any_end(tn_jrun *r, const tn_jv *self, const tn_jv *parts, bool (*fits)(tn_js, tn_js), tn_jv *out)
{
  const tn_jv *items = parts;
  size_t n = 1;
  if (parts->kind == TN_J_TUPLE && !tn_jv_items(r, parts, &items, &n)) return false;
  *out = tn_jv_bool(false);
  for (size_t i = 0; i < n; i++) {
    if (items[i].kind != TN_J_STR)
      return tn_j_fail(r, TN_E_ARG, "startswith and endswith want a str or a tuple of str, not %s",
                       tn_jv_type(&items[i]));
    if (fits(self->s, items[i].s)) out->b = true;
  }
  return true;
}

static bool m_startswith(ARGS) { return UNUSED, any_end(r, self, &a[0], begins, out); }
static bool m_endswith(ARGS) { return UNUSED, any_end(r, self, &a[0], ends, out); }

static bool m_removeprefix(ARGS)
{
  UNUSED;
  if (!want_text(r, &a[0])) return false;
  return give(out, begins(self->s, a[0].s) ? tn_js_cut(self->s, a[0].s.n, self->s.n) : self->s);
}

static bool m_removesuffix(ARGS)
{
  UNUSED;
  if (!want_text(r, &a[0])) return false;
  return give(out, ends(self->s, a[0].s) ? tn_js_cut(self->s, 0, self->s.n - a[0].s.n) : self->s);
}

static bool m_replace(ARGS)
{
  int64_t count = -1;
  UNUSED;
  if (!want_text(r, &a[0]) || !want_text(r, &a[1])) return false;
  tn_jv_integer(&a[2], &count);
  *out = tn_jv_str(self->s);
  return tn_js_replace(r, self->s, a[0].s, a[1].s, count, &out->s);
}

/* ---------------------------------------------------------------- finding */

static bool found(tn_jrun *r, const tn_jv *self, const tn_jv *part, bool last, bool must, tn_jv *out)
{
  if (!want_text(r, part) || !tn_j_tick(r, self->s.n / 64)) return false;
  size_t at = last ? tn_js_rfind(self->s, part->s) : tn_js_find(self->s, part->s, 0);
  if (at == TN_JS_NONE && must) return tn_j_fail(r, TN_E_ARG, "substring not found");
  *out = tn_jv_int(at == TN_JS_NONE ? -1 : (int64_t)tn_js_chars(tn_js_cut(self->s, 0, at)));
  return true;
}

static bool m_find(ARGS) { return UNUSED, found(r, self, &a[0], false, false, out); }
static bool m_rfind(ARGS) { return UNUSED, found(r, self, &a[0], true, false, out); }
static bool m_index(ARGS) { return UNUSED, found(r, self, &a[0], false, true, out); }
static bool m_rindex(ARGS) { return UNUSED, found(r, self, &a[0], true, true, out); }

static bool m_count(ARGS)
{
  UNUSED;
  int64_t n = 0;
  if (!want_text(r, &a[0]) || !tn_j_tick(r, self->s.n / 64)) return false;
  if (a[0].s.n == 0) n = (int64_t)tn_js_chars(self->s) + 1;
  for (size_t at = 0; a[0].s.n > 0 && (at = tn_js_find(self->s, a[0].s, at)) != TN_JS_NONE; at += a[0].s.n) n++;
  *out = tn_jv_int(n);
  return true;
}

/* ---------------------------------------------------------------- cutting and joining */

static bool push(tn_jrun *r, tn_jv *list, tn_js s) { return tn_jlist_add(r, list->list, tn_jv_str(s)); }

/* At white space, runs of it count once, at most limit cuts from the left. */
static bool split_space(tn_jrun *r, tn_js s, int64_t limit, tn_jv *out)
{
  s = tn_js_strip(s, NULL, true, false);
  while (s.n > 0) {
    size_t end = 0;
    while (end < s.n && tn_js_space_at(s, end) == 0) end++;
    if (limit == 0) end = s.n;
    if (!push(r, out, tn_js_cut(s, 0, end))) return false;
    if (limit == 0) break;
    if (limit > 0) limit--;
    s = tn_js_strip(tn_js_cut(s, end, s.n), NULL, true, false);
  }
  return true;
}

static bool split_at(tn_jrun *r, tn_js s, tn_js by, int64_t limit, tn_jv *out)
{
  size_t at, done = 0;
  while (limit != 0 && (at = tn_js_find(s, by, done)) != TN_JS_NONE) {
    if (!push(r, out, tn_js_cut(s, done, at))) return false;
    done = at + by.n;
    if (limit > 0) limit--;
  }
  return push(r, out, tn_js_cut(s, done, s.n));
}

/* From the right: the cuts are counted first, and the first ones left out. */
static bool rsplit_at(tn_jrun *r, tn_js s, tn_js by, int64_t limit, tn_jv *out)
{
  tn_jlist parts = {0};
  size_t at;
  for (; limit != 0 && (at = tn_js_rfind(s, by)) != TN_JS_NONE; limit -= limit > 0) {
    if (!tn_j_tick(r, 1 + (s.n - at) / 64)) return false;
    if (!tn_jlist_add(r, &parts, tn_jv_str(tn_js_cut(s, at + by.n, s.n)))) return false;
    s = tn_js_cut(s, 0, at);
  }
  if (!push(r, out, s)) return false;
  while (parts.n > 0) {
    if (!tn_jlist_add(r, out->list, parts.v[--parts.n])) return false;
  }
  return true;
}

static bool split(tn_jrun *r, const tn_jv *self, const tn_jv *a, bool right, tn_jv *out)
{
  int64_t limit = -1;
  bool space = a[0].kind == TN_J_ABSENT || a[0].kind == TN_J_NONE;
  if (!space && !want_text(r, &a[0])) return false;
  if (!space && a[0].s.n == 0) return tn_j_fail(r, TN_E_ARG, "empty separator");
  if (a[1].kind != TN_J_ABSENT && !tn_jv_integer(&a[1], &limit))
    return tn_j_fail(r, TN_E_ARG, "split: maxsplit is a %s", tn_jv_type(&a[1]));
  if (space && right && limit >= 0)
    return tn_j_fail(r, TN_E_UNSUPPORTED, "rsplit at white space with maxsplit is not supported");
  if (!tn_jv_list(r, TN_J_LIST, out) || !tn_j_tick(r, self->s.n / 64)) return false;
  if (space) return split_space(r, self->s, limit, out);
  return (right ? rsplit_at : split_at)(r, self->s, a[0].s, limit, out);
}

static bool m_split(ARGS) { return UNUSED, split(r, self, a, false, out); }
static bool m_rsplit(ARGS) { return UNUSED, split(r, self, a, true, out); }

static bool m_splitlines(ARGS)
{
  tn_js s = self->s;
  UNUSED;
  if (!tn_jv_list(r, TN_J_LIST, out)) return false;
  for (size_t i = 0, from = 0; i < s.n; from = i) {
    while (i < s.n && s.p[i] != '\n' && s.p[i] != '\r') i++;
    size_t end = i;
    if (i < s.n) i += s.p[i] == '\r' && i + 1 < s.n && s.p[i + 1] == '\n' ? 2 : 1;
    if (!push(r, out, tn_js_cut(s, from, tn_jv_true(&a[0]) ? i : end))) return false;
  }
  return true;
}

static bool partition(tn_jrun *r, const tn_jv *self, const tn_jv *by, bool last, tn_jv *out)
{
  tn_js s = self->s;
  if (!want_text(r, by)) return false;
  if (by->s.n == 0) return tn_j_fail(r, TN_E_ARG, "empty separator");
  size_t at = last ? tn_js_rfind(s, by->s) : tn_js_find(s, by->s, 0);
  bool there = at != TN_JS_NONE;
  if (!there) at = last ? 0 : s.n;
  size_t end = there ? at + by->s.n : at;
  return tn_jv_list(r, TN_J_TUPLE, out) && push(r, out, tn_js_cut(s, 0, at)) && push(r, out, tn_js_cut(s, at, end)) &&
         push(r, out, tn_js_cut(s, end, s.n));
}

static bool m_partition(ARGS) { return UNUSED, partition(r, self, &a[0], false, out); }
static bool m_rpartition(ARGS) { return UNUSED, partition(r, self, &a[0], true, out); }

static bool m_join(ARGS)
{
  const tn_jv *items;
  size_t n;
  tn_jbuf b = {0};
  UNUSED;
  if (!tn_jv_items(r, &a[0], &items, &n)) return false;
  for (size_t i = 0; i < n; i++) {
    if (items[i].kind != TN_J_STR)
      return tn_j_fail(r, TN_E_ARG, "sequence item %zu: expected str instance, %s found", i, tn_jv_type(&items[i]));
    if ((i > 0 && !tn_jbuf_add(r, &b, self->s)) || !tn_jbuf_add(r, &b, items[i].s)) return false;
  }
  return give(out, tn_jbuf_str(&b));
}

const tn_jbuiltin tn_j_text_methods[] = {
    {"strip", "chars", m_strip, 0},
    {"lstrip", "chars", m_lstrip, 0},
    {"rstrip", "chars", m_rstrip, 0},
    {"upper", "", m_upper, 0},
    {"lower", "", m_lower, 0},
    {"capitalize", "", m_capitalize, 0},
    {"title", "", m_title, 0},
    {"isupper", "", m_isupper, 0},
    {"islower", "", m_islower, 0},
    {"isalpha", "", m_isalpha, 0},
    {"isdigit", "", m_isdigit, 0},
    {"isalnum", "", m_isalnum, 0},
    {"isspace", "", m_isspace, 0},
    {"startswith", "prefix", m_startswith, 1},
    {"endswith", "suffix", m_endswith, 1},
    {"removeprefix", "prefix", m_removeprefix, 1},
    {"removesuffix", "suffix", m_removesuffix, 1},
    {"replace", "old new count", m_replace, 2},
    {"find", "sub", m_find, 1},
    {"rfind", "sub", m_rfind, 1},
    {"index", "sub", m_index, 1},
    {"rindex", "sub", m_rindex, 1},
    {"count", "sub", m_count, 1},
    {"split", "sep maxsplit", m_split, 0},
    {"rsplit", "sep maxsplit", m_rsplit, 0},
    {"splitlines", "keepends", m_splitlines, 0},
    {"partition", "sep", m_partition, 1},
    {"rpartition", "sep", m_rpartition, 1},
    {"join", "iterable", m_join, 1},
};
const size_t tn_j_n_text_methods = TN_ARRAY_LEN(tn_j_text_methods);
