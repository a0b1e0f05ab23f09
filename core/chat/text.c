/* text: runs of UTF-8 that know which of their bytes the conversation wrote. */
#include "chat/jinja.h"
#include "utf8.h"

/* ---------------------------------------------------------------- growing */

static bool grow(tn_jrun *r, tn_jbuf *b, size_t more, bool marked)
{
  size_t need;
  if (!tn_add_size(b->n, more, &need)) need = SIZE_MAX / 2;
  bool first = marked && !b->m;
  if (need > b->cap || !b->p) {
    size_t cap = need < 32 ? 64 : need + need / 2;
    char *p = tn_j_alloc(r, cap, 1);
    if (!p) return false;
    if (b->n) memcpy(p, b->p, b->n);
    b->p = p;
    b->cap = cap;
    first = first || b->m;
  }
  if (!first) return true;
  uint8_t *m = tn_j_alloc(r, b->cap, 1);
  if (!m) return false;
  if (b->m && b->n) memcpy(m, b->m, b->n);
  b->m = m;
  return true;
}

bool tn_jbuf_add(tn_jrun *r, tn_jbuf *b, tn_js s)
{
  if (!tn_j_tick(r, s.n / 64) || !grow(r, b, s.n, s.m != NULL)) return false;
  if (s.n) memcpy(b->p + b->n, s.p, s.n);
  if (s.m && s.n) memcpy(b->m + b->n, s.m, s.n);
  b->n += s.n;
  return true;
}

bool tn_jbuf_char(tn_jrun *r, tn_jbuf *b, char c, bool marked)
{
  uint8_t mark = marked;
  return tn_jbuf_add(r, b, (tn_js){&c, marked ? &mark : NULL, 1});
}

/* ---------------------------------------------------------------- looking */

int tn_js_cmp(tn_js a, tn_js b)
{
  size_t n = a.n < b.n ? a.n : b.n;
  int c = n ? memcmp(a.p, b.p, n) : 0; /* the order of UTF-8's bytes is that of code points */
  return c != 0 ? c : (a.n > b.n) - (a.n < b.n);
}

size_t tn_js_find(tn_js s, tn_js part, size_t from)
{
  if (from > s.n || part.n > s.n - from) return TN_JS_NONE;
  if (part.n == 0) return from;
  const char *at = memmem(s.p + from, s.n - from, part.p, part.n);
  return at ? (size_t)(at - s.p) : TN_JS_NONE;
}

size_t tn_js_rfind(tn_js s, tn_js part)
{
  if (part.n > s.n) return TN_JS_NONE;
  for (size_t i = s.n - part.n + 1; i-- > 0;) {
    if (part.n == 0 || memcmp(s.p + i, part.p, part.n) == 0) return i;
  }
  return TN_JS_NONE;
}

size_t tn_js_chars(tn_js s)
{
  size_t n = 0;
  for (size_t i = 0; i < s.n; i++) n += ((unsigned char)s.p[i] & 0xC0) != 0x80;
  return n;
}

size_t tn_js_offset(tn_js s, size_t chars)
{
  size_t i = 0;
  for (; i < s.n; i++) {
    if (((unsigned char)s.p[i] & 0xC0) == 0x80) continue;
    if (chars-- == 0) break;
  }
  return i;
}

/* What Python's str.isspace() takes for white space. */
static bool is_space(uint32_t c)
{
  return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

size_t tn_js_space_at(tn_js s, size_t i)
{
  uint32_t cp;
  if (i >= s.n) return 0;
  int n = tn_utf8_decode(s.p + i, s.n - i, &cp);
  return n > 0 && is_space(cp) ? (size_t)n : 0;
}

/* Bytes of the character at i when it is in the set. */
static size_t in_set(tn_js s, size_t i, const tn_js *set)
{
  if (!set) return tn_js_space_at(s, i);
  int n = tn_utf8_decode(s.p + i, s.n - i, NULL);
  if (n <= 0) return 0;
  return tn_js_find(*set, tn_js_cut(s, i, i + (size_t)n), 0) == TN_JS_NONE ? 0 : (size_t)n;
}

tn_js tn_js_strip(tn_js s, const tn_js *set, bool left, bool right)
{
  size_t from = 0, to = s.n;
  while (left && from < to) {
    size_t n = in_set(s, from, set);
    if (n == 0) break;
    from += n;
  }
  while (right && to > from) {
    size_t i = to - 1;
    while (i > from && ((unsigned char)s.p[i] & 0xC0) == 0x80) i--;
    if (in_set(tn_js_cut(s, 0, to), i, set) == 0) break;
    to = i;
  }
  return tn_js_cut(s, from, to);
}

bool tn_js_replace(tn_jrun *r, tn_js s, tn_js from, tn_js to, int64_t count, tn_js *out)
{
  tn_jbuf b = {0};
  size_t done = 0;
  while (count != 0 && from.n > 0) {
    size_t at = tn_js_find(s, from, done);
    if (at == TN_JS_NONE) break;
    if (!tn_jbuf_add(r, &b, tn_js_cut(s, done, at)) || !tn_jbuf_add(r, &b, to)) return false;
    done = at + from.n;
    if (count > 0) count--;
  }
  for (; from.n == 0 && count != 0; count -= count > 0) { /* nothing stands between any two characters */
    if (!tn_jbuf_add(r, &b, to)) return false;
    if (done == s.n) break;
    size_t next = done + tn_js_offset(tn_js_cut(s, done, s.n), 1);
    if (!tn_jbuf_add(r, &b, tn_js_cut(s, done, next))) return false;
    done = next;
  }
  if (!tn_jbuf_add(r, &b, tn_js_cut(s, done, s.n))) return false;
  *out = tn_jbuf_str(&b);
  return true;
}
