/* ab_prompts: where an experiment's prompts come from. See ab_int.h. */
#include <stdlib.h>
#include <string.h>

#include "ab/prompts.h"
#include "cli/ab_int.h"

static tn_status add(tn_ab_exp *e, const char *text, size_t n, const char *from, tn_err *err)
{
  if (e->n_prompts == TN_AB_MAX_PROMPTS)
    return tn_fail(err, TN_E_ARG, "%s: more than %d prompts", from, TN_AB_MAX_PROMPTS);
  char *copy = tn_strndup(text, n);
  if (!copy) return tn_fail(err, TN_E_NOMEM, "no memory for a prompt");
  e->prompt[e->n_prompts++].text = copy;
  return TN_OK;
}

/* {"prompt": "..."}, or Spec-Bench's {"turns": ["...", ...]}, of which the first is taken. */
static tn_status add_json(tn_ab_exp *e, const char *line, size_t n, const char *from, int number, tn_err *err)
{
  json_error_t why;
  json_t *j = json_loadb(line, n, 0, &why);
  const json_t *p = j ? json_object_get(j, "prompt") : NULL, *turns = j ? json_object_get(j, "turns") : NULL;
  if (!p && turns) p = json_array_get(turns, 0);
  tn_status st = json_is_string(p)
                     ? add(e, json_string_value(p), json_string_length(p), from, err)
                     : tn_fail(err, TN_E_ARG, "%s:%d: want {\"prompt\": \"...\"} or {\"turns\": [\"...\"]}%s%s", from,
                               number, j ? "" : ": ", j ? "" : why.text);
  json_decref(j);
  return st;
}

/* One prompt a line, as JSON where the line begins with a brace. */
static tn_status add_file(tn_ab_exp *e, const char *path, tn_err *err)
{
  char *text;
  size_t n;
  int number = 0;
  tn_status st = tn_file_read(path, (size_t)1 << 28, &text, &n, err);
  if (st != TN_OK) return st;
  for (const char *p = text, *end = text + n; st == TN_OK && p < end;) {
    const char *nl = memchr(p, '\n', (size_t)(end - p));
    size_t len = nl ? (size_t)(nl - p) : (size_t)(end - p);
    number++;
    if (len > 0 && *p == '{')
      st = add_json(e, p, len, path, number, err);
    else if (len > 0)
      st = add(e, p, len, path, err);
    p += len + 1;
  }
  free(text);
  if (st == TN_OK && e->n_prompts == 0) st = tn_fail(err, TN_E_ARG, "%s holds no prompt", path);
  return st;
}

tn_status ab_prompts_read(const ab_args *a, tn_ab_exp *e, tn_err *err)
{
  tn_status st = a->prompts ? add_file(e, a->prompts, err) : TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < a->n_texts; i++) st = add(e, a->texts[i], strlen(a->texts[i]), "-p", err);
  if (e->n_prompts > 0) return st;
  for (uint32_t i = 0; st == TN_OK && tn_ab_prompt_at(i); i++)
    st = add(e, tn_ab_prompt_at(i), strlen(tn_ab_prompt_at(i)), "the command's own prompts", err);
  return st;
}
