/* answer: see answer.h. */
#include "serve/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/json_add.h"

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
  for (size_t i = 0; i < n; i++) tn_json_append(&bytes, json_integer((uint8_t)buf[i]));
  if (!(logprob > -9999)) logprob = -9999; /* JSON has no infinity; OpenAI's own least value */
  json_t *law = json_pack("{s:f, s:i}", "logprob", logprob, "id", (int)id);
  tn_json_set(&law, "token", tn_answer_text(buf, n));
  tn_json_set(&law, "bytes", bytes);
  return law;
}

json_t *tn_answer_entry(const tn_job *j, const tn_job_token *t)
{
  json_t *e = law_of(j->tokenizer, t->id, t->logprob);
  json_t *top = json_array();
  for (uint32_t i = 0; i < t->n_top; i++) tn_json_append(&top, law_of(j->tokenizer, t->top[i], t->top_logprob[i]));
  tn_json_set(&e, "top_logprobs", top);
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
    json_t *law = json_pack("{s:f, s:i}", "logprob", lp > -9999 ? lp : -9999.0, "rank", i == 0 ? (int)rank : (int)i);
    tn_json_set(&law, "decoded_token", tn_answer_piece(j->tokenizer, t));
    tn_json_set(&all, key, law);
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
    tn_json_append(&tokens, json_incref(json_object_get(e, "token")));
    tn_json_append(&logprobs, json_incref(json_object_get(e, "logprob")));
    tn_json_append(&offsets, json_integer((json_int_t)at));
    at += json_string_length(json_object_get(e, "token"));
    json_array_foreach(json_object_get(e, "top_logprobs"), k, t)
        tn_json_set(&top, json_string_value(json_object_get(t, "token")), json_incref(json_object_get(t, "logprob")));
    tn_json_append(&tops, top);
  }
  json_decref(entries);
  json_t *lists = json_object();
  tn_json_set(&lists, "tokens", tokens);
  tn_json_set(&lists, "token_logprobs", logprobs);
  tn_json_set(&lists, "top_logprobs", tops);
  tn_json_set(&lists, "text_offset", offsets);
  return lists;
}

/* Takes over the entries' reference; NULL where none were asked for. */
static json_t *logprobs_of(const tn_job *j, json_t *entries, size_t at)
{
  if (!j->gen.logprobs) return json_null();
  if (j->gen.api != TN_API_CHAT) return entries ? as_lists(entries, at) : NULL;
  json_t *o = json_object();
  tn_json_set(&o, "content", entries);
  return o;
}

json_t *tn_answer_chunk(const tn_reply *c, const tn_str *text, json_t *entries, json_t *tokens, const char *finish)
{
  const tn_job *j = c->job;
  bool chat = j->gen.api == TN_API_CHAT;
  json_t *choice = json_pack("{s:i}", "index", (int)c->index), *choices = json_array();
  tn_json_set(&choice, "logprobs", text ? logprobs_of(j, entries, c->text.sent - text->n) : json_null());
  json_t *said = text ? json_stringn_nocheck(text->p, text->n) : json_string("");
  if (chat) {
    json_t *delta = json_object();
    if (!text && !finish) tn_json_set(&delta, "role", json_string("assistant"));
    if (!finish || (text && text->n > 0))
      tn_json_set(&delta, "content", said);
    else
      json_decref(said);
    tn_json_set(&choice, "delta", delta);
  } else {
    tn_json_set(&choice, "text", said);
  }
  if (j->gen.return_tokens && text) tn_json_set(&choice, "tokens", tokens);
  tn_json_set(&choice, "finish_reason", finish ? json_string(finish) : json_null());
  json_t *all = head(j, object_of(j, true));
  tn_json_append(&choices, choice);
  tn_json_set(&all, "choices", choices);
  if (j->gen.usage) tn_json_set(&all, "usage", json_null());
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

static void add_figures(json_t **all, const tn_job *j)
{
  tn_json_set(all, "usage", usage_of(j));
  tn_json_set(all, "timings", timings_of(j));
  tn_json_set(all, "seed", json_integer((json_int_t)j->seed));
}

json_t *tn_answer_usage_chunk(const tn_job *j)
{
  json_t *all = head(j, object_of(j, true));
  tn_json_set(&all, "choices", json_array());
  add_figures(&all, j);
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
    if (!c->text.stopped || (size_t)at < c->text.n) tn_json_append(&kept, json_incref(json_array_get(pair, 0)));
  }
  return kept;
}

/* The prompt's text and the answer's as one string. */
static json_t *echoed_text(const tn_reply *c)
{
  const tn_prompt *p = &c->job->prompts[c->prompt];
  char *said;
  size_t n;
  if (tn_detokenize(c->job->tokenizer, p->ids, p->n, 0, &said, &n, NULL) != TN_OK) return NULL;
  char *both = malloc(n + c->text.n + 1);
  if (both) memcpy(both, said, n);
  if (both && c->text.n) memcpy(both + n, c->text.text, c->text.n);
  json_t *whole = both ? tn_answer_text(both, n + c->text.n) : NULL;
  free(both);
  free(said);
  return whole;
}

/* The entry of a prompt's i-th token. */
static json_t *echoed_entry(const tn_reply *c, size_t i)
{
  const tn_job *j = c->job;
  int32_t token = j->prompts[c->prompt].ids[i];
  char key[16];
  snprintf(key, sizeof key, "%d", token);
  json_t *law = json_array_get(c->prompt_entries, i), *own = json_object_get(law, key), *top = json_array(), *t;
  const char *id;
  json_object_foreach(law, id, t) if (i > 0 && (int)json_array_size(top) < (int)j->gen.top)
      tn_json_append(&top, json_pack("{s:O, s:O}", "token", json_object_get(t, "decoded_token"), "logprob",
                                     json_object_get(t, "logprob")));
  json_t *e = json_object();
  tn_json_set(&e, "token", tn_answer_piece(j->tokenizer, token));
  tn_json_set(&e, "logprob", own ? json_incref(json_object_get(own, "logprob")) : json_null());
  tn_json_set(&e, "top_logprobs", top);
  return e;
}

/* echo: the prompt's tokens before those of the answer. Takes over the reference. */
static json_t *with_prompt(const tn_reply *c, json_t *entries)
{
  const tn_prompt *p = &c->job->prompts[c->prompt];
  json_t *all = entries && c->prompt_entries ? json_array() : NULL;
  for (size_t i = 0; i < p->n; i++) tn_json_append(&all, echoed_entry(c, i));
  if (all && json_array_extend(all, entries) != 0) {
    json_decref(all);
    all = NULL;
  }
  json_decref(entries);
  return all;
}

static json_t *choice_of(const tn_reply *c)
{
  const tn_job *j = c->job;
  bool chat = j->gen.api == TN_API_CHAT;
  json_t *entries = kept_entries(c);
  json_t *text = j->gen.echo ? echoed_text(c) : json_stringn_nocheck(c->text.text ? c->text.text : "", c->text.n);
  if (j->gen.echo) entries = with_prompt(c, entries);
  json_t *o = json_pack("{s:i, s:s}", "index", (int)c->index, "finish_reason", c->finish);
  tn_json_set(&o, "logprobs", logprobs_of(j, entries, 0));
  if (chat) {
    json_t *message = json_pack("{s:s}", "role", "assistant");
    tn_json_set(&message, "content", text);
    tn_json_set(&o, "message", message);
  } else {
    tn_json_set(&o, "text", text);
  }
  if (j->gen.return_tokens) tn_json_set(&o, "tokens", json_incref(c->tokens));
  if (c->text.which) tn_json_set(&o, "stop_reason", json_stringn(c->text.which->p, c->text.which->n));
  if (j->gen.prompt_top >= 0 && !chat) tn_json_set(&o, "prompt_logprobs", json_incref(c->prompt_entries));
  return o;
}

json_t *tn_answer_whole(tn_job *j)
{
  json_t *choices = json_array();
  for (uint32_t i = 0; i < j->n_choices; i++) tn_json_append(&choices, choice_of(&j->choices[i]));
  json_t *all = head(j, object_of(j, false));
  tn_json_set(&all, "choices", choices);
  if (j->gen.prompt_top >= 0 && j->gen.api == TN_API_CHAT)
    tn_json_set(&all, "prompt_logprobs", json_incref(j->choices[0].prompt_entries));
  add_figures(&all, j);
  return all;
}
