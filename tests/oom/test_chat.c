/* Compiling and rendering chat templates with each allocation failing in turn: TN_E_NOMEM, and nothing stays behind. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "chat/template.h"
#include "oom.h"

static const char source[] =
    "{% macro f(a, b='x') %}[{{ a }}{{ b }}]{% endmacro %}{% set ns = namespace(n=0) %}"
    "{% for m in messages if m.role != 'tool' %}{% set ns.n = ns.n + 1 %}{{ f(m.content | trim | upper, b=loop.index) "
    "}}"
    "{{ m.content.split(' ') | map('replace', 'a', 'b') | join(',') }}{{ m | tojson(indent=2) }}{% endfor %}"
    "{{ {'a': [1, 2.5]} }}{{ messages | selectattr('role', 'equalto', 'user') | list | length }}{{ 'y' * 40000 }}";

/* What one attempt must have done. True when there was no n-th allocation. */
static bool judge(tn_status st, const void *out, int64_t live, const tn_err *err, uint64_t n)
{
  if (!oom_fired()) {
    cr_expect(st == TN_OK && out != NULL, "allocation %lu: %s", (unsigned long)n, err->msg);
    return true;
  }
  cr_expect(st == TN_E_NOMEM && out == NULL, "allocation %lu: %s", (unsigned long)n, tn_status_name(st));
  cr_expect(strstr(err->msg, "no memory") != NULL, "allocation %lu: '%s'", (unsigned long)n, err->msg);
  cr_expect(oom_live() == live, "allocation %lu: %ld stay behind", (unsigned long)n, (long)(oom_live() - live));
  return false;
}

Test(oom_chat, compile)
{
  uint64_t n = 0;
  for (bool last = false; !last;) {
    int64_t live = oom_live();
    tn_chat_template *t = NULL;
    tn_err err = tn_err_init();
    oom_arm(++n);
    tn_status st = tn_chat_template_compile(source, sizeof source - 1, "made", &t, &err);
    last = judge(st, t, live, &err, n);
    tn_chat_template_free(t);
    cr_expect(oom_live() == live);
  }
  cr_expect(n > 3, "only %lu allocations", (unsigned long)n);
}

Test(oom_chat, render)
{
  json_t *messages = json_pack("[{s:s, s:s}, {s:s, s:s}]", "role", "user", "content", " a b\xC3\xA9 c ", "role",
                               "assistant", "content", "hello a");
  const tn_chat_input in = {
      .messages = messages, .kwargs = messages ? json_array_get(messages, 0) : NULL, .bos = "<s>"};
  tn_chat_template *t;
  cr_assert(tn_chat_template_compile(source, sizeof source - 1, "made", &t, NULL) == TN_OK);
  uint64_t n = 0;
  for (bool last = false; !last;) {
    int64_t live = oom_live();
    tn_chat_text text;
    tn_err err = tn_err_init();
    oom_arm(++n);
    tn_status st = tn_chat_render(t, &in, &text, &err);
    last = judge(st, text.p, live, &err, n);
    tn_chat_text_clear(&text);
    cr_expect(oom_live() == live);
  }
  cr_expect(n > 5, "only %lu allocations", (unsigned long)n);
  tn_chat_template_free(t);
  json_decref(messages);
}
