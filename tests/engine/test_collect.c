/* A request that ends inside an accepted draft ends as it would have without one: saved there, it goes on the same. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "support/engine_rig.h"

enum { PROMPT = 60, NEW = 16, MORE = 8, LETTERS = 4, LETTER0 = 20 };

static const uint8_t mark[32] = {7};

/* Saves a sequence while it finishes; may cancel it when it has said `cancel_at` tokens (0: never). */
typedef struct ending {
  rig *r;
  uint32_t cancel_at;
  uint8_t *bytes;
  size_t n;
  int64_t n_text;  /* committed */
  int32_t pending; /* said, not committed */
} ending;

static void on_token(void *ctx, const tn_token_event *ev)
{
  ending *e = ctx;
  if (e->r->r[0].n == e->cancel_at) tn_engine_cancel(e->r->s.engine, ev->seq);
}

static void on_finish(void *ctx, const tn_seq *s)
{
  ending *e = ctx;
  tn_err err = tn_err_init();
  cr_assert(s->n_done == s->n_tok - 1, "%lld committed of %lld", (long long)s->n_done, (long long)s->n_tok);
  e->n_text = s->n_done;
  e->pending = s->tokens[s->n_done];
  cr_assert(tn_engine_save(e->r->s.engine, s->id, mark, &e->bytes, &e->n, &err) == TN_OK, "%s", err.msg);
}

static const int32_t letters[LETTERS] = {LETTER0, LETTER0 + 1, LETTER0 + 2, LETTER0 + 3};
static const float likes[LETTERS] = {1000, 1000, 1000, 1000};

/* Only the letters are ever said, so that a draft from a prompt of letters is often right. */
static tn_request request(const int32_t *prompt, int64_t n, int64_t max_new)
{
  tn_request q = {.prompt = prompt,
                  .n_prompt = n,
                  .max_new = max_new,
                  .sampling = tn_sampling_default(),
                  .n_logprobs = 2,
                  .ignore_eog = 1};
  q.sampling.bias_token = letters;
  q.sampling.bias = likes;
  q.sampling.n_bias = LETTERS;
  return q;
}

/* One request up to its end, then, from what was saved there, MORE tokens: results 0 and 1 of the rig. */
static rig *run(const char *model, const char *const *sets, const int32_t *prompt, const int32_t *stop,
                uint32_t cancel_at)
{
  rig *r = rig_open(rig_tiny(model), sets);
  ending e = {.r = r, .cancel_at = cancel_at};
  tn_request q = request(prompt, PROMPT, NEW);
  q.stop = stop;
  q.n_stop = stop ? 1 : 0;
  r->on_token = on_token, r->on_token_ctx = &e;
  r->on_finish = on_finish, r->on_finish_ctx = &e;
  rig_submit(r, &q);
  rig_run(r, 1);
  r->on_token = NULL, r->on_finish = NULL;
  tn_request more = request(&e.pending, 1, MORE);
  more.user = (void *)(uintptr_t)2;
  r->n = 2;
  tn_err err = tn_err_init();
  tn_status st = tn_engine_restore(r->s.engine, e.bytes, e.n, mark, &more, &r->r[1].seq, &err);
  cr_assert(st == TN_OK, "%s", err.msg);
  cr_assert(eq(i64, e.n_text, PROMPT + (int64_t)r->r[0].n - 1));
  rig_run(r, 1);
  free(e.bytes);
  return r;
}

/* inside[i]: token i was said by a step that said token i + 1 as well. */
static void find_inside(const char *model, const char *const *sets, const int32_t *prompt, bool *inside, int32_t *said)
{
  rig *r = rig_open(rig_tiny(model), sets);
  tn_request q = request(prompt, PROMPT, NEW);
  rig_submit(r, &q);
  memset(inside, 0, NEW * sizeof *inside);
  for (uint32_t before = 0; !tn_engine_idle(r->s.engine); before = r->r[0].n) {
    cr_assert(tn_engine_step(r->s.engine, NULL) == TN_OK);
    for (uint32_t i = before; i + 1 < r->r[0].n; i++) inside[i] = true;
  }
  memcpy(said, r->r[0].tokens, NEW * sizeof *said);
  rig_close(r);
}

static void same(const char *model, const char *const *plain, const char *const *drafted, const int32_t *prompt,
                 const int32_t *stop, uint32_t cancel_at)
{
  rig *a = run(model, plain, prompt, stop, cancel_at), *b = run(model, drafted, prompt, stop, cancel_at);
  cr_expect(eq(u32, a->r[0].why, b->r[0].why));
  cr_expect(rig_same(a, 0, b, 0), "another text up to the end");
  cr_expect(rig_same(a, 1, b, 1), "another text behind it");
  rig_close(a);
  rig_close(b);
}

/* Ends, by being cancelled and by a stop token, at tokens that have a drafted one behind them. */
static void check_prompt(const char *model, const char *const *plain, const char *const *drafted, const int32_t *prompt,
                         uint32_t *stopped, uint32_t *cancelled)
{
  int32_t said[NEW];
  bool inside[NEW];
  find_inside(model, drafted, prompt, inside, said);
  for (uint32_t i = 0; i < NEW; i++) {
    uint32_t first = 0;
    while (said[first] != said[i]) first++;
    if (!inside[i]) continue;
    if (*cancelled < 2) same(model, plain, drafted, prompt, NULL, i + 1), (*cancelled)++;
    if (first == i && *stopped < 2) same(model, plain, drafted, prompt, &said[i], 0), (*stopped)++;
  }
}

static void check(const char *model, const char *const *plain, const char *const *drafted)
{
  int32_t prompt[PROMPT];
  uint32_t stopped = 0, cancelled = 0;
  for (uint32_t seed = 1; seed < 20 && (stopped == 0 || cancelled < 2); seed++) {
    rig_tokens(seed, LETTERS, prompt, PROMPT);
    for (int i = 0; i < PROMPT; i++) prompt[i] += LETTER0;
    check_prompt(model, plain, drafted, prompt, &stopped, &cancelled);
  }
  cr_expect(stopped > 0 && cancelled > 1, "%u stops and %u cancellations inside a draft", stopped, cancelled);
}

#define CASE(name_, model_, ...)                                                                         \
  Test(engine_collect, name_)                                                                            \
  {                                                                                                      \
    static const char *const plain[] = {"engine.threads=1", __VA_ARGS__, NULL};                          \
    static const char *const drafted[] = {"engine.threads=1", "compose.draft=ngram", __VA_ARGS__, NULL}; \
    check(model_, plain, drafted);                                                                       \
  }
CASE(llama, "llama", "compose.backend=cpu")
CASE(gemma3, "gemma3", "compose.backend=cpu")
CASE(streaming, "llama", "compose.backend=cpu", "compose.eviction=streaming_llm", "eviction.streaming_llm.window=28")
CASE(h2o, "llama", "compose.backend=ref", "compose.eviction=h2o", "eviction.h2o.budget=32", "eviction.h2o.every=8")
