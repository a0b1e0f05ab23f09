/* template: see template.h. Compiling and rendering. */
#include <stdlib.h>

#include "chat/jinja.h"
#include "utf8.h"

struct tn_chat_template {
  tn_arena arena; /* nodes and their texts */
  char *name;
  tn_jnode *body;
};

enum { COMPILE_MEMORY = 1 << 28 };

tn_status tn_chat_template_compile(const char *text, size_t n, const char *name, tn_chat_template **out, tn_err *err)
{
  *out = NULL;
  if (n > TN_CHAT_TEMPLATE_MAX)
    return tn_fail(err, TN_E_ARG, "the chat template of %s has %zu bytes, the most is %zu", name, n,
                   TN_CHAT_TEMPLATE_MAX);
  if (tn_utf8_valid(text, n) != n)
    return tn_fail(err, TN_E_ARG, "the chat template of %s is no UTF-8 at byte %zu", name, tn_utf8_valid(text, n));
  tn_chat_template *t = calloc(1, sizeof *t);
  if (!t || !(t->name = tn_strdup(name))) {
    free(t);
    return tn_fail(err, TN_E_NOMEM, "no memory for the chat template of %s", name);
  }
  t->arena.limit = COMPILE_MEMORY;
  tn_status st = tn_j_parse(&t->arena, text, n, t->name, &t->body, err);
  if (st != TN_OK) {
    tn_chat_template_free(t);
    return st;
  }
  *out = t;
  return TN_OK;
}

void tn_chat_template_free(tn_chat_template *t)
{
  if (!t) return;
  tn_arena_free(&t->arena);
  free(t->name);
  free(t);
}

/* ---------------------------------------------------------------- rendering */

static bool set(tn_jrun *r, const char *name, tn_jv v) { return tn_j_set(r, (tn_js){name, NULL, strlen(name)}, v); }

static bool set_json(tn_jrun *r, const char *name, const json_t *j)
{
  tn_jv v = tn_jv_none();
  return (!j || tn_jv_from_json(r, j, &v)) && set(r, name, v);
}

/* What is said twice is said last by the host: a request's variables replace none of the host's. */
static bool set_variables(tn_jrun *r, const tn_chat_input *in)
{
  tn_jv kwargs;
  if (in->kwargs) {
    if (!json_is_object(in->kwargs)) return tn_j_fail(r, TN_E_ARG, "the further variables are no JSON object");
    if (!tn_jv_from_json(r, in->kwargs, &kwargs)) return false;
    for (size_t i = 0; i < kwargs.dict->n; i++) {
      if (!tn_j_tick(r, 1 + i / 16) || !tn_j_set(r, kwargs.dict->v[i].key.s, kwargs.dict->v[i].value)) return false;
    }
  }
  if (in->bos && !set(r, "bos_token", tn_jv_str((tn_js){in->bos, NULL, strlen(in->bos)}))) return false;
  if (in->eos && !set(r, "eos_token", tn_jv_str((tn_js){in->eos, NULL, strlen(in->eos)}))) return false;
  return (!in->messages || set_json(r, "messages", in->messages)) && set_json(r, "tools", in->tools) &&
         set(r, "documents", tn_jv_none()) && set(r, "add_generation_prompt", tn_jv_bool(in->add_generation_prompt));
}

/* Runs of marked bytes as spans. */
static tn_status to_spans(const tn_jbuf *b, tn_chat_text *out)
{
  size_t n = 0;
  for (size_t i = 0; b->m && i < b->n; i++) n += b->m[i] && (i == 0 || !b->m[i - 1]);
  out->plain = tn_zalloc(n + 1, sizeof *out->plain);
  if (!out->plain) return TN_E_NOMEM;
  for (size_t i = 0; b->m && i < b->n; i++) {
    if (!b->m[i]) continue;
    if (i == 0 || !b->m[i - 1]) out->plain[out->n_plain++].from = i;
    out->plain[out->n_plain - 1].to = i + 1;
  }
  return TN_OK;
}

static tn_chat_limits or_default(tn_chat_limits l)
{
  if (l.steps == 0) l.steps = 20000000;
  if (l.memory_bytes == 0) l.memory_bytes = (size_t)256 << 20;
  if (l.output_bytes == 0) l.output_bytes = (size_t)64 << 20;
  if (l.depth == 0) l.depth = 200;
  return l;
}

static void local_time(struct tm *out)
{
  time_t t = time(NULL);
  if (!localtime_r(&t, out)) *out = (struct tm){0};
}

tn_status tn_chat_render(const tn_chat_template *t, const tn_chat_input *in, tn_chat_text *out, tn_err *err)
{
  struct tm now;
  tn_jbuf b = {0};
  *out = (tn_chat_text){0};
  if (!in->now) local_time(&now);
  tn_jrun r = {.name = t->name,
               .err = err,
               .limits = or_default(in->limits),
               .line = 1,
               .out = &b,
               .now = in->now ? in->now : &now};
  r.arena.limit = r.limits.memory_bytes;
  bool ok = tn_j_open_scope(&r, NULL) && set_variables(&r, in) && tn_j_block(&r, t->body);
  if (ok && (!(out->p = tn_strndup(b.p ? b.p : "", b.n)) || to_spans(&b, out) != TN_OK))
    ok = false, r.status = tn_fail(err, TN_E_NOMEM, "no memory for the text of %zu bytes", b.n);
  out->n = b.n;
  tn_arena_free(&r.arena);
  if (!ok) tn_chat_text_clear(out);
  return r.status;
}

void tn_chat_text_clear(tn_chat_text *t)
{
  free(t->p);
  free(t->plain);
  *t = (tn_chat_text){0};
}

tn_status tn_chat_tokens(const tn_tokenizer *t, const tn_chat_text *text, int32_t **ids, size_t *n_ids, tn_err *err)
{
  tn_status st =
      tn_tokenize_spans(t, text->p, text->n, TN_TOKENIZE_PARSE_SPECIAL, text->plain, text->n_plain, ids, n_ids, err);
  int32_t bos = tn_tokenizer_bos(t);
  if (st != TN_OK || !tn_tokenizer_adds_bos(t) || (*n_ids > 0 && (*ids)[0] == bos)) return st;
  int32_t *grown = realloc(*ids, (*n_ids + 1) * sizeof *grown);
  if (!grown) {
    free(*ids);
    *ids = NULL;
    *n_ids = 0;
    return tn_fail(err, TN_E_NOMEM, "no memory to tokenize");
  }
  memmove(grown + 1, grown, *n_ids * sizeof *grown);
  grown[0] = bos;
  *ids = grown;
  *n_ids += 1;
  return TN_OK;
}
