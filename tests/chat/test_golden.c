/* Templates against Jinja2: tests/data/chat/models.json and features.json, made by contrib/make-golden-templates. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "tests/chat/chat_rig.h"

static const char *member(const json_t *o, const char *key) { return json_string_value(json_object_get(o, key)); }

/* One case: the text of Jinja2, or an error where it has one. With words, the error has those of Jinja2. */
static void expect(const char *what, const char *source, size_t n, const tn_chat_input *in, const json_t *want)
{
  tn_chat_text got;
  tn_err err = tn_err_init();
  tn_status st = chat_render(source, n, in, &got, &err);
  const char *text = member(want, "text"), *error = member(want, "error");
  if (error) {
    cr_expect(st != TN_OK && err.msg[0] && got.p == NULL, "%s: gives %s, Jinja2 says: %s", what, got.p, error);
    cr_expect(st == TN_E_ARG || st == TN_E_UNSUPPORTED, "%s: %s", what, err.msg);
  } else {
    cr_expect(st == TN_OK, "%s: %s", what, err.msg);
    cr_expect(st != TN_OK || (got.n == strlen(text) && memcmp(got.p, text, got.n) == 0), "%s gives\n%s\nJinja2:\n%s",
              what, got.p, text);
  }
  tn_chat_text_clear(&got);
}

Test(chat_golden, models)
{
  json_t *golden = chat_golden("models.json"), *c;
  struct tm now = chat_now();
  size_t i, n_texts = 0;
  cr_assert(golden != NULL);
  json_array_foreach(json_object_get(golden, "cases"), i, c)
  {
    char name[128], what[256];
    size_t n;
    snprintf(name, sizeof name, "%s.jinja", member(c, "template"));
    snprintf(what, sizeof what, "%s, %s%s%s", name, member(c, "conversation"),
             json_is_true(json_object_get(c, "add_generation_prompt")) ? ", prompt" : "",
             json_is_true(json_object_get(c, "tools")) ? ", tools" : "");
    char *source = chat_source(name, &n);
    cr_assert(n > 0, "%s", name);
    tn_chat_input in = {.messages =
                            json_object_get(json_object_get(golden, "conversations"), member(c, "conversation")),
                        .tools = json_is_true(json_object_get(c, "tools")) ? json_object_get(golden, "tools") : NULL,
                        .bos = "<s>",
                        .eos = "</s>",
                        .now = &now,
                        .add_generation_prompt = json_is_true(json_object_get(c, "add_generation_prompt"))};
    expect(what, source, n, &in, c);
    n_texts += member(c, "text") != NULL;
    free(source);
  }
  cr_expect(n_texts > 250, "only %zu texts", n_texts);
  json_decref(golden);
}

Test(chat_golden, features)
{
  json_t *golden = chat_golden("features.json"), *c;
  struct tm now = chat_now();
  size_t i, n_texts = 0;
  cr_assert(golden != NULL);
  json_array_foreach(json_object_get(golden, "cases"), i, c)
  {
    const char *source = member(c, "source");
    tn_chat_input in = {.messages = json_object_get(json_object_get(golden, "variables"), "messages"),
                        .tools = json_object_get(json_object_get(golden, "variables"), "tools"),
                        .kwargs = json_object_get(golden, "variables"),
                        .bos = "<s>",
                        .eos = "</s>",
                        .now = &now};
    expect(source, source, strlen(source), &in, c);
    n_texts += member(c, "text") != NULL;
  }
  cr_expect(n_texts > 120, "only %zu texts", n_texts);
  json_decref(golden);
}
