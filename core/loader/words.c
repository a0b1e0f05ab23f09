/* words: see words.h. */
#include "loader/words.h"

#include <stdint.h>
#include <string.h>

static bool lower(char c) { return c >= 'a' && c <= 'z'; }
static bool digit(char c) { return c >= '0' && c <= '9'; }
static bool upper(char c) { return c >= 'A' && c <= 'Z'; }

bool tn_is_name(const char *s)
{
  if (!lower(s[0])) return false;
  size_t n = 1;
  while (lower(s[n]) || digit(s[n]) || s[n] == '_')
    if (++n > TN_NAME_MAX) return false;
  return s[n] == '\0';
}

/* Words joined by dots at *s: letters, digits, _ and, where dash, -; the first begins with a letter, the others with a
 * letter or digit. Moves *s behind them. Returns the number of words, 0: malformed. */
static size_t dotted(const char **s, bool dash)
{
  const char *p = *s;
  for (size_t words = 1;; words++, p++) {
    if (!lower(*p) && (words == 1 || !digit(*p))) return 0;
    while (lower(*p) || digit(*p) || *p == '_' || (dash && *p == '-')) p++;
    if (*p == '.') continue;
    *s = p;
    return words;
  }
}

bool tn_is_id(const char *s)
{
  const char *p = s;
  return dotted(&p, true) >= 2 && *p == '\0' && p - s <= 63;
}

/* A number without leading zeros at *s into *out, at most 9 digits. */
static bool number(const char **s, uint32_t *out)
{
  const char *p = *s;
  uint32_t v = 0;
  while (digit(*p) && p - *s < 10) v = v * 10 + (uint32_t)(*p++ - '0');
  if (p == *s || p - *s > 9 || (**s == '0' && p - *s > 1)) return false;
  *s = p;
  *out = v;
  return true;
}

/* Parses up to three dotted numbers into v[3] and moves *s behind them. Returns how many, 0: malformed. */
static int numbers(const char **s, uint32_t v[3])
{
  int n = 0;
  v[0] = v[1] = v[2] = 0;
  for (;;) {
    if (!number(s, &v[n])) return 0;
    if (++n == 3 || **s != '.') return n;
    ++*s;
  }
}

/* Dotted non-empty words of [0-9A-Za-z-] behind a - or +. */
static bool suffix(const char **s)
{
  const char *p = *s;
  for (;;) {
    const char *word = p;
    while (lower(*p) || upper(*p) || digit(*p) || *p == '-') p++;
    if (p == word) return false;
    if (*p != '.') break;
    p++;
  }
  *s = p;
  return true;
}

bool tn_is_version(const char *s)
{
  uint32_t v[3];
  if (strnlen(s, 64) == 64 || numbers(&s, v) != 3) return false;
  if (*s == '-' && (s++, !suffix(&s))) return false;
  if (*s == '+' && (s++, !suffix(&s))) return false;
  return *s == '\0';
}

bool tn_is_token(const char *s)
{
  const char *p = s;
  uint32_t v;
  if (dotted(&p, false) == 0 || *p++ != '/' || !number(&p, &v)) return false;
  return v > 0 && *p == '\0' && p - s <= 63;
}

bool tn_is_min_version(const char *s)
{
  uint32_t v[3];
  return numbers(&s, v) > 0 && *s == '\0';
}

int tn_version_compare(const char *version, const char *min)
{
  uint32_t a[3], b[3];
  numbers(&version, a);
  numbers(&min, b);
  for (int i = 0; i < 3; i++)
    if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
  return *version == '-' ? -1 : 0;
}
