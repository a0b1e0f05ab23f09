/* gguf_cursor: bounds-checked reading of a GGUF header, and the shape of its error messages. */
#include "gguf_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN_PATH = 160, SHOWN_NAME = 64 };

tn_status tn_gguf_fail(const tn_gguf_part *p, tn_err *err, tn_status code, const char *fmt, ...)
{
  if (!err) return code;
  char text[sizeof err->msg];
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  if (n < 0) text[0] = '\0';
  size_t len = strlen(p->name);
  bool cut = len > SHOWN_PATH;
  return tn_fail(err, code, "%s%s: %s", cut ? "..." : "", cut ? p->name + len - SHOWN_PATH : p->name, text);
}

const char *tn_gguf_show(tn_str s, char buf[72])
{
  size_t n = s.n < SHOWN_NAME ? s.n : SHOWN_NAME;
  for (size_t i = 0; i < n; i++) buf[i] = s.p[i] >= ' ' && s.p[i] <= '~' ? s.p[i] : '?';
  memcpy(buf + n, s.n > n ? "..." : "", s.n > n ? 4 : 1);
  return buf;
}

tn_status tn_gguf_take(tn_gguf_cursor *c, uint64_t n, const char *what, const uint8_t **p)
{
  size_t left = c->part->size - c->pos;
  if (n > left) {
    return tn_gguf_fail(c->part, c->err, TN_E_IO,
                        "the file ends inside %s: %llu bytes are needed at byte %zu, the file has %zu bytes", what,
                        (unsigned long long)n, c->pos, c->part->size);
  }
  *p = c->part->base + c->pos;
  c->pos += (size_t)n;
  return TN_OK;
}

tn_status tn_gguf_take_u32(tn_gguf_cursor *c, const char *what, uint32_t *out)
{
  const uint8_t *p = NULL;
  tn_status st = tn_gguf_take(c, sizeof *out, what, &p);
  if (st == TN_OK) memcpy(out, p, sizeof *out);
  return st;
}

tn_status tn_gguf_take_u64(tn_gguf_cursor *c, const char *what, uint64_t *out)
{
  const uint8_t *p = NULL;
  tn_status st = tn_gguf_take(c, sizeof *out, what, &p);
  if (st == TN_OK) memcpy(out, p, sizeof *out);
  return st;
}

tn_status tn_gguf_take_str(tn_gguf_cursor *c, const char *what, tn_str *out)
{
  uint64_t n;
  const uint8_t *p = NULL;
  tn_status st = tn_gguf_take_u64(c, what, &n);
  if (st == TN_OK) st = tn_gguf_take(c, n, what, &p);
  if (st == TN_OK) *out = (tn_str){(const char *)p, (size_t)n};
  return st;
}
