/* client_body: what a request says, and what a refusal means. See client_int.h. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "measure/client_int.h"

static json_t *token_array(const int32_t *tokens, int64_t n)
{
  json_t *a = json_array();
  for (int64_t i = 0; a && i < n; i++) {
    if (json_array_append_new(a, json_integer(tokens[i])) == 0) continue;
    json_decref(a);
    a = NULL;
  }
  return a;
}

static tn_status check(const tn_client_request *q, tn_err *err)
{
  if (q->max_tokens < 1) return tn_fail(err, TN_E_ARG, "max_tokens = %lld: must be >= 1", (long long)q->max_tokens);
  if (!q->prompt && (!q->tokens || q->n_tokens < 1)) return tn_fail(err, TN_E_ARG, "a request without a prompt");
  if (!q->prompt && q->chat)
    return tn_fail(err, TN_E_ARG, "a prompt of token ids: a chat takes text, completions take tokens");
  if (q->more && !json_is_object(q->more)) return tn_fail(err, TN_E_ARG, "further fields that are no JSON object");
  return TN_OK;
}

static json_t *prompt_of(const tn_client_request *q)
{
  if (!q->prompt) return json_pack("{s:o}", "prompt", token_array(q->tokens, q->n_tokens));
  if (!q->chat) return json_pack("{s:s}", "prompt", q->prompt);
  return json_pack("{s:[{s:s, s:s}]}", "messages", "role", "user", "content", q->prompt);
}

char *tn_client_body(const tn_client_request *q, tn_err *err)
{
  if (check(q, err) != TN_OK) return NULL;
  json_t *text = q->prompt ? json_string(q->prompt) : NULL;
  if (q->prompt && !text) {
    tn_fail(err, TN_E_ARG, "a prompt that is not UTF-8, or no memory for it");
    return NULL;
  }
  json_decref(text);
  json_t *j = prompt_of(q);
  json_t *rest = json_pack("{s:I, s:f, s:b, s:{s:b}}", "max_tokens", (json_int_t)q->max_tokens, "temperature",
                           q->temperature, "stream", 1, "stream_options", "include_usage", 1);
  bool ok = j && rest && json_object_update(j, rest) == 0;
  if (ok && q->model) ok = json_object_set_new(j, "model", json_string(q->model)) == 0;
  if (ok && q->ignore_eos) ok = json_object_set_new(j, "ignore_eos", json_true()) == 0;
  if (ok && q->seed >= 0) ok = json_object_set_new(j, "seed", json_integer(q->seed)) == 0;
  if (ok && q->more) ok = json_object_update(j, (json_t *)(uintptr_t)q->more) == 0;
  char *body = ok ? json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
  json_decref(j);
  json_decref(rest);
  if (!body) tn_fail(err, TN_E_NOMEM, "no memory for a request, or a model name that is not UTF-8");
  return body;
}

char *tn_client_base(const char *url, tn_err *err)
{
  size_t n = strlen(url);
  bool known = strncasecmp(url, "http://", 7) == 0 || strncasecmp(url, "https://", 8) == 0;
  while (n > 0 && url[n - 1] == '/') n--;
  if (n > 3 && memcmp(url + n - 3, "/v1", 3) == 0) n -= 3;
  while (n > 0 && url[n - 1] == '/') n--;
  if (!known || n < 8) {
    tn_fail(err, TN_E_ARG, "'%s' is no URL of a server: want one such as http://127.0.0.1:8080", url);
    return NULL;
  }
  char *base = tn_strndup(url, n);
  if (!base) tn_fail(err, TN_E_NOMEM, "no memory for a URL");
  return base;
}

void tn_client_refusal(tn_err *err, const char *url, int status, const char *body, size_t n)
{
  json_error_t why;
  json_t *j = n ? json_loadb(body, n, 0, &why) : NULL;
  const char *said = tn_stream_message(j);
  if (said)
    tn_fail(err, TN_E_IO, "%s: HTTP %d: %s", url, status, said);
  else
    tn_fail(err, TN_E_IO, "%s: HTTP %d%s%.*s", url, status, n ? ": " : "", (int)(n < 120 ? n : 120), n ? body : "");
  json_decref(j);
}
