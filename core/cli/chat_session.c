/* chat_session: the engine of a conversation. Every answer continues the cache of what was said before; only what is new
 * in the prompt's text is run. Where the template rewrites what it wrote before, all of it is run again. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "cli/chat_int.h"

void chat_forget_cache(chat_session *s)
{
  free(s->cache.bytes);
  free(s->cache.pending);
  free(s->cache.text);
  s->cache = (chat_cache){0};
}

/* ---------------------------------------------------------------- events */

static bool keep(chat_session *s, const char *p, size_t n)
{
  if (s->n_answer + n + 1 > s->cap_answer) {
    size_t cap = 2 * (s->n_answer + n) + 256;
    char *grown = realloc(s->answer, cap);
    if (!grown) return false;
    s->answer = grown;
    s->cap_answer = cap;
  }
  memcpy(s->answer + s->n_answer, p, n);
  s->n_answer += n;
  s->answer[s->n_answer] = '\0';
  return true;
}

static void show(chat_session *s, const char *p, size_t n)
{
  if (n > 0 && !keep(s, p, n) && s->error.code == TN_OK) tn_fail(&s->error, TN_E_NOMEM, "no memory for the answer");
  if (n == 0 || s->a->engine.json) return;
  fwrite(p, 1, n, stdout);
  fflush(stdout);
}

static void on_token(void *ctx, const tn_token_event *e)
{
  chat_session *s = ctx;
  s->last_ns = tn_now_ns();
  if (s->n_new++ == 0) s->first_ns = s->last_ns;
  if (!tn_token_is_eog(s->setup.tokenizer, e->token)) {
    size_t n = tn_token_piece(s->setup.tokenizer, e->token, 0, s->piece, CHAT_MAX_PIECE);
    if (n > CHAT_MAX_PIECE) n = CHAT_MAX_PIECE;
    show(s, s->shown, tn_utf8_feed(&s->stream, s->piece, n, s->shown));
  }
  if (tn_cli_interrupted() || s->error.code != TN_OK) tn_engine_cancel(s->setup.engine, e->seq);
}

/* Keeps the cache; without it the next turn runs the whole conversation. */
static void keep_cache(chat_session *s, const tn_seq *seq)
{
  const uint8_t *print = tn_composition_fingerprint(s->setup.composition);
  int64_t n = seq->n_tok - seq->n_done;
  if (n < 0 || tn_engine_save(s->setup.engine, seq->id, print, &s->cache.bytes, &s->cache.n, NULL) != TN_OK) return;
  s->cache.pending = malloc(((size_t)n + 1) * sizeof *s->cache.pending);
  if (!s->cache.pending) {
    chat_forget_cache(s);
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    int32_t token = seq->tokens[seq->n_done + i];
    if (!tn_token_is_eog(s->setup.tokenizer, token)) s->cache.pending[s->cache.n_pending++] = token;
  }
}

static void on_finish(void *ctx, const tn_seq *seq, uint32_t why, const char *msg)
{
  chat_session *s = ctx;
  s->why = why;
  s->n_prompt = seq->n_prompt;
  s->n_cached = seq->n_cached;
  chat_forget_cache(s);
  if (msg)
    tn_fail(&s->error, TN_E_DEVICE, "%s", msg);
  else
    keep_cache(s, seq);
}

/* ---------------------------------------------------------------- one answer */

static tn_status add_message(chat_session *s, const char *role, const char *text, size_t n, tn_err *err)
{
  json_t *content = json_stringn(text, n);
  if (!content) return tn_fail(err, TN_E_ARG, "the text is no UTF-8, or there is no memory for it");
  json_t *m = json_pack("{s:s, s:o}", "role", role, "content", content);
  if (!m || json_array_append_new(s->messages, m) != 0) return tn_fail(err, TN_E_NOMEM, "no memory for the message");
  return TN_OK;
}

/* What follows the cached text in the new one, as tokens behind those not yet run. NULL in *ids: the cache is of no use. */
static tn_status tokens_behind(const chat_session *s, const tn_chat_text *t, int32_t **ids, size_t *n, tn_err *err)
{
  const chat_cache *c = &s->cache;
  *ids = NULL;
  if (!c->bytes || t->n <= c->n_text || memcmp(t->p, c->text, c->n_text) != 0) return TN_OK;
  tn_span *plain = tn_zalloc(t->n_plain + 1, sizeof *plain);
  if (!plain) return tn_fail(err, TN_E_NOMEM, "no memory to tokenize");
  size_t k = 0;
  for (size_t i = 0; i < t->n_plain; i++) {
    if (t->plain[i].to <= c->n_text) continue;
    plain[k].from = t->plain[i].from > c->n_text ? t->plain[i].from - c->n_text : 0;
    plain[k++].to = t->plain[i].to - c->n_text;
  }
  int32_t *more;
  size_t n_more;
  tn_status st = tn_tokenize_spans(s->setup.tokenizer, t->p + c->n_text, t->n - c->n_text, TN_TOKENIZE_PARSE_SPECIAL,
                                   plain, k, &more, &n_more, err);
  free(plain);
  if (st != TN_OK) return st;
  /* Text that goes on in plain words would be cut into other tokens with what stands before it. */
  bool fits = n_more > 0 && tn_token_type(s->setup.tokenizer, more[0]) == TN_TOKEN_CONTROL;
  if (fits && !(*ids = malloc((c->n_pending + n_more) * sizeof **ids)))
    st = tn_fail(err, TN_E_NOMEM, "no memory to tokenize");
  if (*ids) {
    if (c->n_pending) memcpy(*ids, c->pending, c->n_pending * sizeof **ids);
    memcpy(*ids + c->n_pending, more, n_more * sizeof **ids);
    *n = c->n_pending + n_more;
  }
  free(more);
  return st;
}

static uint64_t seed_of(const chat_session *s)
{
  uint64_t seed = s->a->seed_given ? (uint64_t)s->a->seed : s->setup.opts.seed;
  if (seed == 0 && s->a->sampling.temperature > 0 && getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed)
    seed = tn_now_ns();
  return (seed + s->turns) & INT32_MAX;
}

static tn_status submit(chat_session *s, const tn_chat_text *t, tn_err *err)
{
  int32_t *ids;
  size_t n;
  tn_status st = tokens_behind(s, t, &ids, &n, err);
  bool cached = ids != NULL;
  if (st == TN_OK && !cached) st = tn_chat_tokens(s->setup.tokenizer, t, &ids, &n, err);
  if (st == TN_OK && n == 0) st = tn_fail(err, TN_E_ARG, "the chat template makes no prompt of the conversation");
  if (st == TN_OK) {
    tn_request r = {.prompt = ids,
                    .n_prompt = (int64_t)n,
                    .max_new = s->a->n_predict < 0 ? TN_UNTIL_FULL : s->a->n_predict,
                    .sampling = s->a->sampling,
                    .key = seed_of(s),
                    .ignore_eog = s->a->ignore_eos};
    st = cached ? tn_engine_restore(s->setup.engine, s->cache.bytes, s->cache.n,
                                    tn_composition_fingerprint(s->setup.composition), &r, &s->seq, err)
                : tn_engine_submit(s->setup.engine, &r, &s->seq, err);
  }
  free(ids);
  return st;
}

/* The prompt's text and the answer behind it are what the cache now holds. */
static void name_cache(chat_session *s, const tn_chat_text *t)
{
  if (!s->cache.bytes) return;
  s->cache.text = malloc(t->n + s->n_answer + 1);
  if (!s->cache.text) {
    chat_forget_cache(s);
    return;
  }
  memcpy(s->cache.text, t->p, t->n);
  if (s->n_answer) memcpy(s->cache.text + t->n, s->answer, s->n_answer);
  s->cache.n_text = t->n + s->n_answer;
}

static tn_status generate(chat_session *s, tn_err *err)
{
  tn_chat_text text;
  s->stream = (tn_utf8_stream){0};
  s->error = tn_err_init();
  s->n_answer = 0;
  s->n_new = 0;
  s->start_ns = s->first_ns = s->last_ns = tn_now_ns();
  if (!keep(s, "", 0)) return tn_fail(err, TN_E_NOMEM, "no memory for the answer");
  tn_status st = tn_chat_prompt(&s->chat, s->messages, NULL, NULL, true, &text, err);
  if (st == TN_OK) st = submit(s, &text, err);
  while (st == TN_OK && !tn_engine_idle(s->setup.engine)) {
    st = tn_engine_step(s->setup.engine, err);
    if (tn_cli_interrupted()) tn_engine_cancel(s->setup.engine, s->seq);
  }
  char tail[4];
  if (st == TN_OK) show(s, tail, tn_utf8_flush(&s->stream, tail));
  if (st == TN_OK && s->error.code != TN_OK) st = tn_fail(err, s->error.code, "%s", s->error.msg);
  if (st == TN_OK)
    name_cache(s, &text);
  else
    chat_forget_cache(s);
  tn_chat_text_clear(&text);
  return st;
}

static double per_second(uint64_t n, uint64_t ns) { return ns ? (double)n * 1e9 / (double)ns : 0; }

static void print_times(const chat_session *s)
{
  long long run = (long long)(s->n_prompt - s->n_cached), cached = (long long)s->n_cached;
  uint64_t eval = s->last_ns - s->first_ns, n = s->n_new > 1 ? s->n_new - 1 : 0;
  fprintf(stderr,
          "[prompt: %lld tokens run, %lld in the cache, %.0f ms; answer: %llu tokens, %.2f tokens per second%s]\n", run,
          cached, (double)(s->first_ns - s->start_ns) / 1e6, (unsigned long long)s->n_new, per_second(n, eval),
          s->why == TN_FINISH_CANCELLED ? ", stopped"
          : s->why == TN_FINISH_LENGTH  ? ", cut at its length"
                                        : "");
}

static void print_json(const chat_session *s)
{
  static const char *const words[] = {"none", "stop", "length", "cancelled", "error"};
  json_t *j = json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:f}", "role", "assistant", "content", s->answer,
                        "finish_reason", words[s->why < TN_ARRAY_LEN(words) ? s->why : 0], "prompt_n",
                        (json_int_t)(s->n_prompt - s->n_cached), "cached_n", (json_int_t)s->n_cached, "predicted_n",
                        (json_int_t)s->n_new, "prompt_ms", (double)(s->first_ns - s->start_ns) / 1e6);
  json_dumpf(j, stdout, JSON_COMPACT);
  putchar('\n');
  fflush(stdout);
  json_decref(j);
}

tn_status chat_answer(chat_session *s, const char *text, size_t n, tn_err *err)
{
  tn_status st = add_message(s, "user", text, n, err);
  if (st != TN_OK) return st;
  tn_cli_forget_interrupt();
  st = generate(s, err);
  tn_cli_forget_interrupt();
  if (st == TN_OK) st = add_message(s, "assistant", s->answer, s->n_answer, err);
  if (st != TN_OK) {
    if (s->n_answer > 0 && !s->a->engine.json) puts("");
    json_array_remove(s->messages, json_array_size(s->messages) - 1);
    return st;
  }
  s->turns++;
  if (s->a->engine.json) {
    print_json(s);
    return TN_OK;
  }
  puts("");
  fflush(stdout);
  print_times(s);
  return TN_OK;
}

/* ---------------------------------------------------------------- life */

bool chat_reset(chat_session *s)
{
  tn_err err = tn_err_init();
  chat_forget_cache(s);
  json_array_clear(s->messages);
  return !s->a->system || add_message(s, "system", s->a->system, strlen(s->a->system), &err) == TN_OK;
}

int chat_open(chat_session *s)
{
  tn_setup_args more = {.events = {.ctx = s, .token = on_token, .finish = on_finish}};
  tn_err err = tn_err_init();
  s->setup = (tn_setup){0};
  int code = tn_engine_args_open(&s->a->engine, &more, &s->setup);
  if (code != TN_EXIT_OK) return code;
  if (tn_chat_open(s->setup.model->gguf, s->setup.tokenizer, s->a->template, &s->chat, &err) == TN_OK)
    return TN_EXIT_OK;
  return tn_cli_fail(&s->a->cli, &err);
}

void chat_close(chat_session *s)
{
  chat_forget_cache(s);
  tn_chat_close(&s->chat);
  if (s->setup.engine) tn_setup_close(&s->setup);
  s->setup = (tn_setup){0};
}
