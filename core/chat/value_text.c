/* value_text: values as text, as Python's str() and repr() write them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "chat/jinja.h"
#include "utf8.h"

static bool add(tn_jrun *r, tn_jbuf *b, const char *s) { return tn_jbuf_add(r, b, (tn_js){s, NULL, strlen(s)}); }

/* The shortest digits that read back as f, with a point, as Python writes them. */
bool tn_jbuf_double(tn_jrun *r, tn_jbuf *b, double f)
{
  char text[40], out[64];
  if (isnan(f)) return add(r, b, "nan");
  if (isinf(f)) return add(r, b, f > 0 ? "inf" : "-inf");
  int digits = 0;
  do {
    snprintf(text, sizeof text, "%.*e", digits, f);
  } while (strtod(text, NULL) != f && ++digits < 17);
  const char *e = strchr(text, 'e');
  int exponent = atoi(e + 1);
  if (exponent < -4 || exponent >= 16) {
    snprintf(out, sizeof out, "%.*se%c%02d", (int)(e - text), text, exponent < 0 ? '-' : '+', abs(exponent));
    return add(r, b, out);
  }
  int behind = digits - exponent;
  snprintf(out, sizeof out, "%.*f", behind > 0 ? behind : 0, f);
  return add(r, b, out) && (strchr(out, '.') || add(r, b, ".0"));
}

/* Characters that repr() writes as an escape: controls, separators and other white space than the blank, format
 * characters. */
static bool is_hidden(uint32_t c)
{
  return c < 32 || (c >= 0x7F && c <= 0xA0) || c == 0xAD || c == 0x1680 || (c >= 0x2000 && c <= 0x200F) ||
         (c >= 0x2028 && c <= 0x202F) || (c >= 0x205F && c <= 0x206F) || c == 0x3000 || c == 0xFEFF ||
         (c >= 0xE000 && c <= 0xF8FF) || (c >= 0xFFF0 && c <= 0xFFFB) || c >= 0xE0000;
}

static bool repr_char(tn_jrun *r, tn_jbuf *b, tn_js c, char quote)
{
  static const char letters[] = "\t\n\r", names[] = "tnr";
  char text[12];
  uint32_t cp = 0;
  tn_utf8_decode(c.p, c.n, &cp);
  const char *known = c.n == 1 && c.p[0] ? strchr(letters, c.p[0]) : NULL;
  if (known)
    snprintf(text, sizeof text, "\\%c", names[known - letters]);
  else if (cp == '\\' || cp == (uint32_t)quote)
    snprintf(text, sizeof text, "\\%c", c.p[0]);
  else if (is_hidden(cp))
    snprintf(text, sizeof text, cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)cp);
  else
    return tn_jbuf_add(r, b, c);
  for (const char *p = text; *p; p++) {
    if (!tn_jbuf_char(r, b, *p, c.m && c.m[0])) return false;
  }
  return true;
}

static bool repr_str(tn_jrun *r, tn_jbuf *b, tn_js s)
{
  bool single = tn_js_find(s, TN_JS("'"), 0) != TN_JS_NONE, twice = tn_js_find(s, TN_JS("\""), 0) != TN_JS_NONE;
  char quote = single && !twice ? '"' : '\'';
  if (!tn_jbuf_char(r, b, quote, false)) return false;
  for (size_t i = 0; i < s.n;) {
    size_t n = tn_js_offset(tn_js_cut(s, i, s.n), 1);
    if (!repr_char(r, b, tn_js_cut(s, i, i + n), quote)) return false;
    i += n;
  }
  return tn_jbuf_char(r, b, quote, false);
}

static bool repr_list(tn_jrun *r, tn_jbuf *b, const tn_jv *v)
{
  bool tuple = v->kind == TN_J_TUPLE, ok = add(r, b, tuple ? "(" : "[");
  for (size_t i = 0; ok && i < v->list->n; i++) ok = (i == 0 || add(r, b, ", ")) && tn_jv_repr(r, b, &v->list->v[i]);
  if (ok && tuple && v->list->n == 1) ok = add(r, b, ",");
  return ok && add(r, b, tuple ? ")" : "]");
}

static bool repr_dict(tn_jrun *r, tn_jbuf *b, const tn_jdict *d)
{
  bool ok = add(r, b, "{");
  for (size_t i = 0; ok && i < d->n; i++)
    ok = (i == 0 || add(r, b, ", ")) && tn_jv_repr(r, b, &d->v[i].key) && add(r, b, ": ") &&
         tn_jv_repr(r, b, &d->v[i].value);
  return ok && add(r, b, "}");
}

/* str() and repr() are the same but for texts and what is undefined. */
static bool write(tn_jrun *r, tn_jbuf *b, const tn_jv *v)
{
  char text[32];
  switch (v->kind) {
    case TN_J_NONE: return add(r, b, "None");
    case TN_J_BOOL: return add(r, b, v->b ? "True" : "False");
    case TN_J_INT: snprintf(text, sizeof text, "%lld", (long long)v->i); return add(r, b, text);
    case TN_J_FLOAT: return tn_jbuf_double(r, b, v->f);
    case TN_J_LIST:
    case TN_J_TUPLE: return repr_list(r, b, v);
    case TN_J_DICT: return repr_dict(r, b, v->dict);
    default: return tn_j_fail(r, TN_E_UNSUPPORTED, "a %s as text is not supported", tn_jv_type(v));
  }
}

bool tn_jv_repr(tn_jrun *r, tn_jbuf *b, const tn_jv *v)
{
  if (v->kind == TN_J_STR) return repr_str(r, b, v->s);
  if (v->kind == TN_J_UNDEF) return add(r, b, "Undefined");
  bool ok = tn_j_enter(r) && write(r, b, v);
  tn_j_leave(r);
  return ok;
}

bool tn_jv_write(tn_jrun *r, tn_jbuf *b, const tn_jv *v)
{
  if (v->kind == TN_J_STR) return tn_jbuf_add(r, b, v->s);
  if (v->kind == TN_J_UNDEF) return true;
  return tn_jv_repr(r, b, v);
}

bool tn_jv_text(tn_jrun *r, const tn_jv *v, tn_js *out)
{
  tn_jbuf b = {0};
  if (v->kind == TN_J_STR) {
    *out = v->s;
    return true;
  }
  if (!tn_jv_write(r, &b, v)) return false;
  *out = tn_jbuf_str(&b);
  return true;
}
