/* What a server refuses, and how it says so: fields, sizes, keys, queues; loading and shutting down. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "serve_rig.h"
#include "support/engine_rig.h"

TestSuite(limits, .timeout = 60);

#define LLAMA rig_tiny("llama")

/* The body is refused with that status, and the error names param. */
static void refused(serve_rig *r, const char *path, const char *body, int status, const char *param)
{
  serve_reply a = serve_ask(r, "POST", path, NULL, body);
  cr_assert(a.status == status, "%s: %d %s", body, a.status, a.body);
  json_t *j = json_loads(a.body, 0, NULL), *e = json_object_get(j, "error");
  const char *p = json_string_value(json_object_get(e, "param"));
  const char *message = json_string_value(json_object_get(e, "message")),
             *type = json_string_value(json_object_get(e, "type"));
  cr_assert(message && type, "%s", a.body);
  cr_assert(eq(str, (char *)(p ? p : ""), (char *)param));
  json_decref(j);
  serve_reply_free(&a);
}

Test(limits, fields_are_named)
{
  static const struct {
    const char *body, *param;
  } bad[] = {{"{\"prompt\": \"a\", \"tools\": []}", "tools"},
             {"{\"prompt\": \"a\", \"response_format\": {\"type\": \"json_object\"}}", "response_format"},
             {"{\"prompt\": \"a\", \"temprature\": 1}", "temprature"},
             {"{\"prompt\": \"a\", \"temperature\": \"hot\"}", "temperature"},
             {"{\"prompt\": \"a\", \"temperature\": -1}", "temperature"},
             {"{\"prompt\": \"a\", \"n\": 0}", "n"},
             {"{\"prompt\": \"a\", \"n\": 65}", "n"},
             {"{\"prompt\": \"a\", \"stop\": [\"\"]}", "stop"},
             {"{\"prompt\": \"a\", \"logit_bias\": {\"x\": 1}}", "logit_bias"},
             {"{\"prompt\": \"a\", \"logit_bias\": {\"100000\": 1}}", "logit_bias"},
             {"{\"prompt\": \"a\", \"logprobs\": true}", "logprobs"},
             {"{\"prompt\": \"a\", \"suffix\": \"b\"}", "suffix"},
             {"{\"prompt\": [1, 9999]}", "prompt"},
             {"{\"prompt\": \"\"}", "prompt"},
             {"{\"max_tokens\": 4}", "prompt"},
             {"{\"prompt\": \"a\", \"messages\": []}", "messages"},
             {"{\"prompt\": \"a\", \"stream_options\": {\"x\": true}, \"stream\": true}", "stream_options"},
             {"{\"prompt\": \"a\", \"tenon\": {\"memory.paged.page_tokens\": 8}}", "tenon"},
             {"{\"prompt\": \"a\", \"tenon\": {\"memory.paged.nothing\": 8}}", "tenon"},
             {"[1]", ""},
             {"{\"prompt\": \"a\"", ""},
             {"", ""},
             {"{\"prompt\": \"\\ud800\"}", ""},
             {"{\"prompt\": \"a\", \"prompt\": \"b\"}", ""}};
  serve_rig *r = serve_open(LLAMA, NULL, NULL);
  for (size_t i = 0; i < TN_ARRAY_LEN(bad); i++) refused(r, "/v1/completions", bad[i].body, 400, bad[i].param);
  refused(r, "/v1/completions", "{\"prompt\": \"a\", \"model\": \"other\"}", 404, "model");
  refused(r, "/v1/chat/completions", "{\"messages\": [{\"role\": \"user\", \"content\": 3}]}", 400, "messages");
  refused(r, "/v1/chat/completions", "{\"messages\": []}", 400, "messages");
  refused(r, "/v1/chat/completions", "{\"messages\": [{\"role\": \"user\"}], \"top_logprobs\": 2}", 400,
          "top_logprobs");
  refused(r, "/v1/chat/completions", "{\"messages\": [{\"role\": \"user\"}], \"tool_choice\": \"auto\"}", 400,
          "tool_choice");
  serve_close(r);
}

/* null is absent; temperature 0, top_k 1 and top_p 0 are all fine. */
Test(limits, edges_are_taken)
{
  static const char *const good[] = {
      "{\"prompt\": \"a\", \"max_tokens\": 2, \"stop\": null, \"seed\": null, \"n\": null}",
      "{\"prompt\": \"a\", \"max_tokens\": 2, \"temperature\": 0}",
      "{\"prompt\": \"a\", \"max_tokens\": 2, \"top_k\": 1}",
      "{\"prompt\": \"a\", \"max_tokens\": 2, \"top_p\": 0}",
      "{\"prompt\": \"a\", \"max_tokens\": 0}",
      "{\"prompt\": [\"a\", \"b\"], \"max_tokens\": 2, \"n\": 2}",
      "{\"prompt\": [[5, 6], [7]], \"max_tokens\": 2}",
      "{\"prompt\": \"a\", \"response_format\": {\"type\": \"text\"}, \"user\": \"me\"}"};
  serve_rig *r = serve_open(LLAMA, NULL, NULL);
  for (size_t i = 0; i < TN_ARRAY_LEN(good); i++) {
    serve_reply a = serve_ask(r, "POST", "/v1/completions", NULL, good[i]);
    cr_assert(a.status == 200, "%s: %s", good[i], a.body);
    serve_reply_free(&a);
  }
  serve_close(r);
}

Test(limits, a_request_over_the_context_is_told_both_numbers)
{
  serve_rig *r = serve_open(LLAMA, (const char *const[]){"engine.ctx=64", NULL}, NULL);
  int status;
  json_t *a = serve_post(r, &status, "/v1/completions",
                         json_pack("{s:s, s:i}", "prompt", "a text of some twenty letters and more", "max_tokens", 60));
  json_t *e = json_object_get(a, "error");
  cr_assert(eq(int, status, 400));
  cr_assert(eq(str, (char *)json_string_value(json_object_get(e, "type")), "exceed_context_size_error"));
  cr_assert(eq(str, (char *)json_string_value(json_object_get(e, "code")), "context_length_exceeded"));
  cr_assert(strstr(json_string_value(json_object_get(e, "message")), "exceeds the available context size") != NULL);
  cr_assert(eq(i64, json_integer_value(json_object_get(e, "n_ctx")), 64));
  cr_assert(json_integer_value(json_object_get(e, "n_prompt_tokens")) > 4);
  json_decref(a);
  serve_close(r);
}

static int status_of(serve_rig *r, const char *method, const char *path, const char *headers, const char *body)
{
  serve_reply a = serve_ask(r, method, path, headers, body);
  int status = a.status;
  serve_reply_free(&a);
  return status;
}

Test(limits, a_key_is_asked_for)
{
  serve_rig *r = serve_open(LLAMA, NULL, &(tn_server_cfg){.api_key = "secret"});
  cr_expect(eq(int, status_of(r, "GET", "/v1/models", NULL, NULL), 401));
  cr_expect(eq(int, status_of(r, "GET", "/v1/models", "Authorization: Bearer secre\r\n", NULL), 401));
  cr_expect(eq(int, status_of(r, "GET", "/v1/models", "Authorization: Bearer secret2\r\n", NULL), 401));
  cr_expect(eq(int, status_of(r, "GET", "/v1/models", "Authorization: Bearer \r\n", NULL), 401));
  cr_expect(eq(int, status_of(r, "GET", "/v1/models", "Authorization: Bearer secret\r\n", NULL), 200));
  cr_expect(eq(int, status_of(r, "GET", "/v1/models", "X-Api-Key: secret\r\n", NULL), 200));
  cr_expect(eq(int, status_of(r, "POST", "/v1/completions", NULL, "{\"prompt\": \"a\"}"), 401));
  cr_expect(eq(int, status_of(r, "GET", "/health", NULL, NULL), 200));
  serve_close(r);
}

Test(limits, sizes_and_paths)
{
  serve_rig *r = serve_open(LLAMA, NULL, &(tn_server_cfg){.max_body = 4096});
  char *big = malloc(8001);
  memset(big, 'a', 8000);
  big[8000] = '\0';
  cr_expect(eq(int, status_of(r, "POST", "/v1/completions", NULL, big), 413));
  cr_expect(eq(int, status_of(r, "GET", "/nothing", NULL, NULL), 404));
  cr_expect(eq(int, status_of(r, "GET", "/v1/completions", NULL, NULL), 405));
  int fd = serve_connect(r); /* the same without a Content-Length */
  char reply[64] = "", *ask = tn_asprintf("POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                                          "Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n",
                                          8000, big);
  serve_send(fd, ask, strlen(ask));
  cr_expect(recv(fd, reply, sizeof reply - 1, MSG_WAITALL) > 12);
  cr_expect(eq(int, atoi(reply + 9), 413));
  close(fd);
  free(ask), free(big);
  serve_close(r);
}

/* Alive while loading, ready afterwards. */
Test(limits, loading_is_not_ready)
{
  serve_rig *r = serve_listen(NULL);
  cr_expect(eq(int, status_of(r, "GET", "/health", NULL, NULL), 503));
  cr_expect(eq(int, status_of(r, "GET", "/v1/models", NULL, NULL), 503));
  cr_expect(eq(int, status_of(r, "POST", "/v1/completions", NULL, "{\"prompt\": \"a\"}"), 503));
  serve_load(r, LLAMA, NULL);
  cr_expect(eq(int, status_of(r, "GET", "/health", NULL, NULL), 200));
  cr_expect(eq(int, status_of(r, "POST", "/v1/completions", NULL, "{\"prompt\": \"a\"}"), 200));
  serve_close(r);
}

/* A slow request and a slow reader are let go. */
Test(limits, slow_clients_time_out)
{
  serve_rig *r = serve_open(LLAMA, NULL, &(tn_server_cfg){.read_timeout_s = 1});
  int fd = serve_connect(r);
  char byte;
  serve_send(fd, "POST /v1/comple", 15);
  bool closed = false;
  for (int i = 0; i < 60 && !closed; i++) {
    usleep(100000);
    serve_send(fd, "t", 1); /* a byte now and then is no request */
    tn_server_watch(serve_server(r));
    closed = recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
  }
  cr_assert(closed);
  close(fd);
  serve_close(r);
}

Test(limits, a_full_queue_is_429_and_a_long_request_504)
{
  serve_rig *r = serve_open(LLAMA, (const char *const[]){"engine.ctx=200000", "engine.max_seqs=1", NULL},
                            &(tn_server_cfg){.max_queue = 1, .timeout_s = 2});
  const char *ask = "{\"prompt\": \"abc\", \"max_tokens\": 190000, \"ignore_eos\": true}";
  char *head =
      tn_asprintf("POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
                  strlen(ask), ask);
  int running = serve_connect(r), waiting = serve_connect(r);
  char reply[64] = "";
  serve_send(running, head, strlen(head));
  cr_assert(serve_wait_running(r, 1));
  serve_send(waiting, head, strlen(head));
  for (int i = 0; i < 500 && serve_metric(r, "vllm:num_requests_waiting") != 1; i++) usleep(5000);
  serve_reply a = serve_ask(r, "POST", "/v1/completions", NULL, ask);
  cr_assert(eq(int, a.status, 429));
  cr_assert(strstr(a.head, "Retry-After: ") != NULL);
  serve_reply_free(&a);
  cr_assert(recv(running, reply, sizeof reply - 1, MSG_WAITALL) > 12);
  cr_assert(eq(int, atoi(reply + 9), 504));
  close(running), close(waiting);
  free(head);
  serve_close(r);
}

/* What can be read of a socket now, appended to text. */
static void read_now(int fd, char *text, size_t cap)
{
  size_t n = strlen(text);
  ssize_t k = recv(fd, text + n, cap - n - 1, MSG_DONTWAIT);
  text[n + (k > 0 ? (size_t)k : 0)] = '\0';
}

/* Whatever the engine is busy with, a stream that is silent gets comments. */
Test(limits, a_silent_stream_gets_comments)
{
  serve_rig *r = serve_open(LLAMA, (const char *const[]){"engine.ctx=200000", "engine.max_seqs=1", NULL},
                            &(tn_server_cfg){.keep_alive_s = 1});
  const char *ask = "{\"prompt\": \"abc\", \"max_tokens\": 190000, \"ignore_eos\": true, \"stream\": true}";
  char *head =
      tn_asprintf("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n%s", strlen(ask), ask);
  int running = serve_connect(r), waiting = serve_connect(r);
  char text[4096] = "";
  serve_send(running, head, strlen(head));
  cr_assert(serve_wait_running(r, 1));
  serve_send(waiting, head, strlen(head));
  for (int i = 0; i < 200 && !strstr(text, "\r\n\r\n"); i++) {
    usleep(10000);
    read_now(waiting, text, sizeof text);
  }
  cr_assert(strstr(text, "text/event-stream") != NULL, "%s", text);
  tn_server_watch(serve_server(r));
  usleep(50000);
  read_now(waiting, text, sizeof text);
  cr_expect(strstr(text, "keep-alive") == NULL, "%s", text);
  usleep(1100000);
  tn_server_watch(serve_server(r));
  for (int i = 0; i < 200 && !strstr(text, ": keep-alive\n\n"); i++) {
    usleep(10000);
    read_now(waiting, text, sizeof text);
  }
  cr_expect(strstr(text, ": keep-alive\n\n") != NULL, "%s", text);
  cr_expect(strstr(text, "data:") == NULL, "it has no seat: %s", text);
  close(running), close(waiting);
  free(head);
  serve_close(r);
}
