/* Whole engines under threads: steps of a pool of three, ranks that exchange rows in one process, two engines at once on
 * threads of their own. Each says what it says with one thread and nobody beside it. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "setup/setup.h"

enum { N_REQ = 3, N_NEW = 12, N_PROMPT = 40 };

typedef struct composition {
  const char *model, *threads;
  const char *sets[10];
} composition;

static const composition all[] = {
    {"llama",
     "engine.threads=3",
     {"compose.backend=cpu", "compose.eviction=streaming_llm", "eviction.streaming_llm.window=28",
      "compose.draft=ngram", "engine.max_rows=16"}},
    {"gemma3", "engine.threads=4", {"compose.backend=cpu", "compose.parallel=tensor", "compose.kv=int8"}},
    {"llama",
     "engine.threads=3",
     {"compose.backend=ref", "compose.memory=contiguous", "compose.scheduler=static_batch", "compose.weights=int8"}},
    {"llama", "engine.threads=2", {"compose.backend=ref", "compose.parallel=tensor", "engine.max_rows=16"}},
};

typedef struct reply {
  int32_t token[N_REQ][N_NEW];
  uint32_t n[N_REQ];
} reply;

static void on_token(void *ctx, const tn_token_event *e)
{
  reply *r = ctx;
  uintptr_t i = (uintptr_t)e->user;
  r->token[i][r->n[i]++] = e->token;
}

static tn_status submit(tn_engine *e, uint32_t i, tn_err *err)
{
  int32_t prompt[N_PROMPT];
  uint64_t seq;
  for (int32_t k = 0; k < N_PROMPT; k++) prompt[k] = 60 + k % 7 * (3 + (int32_t)i);
  tn_request q = {.prompt = prompt,
                  .n_prompt = N_PROMPT - 9 * (int64_t)i,
                  .max_new = N_NEW,
                  .sampling = tn_sampling_default(),
                  .ignore_eog = 1,
                  .user = (void *)(uintptr_t)i};
  return tn_engine_submit(e, &q, &seq, err);
}

/* Opens, runs to the end, closes. */
static tn_status say(const composition *c, const char *threads, reply *r, tn_err *err)
{
  const char *sets[11] = {threads};
  size_t n = 1;
  char path[300];
  tn_setup s = {0};
  tn_loader *loader = NULL;
  tn_loader_cfg cfg = {.path = "", .lib_dir = TN_BUILD_DIR "/lib/tenon"};
  snprintf(path, sizeof path, "%s/tests/data/tiny/%s.gguf", TN_SOURCE_DIR, c->model);
  for (; c->sets[n - 1]; n++) sets[n] = c->sets[n - 1];
  *r = (reply){0};
  tn_setup_args a = {.sets = sets,
                     .n_sets = n,
                     .model = path,
                     .conf_dir = TN_SOURCE_DIR "/conf",
                     .events = {.ctx = r, .token = on_token}};
  tn_status st = tn_loader_new(&cfg, &loader, err);
  a.loader = loader;
  if (st == TN_OK) st = tn_setup_open(&a, &s, err);
  for (uint32_t i = 0; st == TN_OK && i < N_REQ; i++) st = submit(s.engine, i, err);
  while (st == TN_OK && !tn_engine_idle(s.engine)) st = tn_engine_step(s.engine, err);
  tn_setup_close(&s);
  tn_loader_free(loader);
  return st;
}

typedef struct speaker {
  const composition *c;
  const reply *want;
  int faults;
} speaker;

static void *speak(void *arg)
{
  speaker *s = arg;
  reply r;
  tn_err err = tn_err_init();
  tn_status st = say(s->c, s->c->threads, &r, &err);
  if (st != TN_OK) fprintf(stderr, "%s, %s: %s\n", s->c->model, s->c->sets[0], err.msg);
  s->faults += st != TN_OK || memcmp(&r, s->want, sizeof r) != 0;
  return NULL;
}

int main(void)
{
  enum { N = TN_ARRAY_LEN(all) };
  static reply want[N];
  speaker s[N];
  pthread_t thread[N];
  int faults = 0;
  for (int i = 0; i < N; i++) {
    tn_err err = tn_err_init();
    if (say(&all[i], "engine.threads=1", &want[i], &err) != TN_OK || want[i].n[N_REQ - 1] != N_NEW) {
      fprintf(stderr, "composition %d: %s\n", i, err.msg);
      return 1;
    }
    s[i] = (speaker){.c = &all[i], .want = &want[i]};
    speak(&s[i]);
  }
  for (int i = 0; i < N; i += 2) { /* two at once */
    for (int k = i; k < i + 2; k++)
      if (pthread_create(&thread[k], NULL, speak, &s[k]) != 0) return 1;
    for (int k = i; k < i + 2; k++) pthread_join(thread[k], NULL);
  }
  for (int i = 0; i < N; i++) faults += s[i].faults;
  if (faults) fprintf(stderr, "%d faults\n", faults);
  return faults != 0;
}
