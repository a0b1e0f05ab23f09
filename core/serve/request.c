/* request: the table of fields and the walk over a body. See request.h. */
#include "serve/request.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "serve/request_int.h"

enum { BOTH = TN_API_COMPLETION | TN_API_CHAT, ALL = BOTH | TN_API_EMBEDDING };

typedef enum kind { FLAG, FLAG_OFF, WHOLE, WHOLE32, REAL, TAKE, ONLY_FALSE } kind;

typedef struct field {
  const char *name;
  uint32_t apis;
  kind kind;
  size_t at; /* of the member */
  double min, max;
  tn_take_fn take;
} field;

#define AT(m) offsetof(tn_gen, m)

static const field fields[] = {
    {"model", ALL, TAKE, 0, 0, 0, tn_take_model},
    {"prompt", TN_API_COMPLETION, TAKE, 0, 0, 0, tn_take_prompt},
    {"input", TN_API_EMBEDDING, TAKE, 0, 0, 0, tn_take_prompt},
    {"encoding_format", TN_API_EMBEDDING, TAKE, 0, 0, 0, tn_take_encoding},
    {"messages", TN_API_CHAT, TAKE, 0, 0, 0, tn_take_messages},
    {"chat_template_kwargs", TN_API_CHAT, TAKE, 0, 0, 0, tn_take_template_args},
    {"max_tokens", BOTH, WHOLE, AT(max_new), -1, 1 << 30, NULL},
    {"max_completion_tokens", TN_API_CHAT, WHOLE, AT(max_new), -1, 1 << 30, NULL},
    {"n_predict", TN_API_COMPLETION, WHOLE, AT(max_new), -1, 1 << 30, NULL},
    {"temperature", BOTH, REAL, AT(sampling.temperature), 0, 100, NULL},
    {"top_p", BOTH, REAL, AT(sampling.top_p), 0, 1, NULL},
    {"top_k", BOTH, WHOLE32, AT(sampling.top_k), -1, 1 << 30, NULL},
    {"min_p", BOTH, REAL, AT(sampling.min_p), 0, 1, NULL},
    {"repetition_penalty", BOTH, REAL, AT(sampling.repetition), 0, 100, NULL},
    {"repeat_penalty", BOTH, REAL, AT(sampling.repetition), 0, 100, NULL},
    {"repeat_last_n", BOTH, WHOLE32, AT(sampling.penalty_last), -1, 1 << 30, NULL},
    {"presence_penalty", BOTH, REAL, AT(sampling.presence), -2, 2, NULL},
    {"frequency_penalty", BOTH, REAL, AT(sampling.frequency), -2, 2, NULL},
    {"logit_bias", BOTH, TAKE, 0, 0, 0, tn_take_bias},
    {"n", BOTH, WHOLE32, AT(n), 1, TN_GEN_MAX_CHOICES, NULL},
    {"best_of", TN_API_COMPLETION, WHOLE32, AT(best_of), 1, TN_GEN_MAX_CHOICES, NULL},
    {"seed", BOTH, WHOLE, AT(seed), 0, 9e18, NULL},
    {"stop", BOTH, TAKE, 0, 0, 0, tn_take_stop},
    {"stop_token_ids", BOTH, TAKE, 0, 0, 0, tn_take_stop_ids},
    {"include_stop_str_in_output", BOTH, FLAG, AT(include_stop), 0, 0, NULL},
    {"skip_special_tokens", BOTH, FLAG_OFF, AT(show_special), 0, 0, NULL},
    {"add_special_tokens", TN_API_COMPLETION, FLAG_OFF, AT(keep_special), 0, 0, NULL},
    {"add_generation_prompt", TN_API_CHAT, FLAG_OFF, AT(no_generation_prompt), 0, 0, NULL},
    {"ignore_eos", BOTH, FLAG, AT(ignore_eos), 0, 0, NULL},
    {"stream", BOTH, FLAG, AT(stream), 0, 0, NULL},
    {"stream_options", BOTH, TAKE, 0, 0, 0, tn_take_stream_options},
    {"logprobs", BOTH, TAKE, 0, 0, 0, tn_take_logprobs},
    {"top_logprobs", TN_API_CHAT, WHOLE32, AT(top), 0, TN_GEN_MAX_TOP, NULL},
    {"prompt_logprobs", BOTH, WHOLE32, AT(prompt_top), 0, TN_GEN_MAX_TOP, NULL},
    {"echo", TN_API_COMPLETION, FLAG, AT(echo), 0, 0, NULL},
    {"return_tokens", BOTH, FLAG, AT(return_tokens), 0, 0, NULL},
    {"priority", ALL, WHOLE32, AT(priority), -1000000, 1000000, NULL},
    {"cache_salt", ALL, TAKE, 0, 0, 0, tn_take_salt},
    {"cache_prompt", ALL, FLAG_OFF, AT(no_prompt_cache), 0, 0, NULL},
    {"id_slot", BOTH, WHOLE, AT(slot), -1, 1023, NULL},
    {"user", ALL, TAKE, 0, 0, 0, tn_take_user},
    {"response_format", BOTH, TAKE, 0, 0, 0, tn_take_format},
    {"store", TN_API_CHAT, ONLY_FALSE, 0, 0, 0, NULL},
    {"tenon", BOTH, TAKE, 0, 0, 0, tn_take_options},
};

const char *tn_json_kind(const json_t *v)
{
  switch (json_typeof(v)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "a list";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "a whole number";
    case JSON_REAL: return "a number";
    case JSON_NULL: return "null";
    default: return "true or false";
  }
}

static bool take_number(tn_gen *g, const field *d, const json_t *v, tn_fault *f)
{
  bool whole = d->kind != REAL;
  if (whole ? !json_is_integer(v) : !json_is_number(v))
    return tn_fault_field(f, d->name, "%s: want a %snumber, this is %s", d->name, whole ? "whole " : "",
                          tn_json_kind(v));
  double x = json_number_value(v);
  if (!(x >= d->min && x <= d->max))
    return tn_fault_field(f, d->name, "%s = %.15g: want %.15g to %.15g", d->name, x, d->min, d->max);
  char *member = (char *)g + d->at;
  if (d->kind == REAL) memcpy(member, &x, sizeof x);
  int64_t i = json_is_integer(v) ? json_integer_value(v) : 0;
  int32_t half = (int32_t)i;
  if (d->kind == WHOLE) memcpy(member, &i, sizeof i);
  if (d->kind == WHOLE32) memcpy(member, &half, sizeof half);
  if (d->at == AT(max_new)) g->max_given = true;
  if (d->at == AT(seed)) g->seed_given = true;
  return true;
}

static bool take(tn_gen *g, const field *d, const json_t *v, tn_fault *f)
{
  if (d->kind == TAKE) return d->take(g, d->name, v, f);
  if (d->kind == WHOLE || d->kind == WHOLE32 || d->kind == REAL) return take_number(g, d, v, f);
  if (!json_is_boolean(v))
    return tn_fault_field(f, d->name, "%s: want true or false, this is %s", d->name, tn_json_kind(v));
  bool on = json_is_true(v);
  if (d->kind == ONLY_FALSE) return on ? tn_fault_field(f, d->name, "%s = true is not supported", d->name) : true;
  *(bool *)((char *)g + d->at) = d->kind == FLAG ? on : !on;
  return true;
}

static bool unknown(const char *name, tn_fault *f)
{
  const char *names[TN_ARRAY_LEN(fields)];
  for (size_t i = 0; i < TN_ARRAY_LEN(fields); i++) names[i] = fields[i].name;
  const char *near = tn_nearest(name, names, TN_ARRAY_LEN(names));
  if (near && strcmp(near, name) != 0)
    return tn_fault_field(f, name, "%s is not supported; did you mean %s?", name, near);
  return tn_fault_field(f, name, "%s is not supported here", name);
}

/* What fields say together. */
static bool check(tn_gen *g, tn_fault *f)
{
  if (g->api == TN_API_COMPLETION && !g->prompt) return tn_fault_field(f, "prompt", "prompt is missing");
  if (g->api == TN_API_EMBEDDING && !g->prompt) return tn_fault_field(f, "input", "input is missing");
  if (g->api == TN_API_CHAT && !g->messages) return tn_fault_field(f, "messages", "messages is missing");
  if (g->best_of != 0 && g->best_of != g->n)
    return tn_fault_field(f, "best_of", "best_of = %u is not supported other than as n, which is %u", g->best_of, g->n);
  if (g->api == TN_API_CHAT && g->top > 0 && !g->logprobs)
    return tn_fault_field(f, "top_logprobs", "top_logprobs = %u needs logprobs = true", g->top);
  if (g->usage && !g->stream) return tn_fault_field(f, "stream_options", "stream_options needs stream = true");
  if (g->stream && (g->echo || g->prompt_top >= 0))
    return tn_fault_field(f, g->echo ? "echo" : "prompt_logprobs", "%s is not supported with stream = true",
                          g->echo ? "echo" : "prompt_logprobs");
  if (!g->max_given) g->max_new = g->api == TN_API_CHAT ? -1 : g->api == TN_API_COMPLETION ? 16 : 0;
  if (g->sampling.top_k < 0) g->sampling.top_k = 0; /* -1 is another word for off */
  if (g->sampling.repetition == 0)
    return tn_fault_field(f, "repetition_penalty", "repetition_penalty = 0: must be over 0; 1 is off");
  if (g->sampling.min_p >= 1) return tn_fault_field(f, "min_p", "min_p = 1: must be under 1; 0 is off");
  return true;
}

json_t *tn_gen_object(const char *body, size_t n, tn_fault *f)
{
  json_error_t e;
  json_t *root = n ? json_loadb(body, n, JSON_REJECT_DUPLICATES, &e) : NULL;
  if (!root && n) tn_fault_field(f, NULL, "the body is no JSON: line %d, column %d: %s", e.line, e.column, e.text);
  if (!root && !n) tn_fault_field(f, NULL, "the body is empty: want a JSON object");
  if (root && !json_is_object(root)) {
    tn_fault_field(f, NULL, "the body is %s: want a JSON object", tn_json_kind(root));
    json_decref(root);
    return NULL;
  }
  return root;
}

bool tn_gen_parse(uint32_t api, const char *body, size_t n, tn_gen *out, tn_fault *f)
{
  *f = (tn_fault){0};
  *out = (tn_gen){.api = api, .sampling = tn_sampling_default(), .n = 1, .prompt_top = -1, .slot = -1};
  out->sampling.temperature = 1;
  out->sampling.penalty_last = -1;
  out->root = tn_gen_object(body, n, f);
  bool ok = out->root != NULL;
  const char *name;
  json_t *v;
  json_object_foreach(out->root, name, v)
  {
    size_t i = 0;
    while (i < TN_ARRAY_LEN(fields) && (strcmp(fields[i].name, name) != 0 || !(fields[i].apis & api))) i++;
    if (json_is_null(v) && i < TN_ARRAY_LEN(fields)) continue;
    ok = i < TN_ARRAY_LEN(fields) ? take(out, &fields[i], v, f) : unknown(name, f);
    if (!ok) break;
  }
  ok = ok && check(out, f);
  if (!ok) tn_gen_free(out);
  return ok;
}

void tn_gen_free(tn_gen *g)
{
  free((void *)(uintptr_t)g->sampling.bias_token);
  free((void *)(uintptr_t)g->sampling.bias);
  free(g->stop_ids);
  json_decref(g->root);
  *g = (tn_gen){0};
}
