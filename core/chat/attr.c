/* attr: value.name, value[key] and value[a:b:c]. What is not there is undefined, which is an error only where it is used. */
#include <stdio.h>

#include "chat/jinja.h"

static tn_jv undefined(const tn_jv *of, tn_js name, bool element)
{
  tn_jv v = tn_jv_undef(name);
  v.owner = of->kind;
  v.element = element;
  return v;
}

/* loop.name */
static bool loop_attr(const tn_jloop *l, tn_js name, tn_jv *out)
{
  const int64_t n = (int64_t)l->n, i = (int64_t)l->at;
  const struct {
    const char *name;
    tn_jv v;
  } all[] = {{"index", tn_jv_int(i + 1)},    {"index0", tn_jv_int(i)},
             {"revindex", tn_jv_int(n - i)}, {"revindex0", tn_jv_int(n - i - 1)},
             {"first", tn_jv_bool(i == 0)},  {"last", tn_jv_bool(i == n - 1)},
             {"length", tn_jv_int(n)},       {"depth", tn_jv_int(1)},
             {"depth0", tn_jv_int(0)}};
  for (size_t k = 0; k < TN_ARRAY_LEN(all); k++) {
    if (!tn_js_is(name, all[k].name)) continue;
    *out = all[k].v;
    return true;
  }
  bool previous = tn_js_is(name, "previtem"), next = tn_js_is(name, "nextitem");
  if (!previous && !next) return false;
  bool there = previous ? i > 0 : i + 1 < n;
  *out = there ? l->items[previous ? i - 1 : i + 1]
               : tn_jv_undef(previous ? TN_JS("there is no previous item") : TN_JS("there is no next item"));
  return true;
}

bool tn_j_attr(tn_jrun *r, const tn_jv *v, tn_js name, tn_jv *out)
{
  const tn_jbuiltin *method = tn_j_method(v, name);
  tn_jv *found = NULL;
  if (v->kind == TN_J_UNDEF) return tn_jv_missing(r, v);
  if (method) {
    *out = (tn_jv){.kind = TN_J_METHOD};
    out->bound = tn_j_alloc(r, 1, sizeof *out->bound);
    if (!out->bound) return false;
    *out->bound = (tn_jbound){*v, method};
    return true;
  }
  if (v->kind == TN_J_LOOP && loop_attr(v->loop, name, out)) return true;
  if (v->kind == TN_J_DICT || v->kind == TN_J_SPACE) found = tn_jdict_find(v->dict, name);
  *out = found ? *found : undefined(v, name, false);
  return tn_j_tick(r, 1);
}

/* The element that an index means, negative ones from the end; SIZE_MAX: none. */
static size_t position(int64_t i, size_t n)
{
  if (i < 0) i += (int64_t)n;
  return i >= 0 && (uint64_t)i < n ? (size_t)i : SIZE_MAX;
}

static bool no_element(tn_jrun *r, const tn_jv *v, const tn_jv *key, tn_jv *out)
{
  tn_jbuf b = {0};
  if (key->kind == TN_J_STR) {
    *out = undefined(v, key->s, false);
    return true;
  }
  if (key->kind == TN_J_UNDEF) return tn_jv_missing(r, key);
  if (!tn_jv_repr(r, &b, key)) return false;
  *out = undefined(v, tn_jbuf_str(&b), true);
  return true;
}

bool tn_j_item(tn_jrun *r, const tn_jv *v, const tn_jv *key, tn_jv *out)
{
  int64_t i;
  if (v->kind == TN_J_UNDEF) return tn_jv_missing(r, v);
  if (v->kind == TN_J_DICT) {
    const tn_jv *found = key->kind == TN_J_UNDEF ? NULL : tn_jdict_get(v->dict, key);
    if (!tn_j_tick(r, v->dict->n / 16)) return false;
    if (found) {
      *out = *found;
      return true;
    }
  } else if ((v->kind == TN_J_LIST || v->kind == TN_J_TUPLE) && tn_jv_integer(key, &i)) {
    size_t at = position(i, v->list->n);
    if (at != SIZE_MAX) {
      *out = v->list->v[at];
      return true;
    }
  } else if (v->kind == TN_J_STR && tn_jv_integer(key, &i)) {
    size_t at = position(i, tn_js_chars(v->s));
    if (!tn_j_tick(r, v->s.n / 64)) return false;
    if (at != SIZE_MAX) {
      size_t from = tn_js_offset(v->s, at), to = from + tn_js_offset(tn_js_cut(v->s, from, v->s.n), 1);
      *out = tn_jv_str(tn_js_cut(v->s, from, to));
      return true;
    }
  }
  if (key->kind == TN_J_STR) return tn_j_attr(r, v, key->s, out);
  return no_element(r, v, key, out);
}

/* Start, stop and step as slice.indices(n) of Python gives them. */
static bool indices(tn_jrun *r, const tn_jv b[3], int64_t n, int64_t out[3])
{
  out[2] = 1;
  for (int k = 0; k < 3; k++) {
    if (b[k].kind == TN_J_ABSENT || b[k].kind == TN_J_NONE || tn_jv_integer(&b[k], &out[k])) continue;
    if (b[k].kind == TN_J_UNDEF) return tn_jv_missing(r, &b[k]);
    return tn_j_fail(r, TN_E_ARG, "the bound of a slice is a %s, not a whole number", tn_jv_type(&b[k]));
  }
  if (out[2] == 0) return tn_j_fail(r, TN_E_ARG, "slice step cannot be zero");
  if (out[2] < -INT64_MAX / 2 || out[2] > INT64_MAX / 2) out[2] = out[2] < 0 ? -INT64_MAX / 2 : INT64_MAX / 2;
  int64_t low = out[2] < 0 ? -1 : 0, high = out[2] < 0 ? n - 1 : n;
  for (int k = 0; k < 2; k++) {
    if (b[k].kind == TN_J_ABSENT || b[k].kind == TN_J_NONE) {
      out[k] = (k == 0) == (out[2] > 0) ? low : high;
      continue;
    }
    if (out[k] < 0) out[k] = out[k] < -n ? low : out[k] + n;
    if (out[k] < low) out[k] = low;
    if (out[k] > high) out[k] = high;
  }
  return true;
}

static bool slice_text(tn_jrun *r, tn_js s, const int64_t at[3], tn_jv *out)
{
  tn_jbuf b = {0};
  if (!tn_j_tick(r, s.n / 64)) return false;
  if (at[2] == 1) {
    size_t from = tn_js_offset(s, (size_t)at[0]), to = at[1] > at[0] ? tn_js_offset(s, (size_t)at[1]) : from;
    *out = tn_jv_str(tn_js_cut(s, from, to));
    return true;
  }
  const tn_jv text = tn_jv_str(s), *chars;
  size_t n;
  if (!tn_jv_items(r, &text, &chars, &n)) return false;
  for (int64_t i = at[0]; at[2] > 0 ? i < at[1] : i > at[1]; i += at[2]) {
    if (!tn_jbuf_add(r, &b, chars[i].s)) return false;
  }
  *out = tn_jv_str(tn_jbuf_str(&b));
  return true;
}

bool tn_j_slice(tn_jrun *r, const tn_jv *v, const tn_jv bounds[3], tn_jv *out)
{
  int64_t n, at[3] = {0};
  if (v->kind == TN_J_UNDEF) return tn_jv_missing(r, v);
  if (v->kind != TN_J_STR && v->kind != TN_J_LIST && v->kind != TN_J_TUPLE) {
    *out = undefined(v, TN_JS("slice"), true);
    return true;
  }
  if (!tn_jv_len(r, v, &n) || !indices(r, bounds, n, at)) return false;
  if (v->kind == TN_J_STR) return slice_text(r, v->s, at, out);
  if (!tn_jv_list(r, v->kind, out)) return false;
  for (int64_t i = at[0]; at[2] > 0 ? i < at[1] : i > at[1]; i += at[2]) {
    if (!tn_jlist_add(r, out->list, v->list->v[i])) return false;
  }
  return true;
}
