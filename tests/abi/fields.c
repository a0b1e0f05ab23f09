/* fields: see fields.h. Understands what the header uses: typedef struct name { ... } name; with fields that are plain,
 * arrays, pointers, function pointers, several to a declaration, and one level of struct or union inside. */
#include "abi/fields.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The header's text without comments and preprocessor lines, every run of blanks one space. Free with free(). */
static char *read_text(const char *path)
{
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  char *text = calloc(1, 1 << 20), *raw = calloc(1, 1 << 20);
  size_t n = text && raw ? fread(raw, 1, (1 << 20) - 1, f) : 0, k = 0;
  fclose(f);
  for (size_t i = 0; i < n; i++) {
    if (raw[i] == '/' && raw[i + 1] == '*') {
      const char *end = strstr(raw + i + 2, "*/");
      i = end ? (size_t)(end - raw) + 1 : n;
    } else if (raw[i] == '#' && (i == 0 || raw[i - 1] == '\n')) {
      while (i < n && (raw[i] != '\n' || raw[i - 1] == '\\')) i++;
    } else if (!isspace((unsigned char)raw[i])) {
      text[k++] = raw[i];
    } else if (k && text[k - 1] != ' ') {
      text[k++] = ' ';
    }
  }
  free(raw);
  return text;
}

/* Where the bracket at p closes. */
static const char *closing(const char *p)
{
  int depth = 0;
  for (; *p; p++) {
    if (strchr("({[", *p)) depth++;
    if (strchr(")}]", *p) && --depth == 0) return p;
  }
  return p;
}

/* The name that a declarator declares: in "(*name)(...)" the word behind the star, else the last word before [ or the
 * end. */
static bool declared(const char *from, const char *to, char name[64])
{
  const char *star = memchr(from, '(', (size_t)(to - from));
  if (star) {
    for (from = star + 1; from < to && !isalpha((unsigned char)*from) && *from != '_'; from++) continue;
    for (star = from; star < to && (isalnum((unsigned char)*star) || *star == '_'); star++) continue;
    to = star;
  } else {
    const char *bracket = memchr(from, '[', (size_t)(to - from));
    if (bracket) to = bracket;
    while (to > from && to[-1] == ' ') to--;
    const char *p = to;
    while (p > from && (isalnum((unsigned char)p[-1]) || p[-1] == '_')) p--;
    from = p;
  }
  snprintf(name, 64, "%.*s", (int)(to - from), from);
  return to > from;
}

static void print_field(FILE *out, const char *type, const char *field)
{
  fprintf(out, "  printf(\"%s.%s %%zu %%zu\\n\", offsetof(%s, %s), sizeof(((%s *)0)->%s));\n", type, field, type, field,
          type, field);
}

/* One declaration [from, to), without its semicolon: its declarators, separated by commas outside brackets. */
static bool declaration(FILE *out, const char *type, const char *from, const char *to)
{
  for (const char *p = from, *start = from; p <= to; p++) {
    if (p < to && strchr("({[", *p)) p = closing(p);
    if (p < to && *p != ',') continue;
    char name[64];
    if (!declared(start, p, name)) return false;
    print_field(out, type, name);
    start = p + 1;
  }
  return true;
}

/* The fields between the braces of a struct. A struct or union inside counts as one field, its members by dots. */
static bool body(FILE *out, const char *type, const char *from, const char *to)
{
  for (const char *p = from; p < to; p++) {
    while (p < to && *p == ' ') p++;
    const char *end = p;
    while (end < to && *end != ';') {
      if (strchr("({[", *end)) end = closing(end);
      end++;
    }
    const char *brace = memchr(p, '{', (size_t)(end - p));
    if (p < end && !declaration(out, type, brace && brace < end ? closing(brace) + 1 : p, end)) return false;
    p = end;
  }
  return true;
}

int abi_fields(const char *header, FILE *out, char why[256])
{
  static const char head[] = "typedef struct ";
  char *text = read_text(header);
  int n = 0;
  snprintf(why, 256, "%s cannot be read", header);
  for (const char *p = text; p && (p = strstr(p, head)) != NULL;) {
    p += sizeof head - 1;
    char type[64];
    size_t len = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    snprintf(type, sizeof type, "%.*s", (int)len, p);
    p += len + (p[len] == ' ');
    if (*p != '{') continue; /* an opaque type */
    fprintf(out, "  printf(\"%s %%zu %%zu\\n\", sizeof(%s), TN_ALIGNOF(%s));\n", type, type, type);
    if (!body(out, type, p + 1, closing(p))) {
      snprintf(why, 256, "a field of %s is not understood", type);
      n = -1;
      break;
    }
    n++;
  }
  free(text);
  return text ? n : -1;
}
