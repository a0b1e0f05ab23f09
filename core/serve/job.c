/* job: see job.h. */
#include "serve/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "serve/answer.h"
#include "serve/json_add.h"

static uint64_t random_bits(void)
{
  uint64_t x;
  if (getrandom(&x, sizeof x, GRND_NONBLOCK) != sizeof x) x = tn_now_ns() * 0x9E3779B97F4A7C15u;
  return x;
}

/* Key of choice k's draws: the first is the seed itself, so that n = 1 and the first of several agree. */
static uint64_t key_of(uint64_t seed, uint32_t k)
{
  if (k == 0) return seed;
  uint64_t x = seed ^ (k * 0x9E3779B97F4A7C15u);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

static bool choice_init(tn_job *j, uint32_t i)
{
  tn_reply *c = &j->choices[i];
  const tn_gen *g = &j->gen;
  *c = (tn_reply){.job = j, .index = i, .prompt = i / g->n, .key = key_of(j->seed, i % g->n)};
  c->text.stops = g->stop;
  c->text.n_stops = g->n_stop;
  c->text.include = g->include_stop;
  if (g->logprobs) c->entries = json_array();
  if (g->return_tokens) c->tokens = json_array();
  bool scored = g->prompt_top >= 0 || (g->echo && g->logprobs);
  if (scored) c->prompt_entries = json_array();
  if (scored) tn_json_append(&c->prompt_entries, json_null());
  return (!g->logprobs || c->entries) && (!g->return_tokens || c->tokens) && (!scored || c->prompt_entries);
}

tn_job *tn_job_new(tn_gen *gen, tn_prompt *prompts, uint32_t n_prompts, tn_outbox *out)
{
  tn_job *j = tn_zalloc(1, sizeof *j);
  if (!j) {
    tn_gen_free(gen);
    tn_prompts_free(prompts, n_prompts);
    return NULL;
  }
  j->gen = *gen;
  j->prompts = prompts;
  j->n_prompts = n_prompts;
  j->n_choices = j->n_open = n_prompts * gen->n;
  j->created = (int64_t)time(NULL);
  j->arrival_ns = tn_now_ns();
  j->seed = gen->seed_given ? gen->seed : random_bits() & INT32_MAX;
  snprintf(j->id, sizeof j->id, "%s-%016llx", gen->api == TN_API_CHAT ? "chatcmpl" : "cmpl",
           (unsigned long long)random_bits());
  tn_outbox_hold(out);
  j->out = out;
  j->choices = tn_zalloc(j->n_choices, sizeof *j->choices);
  bool ok = j->choices != NULL;
  for (uint32_t i = 0; ok && i < j->n_choices; i++) ok = choice_init(j, i);
  if (ok) return j;
  tn_job_free(j);
  return NULL;
}

void tn_prompts_free(tn_prompt *prompts, uint32_t n)
{
  for (uint32_t i = 0; prompts && i < n; i++) free(prompts[i].ids);
  free(prompts);
}

void tn_job_free(tn_job *j)
{
  if (!j) return;
  for (uint32_t i = 0; j->choices && i < j->n_choices; i++) {
    tn_reply *c = &j->choices[i];
    tn_stop_text_free(&c->text);
    json_decref(c->entries);
    json_decref(c->tokens);
    json_decref(c->prompt_entries);
    json_decref(c->vector);
  }
  free(j->choices);
  tn_prompts_free(j->prompts, j->n_prompts);
  tn_gen_free(&j->gen);
  tn_outbox_drop(j->out);
  free(j);
}

/* A part of the answer is lost: what is left of it is not sent. */
static void fail_memory(tn_job *j)
{
  tn_fault f;
  tn_fault_status(&f, 503, "no memory for the answer");
  tn_job_fail(j, &f);
}

/* One event of a stream; takes over the reference. */
static void send_event(tn_job *j, json_t *o)
{
  char *text = tn_json_text(o, JSON_COMPACT);
  json_decref(o);
  char *event = text ? tn_asprintf("data: %s\n\n", text) : NULL;
  free(text);
  if (j->fault.status != 0) {
    free(event);
    return;
  }
  if (event)
    tn_outbox_put(j->out, event, strlen(event));
  else
    fail_memory(j);
  free(event);
}

void tn_job_begin(tn_job *j)
{
  if (j->started) return;
  j->started = true;
  tn_outbox_begin(j->out, 200);
  if (!j->gen.stream || j->gen.api != TN_API_CHAT) return;
  for (uint32_t i = 0; i < j->n_choices; i++) send_event(j, tn_answer_chunk(&j->choices[i], NULL, NULL, NULL, NULL));
}

/* Logprob entries whose text can be sent up to byte `safe`; they leave the choice. */
static json_t *ripe_entries(tn_reply *c, size_t safe, bool last)
{
  if (!c->entries) return NULL;
  json_t *ripe = json_array(), *pair;
  while (ripe && (pair = json_array_get(c->entries, 0))) {
    size_t at = (size_t)json_integer_value(json_array_get(pair, 1));
    bool whole = last && !c->text.stopped;
    if (!whole && at >= safe) break;
    tn_json_append(&ripe, json_incref(json_array_get(pair, 0)));
    json_array_remove(c->entries, 0);
  }
  return ripe;
}

static json_t *ripe_tokens(tn_reply *c)
{
  json_t *all = c->tokens;
  if (all) c->tokens = json_array();
  return all;
}

/* What the stream can be told now. */
static void flush(tn_reply *c, const char *finish)
{
  tn_job *j = c->job;
  if (!j->gen.stream) return;
  tn_str text = tn_stop_text_take(&c->text, finish != NULL);
  if (text.n == 0 && !finish) return;
  send_event(j, tn_answer_chunk(c, &text, ripe_entries(c, c->text.sent, finish != NULL), ripe_tokens(c), finish));
}

/* Its law with the place of its text. */
static void keep_entry(tn_reply *c, const tn_job_token *t)
{
  json_t *pair = json_array();
  tn_json_append(&pair, tn_answer_entry(c->job, t));
  tn_json_append(&pair, json_integer((json_int_t)c->text.n));
  tn_json_append(&c->entries, pair);
}

bool tn_job_take(tn_reply *c, const tn_job_token *t)
{
  tn_job *j = c->job;
  char buf[1024], *piece = buf;
  uint32_t flags = j->gen.show_special ? TN_PIECE_SPECIAL : 0;
  c->last_ns = tn_now_ns();
  if (c->n_new++ == 0) c->first_ns = c->last_ns;
  c->begun = true;
  if (j->gen.return_tokens) tn_json_append(&c->tokens, json_integer(t->id));
  if (t->silent) return false;
  size_t n = tn_token_piece(j->tokenizer, t->id, flags, buf, sizeof buf);
  if (n > sizeof buf) {
    piece = malloc(n);
    if (!piece) {
      fail_memory(j);
      return true;
    }
    tn_token_piece(j->tokenizer, t->id, flags, piece, n);
  }
  if (j->gen.logprobs) keep_entry(c, t);
  bool fed = tn_stop_text_feed(&c->text, piece, n);
  if (piece != buf) free(piece);
  if (!fed) fail_memory(j);
  if (fed && !c->text.stopped) flush(c, NULL);
  return c->text.stopped || j->fault.status != 0;
}

void tn_job_logits(tn_reply *c, int64_t pos, const float *row, uint32_t n_vocab)
{
  tn_job *j = c->job;
  const tn_prompt *p = &j->prompts[c->prompt];
  if (!c->prompt_entries || pos + 1 >= (int64_t)p->n || pos + 1 != (int64_t)json_array_size(c->prompt_entries)) return;
  uint32_t n = j->gen.prompt_top >= 0 ? (uint32_t)j->gen.prompt_top : 0;
  if (j->gen.echo && j->gen.top > n) n = j->gen.top;
  tn_json_append(&c->prompt_entries, tn_answer_prompt_entry(j, p->ids[pos + 1], row, n_vocab, n));
}

void tn_job_hidden(tn_reply *c, float *row, size_t n) { c->vector = tn_answer_vector(row, n, c->job->gen.base64); }

static void complete_stream(tn_job *j)
{
  static const char done[] = "data: [DONE]\n\n";
  if (j->gen.usage) send_event(j, tn_answer_usage_chunk(j));
  if (j->fault.status != 0) return;
  tn_outbox_put(j->out, done, sizeof done - 1);
  tn_outbox_end(j->out);
}

static void complete_whole(tn_job *j)
{
  json_t *all = j->gen.api == TN_API_EMBEDDING ? tn_answer_embeddings(j) : tn_answer_whole(j);
  char *text = tn_json_text(all, JSON_COMPACT | JSON_REAL_PRECISION(17));
  json_decref(all);
  if (text) {
    tn_outbox_put(j->out, text, strlen(text));
    tn_outbox_end(j->out);
  } else {
    fail_memory(j);
  }
  free(text);
}

static void complete(tn_job *j)
{
  j->delivered = !tn_outbox_left(j->out);
  if (j->gen.stream)
    complete_stream(j);
  else
    complete_whole(j);
}

void tn_job_close(tn_reply *c, const char *why)
{
  tn_job *j = c->job;
  bool found = false;
  if (c->closed) return;
  c->closed = true;
  if (!tn_stop_text_end(&c->text, &found)) fail_memory(j);
  c->finish = found ? "stop" : why;
  j->n_open--;
  if (j->fault.status != 0) return;
  flush(c, c->finish);
  if (j->n_open == 0 && j->fault.status == 0) complete(j);
}

void tn_job_fail(tn_job *j, const tn_fault *f)
{
  if (j->fault.status != 0) return;
  j->fault = *f;
  char *text = tn_fault_text(f);
  if (!j->started || !j->gen.stream) {
    tn_outbox_begin(j->out, f->status);
    if (text) tn_outbox_put(j->out, text, strlen(text));
  } else if (text) {
    char *event = tn_asprintf("data: %s\n\n", text);
    if (event) tn_outbox_put(j->out, event, strlen(event));
    free(event);
  }
  free(text);
  j->started = true;
  tn_outbox_end(j->out);
}
