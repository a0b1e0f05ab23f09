/* ini_line: what one line of an INI file is; see ini.h. */
#include <string.h>

#include "config/ini.h"
#include "utf8.h"

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

static bool is_name(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("_.@-", c));
}

static tn_str trim(tn_str s)
{
  while (s.n && is_blank(s.p[0])) s.p++, s.n--;
  while (s.n && is_blank(s.p[s.n - 1])) s.n--;
  return s;
}

/* The line up to its comment. */
static tn_str without_comment(tn_str s)
{
  for (size_t i = 0; i < s.n; i++)
    if (s.p[i] == ';' && i > 0 && is_blank(s.p[i - 1])) return (tn_str){s.p, i};
  return s;
}

static tn_status check_bytes(tn_str s, tn_err *err)
{
  for (size_t i = 0; i < s.n; i++) {
    unsigned char c = (unsigned char)s.p[i];
    if (c == 0) return tn_fail(err, TN_E_ARG, "NUL byte in column %zu: this is no text file", i + 1);
    if ((c < 0x20 && c != '\t') || c == 0x7F)
      return tn_fail(err, TN_E_ARG, "control character 0x%02x in column %zu", c, i + 1);
  }
  size_t good = tn_utf8_valid(s.p, s.n);
  if (good < s.n)
    return tn_fail(err, TN_E_ARG, "byte 0x%02x in column %zu is not UTF-8", (unsigned char)s.p[good], good + 1);
  return TN_OK;
}

/* what: "section" or "key". */
static tn_status check_name(const char *what, tn_str s, tn_err *err)
{
  int shown = (int)tn_utf8_valid(s.p, s.n < 60 ? s.n : 60);
  if (s.n == 0) return tn_fail(err, TN_E_ARG, "the %s has no name", what);
  if (s.n > TN_INI_MAX_NAME)
    return tn_fail(err, TN_E_ARG, "%s name '%.*s...' has %zu bytes, at most %d are allowed", what,
                   (int)tn_utf8_valid(s.p, 20), s.p, s.n, TN_INI_MAX_NAME);
  for (size_t i = 0; i < s.n; i++)
    if (!is_name(s.p[i]))
      return tn_fail(err, TN_E_ARG, "%s name '%.*s': only letters, digits, _ . @ - are allowed", what, shown, s.p);
  return TN_OK;
}

static tn_status read_section(tn_str s, tn_ini_line *out, tn_err *err)
{
  const char *end = memchr(s.p, ']', s.n);
  if (!end) return tn_fail(err, TN_E_ARG, "the section's closing ']' is missing");
  size_t used = (size_t)(end - s.p) + 1;
  if (used < s.n)
    return tn_fail(err, TN_E_ARG, "'%.*s' stands behind the section's ']'", (int)tn_utf8_valid(s.p + used, s.n - used),
                   s.p + used);
  out->kind = TN_LINE_SECTION;
  out->name = trim((tn_str){s.p + 1, used - 2});
  return check_name("section", out->name, err);
}

tn_status tn_ini_line_read(const char *line, size_t n, tn_ini_line *out, tn_err *err)
{
  *out = (tn_ini_line){.kind = TN_LINE_BLANK};
  tn_status st = check_bytes((tn_str){line, n}, err);
  if (st) return st;
  tn_str s = trim((tn_str){line, n});
  if (s.n == 0 || s.p[0] == ';' || s.p[0] == '#') return TN_OK;
  s = trim(without_comment(s));
  if (s.n > TN_INI_MAX_LINE)
    return tn_fail(err, TN_E_ARG,
                   "the line has %zu bytes, at most %d are allowed; a long value may go on in the next "
                   "lines, indented",
                   s.n, TN_INI_MAX_LINE);
  if (s.p[0] == '[') return read_section(s, out, err);
  const char *eq = memchr(s.p, '=', s.n);
  if (!eq && is_blank(line[0])) {
    out->kind = TN_LINE_MORE;
    out->value = s;
    return TN_OK;
  }
  if (!eq) return tn_fail(err, TN_E_ARG, "'%.*s' is neither 'key = value' nor a [section]", (int)s.n, s.p);
  size_t left = (size_t)(eq - s.p);
  out->kind = TN_LINE_KEY;
  out->name = trim((tn_str){s.p, left});
  out->value = trim((tn_str){eq + 1, s.n - left - 1});
  return check_name("key", out->name, err);
}
