/* The engine thread of a server and its clients' threads: jobs handed over, answers read while they grow, clients that
 * leave in the middle, figures read meanwhile, and a drain with work under way. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/loop.h"
#include "serve/prompt.h"

enum { CLIENTS = 4, ASKS = 3 };

static const char body[] =
    "{\"prompt\": \"the river\", \"max_tokens\": 24, \"ignore_eos\": true, \"stream\": true, \"n\": 2}";

typedef struct waiter { /* what a suspended connection is elsewhere */
  pthread_mutex_t lock;
  pthread_cond_t woken;
  bool asleep;
} waiter;

typedef struct client {
  tn_loop *loop;
  const tn_tokenizer *tokenizer;
  uint32_t index, n_done;
  bool failed;
} client;

static void suspend(void *ctx)
{
  waiter *w = ctx;
  pthread_mutex_lock(&w->lock);
  w->asleep = true;
  pthread_mutex_unlock(&w->lock);
}

static void wake(void *ctx)
{
  waiter *w = ctx;
  pthread_mutex_lock(&w->lock);
  w->asleep = false;
  pthread_cond_signal(&w->woken);
  pthread_mutex_unlock(&w->lock);
}

static void sleep_on(waiter *w)
{
  pthread_mutex_lock(&w->lock);
  while (w->asleep) pthread_cond_wait(&w->woken, &w->lock);
  pthread_mutex_unlock(&w->lock);
}

static tn_job *job_of(const client *c, tn_outbox *out)
{
  tn_gen g;
  tn_fault f;
  tn_prompt *prompts;
  uint32_t n;
  if (!tn_gen_parse(TN_API_COMPLETION, body, sizeof body - 1, &g, &f)) return NULL;
  if (!tn_prompts_make(&g, c->tokenizer, NULL, &prompts, &n, &f)) return NULL;
  tn_job *j = tn_job_new(&g, prompts, n, out);
  if (!j) return NULL;
  j->tokenizer = c->tokenizer;
  j->model = "m";
  j->fingerprint = "f";
  return j;
}

/* Reads to the end; every third answer is left after its first bytes. */
static bool ask(client *c, uint32_t k)
{
  waiter w = {.lock = PTHREAD_MUTEX_INITIALIZER, .woken = PTHREAD_COND_INITIALIZER};
  tn_outbox *out = tn_outbox_new();
  tn_job *j = out ? job_of(c, out) : NULL;
  tn_fault f;
  char buf[256];
  if (!j || !tn_loop_submit(c->loop, j, &f)) return false;
  tn_outbox_attach(out, -1, wake, &w);
  long n = 0;
  bool leave = (k + c->index) % 3 == 2;
  for (;;) {
    n = tn_outbox_read(out, buf, sizeof buf, suspend, &w);
    if (n < 0 || (n > 0 && leave)) break;
    if (n == TN_OUTBOX_WAIT) sleep_on(&w);
  }
  tn_outbox_leave(out);
  tn_outbox_drop(out);
  return leave || n == TN_OUTBOX_END;
}

static void *run(void *arg)
{
  client *c = arg;
  tn_loop_figures *g = malloc(sizeof *g);
  for (uint32_t k = 0; g && k < ASKS; k++) {
    c->failed = c->failed || !ask(c, k);
    tn_loop_read_figures(c->loop, g);
  }
  free(g);
  return NULL;
}

static bool serve(tn_loop *l, tn_setup *s, tn_slots *slots)
{
  client c[CLIENTS];
  pthread_t t[CLIENTS];
  tn_err err = tn_err_init();
  bool ok = tn_loop_start(l, s, slots, &err) == TN_OK;
  for (uint32_t i = 0; i < CLIENTS; i++) {
    c[i] = (client){.loop = l, .tokenizer = s->tokenizer, .index = i};
    pthread_create(&t[i], NULL, run, &c[i]);
  }
  for (uint32_t i = 0; i < CLIENTS; i++) {
    pthread_join(t[i], NULL);
    ok = ok && !c[i].failed;
  }
  tn_outbox *out = tn_outbox_new(); /* one that the drain finds */
  tn_job *j = job_of(&c[0], out);
  tn_fault f;
  ok = ok && j && tn_loop_submit(l, j, &f);
  tn_loop_drain(l, 20000, NULL, NULL);
  tn_outbox_drop(out);
  return ok;
}

int main(void)
{
  tn_err err = tn_err_init();
  tn_setup s;
  tn_loop *l = NULL;
  tn_metrics *m = tn_metrics_new();
  tn_slots *slots = tn_slots_new(4, NULL);
  tn_loader *loader = NULL;
  tn_loader_cfg lc = {.lib_dir = TN_BUILD_DIR "/lib/tenon"};
  tn_loop_cfg cfg = {.max_queue = 64, .metrics = m};
  const char *sets[] = {"engine.threads=2", "compose.backend=ref"};
  bool ok = m && slots && tn_loop_new(&cfg, &l, &err) == TN_OK && tn_loader_new(&lc, &loader, &err) == TN_OK;
  if (ok) {
    tn_setup_args a = {.sets = sets,
                       .n_sets = 2,
                       .model = TN_SOURCE_DIR "/tests/data/tiny/llama.gguf",
                       .conf_dir = TN_SOURCE_DIR "/conf",
                       .loader = loader,
                       .events = tn_loop_events(l)};
    ok = tn_setup_open(&a, &s, &err) == TN_OK;
  }
  if (ok) {
    ok = serve(l, &s, slots);
    tn_loop_free(l);
    tn_setup_close(&s);
    l = NULL;
  }
  if (!ok) fprintf(stderr, "serve: %s\n", err.msg[0] ? err.msg : "a client's answer did not come to its end");
  tn_loop_free(l);
  tn_loader_free(loader);
  tn_slots_free(slots);
  tn_metrics_free(m);
  return ok ? 0 : 1;
}
