/* A request from its body to its answer, without HTTP or an engine, with each allocation failing in turn: it is refused, or
 * its answer is whole, or it is broken off and says so. Never is something missing from an answer that ends well, and
 * nothing stays behind. jansson's own allocations are among them, but for those of its parser, which does not survive it
 * (2.14). */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "model/gguf.h"
#include "oom.h"
#include "serve/answer.h"
#include "serve/prompt.h"

enum { VOCAB = 400 };

typedef struct ask {
  uint32_t api;
  const char *body;
} ask;

typedef struct outcome {
  int refused; /* status of a request that became no job, or 503 where that takes memory too */
  int status;  /* of the answer */
  char *bytes; /* of the answer, NUL-terminated */
} outcome;

/* The chat's text, as its template would render it. */
static char rendered[] = "user: a\n";
static tn_span plain = {6, 7};

static bool parsing;

static void *json_malloc(size_t n)
{
  oom_pause(parsing);
  void *p = malloc(n);
  oom_pause(false);
  return p;
}

static void never(void *ctx) { (void)ctx; }

/* What the engine would say: tokens with their laws, a row of logits behind each prompt token. */
static void answer(tn_job *j)
{
  static const double laws[] = {-0.5, -1.5};
  float row[VOCAB];
  tn_job_begin(j);
  for (uint32_t i = 0; i < VOCAB; i++) row[i] = (float)(i % 17);
  for (uint32_t i = 0; i < j->n_choices; i++) {
    tn_reply *c = &j->choices[i];
    const tn_prompt *p = &j->prompts[c->prompt];
    if (j->fault.status != 0) break;
    for (size_t k = 0; k < p->n; k++) tn_job_logits(c, (int64_t)k, row, VOCAB);
    for (int32_t k = 0; k < 6; k++) {
      const int32_t top[] = {70 + 3 * k, 71 + 3 * k};
      tn_job_token t = {
          .id = top[0], .logprob = laws[0], .n_top = j->gen.top < 2 ? j->gen.top : 2, .top = top, .top_logprob = laws};
      if (tn_job_take(c, &t)) break;
    }
    if (j->gen.api == TN_API_EMBEDDING) tn_job_hidden(c, row, 16);
    tn_job_close(c, "length");
  }
}

static char *bytes_of(tn_outbox *out)
{
  char *all = calloc(1, 1 << 16);
  size_t n = 0;
  long k;
  while (all && (k = tn_outbox_read(out, all + n, (1 << 16) - 1 - n, never, NULL)) > 0) n += (size_t)k;
  return all;
}

/* One attempt; the n-th allocation fails (0: none). */
static outcome attempt(const tn_tokenizer *t, const ask *a, uint64_t n)
{
  outcome o = {0};
  tn_gen g;
  tn_fault f = {0};
  tn_prompt *prompts;
  uint32_t n_prompts;
  const tn_chat_text text = {rendered, sizeof rendered - 1, &plain, 1};
  oom_arm(n);
  tn_outbox *out = tn_outbox_new();
  parsing = true;
  bool ok = out && tn_gen_parse(a->api, a->body, strlen(a->body), &g, &f);
  parsing = false;
  if (ok && !tn_prompts_make(&g, t, a->api == TN_API_CHAT ? &text : NULL, &prompts, &n_prompts, &f)) {
    tn_gen_free(&g);
    ok = false;
  }
  tn_job *j = ok ? tn_job_new(&g, prompts, n_prompts, out) : NULL;
  if (!j) {
    o.refused = f.status ? f.status : 503;
    tn_outbox_drop(out);
    return o;
  }
  j->tokenizer = t;
  j->model = "m";
  j->fingerprint = "f";
  strcpy(j->id, "x");
  j->created = 1;
  j->seed = 1;
  answer(j);
  oom_arm(0);
  o.status = tn_outbox_status(out, never, NULL);
  o.bytes = bytes_of(out);
  cr_assert(o.bytes != NULL);
  tn_job_free(j);
  tn_outbox_drop(out);
  return o;
}

/* Times differ from run to run. */
static json_t *without_times(const char *text)
{
  json_t *j = json_loads(text, 0, NULL);
  if (json_object_get(j, "timings")) json_object_del(j, "timings");
  return j;
}

static bool same_whole(const char *a, const char *b)
{
  json_t *x = without_times(a), *y = without_times(b);
  bool same = x && y && json_equal(x, y);
  json_decref(x);
  json_decref(y);
  return same;
}

/* A stream that is not whole is a beginning of the whole one, and perhaps an error behind it; never [DONE]. */
static bool broken_off(const char *got, const char *want)
{
  const char *error = strstr(got, "data: {\"error\":");
  size_t n = error ? (size_t)(error - got) : strlen(got);
  return !strstr(got, "[DONE]") && strncmp(got, want, n) == 0 && (n == 0 || !strncmp(got + n - 2, "\n\n", 2));
}

static void judge(const ask *a, const outcome *o, const outcome *want, uint64_t n)
{
  if (o->refused) {
    cr_expect(o->refused == 503 || o->refused == 400, "%s, allocation %lu: %d", a->body, (unsigned long)n, o->refused);
    return;
  }
  bool stream = strstr(a->body, "\"stream\"") != NULL, ok;
  if (stream)
    ok = strcmp(o->bytes, want->bytes) == 0 || broken_off(o->bytes, want->bytes);
  else
    ok = o->status == 200 ? same_whole(o->bytes, want->bytes) : o->status == 503 || o->status == TN_OUTBOX_GONE;
  cr_expect(ok, "%s, allocation %lu: %d\n%s\nfor\n%s", a->body, (unsigned long)n, o->status, o->bytes, want->bytes);
}

static void sweep(const ask *a)
{
  tn_gguf *g;
  tn_tokenizer *t;
  json_set_alloc_funcs(json_malloc, free);
  cr_assert(tn_gguf_open(TN_SOURCE_DIR "/tests/data/tiny/llama.gguf", &g, NULL) == TN_OK);
  cr_assert(tn_tokenizer_load(g, &t, NULL) == TN_OK);
  outcome want = attempt(t, a, 0);
  cr_assert(want.refused == 0 && want.status == 200 && want.bytes[0], "%s", a->body);
  uint64_t calls = oom_calls();
  free(attempt(t, a, 0).bytes);
  calls = oom_calls() - calls;
  cr_assert(calls > 30, "only %lu allocations", (unsigned long)calls);
  for (uint64_t n = 1; n <= calls; n++) {
    int64_t live = oom_live();
    outcome o = attempt(t, a, n);
    oom_arm(0);
    judge(a, &o, &want, n);
    free(o.bytes);
    cr_expect(oom_live() == live, "%s, allocation %lu: %ld stay behind", a->body, (unsigned long)n,
              (long)(oom_live() - live));
  }
  free(want.bytes);
  tn_tokenizer_free(t);
  tn_gguf_close(g);
}

#define SWEEP(name_, api_, body_) \
  Test(oom_serve, name_) { sweep(&(const ask){api_, body_}); }

#define PLAIN "\"prompt\": \"a river\", \"stop_token_ids\": [3], \"logit_bias\": {\"5\": 1}"
SWEEP(completion, TN_API_COMPLETION, "{" PLAIN ", \"return_tokens\": true, \"n\": 2, \"stop\": [\"QQ\", \"ZZ\"]}")
SWEEP(scored, TN_API_COMPLETION, "{" PLAIN ", \"echo\": true, \"logprobs\": 2, \"prompt_logprobs\": 1}")
SWEEP(streamed, TN_API_COMPLETION, "{" PLAIN ", \"stream\": true, \"return_tokens\": true, \"logprobs\": 1}")
SWEEP(chat, TN_API_CHAT,
      "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"logprobs\": true, \"top_logprobs\": 2}")
SWEEP(chat_streamed, TN_API_CHAT,
      "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"logprobs\": true, \"stream\": true, \"n\": 2}")
SWEEP(embeddings, TN_API_EMBEDDING, "{\"input\": [\"a\", \"b c\"]}")
SWEEP(embeddings_base64, TN_API_EMBEDDING, "{\"input\": \"a\", \"encoding_format\": \"base64\"}")
