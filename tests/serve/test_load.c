/* A server under load: many clients at once, KV memory far too small for them, clients that leave. Nobody gets another's
 * answer, nobody waits for ever. label: full */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "serve_rig.h"
#include "support/engine_rig.h"

#define COMPLETIONS "/v1/completions"

TestSuite(load, .timeout = 240);

enum { PROMPTS = 6, CLIENTS = 16 };

/* Prompts that share nothing but perhaps their first token. */
static char *body_of(uint32_t k, int prompt, int max, const char *more)
{
  static const char *const words[PROMPTS] = {"river", "QUARTZ", "0x7f ", "la la ", "#!%& ", "mountain pass "};
  char text[2048] = "";
  for (size_t n = strlen(words[k]); (int)strlen(text) + (int)n < prompt;) strcat(text, words[k]);
  return tn_asprintf("{\"prompt\": \"%s\", \"max_tokens\": %d, \"temperature\": 0, \"ignore_eos\": true%s}", text, max,
                     more);
}

/* The text of an answer in one piece; a new string, NULL: it was no answer. */
static char *text_of(serve_reply *a)
{
  json_t *j = a->status == 200 ? json_loads(a->body, JSON_ALLOW_NUL, NULL) : NULL;
  const char *text = json_string_value(json_object_get(json_array_get(json_object_get(j, "choices"), 0), "text"));
  char *copy = text ? tn_strdup(text) : NULL;
  json_decref(j);
  serve_reply_free(a);
  return copy;
}

typedef struct crowd {
  serve_rig *rig;
  char *alone[PROMPTS];
  int prompt, max, asks; /* characters, tokens, requests of a client */
  uint32_t leave;        /* one request in so many is left; 0: none */
  atomic_uint next, wrong, left;
} crowd;

/* Sends a streamed request and hangs up after a part of the answer. */
static void ask_and_leave(crowd *c, uint32_t k, uint32_t at)
{
  char *body = body_of(k, c->prompt, 400, ", \"stream\": true"), part[256];
  char *head =
      tn_asprintf("POST " COMPLETIONS " HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n%s", strlen(body), body);
  int fd = serve_connect(c->rig);
  serve_send(fd, head, strlen(head));
  for (uint32_t i = 0; i < at % 4; i++)
    if (recv(fd, part, sizeof part, 0) <= 0) c->wrong++;
  close(fd);
  c->left++;
  free(head);
  free(body);
}

static void *client(void *arg)
{
  crowd *c = arg;
  for (int i = 0; i < c->asks; i++) {
    uint32_t at = c->next++, k = at % PROMPTS;
    if (c->leave && at % c->leave == 0) {
      ask_and_leave(c, k, at / c->leave);
      continue;
    }
    char *body = body_of(k, c->prompt, c->max, at % 3 ? "" : ", \"cache_prompt\": false");
    serve_reply a = serve_ask(c->rig, "POST", COMPLETIONS, NULL, body);
    char *text = text_of(&a);
    if (!text || strcmp(text, c->alone[k]) != 0) c->wrong++;
    free(text);
    free(body);
  }
  return NULL;
}

/* All clients at once; every answer must be the one that its prompt got alone. */
static void run_crowd(crowd *c)
{
  pthread_t t[CLIENTS];
  for (uint32_t k = 0; k < PROMPTS; k++) {
    char *body = body_of(k, c->prompt, c->max, "");
    serve_reply a = serve_ask(c->rig, "POST", COMPLETIONS, NULL, body);
    c->alone[k] = text_of(&a);
    cr_assert(c->alone[k] != NULL);
    for (uint32_t i = 0; i < k; i++) cr_expect(strcmp(c->alone[i], c->alone[k]) != 0, "%u answers as %u", k, i);
    free(body);
  }
  for (int i = 0; i < CLIENTS; i++) cr_assert(pthread_create(&t[i], NULL, client, c) == 0);
  for (int i = 0; i < CLIENTS; i++) pthread_join(t[i], NULL);
  cr_expect(eq(u32, c->wrong, 0));
  cr_expect(serve_wait_running(c->rig, 0));
  cr_expect(serve_metric(c->rig, "vllm:num_requests_waiting") == 0);
  serve_reply a = serve_ask(c->rig, "GET", "/health", NULL, NULL);
  cr_expect(eq(int, a.status, 200));
  serve_reply_free(&a);
  for (uint32_t k = 0; k < PROMPTS; k++) free(c->alone[k]);
}

/* Unrelated prompts in turn, from the prefix index and not, preempted by recompute and by swap: no answer is another's. */
static void swapped_prompts(const char *scheduler, const char *preempt)
{
  const char *const sets[] = {"engine.ctx=256", "engine.max_seqs=8", "engine.kv_budget=400K", scheduler, preempt, NULL};
  crowd c = {.rig = serve_open(rig_tiny("llama"), sets, NULL), .prompt = 90, .max = 24, .asks = 12};
  run_crowd(&c);
  double left = serve_metric(c.rig, "vllm:num_preemptions_total"),
         hits = serve_metric(c.rig, "vllm:prefix_cache_hits_total");
  cr_expect(left > 0, "nobody was preempted");
  cr_expect(hits > 0, "nothing was found in the prefix index");
  serve_close(c.rig);
}

Test(load, no_prompt_gets_anothers_answer_by_recompute)
{
  swapped_prompts("compose.scheduler=continuous", "scheduler.continuous.reserve=0");
}
Test(load, no_prompt_gets_anothers_answer_by_swap)
{
  swapped_prompts("compose.scheduler=chunked", "scheduler.chunked.preempt=swap");
}

/* Four seats, more than 500 requests, a third of them left at some point of the answer: the rest are answered, and in the
 * end nothing runs, waits or is held. The suite's time limit is the watchdog. */
Test(load, who_leaves_holds_nobody_up)
{
  const char *const sets[] = {"engine.ctx=1024", "engine.max_seqs=4", NULL};
  crowd c = {.rig = serve_open(rig_tiny("llama"), sets, &(tn_server_cfg){.max_queue = 256}),
             .prompt = 40,
             .max = 16,
             .asks = 33,
             .leave = 3};
  run_crowd(&c);
  cr_expect(c.left >= 170, "%u left", c.left);
  cr_expect(serve_metric(c.rig, "tenon:kv_bytes_used") == 0, "pages are held");
  serve_close(c.rig);
}

/* A context of 2,048 tokens, ten seats, prompts over a tenth of it: all are answered, none goes round for ever. */
Test(load, prompts_over_a_seats_share_are_answered)
{
  const char *const sets[] = {"engine.ctx=2048", "engine.max_seqs=10", NULL};
  crowd c = {.rig = serve_open(rig_tiny("llama"), sets, NULL), .prompt = 900, .max = 20, .asks = 3};
  run_crowd(&c);
  serve_close(c.rig);
}

/* n choices are n, streamed and not, also beside others. */
Test(load, n_choices_are_n)
{
  serve_rig *r = serve_open(rig_tiny("llama"), (const char *const[]){"engine.max_seqs=3", NULL}, NULL);
  for (int n = 2; n <= 8; n *= 2)
    for (int stream = 0; stream < 2; stream++) {
      char *body =
          tn_asprintf("{\"prompt\": \"abc\", \"max_tokens\": 5, \"n\": %d, \"ignore_eos\": true, \"seed\": 5%s}", n,
                      stream ? ", \"stream\": true" : "");
      serve_reply a = serve_ask(r, "POST", COMPLETIONS, NULL, body);
      int ended = 0;
      for (const char *p = a.body; (p = strstr(p, "\"finish_reason\":\"length\"")); p++) ended++;
      cr_expect(eq(int, ended, n), "n = %d, stream %d", n, stream);
      serve_reply_free(&a);
      free(body);
    }
  serve_close(r);
}
