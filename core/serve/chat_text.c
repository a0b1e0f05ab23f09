/* chat_text: a conversation as the text that the model is given, by its template. */
#include <string.h>

#include "serve/server_int.h"

tn_status tn_chat_ready(tn_server *s, const tn_setup *setup, tn_err *err)
{
  tn_status st = tn_chat_open(setup->model->gguf, setup->tokenizer, s->cfg.chat_template, &s->chat, err);
  if (st == TN_OK || s->cfg.chat_template || st == TN_E_NOMEM) return st;
  s->no_template = *err; /* all but chats work without */
  *err = tn_err_init();
  return TN_OK;
}

bool tn_chat_make(const tn_server *s, const tn_gen *g, tn_chat_text *out, tn_fault *f)
{
  tn_err err = s->no_template;
  *out = (tn_chat_text){0};
  if (s->chat.t &&
      tn_chat_prompt(&s->chat, g->messages, NULL, g->template_args, !g->no_generation_prompt, out, &err) == TN_OK)
    return true;
  tn_fault_engine(f, &err);
  if (err.code == TN_E_FULL) f->status = 400; /* the conversation makes more than a template may */
  strcpy(f->param, "messages");
  return false;
}
