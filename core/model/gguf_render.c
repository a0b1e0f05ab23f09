/* gguf_render: metadata as text for people. */
#include "gguf_int.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN_ELEMENTS = 6, SHOWN_CHARS = 48 };

/* Text being written into a fixed buffer; what does not fit is cut. */
typedef struct sink {
  char *buf;
  size_t n, at; /* at < n */
} sink;

static void put(sink *s, const char *p, size_t n)
{
  size_t room = s->n - 1 - s->at;
  if (n > room) n = room;
  memcpy(s->buf + s->at, p, n);
  s->at += n;
  s->buf[s->at] = '\0';
}

static void put_text(sink *s, const char *text) { put(s, text, strlen(text)); }

/* A string on one line: control characters as \xNN, at most SHOWN_CHARS bytes and never half a UTF-8 character. */
static void put_string(sink *s, tn_str v)
{
  size_t n = v.n;
  if (n > SHOWN_CHARS) {
    n = SHOWN_CHARS;
    while (n > SHOWN_CHARS - 3 && ((unsigned char)v.p[n] & 0xC0u) == 0x80u) n--;
  }
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)v.p[i];
    char hex[5];
    snprintf(hex, sizeof hex, "\\x%02x", c);
    if (c < ' ' || c == 0x7F)
      put_text(s, hex);
    else
      put(s, &v.p[i], 1);
  }
  if (n < v.n) put_text(s, "...");
}

/* Element i of an array, or of a scalar seen as an array of one. */
static void put_element(sink *s, const tn_gguf_arr *a, uint64_t i)
{
  char num[32];
  uint64_t u;
  double d;
  bool b;
  tn_str str;
  if (tn_gguf_arr_str(a, i, &str)) {
    put_string(s, str);
    return;
  }
  if (tn_gguf_arr_bool(a, i, &b))
    snprintf(num, sizeof num, "%s", b ? "true" : "false");
  else if (tn_gguf_arr_u64(a, i, &u))
    snprintf(num, sizeof num, "%llu", (unsigned long long)u);
  else if (tn_gguf_arr_f64(a, i, &d))
    snprintf(num, sizeof num, "%.9g", d);
  else
    snprintf(num, sizeof num, "?");
  put_text(s, num);
}

void tn_gguf_kv_render(const tn_gguf *g, uint64_t i, char *buf, size_t n)
{
  sink s = {.buf = buf, .n = n};
  if (n == 0) return;
  buf[0] = '\0';
  if (i >= g->parts[0].n_kv) return;
  const tn_gguf_kv *kv = &g->parts[0].kv[i];
  if (kv->type == TN_GGUF_STR) {
    put_string(&s, kv->str);
  } else if (kv->type == TN_GGUF_ARR) {
    char head[32];
    snprintf(head, sizeof head, "[%llu] ", (unsigned long long)kv->arr.n);
    put_text(&s, head);
    for (uint64_t e = 0; e < kv->arr.n && e < SHOWN_ELEMENTS; e++) {
      if (e) put_text(&s, ", ");
      put_element(&s, &kv->arr, e);
    }
    if (kv->arr.n > SHOWN_ELEMENTS) put_text(&s, ", ...");
  } else {
    tn_gguf_arr one = {.type = kv->type, .n = 1, .data = kv->data};
    put_element(&s, &one, 0);
  }
}

uint64_t tn_gguf_n_kv(const tn_gguf *g) { return g->parts[0].n_kv; }

tn_str tn_gguf_kv_key(const tn_gguf *g, uint64_t i)
{
  return i < g->parts[0].n_kv ? g->parts[0].kv[i].key : (tn_str){"", 0};
}
