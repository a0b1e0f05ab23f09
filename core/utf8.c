/* utf8: see utf8.h. */
#include "utf8.h"

#include <string.h>

static const char replacement[3] = "\xEF\xBF\xBD";

/* Follow-up bytes that a lead byte asks for, and the range of the first of them; false for a byte that leads nothing. */
static bool lead(uint8_t b, size_t *more, uint8_t *lo, uint8_t *hi)
{
  *lo = 0x80;
  *hi = 0xBF;
  if (b >= 0xC2 && b <= 0xDF) {
    *more = 1;
  } else if (b >= 0xE0 && b <= 0xEF) {
    *more = 2;
    if (b == 0xE0) *lo = 0xA0;
    if (b == 0xED) *hi = 0x9F;
  } else if (b >= 0xF0 && b <= 0xF4) {
    *more = 3;
    if (b == 0xF0) *lo = 0x90;
    if (b == 0xF4) *hi = 0x8F;
  } else {
    return false;
  }
  return true;
}

int tn_utf8_decode(const char *p, size_t n, uint32_t *cp)
{
  const uint8_t *u = (const uint8_t *)p;
  if (u[0] < 0x80) {
    if (cp) *cp = u[0];
    return 1;
  }
  size_t more;
  uint8_t lo, hi;
  if (!lead(u[0], &more, &lo, &hi)) return TN_UTF8_INVALID;
  uint32_t c = u[0] & (0x3Fu >> more);
  for (size_t i = 1; i <= more; i++) {
    if (i == n) return TN_UTF8_CUT;
    if (u[i] < lo || u[i] > hi) return TN_UTF8_INVALID;
    c = (c << 6) | (u[i] & 0x3Fu);
    lo = 0x80;
    hi = 0xBF;
  }
  if (cp) *cp = c;
  return (int)more + 1;
}

size_t tn_utf8_encode(uint32_t cp, char out[4])
{
  if (cp < 0x80) {
    out[0] = (char)cp;
    return 1;
  }
  size_t n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
  for (size_t i = n - 1; i > 0; i--) {
    out[i] = (char)(0x80u | (cp & 0x3Fu));
    cp >>= 6;
  }
  out[0] = (char)((0xF00u >> n & 0xFFu) | cp);
  return n;
}

size_t tn_utf8_valid(const char *p, size_t n)
{
  size_t i = 0;
  while (i < n) {
    uint64_t eight;
    if (n - i >= sizeof eight) {
      memcpy(&eight, p + i, sizeof eight);
      if ((eight & 0x8080808080808080u) == 0) {
        i += sizeof eight;
        continue;
      }
    }
    int len = tn_utf8_decode(p + i, n - i, NULL);
    if (len <= 0) break;
    i += (size_t)len;
  }
  return i;
}

size_t tn_utf8_bad(const char *p, size_t n)
{
  const uint8_t *u = (const uint8_t *)p;
  size_t more, i = 1;
  uint8_t lo, hi;
  if (!lead(u[0], &more, &lo, &hi)) return 1;
  while (i <= more && i < n && u[i] >= lo && u[i] <= hi) {
    lo = 0x80;
    hi = 0xBF;
    i++;
  }
  return i;
}

size_t tn_utf8_feed(tn_utf8_stream *s, const char *in, size_t n, char *out)
{
  size_t o = 0;
  for (size_t i = 0; i < n; i++) {
    s->held[s->n++] = (uint8_t)in[i];
    int len = tn_utf8_decode((const char *)s->held, s->n, NULL);
    if (len == TN_UTF8_INVALID && s->n > 1) { /* what was held is lost, this byte may start anew */
      memcpy(out + o, replacement, sizeof replacement);
      o += sizeof replacement;
      s->held[0] = (uint8_t)in[i];
      s->n = 1;
      len = tn_utf8_decode((const char *)s->held, 1, NULL);
    }
    if (len == TN_UTF8_CUT) continue;
    const void *from = len > 0 ? (const void *)s->held : replacement;
    size_t bytes = len > 0 ? (size_t)len : sizeof replacement;
    memcpy(out + o, from, bytes);
    o += bytes;
    s->n = 0;
  }
  return o;
}

size_t tn_utf8_flush(tn_utf8_stream *s, char out[3])
{
  if (s->n == 0) return 0;
  memcpy(out, replacement, sizeof replacement);
  s->n = 0;
  return sizeof replacement;
}
