/* filters_list: filters of sequences and dicts. */
#include "chat/jinja.h"

#define ARGS tn_jrun *r, const tn_jv *self, const tn_jargs *all, const tn_jv *a, tn_jv *out
#define UNUSED (void)all, (void)a

static bool f_list(ARGS)
{
  const tn_jv *items;
  size_t n;
  UNUSED;
  if (!tn_jv_items(r, self, &items, &n) || !tn_jv_list(r, TN_J_LIST, out)) return false;
  for (size_t i = 0; i < n; i++) {
    if (!tn_jlist_add(r, out->list, items[i])) return false;
  }
  return true;
}

static bool f_first(ARGS)
{
  const tn_jv *items;
  size_t n;
  UNUSED;
  if (!tn_jv_items(r, self, &items, &n)) return false;
  *out = n ? items[0] : tn_jv_undef(TN_JS("the first item of an empty sequence"));
  return true;
}

static bool f_last(ARGS)
{
  const tn_jv *items;
  size_t n;
  UNUSED;
  if (self->kind == TN_J_GEN) return tn_j_fail(r, TN_E_ARG, "'generator' object is not reversible");
  if (!tn_jv_items(r, self, &items, &n)) return false;
  *out = n ? items[n - 1] : tn_jv_undef(TN_JS("the last item of an empty sequence"));
  return true;
}

/* The value at "a.b.0" of v; missing parts give undefined. */
static bool by_path(tn_jrun *r, const tn_jv *v, tn_js path, const tn_jv *fill, tn_jv *out)
{
  *out = *v;
  for (size_t i = 0; i <= path.n;) {
    size_t end = tn_js_find(path, TN_JS("."), i);
    if (end == TN_JS_NONE) end = path.n;
    tn_js part = tn_js_cut(path, i, end);
    tn_jv in = *out, key = tn_jv_str(part);
    bool number = part.n > 0 && part.n < 10;
    int64_t index = 0;
    for (size_t k = 0; k < part.n && number; k++) {
      number = part.p[k] >= '0' && part.p[k] <= '9';
      index = index * 10 + (part.p[k] - '0');
    }
    if (number) key = tn_jv_int(index);
    if (!tn_j_item(r, &in, &key, out)) return false;
    if (fill && out->kind == TN_J_UNDEF) *out = *fill;
    i = end + 1;
  }
  return true;
}

bool tn_j_by_attribute(tn_jrun *r, const tn_jv *v, const tn_jv *attribute, const tn_jv *fill, tn_jv *out)
{
  *out = *v;
  if (attribute->kind == TN_J_ABSENT || attribute->kind == TN_J_NONE) return true;
  if (attribute->kind == TN_J_STR) return by_path(r, v, attribute->s, fill, out);
  if (!tn_j_item(r, v, attribute, out)) return false;
  if (fill && out->kind == TN_J_UNDEF) *out = *fill;
  return true;
}

static bool f_attr(ARGS)
{
  UNUSED;
  tn_jv name;
  if (self->kind == TN_J_DICT) { /* of a dict it is a method, never an element */
    name = tn_jv_str((tn_js){0});
    if (!tn_jv_text(r, &a[0], &name.s)) return false;
    if (tn_j_method(self, name.s)) return tn_j_attr(r, self, name.s, out);
    *out = tn_jv_undef(name.s);
    out->owner = TN_J_DICT;
    return true;
  }
  return tn_jv_text(r, &a[0], &name.s) && tn_j_attr(r, self, name.s, out);
}

static bool f_join(ARGS)
{
  const tn_jv *items;
  size_t n;
  tn_jbuf b = {0};
  UNUSED;
  if (!tn_jv_items(r, self, &items, &n)) return false;
  for (size_t i = 0; i < n; i++) {
    tn_jv v;
    if (!tn_j_by_attribute(r, &items[i], &a[1], NULL, &v)) return false;
    if (i > 0 && a[0].kind != TN_J_ABSENT && !tn_jv_write(r, &b, &a[0])) return false;
    if (!tn_jv_write(r, &b, &v)) return false;
  }
  *out = tn_jv_str(tn_jbuf_str(&b));
  return true;
}

static bool pairs(tn_jrun *r, const tn_jdict *d, tn_jkind kind, tn_jv *out)
{
  if (!tn_jv_list(r, kind, out)) return false;
  for (size_t i = 0; i < d->n; i++) {
    tn_jv pair;
    if (!tn_jv_list(r, TN_J_TUPLE, &pair) || !tn_jlist_add(r, pair.list, d->v[i].key) ||
        !tn_jlist_add(r, pair.list, d->v[i].value) || !tn_jlist_add(r, out->list, pair))
      return false;
  }
  return true;
}

static bool f_items(ARGS)
{
  UNUSED;
  if (self->kind == TN_J_DICT) return pairs(r, self->dict, TN_J_GEN, out);
  if (self->kind == TN_J_UNDEF) return tn_jv_list(r, TN_J_GEN, out);
  return tn_j_fail(r, TN_E_ARG, "Can only get item pairs from a mapping.");
}

static bool f_reverse(ARGS)
{
  const tn_jv *items;
  size_t n;
  tn_jbuf b = {0};
  UNUSED;
  if (!tn_jv_items(r, self, &items, &n) || !tn_jv_list(r, TN_J_GEN, out)) return false;
  while (n-- > 0) {
    if (self->kind == TN_J_STR ? !tn_jbuf_add(r, &b, items[n].s) : !tn_jlist_add(r, out->list, items[n])) return false;
  }
  if (self->kind == TN_J_STR) *out = tn_jv_str(tn_jbuf_str(&b));
  return true;
}

static bool f_sum(ARGS)
{
  const tn_jv *items;
  size_t n;
  UNUSED;
  *out = a[1].kind == TN_J_ABSENT ? tn_jv_int(0) : a[1];
  if (!tn_jv_items(r, self, &items, &n)) return false;
  for (size_t i = 0; i < n; i++) {
    tn_jv before = *out, v;
    if (!tn_j_by_attribute(r, &items[i], &a[0], NULL, &v) || !tn_j_binary(r, TN_JO_ADD, &before, &v, out)) return false;
  }
  return true;
}

/* ---------------------------------------------------------------- order */

/* What an item is sorted by: texts in lower case unless the case counts. */
static bool sort_key(tn_jrun *r, const tn_jv *item, const tn_jv *attribute, bool case_counts, tn_jv *out)
{
  if (!tn_j_by_attribute(r, item, attribute, NULL, out)) return false;
  return out->kind != TN_J_STR || case_counts ? true : tn_js_case(r, out->s, TN_JCASE_LOWER, &out->s);
}

/* Sorts items[n] in place by keys[n]; stable. Merging keeps the work at n log n. */
static bool merge_sort(tn_jrun *r, tn_jv *items, tn_jv *keys, size_t n, bool descending)
{
  tn_jv *to_items = tn_j_alloc(r, n + 1, sizeof *items),
        *to_keys = to_items ? tn_j_alloc(r, n + 1, sizeof *keys) : NULL;
  if (!to_keys) return false;
  for (size_t width = 1; width < n; width *= 2) {
    for (size_t from = 0; from < n; from += 2 * width) {
      size_t mid = from + width < n ? from + width : n, end = mid + width < n ? mid + width : n, i = from, j = mid;
      for (size_t k = from; k < end; k++) {
        int c = 0;
        if (i < mid && j < end && (!tn_j_tick(r, 1) || !tn_jv_cmp(r, &keys[i], &keys[j], "<", &c))) return false;
        bool left = i < mid && (j >= end || (descending ? c >= 0 : c <= 0));
        to_items[k] = items[left ? i : j];
        to_keys[k] = keys[left ? i : j];
        *(left ? &i : &j) += 1;
      }
    }
    memcpy(items, to_items, n * sizeof *items);
    memcpy(keys, to_keys, n * sizeof *keys);
  }
  return true;
}

static bool sorted(tn_jrun *r, const tn_jv *items, size_t n, const tn_jv *attribute, bool case_counts, bool descending,
                   tn_jv *out)
{
  tn_jv *keys = tn_j_alloc(r, n + 1, sizeof *keys);
  if (!keys || !tn_jv_list(r, TN_J_LIST, out)) return false;
  for (size_t i = 0; i < n; i++) {
    if (!sort_key(r, &items[i], attribute, case_counts, &keys[i]) || !tn_jlist_add(r, out->list, items[i]))
      return false;
  }
  return merge_sort(r, out->list->v, keys, n, descending);
}

static bool f_sort(ARGS)
{
  const tn_jv *items;
  size_t n;
  UNUSED;
  if (a[2].kind == TN_J_STR && tn_js_find(a[2].s, TN_JS(","), 0) != TN_JS_NONE)
    return tn_j_fail(r, TN_E_UNSUPPORTED, "sort by several attributes is not supported");
  return tn_jv_items(r, self, &items, &n) && sorted(r, items, n, &a[2], tn_jv_true(&a[1]), tn_jv_true(&a[0]), out);
}

static bool f_dictsort(ARGS)
{
  UNUSED;
  tn_jv list, which = tn_jv_int(a[1].kind == TN_J_STR && tn_js_is(a[1].s, "value"));
  if (self->kind != TN_J_DICT) return tn_j_fail(r, TN_E_ARG, "dictsort of a %s", tn_jv_type(self));
  return pairs(r, self->dict, TN_J_LIST, &list) &&
         sorted(r, list.list->v, list.list->n, &which, tn_jv_true(&a[0]), tn_jv_true(&a[2]), out);
}

/* The smallest or greatest item. */
static bool extreme(tn_jrun *r, const tn_jv *self, const tn_jv *a, bool greatest, tn_jv *out)
{
  const tn_jv *items;
  size_t n;
  tn_jv best, key;
  if (!tn_jv_items(r, self, &items, &n)) return false;
  *out = tn_jv_undef(TN_JS("an item of an empty sequence"));
  for (size_t i = 0; i < n; i++) {
    int c = 0;
    if (!sort_key(r, &items[i], &a[1], tn_jv_true(&a[0]), &key)) return false;
    if (i > 0 && !tn_jv_cmp(r, &key, &best, "<", &c)) return false;
    if (i > 0 && (greatest ? c <= 0 : c >= 0)) continue;
    best = key;
    *out = items[i];
  }
  return true;
}

static bool f_min(ARGS) { return UNUSED, extreme(r, self, a, false, out); }
static bool f_max(ARGS) { return UNUSED, extreme(r, self, a, true, out); }

static bool f_unique(ARGS)
{
  const tn_jv *items;
  size_t n;
  tn_jv keys, key;
  UNUSED;
  if (!tn_jv_items(r, self, &items, &n) || !tn_jv_list(r, TN_J_GEN, out) || !tn_jv_list(r, TN_J_LIST, &keys))
    return false;
  for (size_t i = 0; i < n; i++) {
    bool known = false;
    if (!sort_key(r, &items[i], &a[1], tn_jv_true(&a[0]), &key)) return false;
    for (size_t k = 0; k < keys.list->n && !known; k++) {
      if (!tn_j_tick(r, 1) || !tn_jv_eq(r, &keys.list->v[k], &key, &known)) return false;
    }
    if (!known && (!tn_jlist_add(r, keys.list, key) || !tn_jlist_add(r, out->list, items[i]))) return false;
  }
  return true;
}

static bool f_batch(ARGS)
{
  const tn_jv *items;
  size_t n;
  int64_t size = 0;
  tn_jv row = {0};
  UNUSED;
  if (!tn_jv_integer(&a[0], &size) || size < 1) return tn_j_fail(r, TN_E_ARG, "batch: want a size of at least 1");
  if (!tn_jv_items(r, self, &items, &n) || !tn_jv_list(r, TN_J_GEN, out)) return false;
  for (size_t i = 0; i < n; i++) {
    if (i % (uint64_t)size == 0 && (!tn_jv_list(r, TN_J_LIST, &row) || !tn_jlist_add(r, out->list, row))) return false;
    if (!tn_jlist_add(r, row.list, items[i])) return false;
  }
  while (n > 0 && a[1].kind != TN_J_ABSENT && a[1].kind != TN_J_NONE && row.list->n < (uint64_t)size) {
    if (!tn_jlist_add(r, row.list, a[1])) return false;
  }
  return true;
}

const tn_jbuiltin tn_j_filters_list[] = {
    {"list", "", f_list, 0},
    {"first", "", f_first, 0},
    {"last", "", f_last, 0},
    {"attr", "name", f_attr, 1},
    {"join", "d attribute", f_join, 0},
    {"items", "", f_items, 0},
    {"reverse", "", f_reverse, 0},
    {"sum", "attribute start", f_sum, 0},
    {"sort", "reverse case_sensitive attribute", f_sort, 0},
    {"dictsort", "case_sensitive by reverse", f_dictsort, 0},
    {"min", "case_sensitive attribute", f_min, 0},
    {"max", "case_sensitive attribute", f_max, 0},
    {"unique", "case_sensitive attribute", f_unique, 0},
    {"batch", "linecount fill_with", f_batch, 1},
};
const size_t tn_j_n_filters_list = TN_ARRAY_LEN(tn_j_filters_list);
