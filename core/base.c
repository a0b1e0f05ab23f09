/* base: see base.h. */
#include "base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "utf8.h"

/* Makes s (NUL-terminated) valid UTF-8: bytes that are no character (of a file name, or cut by a precision) become a
 * question mark, the beginning of a character at the end goes. */
static void mend_utf8(char *s)
{
  size_t n = strlen(s), to = 0;
  for (size_t i = 0; i < n;) {
    int len = tn_utf8_decode(s + i, n - i, NULL);
    if (len > 0) {
      memmove(s + to, s + i, (size_t)len);
      to += (size_t)len;
      i += (size_t)len;
      continue;
    }
    if (len == TN_UTF8_INVALID) s[to++] = '?';
    i += tn_utf8_bad(s + i, n - i);
  }
  s[to] = '\0';
}

tn_err tn_err_init(void)
{
  tn_err e = {.struct_size = sizeof(tn_err), .code = TN_OK};
  return e;
}

tn_status tn_fail(tn_err *err, tn_status code, const char *fmt, ...)
{
  if (!err) return code;
  va_list ap;
  err->code = code;
  va_start(ap, fmt);
  int n = vsnprintf(err->msg, sizeof err->msg, fmt, ap);
  va_end(ap);
  if (n < 0) err->msg[0] = '\0';
  mend_utf8(err->msg);
  return code;
}

void tn_err_prefix(tn_err *err, const char *fmt, ...)
{
  if (!err) return;
  char head[sizeof err->msg], body[sizeof err->msg];
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(head, sizeof head, fmt, ap);
  va_end(ap);
  if (n < 0) return;
  memcpy(body, err->msg, sizeof body);
  tn_fail(err, err->code, "%s: %s", head, body);
}

const char *tn_status_name(tn_status code)
{
  switch (code) {
    case TN_OK: return "TN_OK";
    case TN_E_ARG: return "TN_E_ARG";
    case TN_E_NOMEM: return "TN_E_NOMEM";
    case TN_E_UNSUPPORTED: return "TN_E_UNSUPPORTED";
    case TN_E_STATE: return "TN_E_STATE";
    case TN_E_VERSION: return "TN_E_VERSION";
    case TN_E_IO: return "TN_E_IO";
    case TN_E_DEVICE: return "TN_E_DEVICE";
    case TN_E_FULL: return "TN_E_FULL";
    case TN_E_NEVER: return "TN_E_NEVER";
    default: return "TN_E_INTERNAL";
  }
}

bool tn_mul_size(size_t a, size_t b, size_t *out) { return !__builtin_mul_overflow(a, b, out); }

bool tn_add_size(size_t a, size_t b, size_t *out) { return !__builtin_add_overflow(a, b, out); }

void *tn_zalloc(size_t n, size_t size)
{
  size_t bytes;
  if (!tn_mul_size(n, size, &bytes)) return NULL;
  return calloc(1, bytes ? bytes : 1);
}

char *tn_strndup(const char *p, size_t n)
{
  char *s = malloc(n + 1);
  if (!s) return NULL;
  if (n) memcpy(s, p, n);
  s[n] = '\0';
  return s;
}

char *tn_strdup(const char *s) { return tn_strndup(s, strlen(s)); }

char *tn_asprintf(const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(NULL, 0, fmt, ap);
  va_end(ap);
  if (n < 0) return NULL;
  char *s = malloc((size_t)n + 1);
  if (!s) return NULL;
  va_start(ap, fmt);
  vsnprintf(s, (size_t)n + 1, fmt, ap);
  va_end(ap);
  return s;
}

/* Levenshtein distance of two short words; words over 63 characters count as far apart. */
static size_t distance(const char *a, const char *b)
{
  size_t na = strlen(a), nb = strlen(b), row[64];
  if (na > 63 || nb > 63) return SIZE_MAX;
  for (size_t j = 0; j <= nb; j++) row[j] = j;
  for (size_t i = 1; i <= na; i++) {
    size_t diag = row[0];
    row[0] = i;
    for (size_t j = 1; j <= nb; j++) {
      size_t best = diag + (a[i - 1] != b[j - 1]);
      diag = row[j];
      if (row[j] + 1 < best) best = row[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      row[j] = best;
    }
  }
  return row[nb];
}

const char *tn_nearest(const char *word, const char *const *candidates, size_t n)
{
  const char *best = NULL;
  size_t best_d = SIZE_MAX;
  for (size_t i = 0; i < n; i++) {
    size_t d = distance(word, candidates[i]), w = strlen(word), c = strlen(candidates[i]);
    if (d < best_d && d <= (w > c ? w : c) / 3 + 1) {
      best_d = d;
      best = candidates[i];
    }
  }
  return best;
}

uint64_t tn_now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
