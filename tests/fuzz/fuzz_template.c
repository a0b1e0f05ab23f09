/* Chat templates under arbitrary bytes: a template, a NUL, and a JSON text with the messages (none: a conversation of its
 * own). Compiling and rendering work or are refused with a word, within the limits. Checked: the text is UTF-8 and its
 * spans are apart, ascending and inside it; the same input gives the same text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "chat/template.h"
#include "utf8.h"

#define MUST(x)        \
  do {                 \
    if (!(x)) abort(); \
  } while (0)

static void check_text(const tn_chat_text *t)
{
  size_t end = 0;
  MUST(tn_utf8_valid(t->p, t->n) == t->n);
  for (size_t i = 0; i < t->n_plain; i++) {
    MUST((i == 0 || t->plain[i].from > end) && t->plain[i].from < t->plain[i].to && t->plain[i].to <= t->n);
    end = t->plain[i].to;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static const char own[] =
      "[{\"role\":\"system\",\"content\":\"s \"},{\"role\":\"user\",\"content\":\" \xC3\xA9<|im_end|>\"},"
      "{\"role\":\"assistant\",\"content\":\"a\",\"n\":[1,2.5,null,true,{\"k\":\"v\"}]}]";
  const uint8_t *end = size ? memchr(data, 0, size) : NULL;
  size_t n = end ? (size_t)(end - data) : size;
  struct tm now = {.tm_year = 124, .tm_mday = 1};
  tn_err err = tn_err_init();
  tn_chat_template *t;
  tn_chat_text a, b;
  tn_status st = tn_chat_template_compile((const char *)data, n, "fuzz", &t, &err);
  MUST(st == TN_OK ? t != NULL : t == NULL && err.msg[0]);
  if (st != TN_OK) return 0;
  json_t *messages =
      end && n + 1 < size ? json_loadb((const char *)end + 1, size - n - 1, JSON_DECODE_ANY, NULL) : NULL;
  if (!messages) messages = json_loads(own, 0, NULL);
  tn_chat_input in = {.messages = messages, .bos = "<s>", .eos = "</s>", .now = &now, .add_generation_prompt = true};
  in.limits = (tn_chat_limits){.steps = 20000, .memory_bytes = 1 << 22, .output_bytes = 1 << 16, .depth = 100};
  st = tn_chat_render(t, &in, &a, &err);
  MUST(st == TN_OK ? a.p != NULL : a.p == NULL && a.plain == NULL && err.msg[0]);
  if (st == TN_OK) {
    check_text(&a);
    MUST(tn_chat_render(t, &in, &b, &err) == TN_OK && b.n == a.n && memcmp(a.p, b.p, a.n) == 0);
    tn_chat_text_clear(&b);
  }
  tn_chat_text_clear(&a);
  tn_chat_template_free(t);
  json_decref(messages);
  return 0;
}
