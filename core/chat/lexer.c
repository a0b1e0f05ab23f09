/* lexer: see lexer.h. Text and tags; what stands inside a tag is lexer_expr.c. */
#include <stdarg.h>
#include <stdio.h>

#include "chat/lexer.h"

bool tn_jlex_fail(tn_jlex *x, uint32_t line, tn_status code, const char *fmt, ...)
{
  char text[400];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  if (x->status == TN_OK) x->status = tn_fail(x->err, code, "chat template of %s, line %u: %s", x->name, line, text);
  return false;
}

bool tn_jlex_nomem(tn_jlex *x)
{
  if (x->status == TN_OK) x->status = tn_fail(x->err, TN_E_NOMEM, "no memory for the chat template of %s", x->name);
  return false;
}

bool tn_jlex_push(tn_jlex *x, tn_jtok t)
{
  if (x->n_tok == x->cap_tok) {
    size_t cap = x->cap_tok ? 2 * x->cap_tok : 256;
    tn_jtok *grown = tn_arena_alloc(x->arena, cap * sizeof *grown);
    if (!grown) return tn_jlex_nomem(x);
    if (x->n_tok) memcpy(grown, x->tok, x->n_tok * sizeof *grown);
    x->tok = grown;
    x->cap_tok = cap;
  }
  x->tok[x->n_tok++] = t;
  return true;
}

static bool push(tn_jlex *x, tn_jtok_kind kind, tn_js text)
{
  return tn_jlex_push(x, (tn_jtok){.kind = kind, .line = x->line, .text = text});
}

/* Moves to byte to and counts the lines on the way. */
static void go(tn_jlex *x, size_t to)
{
  for (; x->at < to; x->at++) x->line += x->s[x->at] == '\n';
}

static bool at(const tn_jlex *x, size_t i, const char *word)
{
  size_t n = strlen(word);
  return i <= x->n && x->n - i >= n && memcmp(x->s + i, word, n) == 0;
}

static size_t after_space(const tn_jlex *x, size_t i)
{
  tn_js s = {x->s, NULL, x->n};
  for (size_t k; (k = tn_js_space_at(s, i)) > 0;) i += k;
  return i;
}

void tn_jlex_skip_space(tn_jlex *x) { go(x, after_space(x, x->at)); }

/* The text before a tag: without its trailing white space where the tag's sign is -, without the blanks of the tag's own
 * line where the tag is no print and has no sign. */
static tn_js before_tag(const tn_jlex *x, size_t from, size_t to, char sign, bool print)
{
  tn_js s = {x->s + from, NULL, to - from};
  if (sign == '-') return tn_js_strip(s, NULL, false, true);
  if (sign == '+' || print) return s;
  size_t line = s.n;
  while (line > 0 && s.p[line - 1] != '\n') line--;
  if (line == 0 && !x->line_starts) return s;
  tn_js blank = tn_js_strip(tn_js_cut(s, line, s.n), NULL, true, false);
  return blank.n == 0 ? tn_js_cut(s, 0, line) : s;
}

/* The end of a tag at i, "}}", "%}" or "#}" with or without a sign: the byte behind it and behind the white space that
 * goes with it. 0: it is not there. */
static size_t end_of_tag(const tn_jlex *x, size_t i, const char *close)
{
  bool print = close[0] == '}';
  if (at(x, i, "-") && at(x, i + 1, close)) return after_space(x, i + 3);
  if (!print && at(x, i, "+") && at(x, i + 1, close)) return i + 3;
  if (!at(x, i, close)) return 0;
  return !print && at(x, i + 2, "\n") ? i + 3 : i + 2;
}

static void leave_tag(tn_jlex *x, size_t to)
{
  go(x, to);
  x->line_starts = to > 0 && x->s[to - 1] == '\n';
}

static bool comment(tn_jlex *x)
{
  uint32_t line = x->line;
  for (size_t i = x->at; i < x->n; i++) {
    size_t end = end_of_tag(x, i, "#}");
    if (end == 0) continue;
    leave_tag(x, end);
    return true;
  }
  return tn_jlex_fail(x, line, TN_E_ARG, "a comment is not closed");
}

static char sign_at(const tn_jlex *x, size_t i)
{
  return i < x->n && (x->s[i] == '-' || x->s[i] == '+') ? x->s[i] : '\0';
}

/* Behind "raw" or "endraw" of a tag whose inside begins at i; 0: it is another tag. */
static size_t raw_word(const tn_jlex *x, size_t i, const char *word)
{
  i = after_space(x, i);
  return at(x, i, word) ? after_space(x, i + strlen(word)) : 0;
}

/* Text up to {% endraw %}, taken as it is. */
static bool raw(tn_jlex *x)
{
  uint32_t line = x->line;
  for (size_t i = x->at; i < x->n; i++) {
    if (!at(x, i, "{%")) continue;
    char sign = sign_at(x, i + 2);
    size_t word = raw_word(x, i + 2 + (sign != 0), "endraw"), end = word ? end_of_tag(x, word, "%}") : 0;
    if (end == 0) continue;
    tn_js text = before_tag(x, x->at, i, sign, false);
    if (text.n > 0 && !push(x, TN_JT_DATA, text)) return false;
    leave_tag(x, end);
    return true;
  }
  return tn_jlex_fail(x, line, TN_E_ARG, "{%% raw %%} is not closed by {%% endraw %%}");
}

/* The tokens of a tag up to its end. Brackets hide the end: {{ {'a': {}} }}. */
static bool inside(tn_jlex *x, bool print)
{
  uint32_t line = x->line;
  size_t open = 0;
  const char *close = print ? "}}" : "%}";
  if (!push(x, print ? TN_JT_PRINT_BEGIN : TN_JT_BLOCK_BEGIN, (tn_js){0})) return false;
  for (;;) {
    tn_jlex_skip_space(x);
    size_t end = open == 0 ? end_of_tag(x, x->at, close) : 0;
    if (end > 0) {
      if (!push(x, print ? TN_JT_PRINT_END : TN_JT_BLOCK_END, (tn_js){0})) return false;
      leave_tag(x, end);
      return true;
    }
    if (x->at >= x->n) return tn_jlex_fail(x, line, TN_E_ARG, "a tag is not closed by %s", close);
    if (!tn_jlex_expr(x)) return false;
    const tn_jtok *t = &x->tok[x->n_tok - 1];
    if (t->kind != TN_JT_OP || t->text.n != 1) continue;
    if (strchr("([{", t->text.p[0])) open++;
    if (strchr(")]}", t->text.p[0])) {
      if (open == 0) return tn_jlex_fail(x, t->line, TN_E_ARG, "'%c' closes nothing", t->text.p[0]);
      open--;
    }
  }
}

/* The text up to the next tag, and that tag. */
static bool piece(tn_jlex *x)
{
  size_t from = x->at, i = from;
  while (i < x->n && !(at(x, i, "{{") || at(x, i, "{%") || at(x, i, "{#"))) i++;
  if (i == x->n) {
    tn_jtok t = {.kind = TN_JT_DATA, .line = x->line, .text = {x->s + from, NULL, i - from}};
    go(x, i);
    return tn_jlex_push(x, t);
  }
  char what = x->s[i + 1], sign = sign_at(x, i + 2);
  tn_js text = before_tag(x, from, i, sign, what == '{');
  if (text.n > 0 && !push(x, TN_JT_DATA, text)) return false;
  go(x, i + 2 + (sign != 0));
  x->line_starts = false;
  if (what == '#') return comment(x);
  if (what == '%') {
    size_t word = raw_word(x, x->at, "raw");
    if (word && (at(x, word, "%}") || at(x, word, "-%}"))) {
      go(x, at(x, word, "-") ? after_space(x, word + 3) : word + 2);
      return raw(x);
    }
  }
  return inside(x, what == '{');
}

/* \r\n and \r become \n, and one newline at the very end goes. */
static bool newlines(tn_jlex *x, const char *source, size_t n)
{
  char *s = tn_arena_alloc(x->arena, n + 1);
  if (!s) return tn_jlex_nomem(x);
  for (size_t i = 0; i < n; i++) {
    if (source[i] == '\r' && i + 1 < n && source[i + 1] == '\n') continue;
    s[x->n++] = source[i] == '\r' ? '\n' : source[i];
  }
  if (x->n > 0 && s[x->n - 1] == '\n') x->n--;
  x->s = s;
  return true;
}

bool tn_jlex_all(tn_jlex *x, const char *source, size_t n)
{
  x->line = 1;
  x->line_starts = true;
  if (!newlines(x, source, n)) return false;
  while (x->at < x->n) {
    if (!piece(x)) return false;
  }
  return push(x, TN_JT_END, (tn_js){0});
}
