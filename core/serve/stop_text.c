/* stop_text: see stop_text.h. */
#include "serve/stop_text.h"

#include <stdlib.h>
#include <string.h>

static bool reserve(tn_stop_text *t, size_t more)
{
  if (t->n + more <= t->cap) return true;
  size_t cap = 2 * (t->n + more) + 64;
  char *grown = realloc(t->text, cap);
  if (!grown) return false;
  t->text = grown;
  t->cap = cap;
  return true;
}

/* The first stop string that ends behind `old`, the earliest beginning; of two at one place the longer. */
static void find(tn_stop_text *t, size_t old)
{
  size_t best = t->n, best_len = 0;
  for (uint32_t i = 0; i < t->n_stops; i++) {
    const tn_str *s = &t->stops[i];
    size_t from = old >= s->n - 1 ? old - (s->n - 1) : 0;
    for (; from + s->n <= t->n && from <= best; from++) {
      if (memcmp(t->text + from, s->p, s->n) != 0) continue;
      if (from < best || s->n > best_len) best = from, best_len = s->n, t->which = s;
      break;
    }
  }
  if (best_len == 0) return;
  t->stopped = true;
  t->n = best + (t->include ? best_len : 0);
}

bool tn_stop_text_feed(tn_stop_text *t, const char *bytes, size_t n)
{
  if (t->stopped || n == 0) return true;
  if (!reserve(t, TN_UTF8_FEED_MAX(n))) return false;
  size_t old = t->n;
  t->n += tn_utf8_feed(&t->utf8, bytes, n, t->text + t->n);
  find(t, old);
  return true;
}

bool tn_stop_text_end(tn_stop_text *t, bool *found)
{
  *found = t->stopped;
  if (t->stopped) return true;
  if (!reserve(t, 4)) return false;
  size_t old = t->n;
  t->n += tn_utf8_flush(&t->utf8, t->text + t->n);
  find(t, old);
  *found = t->stopped;
  return true;
}

/* Longest end of the text that begins a stop string. */
static size_t held(const tn_stop_text *t)
{
  size_t most = 0;
  for (uint32_t i = 0; i < t->n_stops; i++) {
    const tn_str *s = &t->stops[i];
    size_t len = s->n - 1 < t->n ? s->n - 1 : t->n;
    while (len > most && memcmp(t->text + t->n - len, s->p, len) != 0) len--;
    if (len > most) most = len;
  }
  return most;
}

size_t tn_stop_text_safe(const tn_stop_text *t, bool last)
{
  if (last || t->stopped || t->n == 0) return t->n;
  size_t safe = t->n - held(t);
  return safe > t->sent ? safe : t->sent;
}

tn_str tn_stop_text_take(tn_stop_text *t, bool last)
{
  size_t safe = tn_stop_text_safe(t, last);
  tn_str s = {t->text ? t->text + t->sent : "", safe > t->sent ? safe - t->sent : 0};
  if (safe > t->sent) t->sent = safe;
  return s;
}

void tn_stop_text_free(tn_stop_text *t)
{
  free(t->text);
  t->text = NULL;
  t->n = t->cap = t->sent = 0;
}
