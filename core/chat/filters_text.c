/* filters_text: filters that make texts and numbers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "chat/jinja.h"

#define ARGS tn_jrun *r, const tn_jv *self, const tn_jargs *all, const tn_jv *a, tn_jv *out
#define UNUSED (void)all, (void)a

static bool text_of(tn_jrun *r, const tn_jv *v, tn_jv *out)
{
  *out = tn_jv_str((tn_js){0});
  return tn_jv_text(r, v, &out->s);
}

static bool cased(tn_jrun *r, const tn_jv *v, int how, tn_jv *out)
{
  return text_of(r, v, out) && tn_js_case(r, out->s, how, &out->s);
}

static bool f_upper(ARGS) { return UNUSED, cased(r, self, TN_JCASE_UPPER, out); }
static bool f_lower(ARGS) { return UNUSED, cased(r, self, TN_JCASE_LOWER, out); }
static bool f_capitalize(ARGS) { return UNUSED, cased(r, self, TN_JCASE_CAPITAL, out); }
static bool f_string(ARGS) { return UNUSED, text_of(r, self, out); }

/* A letter begins a word behind white space, a hyphen or an opening bracket. */
static bool f_title(ARGS)
{
  tn_jv v;
  tn_jbuf b = {0};
  UNUSED;
  if (!text_of(r, self, &v)) return false;
  for (size_t i = 0, from = 0; i < v.s.n; from = i) {
    while (i < v.s.n && !tn_js_space_at(v.s, i) && !strchr("-([{<", v.s.p[i])) i++;
    if (i < v.s.n) i += tn_js_space_at(v.s, i) ? tn_js_space_at(v.s, i) : 1;
    tn_js word = tn_js_cut(v.s, from, i), made;
    if (!tn_js_case(r, word, TN_JCASE_CAPITAL, &made) || !tn_jbuf_add(r, &b, made)) return false;
  }
  *out = tn_jv_str(tn_jbuf_str(&b));
  return true;
}

static bool f_trim(ARGS)
{
  UNUSED;
  if (!text_of(r, self, out)) return false;
  bool set = a[0].kind == TN_J_STR;
  out->s = tn_js_strip(out->s, set ? &a[0].s : NULL, true, true);
  return true;
}

static bool f_safe(ARGS)
{
  UNUSED;
  if (!text_of(r, self, out)) return false;
  out->safe = true;
  return true;
}

static bool f_replace(ARGS)
{
  UNUSED;
  int64_t count = -1;
  tn_jv from, to;
  if (!text_of(r, self, out) || !text_of(r, &a[0], &from) || !text_of(r, &a[1], &to)) return false;
  tn_jv_integer(&a[2], &count);
  return tn_js_replace(r, out->s, from.s, to.s, count, &out->s);
}

static bool f_length(ARGS)
{
  UNUSED;
  int64_t n;
  if (!tn_jv_len(r, self, &n)) return false;
  *out = tn_jv_int(n);
  return true;
}

static bool f_wordcount(ARGS)
{
  UNUSED;
  tn_jv v;
  int64_t n = 0;
  bool inside = false;
  if (!text_of(r, self, &v)) return false;
  for (size_t i = 0; i < v.s.n; i++) {
    bool space = tn_js_space_at(v.s, i) > 0;
    n += !space && !inside;
    inside = !space;
  }
  *out = tn_jv_int(n);
  return true;
}

static bool f_default(ARGS)
{
  UNUSED;
  bool use = self->kind == TN_J_UNDEF || (tn_jv_true(&a[1]) && !tn_jv_true(self));
  (void)r;
  *out = !use ? *self : a[0].kind == TN_J_ABSENT ? tn_jv_str(TN_JS("")) : a[0];
  return true;
}

/* The number that a text spells; false: none. */
static bool parse_number(tn_js s, double *f)
{
  char text[64], *end;
  s = tn_js_strip(s, NULL, true, true);
  if (s.n == 0 || s.n >= sizeof text || memchr(s.p, 'x', s.n) || memchr(s.p, 'X', s.n)) return false;
  memcpy(text, s.p, s.n);
  text[s.n] = '\0';
  *f = strtod(text, &end);
  return end == text + s.n;
}

static bool f_int(ARGS)
{
  UNUSED;
  double f = 0;
  int64_t i;
  (void)r;
  bool ok = tn_jv_integer(self, &i);
  if (!ok && self->kind == TN_J_STR && self->s.n < 64) {
    char text[64], *end;
    tn_js s = tn_js_strip(self->s, NULL, true, true);
    memcpy(text, s.p, s.n);
    text[s.n] = '\0';
    i = strtoll(text, &end, 10);
    ok = s.n > 0 && end == text + s.n;
  }
  if (!ok && (self->kind == TN_J_FLOAT || (self->kind == TN_J_STR && parse_number(self->s, &f)))) {
    if (self->kind == TN_J_FLOAT) f = self->f;
    ok = fabs(f) < 9e18;
    if (ok) i = (int64_t)f;
  }
  *out = ok ? tn_jv_int(i) : a[0].kind == TN_J_ABSENT ? tn_jv_int(0) : a[0];
  return true;
}

static bool f_float(ARGS)
{
  UNUSED;
  double f;
  (void)r;
  bool ok = tn_jv_number(self, &f) || (self->kind == TN_J_STR && parse_number(self->s, &f));
  *out = ok ? tn_jv_float(f) : a[0].kind == TN_J_ABSENT ? tn_jv_float(0) : a[0];
  return true;
}

static bool f_abs(ARGS)
{
  UNUSED;
  double f;
  int64_t i;
  if (tn_jv_integer(self, &i) && i != INT64_MIN)
    *out = tn_jv_int(i < 0 ? -i : i);
  else if (tn_jv_number(self, &f))
    *out = tn_jv_float(fabs(f));
  else
    return tn_j_fail(r, TN_E_ARG, "bad operand type for abs(): '%s'", tn_jv_type(self));
  return true;
}

static bool f_round(ARGS)
{
  UNUSED;
  double f;
  int64_t digits = 0;
  char text[400];
  if (!tn_jv_number(self, &f)) return tn_j_fail(r, TN_E_ARG, "round of a %s", tn_jv_type(self));
  if (a[0].kind != TN_J_ABSENT && (!tn_jv_integer(&a[0], &digits) || digits < 0 || digits > 60))
    return tn_j_fail(r, TN_E_UNSUPPORTED, "round to other than 0 to 60 digits");
  const tn_js how = a[1].kind == TN_J_STR ? a[1].s : TN_JS("common");
  double scale = pow(10, (double)digits);
  if (tn_js_is(how, "ceil") || tn_js_is(how, "floor")) {
    *out = tn_jv_float((tn_js_is(how, "ceil") ? ceil(f * scale) : floor(f * scale)) / scale);
    return true;
  }
  if (!tn_js_is(how, "common")) return tn_j_fail(r, TN_E_ARG, "method must be common, ceil or floor");
  snprintf(text, sizeof text, "%.*f", (int)digits, f); /* the C library rounds to even on a tie, as Python does */
  *out = self->kind == TN_J_FLOAT ? tn_jv_float(strtod(text, NULL)) : *self;
  return true;
}

/* ---------------------------------------------------------------- tojson */

/* indent=4 or indent="\t". */
static bool set_indent(tn_jrun *r, const tn_jv *v, tn_jstyle *s)
{
  int64_t n;
  if (v->kind == TN_J_STR) {
    s->indent = v->s;
  } else if (tn_jv_integer(v, &n)) {
    char *blanks = tn_j_alloc(r, 33, 1);
    if (!blanks) return false;
    if (n > 32) return tn_j_fail(r, TN_E_UNSUPPORTED, "tojson with an indent of over 32");
    memset(blanks, ' ', 32);
    s->indent = (tn_js){blanks, NULL, n > 0 ? (size_t)n : 0};
  } else {
    return tn_j_fail(r, TN_E_ARG, "tojson: the indent is a %s", tn_jv_type(v));
  }
  s->pretty = true;
  s->item = TN_JS(",");
  return true;
}

/* As json.dumps(ensure_ascii=False): not Jinja's own filter, which escapes for HTML. */
static bool f_tojson(ARGS)
{
  UNUSED;
  tn_jstyle s = {.item = TN_JS(", "), .key = TN_JS(": ")};
  tn_jbuf b = {0};
  s.ascii = tn_jv_true(&a[0]);
  if (a[1].kind != TN_J_ABSENT && a[1].kind != TN_J_NONE && !set_indent(r, &a[1], &s)) return false;
  if (a[2].kind != TN_J_ABSENT && a[2].kind != TN_J_NONE) {
    const tn_jv *v;
    size_t n;
    if (!tn_jv_items(r, &a[2], &v, &n)) return false;
    if (n != 2 || v[0].kind != TN_J_STR || v[1].kind != TN_J_STR)
      return tn_j_fail(r, TN_E_ARG, "tojson: want two texts as separators");
    s.item = v[0].s;
    s.key = v[1].s;
  }
  s.sort = tn_jv_true(&a[3]);
  if (self->kind == TN_J_UNDEF) return tn_j_fail(r, TN_E_ARG, "Object of type Undefined is not JSON serializable");
  if (!tn_jv_to_json(r, &b, self, &s)) return false;
  *out = tn_jv_str(tn_jbuf_str(&b));
  return true;
}

/* ---------------------------------------------------------------- format, indent */

static bool add(tn_jrun *r, tn_jbuf *b, const char *s) { return tn_jbuf_add(r, b, (tn_js){s, NULL, strlen(s)}); }

/* One conversion, "%.2f" without what it stands for: spec ends with its letter. */
static bool convert(tn_jrun *r, tn_jbuf *b, const char *spec, size_t n, const tn_jv *v)
{
  char fmt[24], text[128];
  double f;
  int64_t i;
  char c = spec[n - 1];
  if (n == 2 && (c == 's' || c == 'r')) return c == 's' ? tn_jv_write(r, b, v) : tn_jv_repr(r, b, v);
  if (v->kind == TN_J_UNDEF) return tn_jv_missing(r, v);
  if (c == 's' || c == 'r') return tn_j_fail(r, TN_E_UNSUPPORTED, "the format %.*s is not supported", (int)n, spec);
  if (strchr("dixXo", c)) {
    if (!tn_jv_integer(v, &i) && v->kind != TN_J_FLOAT)
      return tn_j_fail(r, TN_E_ARG, "%%%c format: a number is required, not %s", c, tn_jv_type(v));
    if (v->kind == TN_J_FLOAT) i = (int64_t)v->f;
    snprintf(fmt, sizeof fmt, "%.*sll%c", (int)(n - 1), spec, c);
    snprintf(text, sizeof text, fmt, (long long)i);
  } else {
    if (!tn_jv_number(v, &f)) return tn_j_fail(r, TN_E_ARG, "must be real number, not %s", tn_jv_type(v));
    snprintf(fmt, sizeof fmt, "%.*s", (int)n, spec);
    snprintf(text, sizeof text, fmt, f);
  }
  return add(r, b, text);
}

static bool f_format(ARGS)
{
  UNUSED;
  tn_jv v;
  tn_jbuf b = {0};
  size_t used = 0;
  if (!text_of(r, self, &v)) return false;
  if (all->n_kw) return tn_j_fail(r, TN_E_UNSUPPORTED, "format with named values is not supported");
  for (size_t i = 0; i < v.s.n;) {
    size_t at = tn_js_find(v.s, TN_JS("%"), i), n = 1;
    if (at == TN_JS_NONE) at = v.s.n;
    if (!tn_jbuf_add(r, &b, tn_js_cut(v.s, i, at))) return false;
    if (at == v.s.n) break;
    while (at + n < v.s.n && n < 8 && strchr("0123456789.+- ", v.s.p[at + n])) n++;
    char c = at + n < v.s.n ? v.s.p[at + n] : '\0';
    i = at + n + 1;
    if (c == '%' && n == 1) {
      if (!add(r, &b, "%")) return false;
      continue;
    }
    if (!c || !strchr("sdixXofeEgGr", c))
      return tn_j_fail(r, TN_E_UNSUPPORTED, "the format %.*s is not supported", (int)(n + (c != 0)), v.s.p + at);
    if (used == all->n) return tn_j_fail(r, TN_E_ARG, "not enough arguments for format string");
    if (!convert(r, &b, v.s.p + at, n + 1, &all->v[used++])) return false;
  }
  if (used < all->n) return tn_j_fail(r, TN_E_ARG, "not all arguments converted during string formatting");
  *out = tn_jv_str(tn_jbuf_str(&b));
  return true;
}

static bool f_indent(ARGS)
{
  UNUSED;
  tn_jv v, style_value = a[0].kind == TN_J_ABSENT ? tn_jv_int(4) : a[0];
  tn_jstyle style = {0};
  tn_jbuf b = {0};
  bool first = tn_jv_true(&a[1]), blank = tn_jv_true(&a[2]);
  if (!text_of(r, self, &v) || !set_indent(r, &style_value, &style)) return false;
  for (size_t i = 0, line = 0; i < v.s.n; line++) {
    size_t end = tn_js_find(v.s, TN_JS("\n"), i);
    bool last = end == TN_JS_NONE;
    if (last) end = v.s.n;
    if ((line ? blank || end > i : first) && !tn_jbuf_add(r, &b, style.indent)) return false;
    if (!tn_jbuf_add(r, &b, tn_js_cut(v.s, i, last ? end : end + 1))) return false;
    i = end + 1;
  }
  *out = tn_jv_str(tn_jbuf_str(&b));
  return true;
}

const tn_jbuiltin tn_j_filters_text[] = {
    {"upper", "", f_upper, 0},
    {"lower", "", f_lower, 0},
    {"capitalize", "", f_capitalize, 0},
    {"title", "", f_title, 0},
    {"string", "", f_string, 0},
    {"trim", "chars", f_trim, 0},
    {"safe", "", f_safe, 0},
    {"replace", "old new count", f_replace, 2},
    {"length", "", f_length, 0},
    {"count", "", f_length, 0},
    {"wordcount", "", f_wordcount, 0},
    {"default", "default_value boolean", f_default, 0},
    {"d", "default_value boolean", f_default, 0},
    {"int", "default base", f_int, 0},
    {"float", "default", f_float, 0},
    {"abs", "", f_abs, 0},
    {"round", "precision method", f_round, 0},
    {"tojson", "ensure_ascii indent separators sort_keys", f_tojson, 0},
    {"format", NULL, f_format, 0},
    {"indent", "width first blank", f_indent, 0},
};
const size_t tn_j_n_filters_text = TN_ARRAY_LEN(tn_j_filters_text);
