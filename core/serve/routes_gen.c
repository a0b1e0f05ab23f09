/* routes_gen: the routes that generate: a checked request becomes a job for the engine thread. */
#include <stdlib.h>
#include <string.h>

#include "serve/prompt.h"
#include "serve/server_int.h"

/* A request names this server's model, or none. */
static bool check_model(const tn_server *s, const tn_gen *g, tn_fault *f)
{
  if (!g->model || !*g->model || !strcmp(g->model, s->name)) return true;
  tn_fault_status(f, 404, "there is no model '%s' here; this server has '%s'", g->model, s->name);
  strcpy(f->param, "model");
  f->code = "model_not_found";
  return false;
}

static bool check_bias(const tn_setup *setup, const tn_gen *g, tn_fault *f)
{
  int32_t n_vocab = tn_tokenizer_n_vocab(setup->tokenizer);
  for (uint32_t i = 0; i < g->sampling.n_bias; i++)
    if (g->sampling.bias_token[i] >= n_vocab)
      return tn_fault_field(f, "logit_bias", "logit_bias: token %d is outside the vocabulary of %d",
                            g->sampling.bias_token[i], n_vocab);
  return true;
}

/* Takes over gen. */
static bool make_job(tn_exchange *x, tn_gen *gen, const tn_chat_text *chat, tn_job **out, tn_fault *f)
{
  tn_server *s = x->server;
  tn_setup *setup = atomic_load(&s->setup);
  tn_prompt *prompts;
  uint32_t n;
  if (!tn_prompts_make(gen, setup->tokenizer, chat, &prompts, &n, f)) {
    tn_gen_free(gen);
    return false;
  }
  if (!gen->seed_given && setup->opts.seed != 0) gen->seed_given = true, gen->seed = setup->opts.seed;
  x->stream = gen->stream;
  tn_job *j = tn_job_new(gen, prompts, n, x->out);
  if (!j) return tn_fault_status(f, 503, "no memory for the request");
  j->tokenizer = setup->tokenizer;
  j->model = s->name;
  j->fingerprint = s->fingerprint;
  *out = j;
  return true;
}

static enum MHD_Result generate(tn_exchange *x, uint32_t api)
{
  tn_gen gen;
  tn_fault f;
  tn_job *job = NULL;
  tn_chat_text text = {0};
  tn_setup *setup = atomic_load(&x->server->setup);
  bool ok = tn_gen_parse(api, x->body, x->n, &gen, &f);
  if (!ok) return tn_reply_fault(x, &f);
  ok = check_model(x->server, &gen, &f) && check_bias(setup, &gen, &f);
  if (ok && api == TN_API_CHAT) ok = tn_chat_make(x->server, &gen, &text, &f);
  if (!ok) {
    tn_gen_free(&gen);
    return tn_reply_fault(x, &f);
  }
  x->out = tn_outbox_new();
  ok = x->out ? make_job(x, &gen, api == TN_API_CHAT ? &text : NULL, &job, &f)
              : tn_fault_status(&f, 503, "no memory for the request");
  if (!x->out) tn_gen_free(&gen);
  tn_chat_text_clear(&text);
  if (ok && tn_loop_submit(x->server->loop, job, &f)) return MHD_YES;
  tn_outbox_drop(x->out);
  x->out = NULL;
  return tn_reply_fault(x, &f);
}

enum MHD_Result tn_serve_completions(tn_exchange *x) { return generate(x, TN_API_COMPLETION); }
enum MHD_Result tn_serve_chat(tn_exchange *x) { return generate(x, TN_API_CHAT); }

enum MHD_Result tn_serve_embeddings(tn_exchange *x)
{
  tn_fault f;
  if (tn_engine_has_hidden(atomic_load(&x->server->setup)->engine)) return generate(x, TN_API_EMBEDDING);
  tn_fault_status(&f, 501, "embeddings are off: start the server with --embeddings");
  return tn_reply_fault(x, &f);
}
