/* chat_text: a conversation as the text that the model is given, by its template. */
#include <stdlib.h>
#include <string.h>

#include "serve/server_int.h"

static tn_status find_source(const tn_server *s, const tn_setup *setup, tn_str *source, char **owned, tn_err *err)
{
  const char *choice = s->cfg.chat_template, *builtin = choice ? tn_chat_builtin(choice) : NULL;
  *owned = NULL;
  if (builtin) {
    *source = (tn_str){builtin, strlen(builtin)};
    return TN_OK;
  }
  if (choice) {
    tn_status st = tn_file_read(choice, TN_CHAT_TEMPLATE_MAX, owned, &source->n, err);
    if (st != TN_OK) tn_err_prefix(err, "--chat-template %s is no template's name, and no file", choice);
    source->p = *owned;
    return st;
  }
  if (tn_gguf_string(setup->model->gguf, "tokenizer.chat_template", source)) return TN_OK;
  return tn_fail(err, TN_E_UNSUPPORTED, "%s has no chat template: start the server with --chat-template",
                 tn_gguf_path(setup->model->gguf));
}

static bool spelled(const tn_tokenizer *t, int32_t id, char **out)
{
  tn_str s = tn_token_text(t, id);
  *out = id >= 0 ? tn_strndup(s.p, s.n) : NULL;
  return id < 0 || *out;
}

tn_status tn_chat_ready(tn_server *s, const tn_setup *setup, tn_err *err)
{
  tn_str source;
  char *owned;
  const char *name = s->cfg.chat_template ? s->cfg.chat_template : tn_gguf_path(setup->model->gguf);
  tn_status st = find_source(s, setup, &source, &owned, err);
  if (st == TN_OK) st = tn_chat_template_compile(source.p, source.n, name, &s->template, err);
  free(owned);
  bool texts = spelled(setup->tokenizer, tn_tokenizer_bos(setup->tokenizer), &s->bos) &&
               spelled(setup->tokenizer, tn_tokenizer_eos(setup->tokenizer), &s->eos);
  if (!texts) return tn_fail(err, TN_E_NOMEM, "no memory for the chat template");
  if (st == TN_OK || s->cfg.chat_template || st == TN_E_NOMEM) return st;
  s->no_template = *err; /* all but chats work without */
  *err = tn_err_init();
  return TN_OK;
}

void tn_chat_free(tn_server *s)
{
  tn_chat_template_free(s->template);
  free(s->bos);
  free(s->eos);
}

bool tn_chat_make(const tn_server *s, const tn_gen *g, tn_chat_text *out, tn_fault *f)
{
  tn_err err = s->no_template;
  tn_chat_input in = {.messages = g->messages,
                      .kwargs = g->template_args,
                      .bos = s->bos,
                      .eos = s->eos,
                      .add_generation_prompt = !g->no_generation_prompt};
  *out = (tn_chat_text){0};
  if (s->template && tn_chat_render(s->template, &in, out, &err) == TN_OK) return true;
  tn_fault_engine(f, &err);
  if (err.code == TN_E_FULL) f->status = 400; /* the conversation makes more than a template may */
  strcpy(f->param, "messages");
  return false;
}
