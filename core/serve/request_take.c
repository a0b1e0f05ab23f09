/* request_take: the fields of a request whose values are more than a number or a flag. See request.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "serve/request_int.h"

static bool take_text(const char **to, const char *name, const json_t *v, size_t most, tn_fault *f)
{
  if (!json_is_string(v)) return tn_fault_field(f, name, "%s: want a string, this is %s", name, tn_json_kind(v));
  size_t n = json_string_length(v);
  if (n > most) return tn_fault_field(f, name, "%s has %zu bytes, at most %zu", name, n, most);
  *to = json_string_value(v);
  return true;
}

bool tn_take_model(tn_gen *g, const char *name, const json_t *v, tn_fault *f)
{
  return take_text(&g->model, name, v, 1024, f);
}

bool tn_take_salt(tn_gen *g, const char *name, const json_t *v, tn_fault *f)
{
  return take_text(&g->salt, name, v, 1024, f);
}

/* A name for the operator's own books; nothing is done with it. */
bool tn_take_user(tn_gen *g, const char *name, const json_t *v, tn_fault *f)
{
  const char *user;
  (void)g;
  return take_text(&user, name, v, 1024, f);
}

static bool is_tokens(const json_t *v)
{
  size_t n = json_array_size(v), i = 0;
  while (i < n && json_is_integer(json_array_get(v, i))) i++;
  return n > 0 && i == n;
}

bool tn_take_prompt(tn_gen *g, const char *name, const json_t *v, tn_fault *f)
{
  g->prompt = v;
  if (json_is_string(v) || is_tokens(v)) return true;
  if (!json_is_array(v))
    return tn_fault_field(f, name, "%s: want a string, a list of token ids, or a list of those; this is %s", name,
                          tn_json_kind(v));
  size_t n = json_array_size(v);
  if (n == 0 || n > TN_GEN_MAX_CHOICES)
    return tn_fault_field(f, name, "%s has %zu entries: want 1 to %d", name, n, TN_GEN_MAX_CHOICES);
  for (size_t i = 0; i < n; i++) {
    const json_t *e = json_array_get(v, i);
    if (!json_is_string(e) && !is_tokens(e))
      return tn_fault_field(f, name, "%s[%zu]: want a string or a list of token ids, this is %s", name, i,
                            tn_json_kind(e));
  }
  return true;
}

/* Text parts of a message's content; anything else is no text model's. */
static bool check_content(const json_t *c, size_t at, tn_fault *f)
{
  size_t i;
  const json_t *part;
  if (!c || json_is_string(c) || json_is_null(c)) return true;
  if (!json_is_array(c))
    return tn_fault_field(f, "messages", "messages[%zu].content: want a string or a list of parts, this is %s", at,
                          tn_json_kind(c));
  json_array_foreach(c, i, part)
  {
    const char *type = json_string_value(json_object_get(part, "type"));
    if (!type || strcmp(type, "text") != 0)
      return tn_fault_field(f, "messages", "messages[%zu].content[%zu]: only parts of type text are supported, not %s",
                            at, i, type ? type : "one without a type");
    if (!json_is_string(json_object_get(part, "text")))
      return tn_fault_field(f, "messages", "messages[%zu].content[%zu].text: want a string", at, i);
  }
  return true;
}

bool tn_take_messages(tn_gen *g, const char *name, const json_t *v, tn_fault *f)
{
  size_t i;
  const json_t *m;
  if (!json_is_array(v) || json_array_size(v) == 0)
    return tn_fault_field(f, name, "%s: want a list of at least one message", name);
  json_array_foreach(v, i, m)
  {
    if (!json_is_object(m)) return tn_fault_field(f, name, "%s[%zu]: want an object", name, i);
    if (!json_is_string(json_object_get(m, "role")))
      return tn_fault_field(f, name, "%s[%zu].role: want a string", name, i);
    if (json_object_get(m, "tool_calls") || json_object_get(m, "function_call"))
      return tn_fault_field(f, "tool_calls", "%s[%zu].tool_calls: calls of tools are not supported", name, i);
    if (!check_content(json_object_get(m, "content"), i, f)) return false;
  }
  g->messages = v;
  return true;
}

bool tn_take_template_args(tn_gen *g, const char *name, const json_t *v, tn_fault *f)
{
  if (!json_is_object(v)) return tn_fault_field(f, name, "%s: want an object, this is %s", name, tn_json_kind(v));
  g->template_args = v;
  return true;
}

bool tn_take_options(tn_gen *g, const char *name, const json_t *v, tn_fault *f)
{
  const char *key;
  const json_t *x;
  if (!json_is_object(v)) return tn_fault_field(f, name, "%s: want an object, this is %s", name, tn_json_kind(v));
  json_object_foreach((json_t *)(uintptr_t)v, key, x)
  {
    if (json_is_object(x) || json_is_array(x) || json_is_null(x))
      return tn_fault_field(f, name, "%s.%s: want a string, a number, true or false", name, key);
  }
  g->options = v;
  return true;
}

static bool add_stop(tn_gen *g, const char *name, const json_t *v, tn_fault *f)
{
  const char *text = "";
  if (!take_text(&text, name, v, TN_MAX_STOP_BYTES, f)) return false;
  if (!*text) return tn_fault_field(f, name, "%s: a stop string cannot be empty", name);
  if (g->n_stop == TN_MAX_STOPS) return tn_fault_field(f, name, "%s: at most %u stop strings", name, TN_MAX_STOPS);
  g->stop[g->n_stop++] = (tn_str){text, json_string_length(v)};
  return true;
}

bool tn_take_stop(tn_gen *g, const char *name, const json_t *v, tn_fault *f)
{
  size_t i;
  const json_t *e;
  if (json_is_string(v)) return add_stop(g, name, v, f);
  if (!json_is_array(v))
    return tn_fault_field(f, name, "%s: want a string or a list of strings, this is %s", name, tn_json_kind(v));
  json_array_foreach(v, i, e)
  {
    if (!add_stop(g, name, e, f)) return false;
  }
  return true;
}

bool tn_take_stop_ids(tn_gen *g, const char *name, const json_t *v, tn_fault *f)
{
  size_t n = json_array_size(v);
  if (!json_is_array(v) || (n > 0 && !is_tokens(v)))
    return tn_fault_field(f, name, "%s: want a list of token ids", name);
  if (n > TN_GEN_MAX_STOP_IDS)
    return tn_fault_field(f, name, "%s has %zu entries, at most %d", name, n, TN_GEN_MAX_STOP_IDS);
  g->stop_ids = tn_zalloc(n, sizeof *g->stop_ids);
  if (!g->stop_ids) return tn_fault_status(f, 503, "no memory for the request");
  for (size_t i = 0; i < n; i++) {
    json_int_t id = json_integer_value(json_array_get(v, i));
    if (id < 0 || id > INT32_MAX) return tn_fault_field(f, name, "%s: %lld is no token id", name, (long long)id);
    g->stop_ids[g->n_stop_ids++] = (int32_t)id;
  }
  return true;
}

static bool add_bias(tn_gen *g, int32_t *ids, float *bias, const char *key, const json_t *v, tn_fault *f)
{
  char *end;
  long long id = strtoll(key, &end, 10);
  double x = json_number_value(v);
  if (end == key || *end != '\0' || id < 0 || id > INT32_MAX)
    return tn_fault_field(f, "logit_bias", "logit_bias: '%s' is no token id", key);
  if (!json_is_number(v) || !(x >= -100 && x <= 100))
    return tn_fault_field(f, "logit_bias", "logit_bias of token %lld: want a number from -100 to 100", id);
  ids[g->sampling.n_bias] = (int32_t)id;
  bias[g->sampling.n_bias++] = x == -100 ? -INFINITY : (float)x; /* -100 bans, as OpenAI says */
  return true;
}

bool tn_take_bias(tn_gen *g, const char *name, const json_t *v, tn_fault *f)
{
  if (!json_is_object(v))
    return tn_fault_field(f, name, "%s: want an object of token ids and numbers, this is %s", name, tn_json_kind(v));
  size_t n = json_object_size(v);
  if (n > TN_GEN_MAX_BIAS) return tn_fault_field(f, name, "%s has %zu entries, at most %d", name, n, TN_GEN_MAX_BIAS);
  int32_t *ids = tn_zalloc(n, sizeof *ids);
  float *bias = tn_zalloc(n, sizeof *bias);
  g->sampling.bias_token = ids;
  g->sampling.bias = bias;
  if (!ids || !bias) return tn_fault_status(f, 503, "no memory for the request");
  const char *key;
  const json_t *x;
  json_object_foreach((json_t *)(uintptr_t)v, key, x)
  {
    if (!add_bias(g, ids, bias, key, x, f)) return false;
  }
  return true;
}

bool tn_take_stream_options(tn_gen *g, const char *name, const json_t *v, tn_fault *f)
{
  const char *key;
  const json_t *x;
  if (!json_is_object(v)) return tn_fault_field(f, name, "%s: want an object, this is %s", name, tn_json_kind(v));
  json_object_foreach((json_t *)(uintptr_t)v, key, x)
  {
    if (strcmp(key, "include_usage") != 0) return tn_fault_field(f, name, "%s.%s is not supported", name, key);
    if (!json_is_boolean(x)) return tn_fault_field(f, name, "%s.include_usage: want true or false", name);
    g->usage = json_is_true(x);
  }
  return true;
}

bool tn_take_format(tn_gen *g, const char *name, const json_t *v, tn_fault *f)
{
  (void)g;
  const char *type = json_string_value(json_object_get(v, "type"));
  if (type && strcmp(type, "text") == 0 && json_object_size(v) == 1) return true;
  return tn_fault_field(f, name, "%s: only {\"type\": \"text\"} is supported", name);
}

/* A flag in chat, a number of alternatives in completions. */
bool tn_take_logprobs(tn_gen *g, const char *name, const json_t *v, tn_fault *f)
{
  if (g->api == TN_API_CHAT) {
    if (!json_is_boolean(v))
      return tn_fault_field(f, name, "%s: want true or false, this is %s", name, tn_json_kind(v));
    g->logprobs = json_is_true(v);
    return true;
  }
  json_int_t n = json_integer_value(v);
  if (!json_is_integer(v) || n < 0 || n > TN_GEN_MAX_TOP)
    return tn_fault_field(f, name, "%s: want a whole number from 0 to %d", name, TN_GEN_MAX_TOP);
  g->logprobs = true;
  g->top = (uint32_t)n;
  return true;
}

bool tn_take_encoding(tn_gen *g, const char *name, const json_t *v, tn_fault *f)
{
  const char *word = json_string_value(v);
  if (word && strcmp(word, "base64") == 0) g->base64 = true;
  if (g->base64 || (word && strcmp(word, "float") == 0)) return true;
  return tn_fault_field(f, name, "%s: want float or base64", name);
}
