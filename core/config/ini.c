/* ini: feeds inih line by line; see ini.h. */
#include "config/ini.h"

#include <ini.h>
#include <stdio.h>
#include <string.h>

typedef struct parser {
  const char *name, *text;
  size_t n, at;      /* bytes of text, read so far */
  uint32_t line;     /* number of the line that inih has */
  bool more;         /* it goes on with the pending value */
  bool pending;      /* an entry is being collected */
  uint32_t key_line; /* of it */
  size_t value_n;
  tn_ini_fn fn;
  void *ctx;
  tn_err *err;
  tn_status st;
  char section[TN_INI_MAX_NAME + 1], key[TN_INI_MAX_NAME + 1];
  char value[TN_INI_MAX_VALUE + 1];
} parser;

/* Hands the collected entry on. */
static void flush(parser *p)
{
  if (!p->pending || p->st) return;
  p->pending = false;
  tn_ini_item item = {p->section, p->key, p->value, p->key_line};
  p->st = p->fn(p->ctx, &item, p->err);
}

static void fail_at(parser *p, tn_status st)
{
  p->st = st;
  tn_err_prefix(p->err, "%s:%u", p->name, p->line);
}

/* inih has split one line. */
static int on_entry(void *user, const char *section, const char *key, const char *value)
{
  parser *p = user;
  if (p->st) return 1;
  size_t n = strlen(value);
  if (!p->more) {
    flush(p);
    if (p->st) return 1;
    p->pending = true;
    p->key_line = p->line;
    p->value_n = 0;
    snprintf(p->section, sizeof p->section, "%s", section);
    snprintf(p->key, sizeof p->key, "%s", key);
  }
  bool space = p->value_n > 0;
  if (p->value_n + space + n > TN_INI_MAX_VALUE) {
    fail_at(p, tn_fail(p->err, TN_E_ARG, "the value of '%s' has over %d bytes", p->key, TN_INI_MAX_VALUE));
    return 1;
  }
  if (space) p->value[p->value_n++] = ' ';
  memcpy(p->value + p->value_n, value, n + 1);
  p->value_n += n;
  return 1;
}

/* The next line of the text, without its end; false at the end of the text. */
static bool next_line(parser *p, tn_str *out)
{
  if (p->at >= p->n) return false;
  const char *from = p->text + p->at, *end = memchr(from, '\n', p->n - p->at);
  size_t n = end ? (size_t)(end - from) : p->n - p->at;
  p->at += n + (end != NULL);
  p->line++;
  if (n && from[n - 1] == '\r') n--;
  *out = (tn_str){from, n};
  return true;
}

/* Gives inih its next line, in the one spelling that it cannot misread. */
static char *read_line(char *buf, int size, void *stream)
{
  parser *p = stream;
  tn_str raw;
  tn_ini_line line;
  do {
    if (p->st || !next_line(p, &raw)) return NULL;
    tn_status st = tn_ini_line_read(raw.p, raw.n, &line, p->err);
    if (!st && line.kind == TN_LINE_MORE && !p->pending)
      st =
          tn_fail(p->err, TN_E_ARG, "'%.*s' is neither 'key = value' nor a [section]", (int)line.value.n, line.value.p);
    if (st) {
      fail_at(p, st);
      return NULL;
    }
  } while (line.kind == TN_LINE_BLANK);
  p->more = line.kind == TN_LINE_MORE;
  if (line.kind == TN_LINE_SECTION) flush(p);
  int nn = (int)line.name.n, nv = (int)line.value.n, n = 0;
  if (line.kind == TN_LINE_SECTION) n = snprintf(buf, (size_t)size, "[%.*s]", nn, line.name.p);
  if (line.kind == TN_LINE_KEY) n = snprintf(buf, (size_t)size, "%.*s=%.*s", nn, line.name.p, nv, line.value.p);
  if (line.kind == TN_LINE_MORE) n = snprintf(buf, (size_t)size, " %.*s", nv, line.value.p);
  if (n >= size) {
    fail_at(p, tn_fail(p->err, TN_E_ARG, "the line has %d bytes, the INI library takes %d", n, size - 1));
    return NULL;
  }
  return buf;
}

tn_status tn_ini_parse(const char *name, const char *text, size_t n, tn_ini_fn fn, void *ctx, tn_err *err)
{
  parser p = {.name = name, .text = text, .n = n, .fn = fn, .ctx = ctx, .err = err, .st = TN_OK};
  if (n >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3)) p.at = 3;
  int rc = ini_parse_stream(read_line, &p, on_entry, &p);
  flush(&p);
  if (!p.st && rc != 0) fail_at(&p, tn_fail(err, TN_E_ARG, "the INI library refuses the file (code %d)", rc));
  return p.st;
}
