/* routes_text: the routes that only turn text into tokens and back. */
#include <stdlib.h>
#include <string.h>

#include "serve/answer.h"
#include "serve/server_int.h"

typedef struct field {
  const char *name;
  json_type type;
  const json_t *value; /* NULL: absent */
} field;

/* The body's fields into f[n]; others are refused by name. A new reference, NULL: *why. */
static json_t *fields_of(const tn_exchange *x, field *f, size_t n, tn_fault *why)
{
  json_t *root = tn_gen_object(x->body, x->n, why), *v;
  const char *name;
  json_object_foreach(root, name, v)
  {
    size_t i = 0;
    while (i < n && strcmp(f[i].name, name) != 0) i++;
    bool fits = i < n && (json_typeof(v) == f[i].type || (json_is_boolean(v) && f[i].type == JSON_TRUE));
    if (fits) {
      f[i].value = v;
      continue;
    }
    tn_fault_field(why, name, i < n ? "%s has a value of the wrong kind" : "%s is not supported here", name);
    json_decref(root);
    return NULL;
  }
  return root;
}

static bool on(const field *f, bool usual) { return f->value ? json_is_true(f->value) : usual; }

static json_t *tokens_json(const tn_tokenizer *t, const int32_t *ids, size_t n, bool pieces)
{
  json_t *list = json_array();
  for (size_t i = 0; i < n; i++) {
    json_t *one = json_integer(ids[i]);
    if (pieces) one = json_pack("{s:o, s:o}", "id", one, "piece", tn_answer_piece(t, ids[i]));
    json_array_append_new(list, one);
  }
  return list;
}

enum MHD_Result tn_serve_tokenize(tn_exchange *x)
{
  enum { CONTENT, PROMPT, MODEL, ADD, SPECIAL, PIECES, N };
  field f[N] = {{"content", JSON_STRING, NULL},   {"prompt", JSON_STRING, NULL},      {"model", JSON_STRING, NULL},
                {"add_special", JSON_TRUE, NULL}, {"parse_special", JSON_TRUE, NULL}, {"with_pieces", JSON_TRUE, NULL}};
  tn_setup *setup = atomic_load(&x->server->setup);
  tn_fault why;
  json_t *root = fields_of(x, f, N, &why);
  if (!root) return tn_reply_fault(x, &why);
  const json_t *text = f[CONTENT].value ? f[CONTENT].value : f[PROMPT].value;
  /* content is llama-server's word and adds nothing unless told; prompt is vLLM's and does */
  uint32_t flags = (on(&f[ADD], f[CONTENT].value == NULL) ? TN_TOKENIZE_ADD_SPECIAL : 0u) |
                   (on(&f[SPECIAL], true) ? TN_TOKENIZE_PARSE_SPECIAL : 0u);
  int32_t *ids = NULL;
  size_t n = 0;
  tn_err err = tn_err_init();
  if (!text)
    tn_fault_field(&why, "content", "content is missing");
  else if (tn_tokenize(setup->tokenizer, json_string_value(text), json_string_length(text), flags, &ids, &n, &err) !=
           TN_OK)
    tn_fault_engine(&why, &err);
  else
    why.status = 0;
  json_decref(root);
  if (why.status != 0) return tn_reply_fault(x, &why);
  json_t *tokens = tokens_json(setup->tokenizer, ids, n, on(&f[PIECES], false));
  free(ids);
  return tn_reply_json(x, 200,
                       json_pack("{s:o, s:I, s:I}", "tokens", tokens, "count", (json_int_t)n, "max_model_len",
                                 (json_int_t)tn_engine_stat(setup->engine).ctx));
}

enum MHD_Result tn_serve_detokenize(tn_exchange *x)
{
  field f[] = {{"tokens", JSON_ARRAY, NULL}, {"model", JSON_STRING, NULL}};
  tn_setup *setup = atomic_load(&x->server->setup);
  tn_fault why;
  json_t *root = fields_of(x, f, TN_ARRAY_LEN(f), &why), *text = NULL;
  if (!root) return tn_reply_fault(x, &why);
  size_t n = json_array_size(f[0].value), len;
  int32_t *ids = tn_zalloc(n, sizeof *ids);
  char *said = NULL;
  tn_err err = tn_err_init();
  bool ok = ids != NULL && f[0].value;
  for (size_t i = 0; ok && i < n; i++) {
    const json_t *v = json_array_get(f[0].value, i);
    json_int_t id = json_integer_value(v);
    ok = json_is_integer(v) && id >= 0 && id < tn_tokenizer_n_vocab(setup->tokenizer);
    if (ok) ids[i] = (int32_t)id;
  }
  if (!ok)
    tn_fault_field(&why, "tokens", "tokens: want a list of token ids under %d", tn_tokenizer_n_vocab(setup->tokenizer));
  else if (tn_detokenize(setup->tokenizer, ids, n, TN_PIECE_SPECIAL, &said, &len, &err) != TN_OK)
    ok = tn_fault_engine(&why, &err);
  else
    text = tn_answer_text(said, len);
  json_decref(root);
  free(ids);
  free(said);
  if (!ok) return tn_reply_fault(x, &why);
  return tn_reply_json(x, 200, json_pack("{s:O, s:o}", "content", text, "prompt", text));
}

enum MHD_Result tn_serve_apply_template(tn_exchange *x)
{
  tn_gen gen;
  tn_fault f;
  tn_chat_text text;
  if (!tn_gen_parse(TN_API_CHAT, x->body, x->n, &gen, &f)) return tn_reply_fault(x, &f);
  bool ok = tn_chat_make(x->server, &gen, &text, &f);
  tn_gen_free(&gen);
  if (!ok) return tn_reply_fault(x, &f);
  json_t *prompt = tn_answer_text(text.p, text.n);
  tn_chat_text_clear(&text);
  return tn_reply_json(x, 200, json_pack("{s:o}", "prompt", prompt));
}
