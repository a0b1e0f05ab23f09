/* prompt: see prompt.h. */
#include "serve/prompt.h"

#include <stdlib.h>
#include <string.h>

static bool from_text(const tn_tokenizer *t, const char *text, size_t n, uint32_t flags, tn_prompt *p, tn_fault *f)
{
  tn_err err = tn_err_init();
  if (tn_tokenize(t, text, n, flags, &p->ids, &p->n, &err) != TN_OK) return tn_fault_engine(f, &err);
  if (p->n > 0) return true;
  return tn_fault_field(f, "prompt", "prompt is empty");
}

/* Control tokens are parsed in what the template wrote alone. */
static bool from_chat(const tn_tokenizer *t, const tn_chat_text *chat, tn_prompt *p, tn_fault *f)
{
  tn_err err = tn_err_init();
  if (tn_chat_tokens(t, chat, &p->ids, &p->n, &err) != TN_OK) return tn_fault_engine(f, &err);
  return p->n > 0 ? true : tn_fault_field(f, "messages", "the template makes nothing of these messages");
}

static bool from_ids(const tn_tokenizer *t, const json_t *v, tn_prompt *p, tn_fault *f)
{
  p->n = json_array_size(v);
  p->ids = tn_zalloc(p->n, sizeof *p->ids);
  if (!p->ids) return tn_fault_status(f, 503, "no memory for a prompt of %zu tokens", p->n);
  for (size_t i = 0; i < p->n; i++) {
    json_int_t id = json_integer_value(json_array_get(v, i));
    if (id < 0 || id >= tn_tokenizer_n_vocab(t))
      return tn_fault_field(f, "prompt", "prompt: token %lld at %zu is outside the vocabulary of %d", (long long)id, i,
                            tn_tokenizer_n_vocab(t));
    p->ids[i] = (int32_t)id;
  }
  return true;
}

bool tn_prompts_make(const tn_gen *g, const tn_tokenizer *t, const tn_chat_text *chat, tn_prompt **out, uint32_t *n,
                     tn_fault *f)
{
  const json_t *v = g->prompt;
  bool many = !chat && json_is_array(v) && !json_is_integer(json_array_get(v, 0));
  *n = many ? (uint32_t)json_array_size(v) : 1;
  *out = NULL;
  if (*n * g->n > TN_GEN_MAX_CHOICES)
    return tn_fault_field(f, "n", "n = %u for %u prompts: at most %d choices in one request", g->n, *n,
                          TN_GEN_MAX_CHOICES);
  *out = tn_zalloc(*n, sizeof **out);
  if (!*out) return tn_fault_status(f, 503, "no memory for the request");
  uint32_t flags = TN_TOKENIZE_PARSE_SPECIAL | (g->keep_special ? 0u : TN_TOKENIZE_ADD_SPECIAL);
  bool ok = true;
  if (chat) ok = from_chat(t, chat, &(*out)[0], f);
  for (uint32_t i = 0; !chat && ok && i < *n; i++) {
    const json_t *one = many ? json_array_get(v, i) : v;
    ok = json_is_string(one) ? from_text(t, json_string_value(one), json_string_length(one), flags, &(*out)[i], f)
                             : from_ids(t, one, &(*out)[i], f);
  }
  if (ok) return true;
  tn_prompts_free(*out, *n);
  *out = NULL;
  return false;
}
