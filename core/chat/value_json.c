/* value_json: JSON to values, whose texts are marked as the conversation's, and values to JSON as json.dumps writes it. */
#include <math.h>
#include <stdio.h>

#include "chat/jinja.h"
#include "utf8.h"

/* A text of the conversation. */
static bool text(tn_jrun *r, const char *p, size_t n, tn_js *out)
{
  if (n > r->n_ones) {
    uint8_t *ones = tn_j_alloc(r, 2 * n, 1);
    if (!ones) return false;
    memset(ones, 1, 2 * n);
    r->ones = ones;
    r->n_ones = 2 * n;
  }
  char *own = tn_j_alloc(r, n + 1, 1);
  if (!own) return false;
  memcpy(own, p, n);
  *out = (tn_js){own, n ? r->ones : NULL, n};
  return true;
}

static bool from_array(tn_jrun *r, const json_t *j, tn_jv *out)
{
  if (!tn_jv_list(r, TN_J_LIST, out)) return false;
  for (size_t i = 0; i < json_array_size(j); i++) {
    tn_jv v;
    if (!tn_jv_from_json(r, json_array_get(j, i), &v) || !tn_jlist_add(r, out->list, v)) return false;
  }
  return true;
}

/* The keys of a JSON object differ, so none is looked up. */
static bool from_object(tn_jrun *r, const json_t *j, tn_jv *out)
{
  size_t n = json_object_size(j);
  if (!tn_jv_dict(r, TN_J_DICT, out)) return false;
  if (n == 0) return true;
  out->dict->v = tn_j_alloc(r, n, sizeof *out->dict->v);
  if (!out->dict->v) return false;
  out->dict->cap = n;
  json_t *object = (json_t *)(uintptr_t)j; /* read only; jansson's iterators take no const */
  for (void *it = json_object_iter(object); it; it = json_object_iter_next(object, it)) {
    tn_jpair *p = &out->dict->v[out->dict->n++];
    const char *key = json_object_iter_key(it);
    p->key.kind = TN_J_STR;
    if (!text(r, key, json_object_iter_key_len(it), &p->key.s)) return false;
    if (!tn_jv_from_json(r, json_object_iter_value(it), &p->value)) return false;
  }
  return true;
}

bool tn_jv_from_json(tn_jrun *r, const json_t *j, tn_jv *out)
{
  bool ok = true;
  if (!tn_j_enter(r) || !tn_j_tick(r, 1)) return tn_j_leave(r), false;
  switch (json_typeof(j)) {
    case JSON_OBJECT: ok = from_object(r, j, out); break;
    case JSON_ARRAY: ok = from_array(r, j, out); break;
    case JSON_STRING:
      *out = (tn_jv){.kind = TN_J_STR};
      ok = text(r, json_string_value(j), json_string_length(j), &out->s);
      break;
    case JSON_INTEGER: *out = tn_jv_int(json_integer_value(j)); break;
    case JSON_REAL: *out = tn_jv_float(json_real_value(j)); break;
    case JSON_TRUE:
    case JSON_FALSE: *out = tn_jv_bool(json_is_true(j)); break;
    default: *out = tn_jv_none(); break;
  }
  tn_j_leave(r);
  return ok;
}

/* ---------------------------------------------------------------- to JSON */

static bool add(tn_jrun *r, tn_jbuf *b, const char *s) { return tn_jbuf_add(r, b, (tn_js){s, NULL, strlen(s)}); }

static bool escaped(tn_jrun *r, tn_jbuf *b, tn_js c, bool ascii)
{
  static const char letters[] = "\"\\\n\r\t\b\f", names[] = "\"\\nrtbf";
  char out[16];
  uint32_t cp = 0;
  tn_utf8_decode(c.p, c.n, &cp);
  const char *known = c.n == 1 && c.p[0] ? strchr(letters, c.p[0]) : NULL;
  if (known)
    snprintf(out, sizeof out, "\\%c", names[known - letters]);
  else if (cp >= 0x10000 && ascii)
    snprintf(out, sizeof out, "\\u%04x\\u%04x", 0xD800 + ((cp - 0x10000) >> 10), 0xDC00 + ((cp - 0x10000) & 0x3FF));
  else if (cp < 32 || (ascii && cp > 126))
    snprintf(out, sizeof out, "\\u%04x", (unsigned)cp);
  else
    return tn_jbuf_add(r, b, c);
  for (const char *p = out; *p; p++) {
    if (!tn_jbuf_char(r, b, *p, c.m && c.m[0])) return false;
  }
  return true;
}

static bool json_text(tn_jrun *r, tn_jbuf *b, tn_js s, bool ascii)
{
  bool ok = add(r, b, "\"");
  for (size_t i = 0; ok && i < s.n;) {
    size_t n = tn_js_offset(tn_js_cut(s, i, s.n), 1);
    ok = escaped(r, b, tn_js_cut(s, i, i + n), ascii);
    i += n;
  }
  return ok && add(r, b, "\"");
}

typedef struct writer {
  tn_jrun *r;
  tn_jbuf *b;
  const tn_jstyle *style;
  unsigned level;
} writer;

static bool put(writer *w, const tn_jv *v);

static bool line(writer *w)
{
  bool ok = !w->style->pretty || add(w->r, w->b, "\n");
  for (unsigned i = 0; ok && w->style->pretty && i < w->level; i++) ok = tn_jbuf_add(w->r, w->b, w->style->indent);
  return ok;
}

static bool separator(writer *w, size_t i) { return (i == 0 || tn_jbuf_add(w->r, w->b, w->style->item)) && line(w); }

static bool put_list(writer *w, const tn_jlist *l)
{
  bool ok = add(w->r, w->b, "[");
  w->level++;
  for (size_t i = 0; ok && i < l->n; i++) ok = separator(w, i) && put(w, &l->v[i]);
  w->level--;
  return ok && (l->n == 0 || line(w)) && add(w->r, w->b, "]");
}

static bool put_key(writer *w, const tn_jv *key)
{
  if (key->kind == TN_J_STR) return json_text(w->r, w->b, key->s, w->style->ascii);
  return add(w->r, w->b, "\"") && put(w, key) && add(w->r, w->b, "\"");
}

/* The i-th pair in the order of the keys: pairs are few, and sorting is rare. */
static bool sorted(writer *w, const tn_jdict *d, size_t *order)
{
  for (size_t i = 0; i < d->n; i++) {
    size_t at = i;
    if (d->v[i].key.kind != TN_J_STR) return tn_j_fail(w->r, TN_E_UNSUPPORTED, "sort_keys of keys that are no text");
    if (!tn_j_tick(w->r, 1 + i / 16)) return false;
    for (; at > 0 && tn_js_cmp(d->v[order[at - 1]].key.s, d->v[i].key.s) > 0; at--) order[at] = order[at - 1];
    order[at] = i;
  }
  return true;
}

static bool put_dict(writer *w, const tn_jdict *d)
{
  size_t *order = w->style->sort ? tn_j_alloc(w->r, d->n + 1, sizeof *order) : NULL;
  if (w->style->sort && (!order || !sorted(w, d, order))) return false;
  bool ok = add(w->r, w->b, "{");
  w->level++;
  for (size_t i = 0; ok && i < d->n; i++) {
    const tn_jpair *p = &d->v[order ? order[i] : i];
    ok = separator(w, i) && put_key(w, &p->key) && tn_jbuf_add(w->r, w->b, w->style->key) && put(w, &p->value);
  }
  w->level--;
  return ok && (d->n == 0 || line(w)) && add(w->r, w->b, "}");
}

static bool put_value(writer *w, const tn_jv *v)
{
  switch (v->kind) {
    case TN_J_NONE: return add(w->r, w->b, "null");
    case TN_J_BOOL: return add(w->r, w->b, v->b ? "true" : "false");
    case TN_J_FLOAT:
      if (isnan(v->f)) return add(w->r, w->b, "NaN");
      if (isinf(v->f)) return add(w->r, w->b, v->f > 0 ? "Infinity" : "-Infinity");
      return tn_jbuf_double(w->r, w->b, v->f);
    case TN_J_INT: return tn_jv_write(w->r, w->b, v);
    case TN_J_STR: return json_text(w->r, w->b, v->s, w->style->ascii);
    case TN_J_LIST:
    case TN_J_TUPLE: return put_list(w, v->list);
    case TN_J_DICT: return put_dict(w, v->dict);
    default: return tn_j_fail(w->r, TN_E_ARG, "tojson: an object of type %s is not JSON serializable", tn_jv_type(v));
  }
}

static bool put(writer *w, const tn_jv *v)
{
  bool ok = tn_j_enter(w->r) && tn_j_tick(w->r, 1) && put_value(w, v);
  tn_j_leave(w->r);
  return ok;
}

bool tn_jv_to_json(tn_jrun *r, tn_jbuf *b, const tn_jv *v, const tn_jstyle *style)
{
  writer w = {r, b, style, 0};
  return put(&w, v);
}
