/* answer: see answer.h. */
#include "serve/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE 4096u

static size_t piece_of(const tn_tokenizer *t, int32_t id, char buf[PIECE])
{
  size_t n = tn_token_piece(t, id, TN_PIECE_SPECIAL, buf, PIECE);
  return n < PIECE ? n : PIECE;
}

json_t *tn_answer_text(const char *bytes, size_t n)
{
  char *clean = malloc(TN_UTF8_FEED_MAX(n) + 4);
  tn_utf8_stream s = {0};
  if (!clean) return NULL;
  size_t len = tn_utf8_feed(&s, bytes, n, clean);
  len += tn_utf8_flush(&s, clean + len);
  json_t *j = json_stringn_nocheck(clean, len);
  free(clean);
  return j;
}

json_t *tn_answer_piece(const tn_tokenizer *t, int32_t id)
{
  char buf[PIECE];
  return tn_answer_text(buf, piece_of(t, id, buf));
}

static json_t *law_of(const tn_tokenizer *t, int32_t id, double logprob)
{
  char buf[PIECE];
  size_t n = piece_of(t, id, buf);
  json_t *bytes = json_array();
  for (size_t i = 0; i < n; i++) json_array_append_new(bytes, json_integer((uint8_t)buf[i]));
  if (!(logprob > -9999)) logprob = -9999; /* JSON has no infinity; OpenAI's own least value */
  return json_pack("{s:o, s:f, s:o, s:i}", "token", tn_answer_text(buf, n), "logprob", logprob, "bytes", bytes, "id",
                   (int)id);
}

json_t *tn_answer_entry(const tn_job *j, const tn_job_token *t)
{
  json_t *e = law_of(j->tokenizer, t->id, t->logprob);
  json_t *top = json_array();
  for (uint32_t i = 0; i < t->n_top; i++)
    json_array_append_new(top, law_of(j->tokenizer, t->top[i], t->top_logprob[i]));
  if (e) json_object_set_new(e, "top_logprobs", top);
  return e;
}

json_t *tn_answer_prompt_entry(const tn_job *j, int32_t id, const float *row, uint32_t n_vocab, uint32_t n_top)
{
  int32_t top[TN_GEN_MAX_TOP];
  double lse = tn_log_sum_exp(row, n_vocab);
  json_t *all = json_object();
  uint32_t rank = 1;
  for (uint32_t i = 0; i < n_vocab; i++) rank += row[i] > row[id];
  if (n_top > n_vocab) n_top = n_vocab;
  tn_top_n(row, n_vocab, n_top, top);
  for (uint32_t i = 0; i <= n_top; i++) {
    int32_t t = i == 0 ? id : top[i - 1];
    char key[16];
    snprintf(key, sizeof key, "%d", t);
    if (i > 0 && t == id) continue;
    double lp = (double)row[t] - lse;
    json_object_set_new(all, key,
                        json_pack("{s:f, s:i, s:o}", "logprob", lp > -9999 ? lp : -9999.0, "rank",
                                  i == 0 ? (int)rank : (int)i, "decoded_token", tn_answer_piece(j->tokenizer, t)));
  }
  return all;
}

static json_t *head(const tn_job *j, const char *object)
{
  return json_pack("{s:s, s:s, s:I, s:s, s:s}", "id", j->id, "object", object, "created", (json_int_t)j->created,
                   "model", j->model, "system_fingerprint", j->fingerprint);
}

static const char *object_of(const tn_job *j, bool chunk)
{
  if (j->gen.api == TN_API_CHAT) return chunk ? "chat.completion.chunk" : "chat.completion";
  return "text_completion";
}

/* Entries of one choice as the completions route wants them; takes over the reference. */
static json_t *as_lists(json_t *entries, size_t at)
{
  json_t *tokens = json_array(), *logprobs = json_array(), *tops = json_array(), *offsets = json_array();
  size_t i, k;
  json_t *e, *t;
  json_array_foreach(entries, i, e)
  {
    json_t *top = json_object();
    json_array_append(tokens, json_object_get(e, "token"));
    json_array_append(logprobs, json_object_get(e, "logprob"));
    json_array_append_new(offsets, json_integer((json_int_t)at));
    at += json_string_length(json_object_get(e, "token"));
    json_array_foreach(json_object_get(e, "top_logprobs"), k, t)
        json_object_set(top, json_string_value(json_object_get(t, "token")), json_object_get(t, "logprob"));
    json_array_append_new(tops, top);
  }
  json_decref(entries);
  return json_pack("{s:o, s:o, s:o, s:o}", "tokens", tokens, "token_logprobs", logprobs, "top_logprobs", tops,
                   "text_offset", offsets);
}

static json_t *logprobs_of(const tn_job *j, json_t *entries, size_t at)
{
  if (!entries) return json_null();
  return j->gen.api == TN_API_CHAT ? json_pack("{s:o}", "content", entries) : as_lists(entries, at);
}

json_t *tn_answer_chunk(const tn_reply *c, const tn_str *text, json_t *entries, json_t *tokens, const char *finish)
{
  const tn_job *j = c->job;
  bool chat = j->gen.api == TN_API_CHAT;
  json_t *choice = json_pack("{s:i, s:o}", "index", (int)c->index, "logprobs",
                             logprobs_of(j, entries, text ? c->text.sent - text->n : 0));
  json_t *said = text ? json_stringn_nocheck(text->p, text->n) : json_string("");
  if (chat) {
    json_t *delta = json_object();
    if (!text && !finish) json_object_set_new(delta, "role", json_string("assistant"));
    if (!finish || (text && text->n > 0))
      json_object_set_new(delta, "content", said);
    else
      json_decref(said);
    json_object_set_new(choice, "delta", delta);
  } else {
    json_object_set_new(choice, "text", said);
  }
  if (tokens) json_object_set_new(choice, "tokens", tokens);
  json_object_set_new(choice, "finish_reason", finish ? json_string(finish) : json_null());
  json_t *all = head(j, object_of(j, true));
  if (!all || json_object_set_new(all, "choices", json_pack("[o]", choice)) != 0) {
    json_decref(all);
    return NULL;
  }
  if (j->gen.usage) json_object_set_new(all, "usage", json_null());
  return all;
}

static json_t *usage_of(const tn_job *j)
{
  json_int_t prompt = 0, made = 0, cached = 0;
  for (uint32_t i = 0; i < j->n_prompts; i++) prompt += (json_int_t)j->prompts[i].n;
  for (uint32_t i = 0; i < j->n_choices; i++) {
    made += (json_int_t)j->choices[i].n_new;
    if (i % j->gen.n == 0) cached += (json_int_t)j->choices[i].n_cached;
  }
  return json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", prompt, "completion_tokens", made, "total_tokens",
                   prompt + made, "prompt_tokens_details", "cached_tokens", cached);
}

static double per_second(double n, double ms) { return ms > 0 ? n * 1e3 / ms : 0; }

/* Times as llama-server tells them, of all choices together. */
static json_t *timings_of(const tn_job *j)
{
  uint64_t first = 0, last = 0, made = 0, drafted = 0, accepted = 0, prompt = 0, cached = 0;
  for (uint32_t i = 0; i < j->n_choices; i++) {
    const tn_reply *c = &j->choices[i];
    if (c->first_ns > 0 && (first == 0 || c->first_ns < first)) first = c->first_ns;
    if (c->last_ns > last) last = c->last_ns;
    made += c->n_new, drafted += c->n_drafted, accepted += c->n_accepted;
    if (i % j->gen.n == 0) cached += c->n_cached;
  }
  for (uint32_t i = 0; i < j->n_prompts; i++) prompt += j->prompts[i].n;
  prompt -= cached < prompt ? cached : prompt;
  double prompt_ms = first > j->arrival_ns ? (double)(first - j->arrival_ns) / 1e6 : 0;
  double made_ms = last > first ? (double)(last - first) / 1e6 : 0;
  return json_pack("{s:I, s:I, s:f, s:f, s:I, s:f, s:f, s:I, s:I}", "cache_n", (json_int_t)cached, "prompt_n",
                   (json_int_t)prompt, "prompt_ms", prompt_ms, "prompt_per_second",
                   per_second((double)prompt, prompt_ms), "predicted_n", (json_int_t)made, "predicted_ms", made_ms,
                   "predicted_per_second", per_second(made > 1 ? (double)made - 1 : 0, made_ms), "draft_n",
                   (json_int_t)drafted, "draft_n_accepted", (json_int_t)accepted);
}

static void add_figures(json_t *all, const tn_job *j)
{
  json_object_set_new(all, "usage", usage_of(j));
  json_object_set_new(all, "timings", timings_of(j));
  json_object_set_new(all, "seed", json_integer((json_int_t)j->seed));
}

json_t *tn_answer_usage_chunk(const tn_job *j)
{
  json_t *all = head(j, object_of(j, true));
  if (!all || json_object_set_new(all, "choices", json_array()) != 0) {
    json_decref(all);
    return NULL;
  }
  add_figures(all, j);
  return all;
}

/* The entries' pairs without the byte positions, those of texts that were cut away left out. */
static json_t *kept_entries(const tn_reply *c)
{
  if (!c->entries) return NULL;
  json_t *kept = json_array(), *pair;
  size_t i;
  json_array_foreach(c->entries, i, pair)
  {
    json_int_t at = json_integer_value(json_array_get(pair, 1));
    if (!c->text.stopped || (size_t)at < c->text.n) json_array_append(kept, json_array_get(pair, 0));
  }
  return kept;
}

/* echo: the prompt's tokens before those of the answer. */
static void echo_prompt(const tn_reply *c, json_t **text, json_t *entries)
{
  const tn_job *j = c->job;
  const tn_prompt *p = &j->prompts[c->prompt];
  char *said;
  size_t n;
  if (tn_detokenize(j->tokenizer, p->ids, p->n, 0, &said, &n, NULL) != TN_OK) return;
  char *both = malloc(n + c->text.n + 1);
  if (both) {
    memcpy(both, said, n);
    if (c->text.n) memcpy(both + n, c->text.text, c->text.n);
    json_t *whole = tn_answer_text(both, n + c->text.n);
    if (whole) {
      json_decref(*text);
      *text = whole;
    }
  }
  free(both);
  free(said);
  for (size_t i = 0; entries && c->prompt_entries && i < p->n; i++) {
    char key[16];
    snprintf(key, sizeof key, "%d", p->ids[i]);
    json_t *law = json_array_get(c->prompt_entries, i), *own = json_object_get(law, key), *top = json_array(), *t;
    const char *id;
    json_object_foreach(law, id, t) if (i > 0 && (int)json_array_size(top) < (int)j->gen.top)
        json_array_append_new(top, json_pack("{s:O, s:O}", "token", json_object_get(t, "decoded_token"), "logprob",
                                             json_object_get(t, "logprob")));
    json_t *lp = own ? json_incref(json_object_get(own, "logprob")) : json_null();
    json_array_insert_new(entries, i,
                          json_pack("{s:o, s:o, s:o}", "token", tn_answer_piece(j->tokenizer, p->ids[i]), "logprob", lp,
                                    "top_logprobs", top));
  }
}

static json_t *choice_of(const tn_reply *c)
{
  const tn_job *j = c->job;
  bool chat = j->gen.api == TN_API_CHAT;
  json_t *entries = kept_entries(c);
  json_t *text = json_stringn_nocheck(c->text.text ? c->text.text : "", c->text.n);
  if (j->gen.echo) echo_prompt(c, &text, entries);
  json_t *o = json_pack("{s:i, s:s, s:o}", "index", (int)c->index, "finish_reason", c->finish, "logprobs",
                        logprobs_of(j, entries, 0));
  if (chat)
    json_object_set_new(o, "message", json_pack("{s:s, s:o}", "role", "assistant", "content", text));
  else
    json_object_set_new(o, "text", text);
  if (c->tokens) json_object_set(o, "tokens", c->tokens);
  if (c->text.which) json_object_set_new(o, "stop_reason", json_stringn(c->text.which->p, c->text.which->n));
  if (j->gen.prompt_top >= 0 && !chat) json_object_set(o, "prompt_logprobs", c->prompt_entries);
  return o;
}

json_t *tn_answer_whole(tn_job *j)
{
  json_t *choices = json_array();
  for (uint32_t i = 0; i < j->n_choices; i++) json_array_append_new(choices, choice_of(&j->choices[i]));
  json_t *all = head(j, object_of(j, false));
  if (!all || json_object_set_new(all, "choices", choices) != 0) {
    json_decref(all);
    return NULL;
  }
  if (j->gen.prompt_top >= 0 && j->gen.api == TN_API_CHAT)
    json_object_set(all, "prompt_logprobs", j->choices[0].prompt_entries);
  add_figures(all, j);
  return all;
}
