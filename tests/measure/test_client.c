/* The HTTP client: what it asks, what it makes of streams in any pieces, and the sentence for each way to fail. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "client_rig.h"
#include "measure/client_stream.h"

#define HEAD "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
#define TEXT(t) "data: {\"choices\": [{\"index\": 0, \"text\": \"" t "\", \"finish_reason\": null}]}\n\n"
#define LAST "data: {\"choices\": [{\"index\": 0, \"text\": \"\", \"finish_reason\": \"length\"}]}\n\n"
#define USAGE                                                                            \
  "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 7, \"completion_tokens\": 3, " \
  "\"prompt_tokens_details\": {\"cached_tokens\": 4}}}\n\n"
#define DONE "data: [DONE]\n\n"

static tn_client *open_client(const char *url)
{
  tn_client *c;
  tn_err err = tn_err_init();
  tn_client_cfg cfg = {.url = url, .api_key = "secret"};
  cr_assert(tn_client_open(&cfg, &c, &err) == TN_OK, "%s", err.msg);
  return c;
}

static tn_client_answer *ask(const char *url, bool chat)
{
  tn_client *c = open_client(url);
  tn_client_answer *a;
  tn_err err = tn_err_init();
  tn_client_request q = {.model = "m", .prompt = "say \"a\"", .chat = chat, .max_tokens = 3, .seed = -1};
  cr_assert(tn_client_ask(c, &q, NULL, &a, &err) == TN_OK, "%s", err.msg);
  tn_client_close(c);
  return a;
}

Test(measure_client, a_stream)
{
  const char *const pieces[] = {HEAD ": keep-alive\n\n" TEXT("a"), TEXT("") TEXT("bc"), LAST USAGE DONE, NULL};
  canned *s = canned_open(pieces, 30);
  tn_client_answer *a = ask(canned_url(s), false);
  cr_assert(a->ok, "%s", a->err.msg);
  cr_assert(eq(int, a->status, 200));
  cr_assert(eq(str, a->text, "abc"));
  cr_assert(eq(str, a->finish, "length"));
  cr_assert(eq(u32, a->n_chunks, 3)); /* a piece without text is one, the end and the usage are none */
  cr_assert(a->n_prompt == 7 && a->n_new == 3 && a->n_cached == 4);
  cr_assert(a->sent_ns < a->chunk_ns[0] && a->chunk_ns[0] + 20000000 < a->chunk_ns[1] &&
                a->chunk_ns[1] <= a->chunk_ns[2] && a->chunk_ns[2] + 20000000 < a->done_ns,
            "pieces come 30 ms apart");
  const char *r = canned_request(s);
  cr_assert(strncmp(r, "POST /v1/completions HTTP/1.1\r\n", 31) == 0, "%s", r);
  cr_assert(strstr(r, "Authorization: Bearer secret\r\n") && !strstr(r, "Expect:"), "%s", r);
  json_t *sent = json_loads(strstr(r, "\r\n\r\n") + 4, 0, NULL);
  json_t *want = json_pack("{s:s, s:s, s:i, s:f, s:b, s:{s:b}}", "model", "m", "prompt", "say \"a\"", "max_tokens", 3,
                           "temperature", 0.0, "stream", 1, "stream_options", "include_usage", 1);
  cr_assert(json_equal(sent, want), "%s", r);
  json_decref(sent);
  json_decref(want);
  tn_client_answer_free(a);
  canned_close(s);
}

Test(measure_client, a_chat)
{
  const char *const pieces[] = {
      HEAD "data: {\"choices\": [{\"delta\": {\"role\": \"assistant\", \"content\": \"\"}, \"finish_reason\": "
           "null}]}\r\n\r\n"
           "data:{\"choices\": [{\"delta\": {\"content\": \"\xC3\xA9\"}, \"finish_reason\": null}]}\r\n\r\n"
           "data: {\"choices\": [{\"delta\": {}, \"finish_reason\": \"stop\"}]}\r\n\r\n" DONE,
      NULL};
  canned *s = canned_open(pieces, 0);
  tn_client_answer *a = ask(canned_url(s), true);
  cr_assert(a->ok, "%s", a->err.msg);
  cr_assert(eq(str, a->text, "\xC3\xA9"));
  cr_assert(eq(str, a->finish, "stop"));
  cr_assert(a->n_chunks == 1 && a->n_new == -1 && a->n_cached == -1);
  const char *r = canned_request(s);
  cr_assert(strncmp(r, "POST /v1/chat/completions ", 26) == 0, "%s", r);
  cr_assert(strstr(r, "\"messages\":[{\"role\":\"user\",\"content\":\"say \\\"a\\\"\"}]") != NULL, "%s", r);
  tn_client_answer_free(a);
  canned_close(s);
}

/* A request that fails is an answer that says why. */
static void fails(const char *piece, int status, const char *why)
{
  const char *const pieces[] = {piece, NULL};
  canned *s = canned_open(pieces, 0);
  tn_client_answer *a = ask(canned_url(s), false);
  cr_assert(a->ok == false && a->status == status && strstr(a->err.msg, why), "%d: '%s', want '%s'", a->status,
            a->err.msg, why);
  cr_assert(strstr(a->err.msg, "/v1/completions: ") != NULL, "'%s' names no URL", a->err.msg);
  tn_client_answer_free(a);
  canned_close(s);
}

Test(measure_client, failures)
{
  fails("HTTP/1.1 400 Bad Request\r\nContent-Length: 45\r\n\r\n{\"error\": {\"message\": \"the prompt is empty\"}}",
        400, "HTTP 400: the prompt is empty");
  fails("HTTP/1.1 404 Not Found\r\nContent-Length: 8\r\n\r\nno route", 404, "HTTP 404: no route");
  fails("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", 500, "HTTP 500");
  fails(HEAD "data: {\"error\": {\"message\": \"out of pages\"}}\n\n" DONE, 200, "out of pages");
  fails(HEAD TEXT("a"), 200, "broke off after 1 pieces");
  fails(HEAD "data: {oops}\n\n", 200, "event 1 of the stream is no JSON");
  fails("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{\"text\": \"\"}", 200, "no stream of events: {\"text\"");
  fails("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", 200, "");
  tn_client_answer *a = ask("http://127.0.0.1:1", false);
  cr_assert(a->ok == false && a->status == 0 && strstr(a->err.msg, "127.0.0.1"), "%s", a->err.msg);
  tn_client_answer_free(a);
}

/* Eight at once, and answers come with the request they belong to. */
Test(measure_client, many_at_once)
{
  enum { N = 8 };
  const char *const pieces[] = {HEAD TEXT("x"), LAST DONE, NULL};
  canned *s = canned_open(pieces, 100);
  tn_client *c = open_client(canned_url(s));
  tn_err err = tn_err_init();
  bool seen[N] = {false};
  uint64_t start = tn_now_ns();
  int32_t tokens[] = {1, 2, 3};
  for (uintptr_t i = 0; i < N; i++) {
    tn_client_request q = {
        .tokens = tokens, .n_tokens = 3, .max_tokens = 1, .ignore_eos = true, .seed = 5, .user = (void *)i};
    cr_assert(tn_client_send(c, &q, &err) == TN_OK, "%s", err.msg);
  }
  cr_assert(eq(u32, tn_client_running(c), N));
  for (int i = 0; i < N; i++) {
    tn_client_answer *a;
    cr_assert(tn_client_wait(c, 5000, &a, &err) == TN_OK && a, "%s", err.msg);
    cr_assert(a->ok && !seen[(uintptr_t)a->user], "%s", a->err.msg);
    seen[(uintptr_t)a->user] = true;
    tn_client_answer_free(a);
  }
  cr_assert(tn_now_ns() - start < 600000000u, "they ran one after the other");
  cr_assert(tn_client_running(c) == 0 && canned_n(s) == N);
  cr_assert(strstr(canned_request(s), "\"prompt\":[1,2,3]") && strstr(canned_request(s), "\"ignore_eos\":true") &&
            strstr(canned_request(s), "\"seed\":5"));
  tn_client_answer *none;
  cr_assert(tn_client_wait(c, 5000, &none, &err) == TN_OK && !none, "nothing is under way");
  tn_client_close(c);
  canned_close(s);
}

static bool at_once(void) { return true; }

Test(measure_client, stops_when_asked)
{
  const char *const pieces[] = {HEAD TEXT("x"), TEXT("y"), NULL};
  canned *s = canned_open(pieces, 700);
  tn_client *c = open_client(canned_url(s));
  tn_client_answer *a;
  tn_err err = tn_err_init();
  tn_client_request q = {.prompt = "p", .max_tokens = 1};
  cr_assert(tn_client_ask(c, &q, at_once, &a, &err) == TN_E_STATE && !a);
  cr_assert(strstr(err.msg, "interrupted") && tn_client_running(c) == 0, "%s", err.msg);
  tn_client_close(c);
  canned_close(s);
}

Test(measure_client, refuses)
{
  tn_client *c;
  tn_err err = tn_err_init();
  static const char *const bad[] = {"127.0.0.1:8080", "ftp://host", "http://", ""};
  for (size_t i = 0; i < TN_ARRAY_LEN(bad); i++) {
    tn_client_cfg cfg = {.url = bad[i]};
    cr_assert(tn_client_open(&cfg, &c, &err) == TN_E_ARG && !c, "'%s' was taken", bad[i]);
    cr_assert(strstr(err.msg, "is no URL of a server") != NULL, "%s", err.msg);
  }
  tn_client_cfg cfg = {.url = "http://host:1/v1//"};
  cr_assert(tn_client_open(&cfg, &c, &err) == TN_OK);
  cr_assert(eq(str, (char *)tn_client_url(c), "http://host:1"));
  int32_t token = 1;
  const tn_client_request wrong[] = {{.max_tokens = 1},
                                     {.prompt = "x", .max_tokens = 0},
                                     {.tokens = &token, .n_tokens = 1, .chat = true, .max_tokens = 1},
                                     {.prompt = "\xFF", .max_tokens = 1}};
  for (size_t i = 0; i < TN_ARRAY_LEN(wrong); i++)
    cr_assert(tn_client_send(c, &wrong[i], &err) == TN_E_ARG, "request %zu was taken", i);
  tn_client_close(c);
}

Test(measure_client, the_model)
{
  const char *const pieces[] = {
      "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"data\": [{\"id\": \"llama\"}, {\"id\": \"b\"}]}", NULL};
  canned *s = canned_open(pieces, 0);
  tn_client *c = open_client(canned_url(s));
  tn_err err = tn_err_init();
  char *model;
  json_t *j;
  cr_assert(tn_client_model(c, &model, &err) == TN_OK, "%s", err.msg);
  cr_assert(eq(str, model, "llama"));
  cr_assert(strncmp(canned_request(s), "GET /v1/models ", 15) == 0);
  cr_assert(tn_client_get(c, "/v1/plan", &j, &err) == TN_OK && json_is_object(j));
  json_decref(j);
  free(model);
  tn_client_close(c);
  canned_close(s);
}

/* Where the bytes are cut changes nothing. */
Test(measure_client, any_pieces)
{
  static const char whole[] =
      ": c\r\n\r\n" TEXT("\\u00e9") "data:\n\nid: 3\ndata: {\"choices\": [{\"text\": \"z\"}]}\r\n" LAST USAGE DONE;
  for (size_t cut = 1; cut < sizeof whole; cut++) {
    tn_client_answer *a = tn_zalloc(1, sizeof *a);
    a->err = tn_err_init();
    tn_stream s = {.a = a};
    for (size_t at = 0; at < sizeof whole - 1; at += cut) {
      size_t n = sizeof whole - 1 - at < cut ? sizeof whole - 1 - at : cut;
      char *copy = malloc(n); /* exactly as long, so that a read past it is seen */
      memcpy(copy, whole + at, n);
      cr_assert(tn_stream_feed(&s, copy, n, 1 + at) == TN_OK, "%s", a->err.msg);
      free(copy);
    }
    cr_assert(s.done && a->n_chunks == 2 && strcmp(a->text, "\xC3\xA9z") == 0 && a->n_new == 3, "cut %zu: %s", cut,
              a->text);
    tn_stream_release(&s);
    tn_client_answer_free(a);
  }
}

/* A token may be the byte 0. */
Test(measure_client, a_text_with_a_nul)
{
  static const char whole[] = TEXT("a\\u0000b") LAST DONE;
  tn_client_answer *a = tn_zalloc(1, sizeof *a);
  a->err = tn_err_init();
  tn_stream s = {.a = a};
  cr_assert(tn_stream_feed(&s, whole, sizeof whole - 1, 1) == TN_OK, "%s", a->err.msg);
  cr_assert(s.done && a->n_text == 3 && memcmp(a->text, "a\0b", 4) == 0);
  tn_stream_release(&s);
  tn_client_answer_free(a);
}
