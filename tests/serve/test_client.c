/* The client of core/measure against the real server: one request, prompts of tokens and of text, a whole replay, and a
 * refusal in the server's own words. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "measure/replay.h"
#include "serve_rig.h"
#include "support/engine_rig.h"

static serve_rig *open_server(void)
{
  return serve_open(rig_tiny("llama"), (const char *const[]){"engine.ctx=256", "engine.threads=1", NULL}, NULL);
}

static tn_client *open_client(serve_rig *r, const char *path)
{
  char url[64];
  tn_client *c;
  tn_err err = tn_err_init();
  snprintf(url, sizeof url, "http://127.0.0.1:%d%s", tn_server_port(serve_server(r)), path);
  cr_assert(tn_client_open(&(tn_client_cfg){.url = url}, &c, &err) == TN_OK, "%s", err.msg);
  return c;
}

static tn_client_answer *ask(tn_client *c, const tn_client_request *q)
{
  tn_client_answer *a;
  tn_err err = tn_err_init();
  cr_assert(tn_client_ask(c, q, NULL, &a, &err) == TN_OK, "%s", err.msg);
  return a;
}

Test(serve_client, one_request)
{
  serve_rig *r = open_server();
  tn_client *c = open_client(r, "/v1");
  tn_err err = tn_err_init();
  char *model;
  cr_assert(tn_client_model(c, &model, &err) == TN_OK, "%s", err.msg);
  int32_t tokens[40];
  rig_tokens(5, 200, tokens, 40);
  tn_client_request q = {
      .model = model, .tokens = tokens, .n_tokens = 40, .max_tokens = 6, .ignore_eos = true, .seed = -1};
  tn_client_answer *a = ask(c, &q), *b = ask(c, &q);
  cr_assert(a->ok && b->ok, "%s%s", a->err.msg, b->err.msg);
  cr_expect(a->n_prompt == 40 && a->n_new == 6 && a->n_chunks >= 1 && a->n_chunks <= 6, "%lld, %lld, %u",
            (long long)a->n_prompt, (long long)a->n_new, a->n_chunks);
  cr_expect(a->n_cached == 0 && b->n_cached == 32, "two blocks of 16 tokens are found again");
  cr_expect(a->n_text == b->n_text && memcmp(a->text, b->text, a->n_text) == 0);
  cr_expect(eq(str, a->finish, "length"));
  cr_expect(a->sent_ns < a->chunk_ns[0] && a->chunk_ns[a->n_chunks - 1] <= a->done_ns);
  tn_client_answer_free(a);
  tn_client_answer_free(b);
  q = (tn_client_request){.model = model, .prompt = "Say x.", .chat = true, .max_tokens = 4, .seed = 3};
  a = ask(c, &q);
  cr_expect(a->ok && a->n_prompt > 6 && a->n_new >= 1, "%s", a->err.msg);
  tn_client_answer_free(a);
  q.max_tokens = 1000;
  a = ask(c, &q);
  cr_expect(a->ok == false && a->status == 400 && strstr(a->err.msg, "256") != NULL, "%d: %s", a->status, a->err.msg);
  tn_client_answer_free(a);
  free(model);
  tn_client_close(c);
  serve_close(r);
}

Test(serve_client, replay)
{
  serve_rig *r = open_server();
  tn_client *c = open_client(r, "");
  tn_trace t;
  tn_serving s;
  tn_serving_figures f;
  tn_err err = tn_err_init();
  cr_assert(tn_trace_poisson(200, 20, 30, 5, 1, &t, &err) == TN_OK);
  tn_replay_cfg cfg = {.trace = &t, .speed = 2, .usual_new = 5};
  cr_assert(tn_replay_url(c, NULL, 200, &cfg, &s, &err) == TN_OK, "%s", err.msg);
  cr_assert(tn_serving_sum(&s, 0, 0, &f, &err) == TN_OK);
  cr_expect(f.completed == 20 && f.failed == 0 && f.n_prompt == 600 && f.n_new == 100, "%llu, %llu: %s",
            (unsigned long long)f.completed, (unsigned long long)f.failed, s.failed.msg);
  cr_expect(f.ttft.mean > 0 && f.itl.mean > 0 && f.seconds * 1e9 >= (double)t.r[19].at_ns / 2);
  tn_serving_release(&s);
  t.r[3].n_prompt = t.longest_prompt = 400; /* one is too long, and the others go on */
  t.timed = false;
  cfg.concurrency = 4;
  cr_assert(tn_replay_url(c, NULL, 200, &cfg, &s, &err) == TN_OK, "%s", err.msg);
  cr_assert(tn_serving_sum(&s, 0, 0, &f, &err) == TN_OK);
  cr_expect(f.completed == 19 && f.failed == 1 && f.peak_concurrent <= 4, "%s", s.failed.msg);
  tn_serving_release(&s);
  for (size_t i = 0; i < t.n; i++) t.r[i].n_prompt = 400;
  cr_expect(tn_replay_url(c, NULL, 200, &cfg, &s, &err) == TN_E_IO &&
                strstr(err.msg, "no request came to its end") != NULL,
            "%s", err.msg);
  tn_serving_release(&s);
  tn_trace_free(&t);
  tn_client_close(c);
  serve_close(r);
}
