/* text: see text.h. */
#include "loader/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for n more bytes and the NUL. */
static bool reserve(tn_text *t, size_t n)
{
  size_t want;
  if (t->failed) return false;
  if (tn_add_size(t->n, n, &want) && tn_add_size(want, 1, &want)) {
    if (want <= t->cap) return true;
    size_t cap = want < 128 ? 128 : want <= SIZE_MAX / 2 ? want * 2 : want;
    char *p = realloc(t->p, cap);
    if (p) {
      t->p = p;
      t->cap = cap;
      return true;
    }
  }
  t->failed = true;
  return false;
}

void tn_text_add(tn_text *t, const char *s, size_t n)
{
  if (!reserve(t, n)) return;
  if (n) memcpy(t->p + t->n, s, n);
  t->n += n;
  t->p[t->n] = '\0';
}

void tn_text_addf(tn_text *t, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(NULL, 0, fmt, ap);
  va_end(ap);
  if (n < 0 || !reserve(t, (size_t)n)) return;
  va_start(ap, fmt);
  vsnprintf(t->p + t->n, (size_t)n + 1, fmt, ap);
  va_end(ap);
  t->n += (size_t)n;
}

const char *tn_text_str(const tn_text *t) { return t->p ? t->p : ""; }

void tn_text_clear(tn_text *t)
{
  t->n = 0;
  t->failed = false;
  if (t->p) t->p[0] = '\0';
}

void tn_text_release(tn_text *t)
{
  free(t->p);
  *t = (tn_text){0};
}
