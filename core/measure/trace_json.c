/* trace_json: prompts as JSON lines. See trace.h. */
#include <jansson.h>

#include "measure/trace.h"

/* "prompt", or the first of "turns". */
static const json_t *prompt_of(const json_t *j)
{
  const json_t *p = json_object_get(j, "prompt");
  return p ? p : json_array_get(json_object_get(j, "turns"), 0);
}

tn_status tn_trace_json_row(tn_trace *t, const char *p, size_t n, const char *where, tn_err *err)
{
  json_error_t why;
  json_t *j = json_loadb(p, n, 0, &why);
  if (!j && json_error_code(&why) == json_error_out_of_memory)
    return tn_fail(err, TN_E_NOMEM, "%s: no memory for the line", where);
  if (!j) return tn_fail(err, TN_E_ARG, "%s: no JSON: %s", where, why.text);
  const json_t *text = prompt_of(j);
  tn_status st = TN_OK;
  if (json_string_length(text) == 0) {
    st = tn_fail(err, TN_E_ARG, "%s: want a text under \"prompt\", or a list of texts under \"turns\"", where);
  } else {
    tn_trace_request *r = tn_trace_add(t);
    if (r) r->text = tn_strndup(json_string_value(text), json_string_length(text));
    if (!r || !r->text) st = tn_fail(err, TN_E_NOMEM, "%s: no memory for the prompt", where);
  }
  json_decref(j);
  return st;
}
