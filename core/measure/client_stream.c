/* client_stream: see client_stream.h. */
#include "measure/client_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for `need` elements of `size` bytes in *p, twice as many where it grows. */
static bool grow(void **p, size_t *cap, size_t need, size_t size)
{
  if (need <= *cap) return true;
  size_t more = 2 * need + 64, bytes;
  void *at = tn_mul_size(more, size, &bytes) ? realloc(*p, bytes) : NULL;
  if (!at) return false;
  *p = at;
  *cap = more;
  return true;
}

const char *tn_stream_message(const json_t *j)
{
  const json_t *e = json_object_get(j, "error");
  const json_t *said = json_is_object(e) ? json_object_get(e, "message") : e;
  if (!json_is_string(said) && json_is_string(json_object_get(j, "object")) &&
      strcmp(json_string_value(json_object_get(j, "object")), "error") == 0)
    said = json_object_get(j, "message");
  if (!json_is_string(said)) said = json_object_get(j, "detail");
  if (json_is_string(said)) return json_string_value(said);
  return e && !json_is_null(e) ? "an error without a message" : NULL;
}

static bool add_text(tn_stream *s, const json_t *text)
{
  tn_client_answer *a = s->a;
  size_t n = json_string_length(text);
  if (!json_is_string(text) || n == 0) return true;
  void *p = a->text;
  bool ok = grow(&p, &s->cap_text, a->n_text + n + 1, 1);
  a->text = p;
  if (!ok) return false;
  memcpy(a->text + a->n_text, json_string_value(text), n);
  a->n_text += n;
  a->text[a->n_text] = '\0';
  return true;
}

static bool add_chunk(tn_stream *s, uint64_t now_ns)
{
  tn_client_answer *a = s->a;
  size_t cap = s->cap_chunks;
  void *p = a->chunk_ns;
  bool ok = grow(&p, &cap, (size_t)a->n_chunks + 1, sizeof *a->chunk_ns) && cap <= UINT32_MAX;
  a->chunk_ns = p;
  if (!ok) return false;
  s->cap_chunks = (uint32_t)cap;
  a->chunk_ns[a->n_chunks++] = now_ns;
  return true;
}

static bool filled(const json_t *text) { return json_string_length(text) > 0; }

/* One of choices[]: a completion's "text" or a chat's "delta". A token may have no text of its own (a part of a
 * character), so an empty piece counts too, but not where it only names the role or the end. */
static bool take_choice(tn_stream *s, const json_t *c, uint64_t now_ns)
{
  const json_t *delta = json_object_get(c, "delta"), *end = json_object_get(c, "finish_reason");
  const json_t *thought = json_object_get(delta, "reasoning_content");
  const json_t *text = delta ? json_object_get(delta, "content") : json_object_get(c, "text");
  bool piece = filled(text) || filled(thought);
  if (json_is_string(text) && !json_is_string(end) && !json_object_get(delta, "role")) piece = true;
  if (json_is_string(end)) snprintf(s->a->finish, sizeof s->a->finish, "%s", json_string_value(end));
  return add_text(s, thought) && add_text(s, text) && (!piece || add_chunk(s, now_ns));
}

static void take_usage(tn_client_answer *a, const json_t *u)
{
  const json_t *prompt = json_object_get(u, "prompt_tokens"), *made = json_object_get(u, "completion_tokens");
  const json_t *cached = json_object_get(json_object_get(u, "prompt_tokens_details"), "cached_tokens");
  if (json_is_integer(prompt)) a->n_prompt = json_integer_value(prompt);
  if (json_is_integer(made)) a->n_new = json_integer_value(made);
  if (json_is_integer(cached)) a->n_cached = json_integer_value(cached);
}

static tn_status take_event(tn_stream *s, const char *p, size_t n, uint64_t now_ns)
{
  json_error_t why;
  json_t *j = json_loadb(p, n, JSON_ALLOW_NUL, &why);
  if (!j) {
    return json_error_code(&why) == json_error_out_of_memory
               ? TN_E_NOMEM
               : tn_fail(&s->a->err, TN_E_IO, "event %llu of the stream is no JSON (%s): %.80s",
                         (unsigned long long)s->n_events, why.text, p);
  }
  const char *error = tn_stream_message(j);
  if (error && !s->a->err.msg[0]) tn_fail(&s->a->err, TN_E_IO, "%s", error);
  const json_t *choices = json_object_get(j, "choices"), *c;
  size_t i;
  bool ok = true;
  json_array_foreach(choices, i, c) ok = ok && take_choice(s, c, now_ns);
  take_usage(s->a, json_object_get(j, "usage"));
  json_decref(j);
  return ok ? TN_OK : TN_E_NOMEM;
}

/* One line, NUL-terminated at p[n]. */
static tn_status take_line(tn_stream *s, char *p, size_t n, uint64_t now_ns)
{
  if (n > 0 && p[n - 1] == '\r') p[--n] = '\0';
  if (n < 5 || memcmp(p, "data:", 5) != 0) return TN_OK;
  p += 5, n -= 5;
  if (n > 0 && *p == ' ') p++, n--;
  if (n == 0) return TN_OK;
  s->n_events++;
  if (n == 6 && memcmp(p, "[DONE]", 6) == 0) {
    s->done = true;
    return TN_OK;
  }
  return take_event(s, p, n, now_ns);
}

tn_status tn_stream_feed(tn_stream *s, const char *p, size_t n, uint64_t now_ns)
{
  for (const char *end = p + n; p < end;) {
    const char *nl = memchr(p, '\n', (size_t)(end - p));
    size_t part = nl ? (size_t)(nl - p) : (size_t)(end - p);
    if (part > TN_STREAM_MAX_LINE - s->n)
      return tn_fail(&s->a->err, TN_E_IO, "a line of the stream is longer than %zu bytes", TN_STREAM_MAX_LINE);
    void *line = s->line;
    bool ok = grow(&line, &s->cap, s->n + part + 1, 1);
    s->line = line;
    if (!ok) return TN_E_NOMEM;
    memcpy(s->line + s->n, p, part);
    s->n += part;
    s->line[s->n] = '\0';
    p += part;
    if (!nl) break;
    p++;
    tn_status st = take_line(s, s->line, s->n, now_ns);
    s->n = 0;
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

void tn_stream_release(tn_stream *s)
{
  free(s->line);
  s->line = NULL;
  s->n = s->cap = 0;
}
