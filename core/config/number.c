/* number: numbers in text, the same in every locale; see param.h. */
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/param.h"

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool tn_text_i64(const char *text, size_t n, int64_t *out)
{
  bool minus = n && text[0] == '-';
  size_t i = n && (text[0] == '-' || text[0] == '+');
  if (i == n) return false;
  int64_t x = 0;
  for (; i < n; i++) {
    if (!is_digit(text[i])) return false;
    int64_t digit = text[i] - '0';
    if (__builtin_mul_overflow(x, 10, &x) || __builtin_add_overflow(x, minus ? -digit : digit, &x)) return false;
  }
  *out = x;
  return true;
}

bool tn_text_bytes(const char *text, size_t n, int64_t *out)
{
  size_t i = 0;
  while (i < n && is_digit(text[i])) i++;
  int64_t x;
  if (!tn_text_i64(text, i, &x)) return false;
  while (i < n && text[i] == ' ') i++;
  static const char letters[] = "KMGT";
  if (i < n) {
    char c = text[i] >= 'a' && text[i] <= 'z' ? (char)(text[i] - 'a' + 'A') : text[i];
    const char *at = strchr(letters, c);
    if (at) {
      if (__builtin_mul_overflow(x, (int64_t)1 << (10 * (at - letters + 1)), &x)) return false;
      i++;
      if (i + 1 < n && text[i] == 'i') i++;
    }
  }
  if (i < n && text[i] == 'B') i++;
  if (i < n) return false;
  *out = x;
  return true;
}

bool tn_text_f64(const char *text, size_t n, double *out)
{
  char buf[64];
  if (n == 0 || n >= sizeof buf) return false;
  for (size_t i = 0; i < n; i++)
    if (!is_digit(text[i]) && (text[i] == '\0' || !strchr("+-.eE", text[i]))) return false;
  memcpy(buf, text, n);
  buf[n] = '\0';
  locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!c) return false;
  char *end;
  double x = strtod_l(buf, &end, c);
  freelocale(c);
  if (*end || end == buf || !isfinite(x)) return false;
  *out = x;
  return true;
}

void tn_f64_text(double x, char out[32])
{
  locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0), old = (locale_t)0;
  if (c) old = uselocale(c);
  bool whole = x == floor(x) && fabs(x) < 1e15; /* never as 1e+01 */
  if (whole) snprintf(out, 32, "%.0f", x);
  for (int digits = 1; digits <= 17 && !whole; digits++) {
    double back;
    snprintf(out, 32, "%.*g", digits, x);
    if (tn_text_f64(out, strlen(out), &back) && back == x) break;
  }
  if (!c) return;
  uselocale(old);
  freelocale(c);
}
