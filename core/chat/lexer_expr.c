/* lexer_expr: names, numbers, texts and operators inside a tag. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#include "chat/lexer.h"
#include "utf8.h"

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80; }

static char peek(const tn_jlex *x, size_t i) { return i < x->n ? x->s[i] : '\0'; }

/* Digits from i on, with single underscores between them. */
static size_t digits(const tn_jlex *x, size_t i, int base)
{
  while (isxdigit((unsigned char)peek(x, i)) && (base == 16 || (is_digit(peek(x, i)) && peek(x, i) < '0' + base))) {
    i++;
    if (peek(x, i) == '_' && is_digit(peek(x, i + 1))) i++;
  }
  return i;
}

enum { NUMBER_MAX = 64 };

/* Behind a float that begins with the digits up to i; i: it is none. */
static size_t fraction(const tn_jlex *x, size_t i)
{
  size_t end = i;
  if (peek(x, i) == '.' && is_digit(peek(x, i + 1))) end = digits(x, i + 1, 10);
  size_t e = end;
  if (peek(x, e) == 'e' || peek(x, e) == 'E') {
    e++;
    if (peek(x, e) == '+' || peek(x, e) == '-') e++;
    if (is_digit(peek(x, e))) end = digits(x, e, 10);
  }
  return end;
}

static bool number(tn_jlex *x)
{
  static const struct {
    const char *letters;
    int base;
  } bases[] = {{"xX", 16}, {"oO", 8}, {"bB", 2}};
  size_t from = x->at, i = digits(x, from, 10), end;
  int base = 10;
  for (size_t k = 0; k < TN_ARRAY_LEN(bases); k++) {
    if (x->s[from] != '0' || !peek(x, from + 1) || !strchr(bases[k].letters, peek(x, from + 1))) continue;
    base = bases[k].base;
    from += 2;
    i = digits(x, from, base);
  }
  end = base == 10 && peek(x, from - (from > 0)) != '.' ? fraction(x, i) : i;
  char text[NUMBER_MAX];
  size_t n = 0;
  for (size_t k = from; k < end; k++) {
    if (x->s[k] == '_') continue;
    if (n + 1 == NUMBER_MAX) return tn_jlex_fail(x, x->line, TN_E_ARG, "a number has over %d digits", NUMBER_MAX - 1);
    text[n++] = x->s[k];
  }
  text[n] = '\0';
  tn_jtok t = {.kind = end > i ? TN_JT_FLOAT : TN_JT_INT, .line = x->line};
  errno = 0;
  if (t.kind == TN_JT_FLOAT)
    t.f = strtod(text, NULL);
  else
    t.i = strtoll(text, NULL, base);
  if (n == 0 || (t.kind == TN_JT_INT && errno))
    return tn_jlex_fail(x, x->line, TN_E_ARG, "%s is no whole number of 64 bits", n ? text : "0x");
  x->at = end;
  return tn_jlex_push(x, t);
}

static int hex_digits(const tn_jlex *x, size_t i, int n, uint32_t *cp)
{
  *cp = 0;
  for (int k = 0; k < n; k++) {
    char c = peek(x, i + (size_t)k);
    if (!isxdigit((unsigned char)c)) return 0;
    *cp = *cp * 16 + (uint32_t)(is_digit(c) ? c - '0' : (c | 32) - 'a' + 10);
  }
  return n;
}

/* The escape whose backslash is at i - 1: the bytes it takes, its text at out, which grows. 0: a fault. */
static size_t escape(tn_jlex *x, size_t i, char *out, size_t *n)
{
  static const char letters[] = "ntrabfv\\'\"", values[] = "\n\t\r\a\b\f\v\\'\"";
  char c = peek(x, i);
  const char *plain = c ? strchr(letters, c) : NULL;
  uint32_t cp = 0;
  if (plain) {
    out[(*n)++] = values[plain - letters];
    return 1;
  }
  if (c == '\n') return 1; /* the line goes on */
  size_t took = 0;
  if (c >= '0' && c <= '7') {
    while (took < 3 && peek(x, i + took) >= '0' && peek(x, i + took) <= '7')
      cp = cp * 8 + (uint32_t)(peek(x, i + took++) - '0');
  } else if (c == 'x' || c == 'u' || c == 'U') {
    int want = c == 'x' ? 2 : c == 'u' ? 4 : 8;
    took = hex_digits(x, i + 1, want, &cp) ? (size_t)want + 1 : 0;
    if (took == 0 || cp > 0x10FFFF || (cp >= 0xD800 && cp < 0xE000)) {
      tn_jlex_fail(x, x->line, TN_E_ARG, "a text has the escape \\%c without %d digits of a character", c, want);
      return 0;
    }
  } else if (c == 'N') {
    tn_jlex_fail(x, x->line, TN_E_UNSUPPORTED, "the escape \\N{...} is not supported");
    return 0;
  } else { /* no escape: the backslash stays */
    out[(*n)++] = '\\';
    out[(*n)++] = c;
    return 1;
  }
  *n += tn_utf8_encode(cp, out + *n);
  return took;
}

static bool string(tn_jlex *x)
{
  uint32_t line = x->line;
  char quote = x->s[x->at];
  size_t from = x->at + 1, end = from, n = 0;
  while (end < x->n && x->s[end] != quote) end += x->s[end] == '\\' ? 2 : 1;
  if (end >= x->n) return tn_jlex_fail(x, line, TN_E_ARG, "a text is not closed by %c", quote);
  char *out = tn_arena_alloc(x->arena, 2 * (end - from) + 8); /* "\0" and other escapes may grow by a byte */
  if (!out) return tn_jlex_nomem(x);
  for (size_t i = from; i < end;) {
    x->line += x->s[i] == '\n';
    if (x->s[i] != '\\') {
      out[n++] = x->s[i++];
      continue;
    }
    size_t took = escape(x, i + 1, out, &n);
    if (took == 0) return false;
    x->line += x->s[i + 1] == '\n';
    i += 1 + took;
  }
  x->at = end + 1;
  return tn_jlex_push(x, (tn_jtok){.kind = TN_JT_STRING, .line = line, .text = {out, NULL, n}});
}

bool tn_jlex_expr(tn_jlex *x)
{
  static const char *const ops[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "*", "/", "%", "~", "(",
                                    ")",  "[",  "]",  "{",  "}",  "<",  ">", "=", ".", ":", "|", ",", ";"};
  char c = x->s[x->at];
  if (is_digit(c)) return number(x);
  if (c == '\'' || c == '"') return string(x);
  tn_jtok t = {.kind = TN_JT_NAME, .line = x->line, .text = {x->s + x->at, NULL, 0}};
  if (is_word(c)) {
    while (x->at < x->n && is_word(x->s[x->at])) x->at++, t.text.n++;
    return tn_jlex_push(x, t);
  }
  t.kind = TN_JT_OP;
  for (size_t i = 0; i < TN_ARRAY_LEN(ops); i++) {
    size_t n = strlen(ops[i]);
    if (x->n - x->at < n || memcmp(x->s + x->at, ops[i], n) != 0) continue;
    t.text.n = n;
    x->at += n;
    return tn_jlex_push(x, t);
  }
  return tn_jlex_fail(x, x->line, TN_E_ARG, "the character '%c' cannot stand here", c);
}
