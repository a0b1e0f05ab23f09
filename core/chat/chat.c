/* chat: see chat.h. */
#include "chat/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"

static tn_status from_choice(const char *choice, tn_chat *c, tn_err *err)
{
  const char *source = tn_chat_builtin(choice);
  char *bytes = NULL, names[256] = "";
  size_t n = source ? strlen(source) : 0;
  tn_err io = tn_err_init();
  if (!source && tn_file_read(choice, TN_CHAT_TEMPLATE_MAX, &bytes, &n, &io) != TN_OK) {
    for (size_t i = 0; tn_chat_builtin_name(i); i++) {
      size_t at = strlen(names);
      snprintf(names + at, sizeof names - at, "%s%s", i ? ", " : "", tn_chat_builtin_name(i));
    }
    return tn_fail(err, io.code, "chat template %s: no template of that name (%s), and as a file: %s", choice, names,
                   io.msg);
  }
  tn_status st = tn_chat_template_compile(source ? source : bytes, n, choice, &c->t, err);
  free(bytes);
  return st;
}

static tn_status from_model(const tn_gguf *g, tn_chat *c, tn_err *err)
{
  tn_str source;
  if (!tn_gguf_string(g, "tokenizer.chat_template", &source))
    return tn_fail(err, TN_E_UNSUPPORTED,
                   "%s has no chat template (tokenizer.chat_template): give one by name or file, as in --chat-template "
                   "chatml",
                   tn_gguf_path(g));
  return tn_chat_template_compile(source.p, source.n, tn_gguf_path(g), &c->t, err);
}

/* A token as text: NULL in *out where id is none. */
static bool spelled(const tn_tokenizer *t, int32_t id, char **out)
{
  tn_str s = tn_token_text(t, id);
  *out = id >= 0 ? tn_strndup(s.p, s.n) : NULL;
  return id < 0 || *out;
}

tn_status tn_chat_open(const tn_gguf *g, const tn_tokenizer *tok, const char *choice, tn_chat *out, tn_err *err)
{
  *out = (tn_chat){0};
  tn_status st = choice ? from_choice(choice, out, err) : from_model(g, out, err);
  if (st == TN_OK &&
      (!spelled(tok, tn_tokenizer_bos(tok), &out->bos) || !spelled(tok, tn_tokenizer_eos(tok), &out->eos)))
    st = tn_fail(err, TN_E_NOMEM, "no memory for the chat template");
  if (st != TN_OK) tn_chat_close(out);
  return st;
}

void tn_chat_close(tn_chat *c)
{
  tn_chat_template_free(c->t);
  free(c->bos);
  free(c->eos);
  *c = (tn_chat){0};
}

tn_status tn_chat_prompt(const tn_chat *c, const json_t *messages, const json_t *tools, const json_t *kwargs,
                         bool answer, tn_chat_text *out, tn_err *err)
{
  const tn_chat_input in = {.messages = messages,
                            .tools = tools,
                            .kwargs = kwargs,
                            .bos = c->bos,
                            .eos = c->eos,
                            .add_generation_prompt = answer};
  return tn_chat_render(c->t, &in, out, err);
}
