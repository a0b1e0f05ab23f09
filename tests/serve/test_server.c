/* A server as clients meet it, on a tiny model: answers, streams, refusals, and what happens when someone leaves. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "serve_rig.h"
#include "support/engine_rig.h"
#include "utf8.h"

#define COMPLETIONS "/v1/completions"
#define CHAT "/v1/chat/completions"

TestSuite(server, .timeout = 60);

static const char *str_at(const json_t *j, const char *a, size_t i, const char *b)
{
  const char *s = json_string_value(json_object_get(json_array_get(json_object_get(j, a), i), b));
  return s ? s : "";
}

static json_t *completion(const char *prompt, int max, double temperature)
{
  return json_pack("{s:s, s:i, s:f, s:b}", "prompt", prompt, "max_tokens", max, "temperature", temperature,
                   "ignore_eos", 1);
}

static json_t *chat(const char *said, int max)
{
  return json_pack("{s:[{s:s, s:s}], s:i, s:f}", "messages", "role", "user", "content", said, "max_tokens", max,
                   "temperature", 0.0);
}

/* The whole text of a stream, all choices' texts one after another; checks what every chunk shares. */
static char *stream_text(const char *body, uint32_t choice, char reason[16])
{
  char *all = tn_strdup(""), *event, *id = NULL;
  bool done = false;
  reason[0] = '\0';
  for (size_t i = 0; (event = serve_event(body, i)); i++) {
    cr_assert(done == false, "an event behind [DONE]");
    if (!strcmp(event, "[DONE]")) {
      done = true;
      free(event);
      continue;
    }
    json_t *j = json_loads(event, JSON_ALLOW_NUL, NULL);
    cr_assert(j != NULL, "%s", event);
    const char *this_id = json_string_value(json_object_get(j, "id"));
    if (!id) id = tn_strdup(this_id);
    cr_assert(eq(str, id, (char *)this_id));
    json_t *c = json_array_get(json_object_get(j, "choices"), 0);
    const json_t *text = json_object_get(c, "text");
    if (!text) text = json_object_get(json_object_get(c, "delta"), "content");
    if (c && json_integer_value(json_object_get(c, "index")) == choice) {
      char *more = tn_asprintf("%s%s", all, text ? json_string_value(text) : "");
      free(all);
      all = more;
      cr_assert(reason[0] == '\0', "a chunk behind the last");
      const char *why = json_string_value(json_object_get(c, "finish_reason"));
      if (why) snprintf(reason, 16, "%s", why);
    }
    json_decref(j);
    free(event);
  }
  cr_assert(done, "no [DONE] in %s", body);
  free(id);
  return all;
}

/* The answer is the one that the engine gives without a server; streamed or not. */
Test(server, completion_is_the_engines)
{
  rig *e = rig_open(rig_tiny("llama"), NULL);
  int32_t *ids;
  size_t n, n_text;
  char *text, reason[16];
  tn_err err = tn_err_init();
  cr_assert(tn_tokenize(e->s.tokenizer, "the river", 9, TN_TOKENIZE_ADD_SPECIAL | TN_TOKENIZE_PARSE_SPECIAL, &ids, &n,
                        &err) == TN_OK);
  tn_request q = {
      .prompt = ids, .n_prompt = (int64_t)n, .max_new = 20, .sampling = tn_sampling_default(), .ignore_eog = 1};
  rig_submit(e, &q);
  rig_run(e, 0);
  cr_assert(tn_detokenize(e->s.tokenizer, e->r[0].tokens, e->r[0].n, 0, &text, &n_text, &err) == TN_OK);

  serve_rig *r = serve_open(rig_tiny("llama"), NULL, NULL);
  json_t *body = completion("the river", 20, 0);
  json_object_set_new(body, "return_tokens", json_true());
  json_t *a = serve_post(r, NULL, COMPLETIONS, json_deep_copy(body));
  json_t *c = json_array_get(json_object_get(a, "choices"), 0), *tokens = json_object_get(c, "tokens");
  cr_assert(eq(sz, json_array_size(tokens), e->r[0].n));
  for (uint32_t i = 0; i < e->r[0].n; i++)
    cr_assert(eq(i32, (int32_t)json_integer_value(json_array_get(tokens, i)), e->r[0].tokens[i]));
  cr_assert(eq(str, (char *)str_at(a, "choices", 0, "finish_reason"), "length"));
  json_object_set_new(body, "stream", json_true());
  char *ask = json_dumps(body, 0);
  serve_reply s = serve_ask(r, "POST", COMPLETIONS, NULL, ask);
  char *streamed = stream_text(s.body, 0, reason);
  cr_assert(eq(str, streamed, (char *)str_at(a, "choices", 0, "text")));
  cr_assert(eq(str, reason, "length"));
  cr_assert(strstr(s.head, "text/event-stream") != NULL);
  free(streamed), free(ask), free(text), free(ids);
  serve_reply_free(&s);
  json_decref(a);
  json_decref(body);
  serve_close(r);
  rig_close(e);
}

/* Role first, then texts, why, usage, [DONE]; and as many choices as were asked for. */
Test(server, chat_stream_has_the_order_that_clients_rely_on)
{
  serve_rig *r = serve_open(rig_tiny("llama"), NULL, NULL);
  json_t *body = chat("hello", 5);
  json_object_set_new(body, "stream", json_true());
  json_object_set_new(body, "n", json_integer(4));
  json_object_set_new(body, "temperature", json_real(1.5));
  json_object_set_new(body, "stream_options", json_pack("{s:b}", "include_usage", 1));
  char *ask = json_dumps(body, 0), *event, reason[16];
  serve_reply s = serve_ask(r, "POST", CHAT, NULL, ask);
  cr_assert(eq(int, s.status, 200));
  size_t n = 0;
  for (; (event = serve_event(s.body, n)); n++) {
    json_t *j = json_loads(event, JSON_ALLOW_NUL, NULL);
    if (n < 4) cr_assert(strstr(event, "\"role\":\"assistant\"") != NULL, "%s", event);
    if (j && json_array_size(json_object_get(j, "choices")) == 0) {
      json_t *u = json_object_get(j, "usage");
      cr_assert(json_integer_value(json_object_get(u, "completion_tokens")) > 0);
      char *last = serve_event(s.body, n + 1);
      cr_assert(eq(str, last, "[DONE]"));
      free(last);
    }
    json_decref(j);
    free(event);
  }
  for (uint32_t i = 0; i < 4; i++) {
    free(stream_text(s.body, i, reason));
    cr_assert(reason[0] != '\0', "choice %u does not end", i);
  }
  serve_reply_free(&s);
  free(ask);
  json_decref(body);
  serve_close(r);
}

static void expect_choices(serve_rig *r, int n)
{
  json_t *body = completion("abc", 4, 1);
  json_object_set_new(body, "n", json_integer(n));
  json_t *a = serve_post(r, NULL, COMPLETIONS, body);
  cr_assert(eq(sz, json_array_size(json_object_get(a, "choices")), (size_t)n));
  for (int i = 0; i < n; i++)
    cr_assert(
        eq(int,
           (int)json_integer_value(json_object_get(json_array_get(json_object_get(a, "choices"), (size_t)i), "index")),
           i));
  json_decref(a);
}

Test(server, n_choices_are_n)
{
  serve_rig *r = serve_open(rig_tiny("llama"), NULL, NULL);
  expect_choices(r, 2);
  expect_choices(r, 4);
  expect_choices(r, 8);
  serve_close(r);
}

static char *text_of_seed(serve_rig *r, json_int_t seed)
{
  json_t *body = completion("once", 24, 1.2);
  if (seed >= 0) json_object_set_new(body, "seed", json_integer(seed));
  json_t *a = serve_post(r, NULL, COMPLETIONS, body);
  if (seed >= 0) cr_assert(eq(i64, json_integer_value(json_object_get(a, "seed")), seed));
  char *text = tn_strdup(str_at(a, "choices", 0, "text"));
  json_decref(a);
  return text;
}

Test(server, a_seed_is_used_and_echoed)
{
  serve_rig *r = serve_open(rig_tiny("llama"), NULL, NULL);
  char *a = text_of_seed(r, 7), *b = text_of_seed(r, 7), *c = text_of_seed(r, 8), *d = text_of_seed(r, -1),
       *e = text_of_seed(r, -1);
  cr_assert(eq(str, a, b));
  cr_assert(ne(str, a, c));
  cr_assert(ne(str, d, e));
  free(a), free(b), free(c), free(d), free(e);
  serve_close(r);
}

/* Without a seed two servers do not say the same. */
Test(server, without_a_seed_every_process_has_its_own)
{
  char *said[2];
  for (int i = 0; i < 2; i++) {
    serve_rig *r = serve_open(rig_tiny("llama"), NULL, NULL);
    json_t *a = serve_post(r, NULL, COMPLETIONS, completion("once", 24, 0.8));
    said[i] = tn_strdup(str_at(a, "choices", 0, "text"));
    json_decref(a);
    serve_close(r);
  }
  cr_assert(ne(str, said[0], said[1]));
  free(said[0]), free(said[1]);
}

/* One request five times: what is cached changes nothing. */
Test(server, the_first_reply_is_the_fifth)
{
  serve_rig *r = serve_open(rig_tiny("llama"), NULL, NULL);
  char *first = NULL;
  for (int i = 0; i < 5; i++) {
    json_t *a = serve_post(r, NULL, CHAT, chat("a conversation that is long enough to fill several pages", 16));
    const char *text = json_string_value(
        json_object_get(json_object_get(json_array_get(json_object_get(a, "choices"), 0), "message"), "content"));
    if (!first) first = tn_strdup(text);
    cr_assert(eq(str, (char *)text, first));
    json_decref(a);
  }
  free(first);
  serve_close(r);
}

/* A stop string is never sent, not even its beginning, streamed or not. */
Test(server, a_stop_string_is_never_sent)
{
  serve_rig *r = serve_open(rig_tiny("llama"), NULL, NULL);
  json_t *a = serve_post(r, NULL, COMPLETIONS, completion("the", 40, 0));
  char *whole = tn_strdup(str_at(a, "choices", 0, "text")), reason[16];
  json_decref(a);
  size_t n = strlen(whole), at = 0;
  cr_assert(n > 12);
  while (at < n / 2 || (whole[at] & 0xC0) == 0x80) at++;
  size_t len = 6;
  while (at + len < n && (whole[at + len] & 0xC0) == 0x80) len++;
  char *stop = tn_strndup(whole + at, len), *cut = strstr(whole, stop);
  json_t *body = completion("the", 40, 0);
  json_object_set_new(body, "stop", json_string(stop));
  json_object_set_new(body, "stream", json_true());
  char *ask = json_dumps(body, 0);
  serve_reply s = serve_ask(r, "POST", COMPLETIONS, NULL, ask);
  char *streamed = stream_text(s.body, 0, reason);
  *cut = '\0';
  cr_assert(eq(str, streamed, whole));
  cr_assert(eq(str, reason, "stop"));
  json_object_set_new(body, "stream", json_false());
  a = serve_post(r, NULL, COMPLETIONS, json_incref(body));
  cr_assert(eq(str, (char *)str_at(a, "choices", 0, "text"), whole));
  json_decref(a);
  json_decref(body);
  serve_reply_free(&s);
  free(streamed), free(ask), free(stop), free(whole);
  serve_close(r);
}

/* Bytes that are no UTF-8 come out as valid text. */
Test(server, wild_bytes_are_valid_text)
{
  serve_rig *r = serve_open(rig_tiny("gemma3"), NULL, NULL);
  for (int i = 0; i < 3; i++) {
    json_t *body = completion("x", 40, 5);
    json_object_set_new(body, "seed", json_integer(i));
    json_object_set_new(body, "stream", json_boolean(i == 1));
    char *ask = json_dumps(body, 0);
    serve_reply s = serve_ask(r, "POST", COMPLETIONS, NULL, ask);
    cr_assert(eq(int, s.status, 200));
    cr_assert(eq(sz, tn_utf8_valid(s.body, s.n), s.n));
    serve_reply_free(&s);
    free(ask);
    json_decref(body);
  }
  serve_close(r);
}

/* A client that leaves in mid-stream takes its sequence with it; the next answer is untouched. */
Test(server, who_leaves_is_forgotten)
{
  serve_rig *r = serve_open(rig_tiny("llama"), (const char *const[]){"engine.ctx=100000", NULL}, NULL);
  json_t *before = serve_post(r, NULL, COMPLETIONS, completion("abc", 10, 0));
  const char *ask = "{\"prompt\": \"abc\", \"max_tokens\": 90000, \"ignore_eos\": true, \"stream\": true}";
  char *head =
      tn_asprintf("POST " COMPLETIONS " HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n%s", strlen(ask), ask);
  int fd = serve_connect(r), silent = serve_connect(r);
  serve_send(fd, head, strlen(head));
  char *whole = strstr(head, "true}") ? tn_strdup(head) : NULL;
  cr_assert(serve_wait_running(r, 1));
  memcpy(strstr(whole, "\"stream\": true"), "\"stream\":false", 14);
  serve_send(silent, whole, strlen(whole)); /* and one that waits for the answer in one piece */
  cr_assert(serve_wait_running(r, 2));
  close(fd);
  close(silent);
  cr_assert(serve_wait_running(r, 0));
  double aborted =
      serve_metric(r, "vllm:request_success_total{model_name=\"llama\",engine=\"0\",finished_reason=\"abort\"}");
  cr_assert(eq(dbl, aborted, 2));
  json_t *after = serve_post(r, NULL, COMPLETIONS, completion("abc", 10, 0));
  cr_assert(eq(str, (char *)str_at(after, "choices", 0, "text"), (char *)str_at(before, "choices", 0, "text")));
  json_decref(before), json_decref(after);
  free(head), free(whole);
  serve_close(r);
}

/* What the template raises is the client's answer; control tokens that a conversation spells stay text. */
Test(server, a_template_has_the_last_word)
{
  char path[] = "/tmp/tenon-template-XXXXXX";
  static const char source[] =
      "{% for m in messages %}{% if loop.index0 > 0 and m.role == messages[loop.index0 - 1].role %}"
      "{{ raise_exception('roles must alternate') }}{% endif %}<|{{ m.role }}|>{{ m.content }}{% endfor %}";
  int fd = mkstemp(path);
  cr_assert(fd >= 0 && write(fd, source, sizeof source - 1) == sizeof source - 1);
  close(fd);
  serve_rig *r = serve_open(rig_tiny("llama"), NULL, &(tn_server_cfg){.chat_template = path});
  int status;
  json_t *a = serve_post(r, &status, CHAT,
                         json_pack("{s:[{s:s, s:s}, {s:s, s:s}, {s:s, s:s}]}", "messages", "role", "user", "content",
                                   "a", "role", "user", "content", "b", "role", "user", "content", "c"));
  cr_assert(eq(int, status, 400));
  cr_assert(strstr(json_string_value(json_object_get(json_object_get(a, "error"), "message")),
                   "roles must alternate") != NULL);
  json_decref(a);
  a = serve_post(r, NULL, "/apply-template", chat("hi", 1));
  cr_assert(eq(str, (char *)json_string_value(json_object_get(a, "prompt")), "<|user|>hi"));
  json_decref(a);
  serve_close(r);
  unlink(path);
}

/* The prompt of /v1/embeddings as a vector of length 1; alike for a list, base64, and beside other work. */
Test(server, embeddings)
{
  serve_rig *r = serve_open(rig_tiny("llama"), NULL, NULL);
  json_t *a = serve_post(r, NULL, "/v1/embeddings", json_pack("{s:[s, s]}", "input", "a cat", "a dog"));
  json_t *data = json_object_get(a, "data"), *v = json_object_get(json_array_get(data, 0), "embedding"),
         *w = json_object_get(json_array_get(data, 1), "embedding");
  double sum = 0;
  size_t i;
  json_t *x;
  cr_assert(eq(sz, json_array_size(data), 2));
  cr_assert(eq(sz, json_array_size(v), 128));
  json_array_foreach(v, i, x) sum += json_real_value(x) * json_real_value(x);
  cr_assert(epsilon_eq(dbl, sum, 1, 1e-5));
  cr_assert(eq(int, json_equal(v, w), 0));
  json_t *b = serve_post(r, NULL, "/v1/embeddings", json_pack("{s:s}", "input", "a dog"));
  cr_assert(json_equal(w, json_object_get(json_array_get(json_object_get(b, "data"), 0), "embedding")) == 1);
  json_t *c =
      serve_post(r, NULL, "/v1/embeddings", json_pack("{s:s, s:s}", "input", "a dog", "encoding_format", "base64"));
  const char *text = json_string_value(json_object_get(json_array_get(json_object_get(c, "data"), 0), "embedding"));
  cr_assert(text && strlen(text) == (128 * 4 + 2) / 3 * 4);
  json_decref(a), json_decref(b), json_decref(c);
  serve_close(r);
}

/* echo with logprobs and no new token scores a text: the law of each token is the engine's. */
Test(server, prompt_logprobs)
{
  serve_rig *r = serve_open(rig_tiny("llama"), NULL, NULL);
  json_t *a = serve_post(
      r, NULL, COMPLETIONS,
      json_pack("{s:s, s:i, s:i, s:b}", "prompt", "the river", "max_tokens", 0, "prompt_logprobs", 2, "echo", 1));
  json_t *c = json_array_get(json_object_get(a, "choices"), 0), *p = json_object_get(c, "prompt_logprobs");
  size_t n = (size_t)json_integer_value(json_object_get(json_object_get(a, "usage"), "prompt_tokens"));
  cr_assert(strstr(str_at(a, "choices", 0, "text"), "the river") != NULL);
  cr_assert(eq(sz, json_array_size(p), n));
  cr_assert(eq(int, json_typeof(json_array_get(p, 0)), JSON_NULL));
  for (size_t i = 1; i < n; i++) {
    const char *id;
    json_t *law;
    json_object_foreach(json_array_get(p, i), id, law) cr_assert(json_real_value(json_object_get(law, "logprob")) < 0);
  }
  json_decref(a);
  serve_close(r);
}
