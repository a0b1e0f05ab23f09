/* Requests that begin alike: the second runs only what differs, and says the same bits as if it were alone. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "support/engine_rig.h"

enum { SHARED = 100, TAIL = 9, NEW = 30 };

typedef struct sets {
  const char *at[12];
} sets;

static sets with(const char *const *base, const char *more)
{
  sets s = {{"engine.threads=1"}};
  int n = 1;
  for (; *base; base++) s.at[n++] = *base;
  s.at[n] = more;
  return s;
}

/* Request i: the shared beginning and a tail of its own. */
static tn_request request(const rig *r, uint32_t i, int32_t *prompt, double temperature)
{
  rig_tokens(1, r->n_vocab, prompt, SHARED);
  rig_tokens(10 + i, r->n_vocab, prompt + SHARED, TAIL);
  tn_request q = {.prompt = prompt,
                  .n_prompt = SHARED + TAIL,
                  .max_new = NEW,
                  .sampling = tn_sampling_default(),
                  .key = i,
                  .n_logprobs = 2,
                  .ignore_eog = 1};
  q.sampling.temperature = temperature;
  return q;
}

static uint64_t rows(const rig *r) { return tn_engine_stat(r->s.engine).rows; }

/* Four one after the other, with the index and without; the rows that were run for the second to fourth. */
static uint64_t one_by_one(const char *model, const char *const *base, double temperature, uint64_t *without)
{
  int32_t prompt[SHARED + TAIL];
  sets off = with(base, "engine.prefix_cache=false"), on = with(base, NULL);
  rig *a = rig_open(rig_tiny(model), off.at), *b = rig_open(rig_tiny(model), on.at);
  uint64_t first[2] = {0};
  for (uint32_t i = 0; i < 4; i++) {
    tn_request q = request(a, i, prompt, temperature);
    rig_submit(a, &q);
    rig_submit(b, &q);
    rig_run(a, 1);
    rig_run(b, 1);
    cr_assert(rig_same(a, i, b, i), "%s: request %u says something else", model, i);
    cr_assert(b->r[i].why == TN_FINISH_LENGTH, "%s", b->r[i].msg);
    if (i == 0) first[0] = rows(a), first[1] = rows(b);
  }
  *without = rows(a) - first[0];
  uint64_t run = rows(b) - first[1];
  cr_expect(eq(u64, first[0], first[1]));
  cr_expect(eq(u64, tn_engine_stat(b->s.engine).kv_bytes_used, 0));
  rig_close(a);
  rig_close(b);
  return run;
}

/* block: tokens of a page. */
#define CASE(name_, model_, temperature_, block_, ...)                                              \
  Test(engine_prefix, name_)                                                                        \
  {                                                                                                 \
    static const char *const base[] = {__VA_ARGS__, NULL};                                          \
    uint64_t without, run = one_by_one(model_, base, temperature_, &without);                       \
    uint64_t saved = 3u * (SHARED / block_ * block_);                                               \
    cr_expect(without - run == saved, "%llu rows, %llu without the index", (unsigned long long)run, \
              (unsigned long long)without);                                                         \
  }
#define CPU "compose.backend=cpu"
CASE(llama, "llama", 0, 16, CPU)
CASE(on_ref, "llama", 0, 16, "compose.backend=ref")
CASE(temperature, "llama", 0.8, 16, CPU)
CASE(windows, "gemma3", 0, 16, CPU)
CASE(long_chunk, "gemma3", 0, 16, CPU, "engine.max_rows=7")
CASE(pages_of_64, "llama", 0, 64, CPU, "memory.paged.page_tokens=64")
CASE(static_paged, "llama", 0, 16, CPU, "compose.memory=static_paged")
CASE(slabs, "llama", 0, 64, CPU, "compose.memory=contiguous")
CASE(streaming, "llama", 0, 16, CPU, "compose.eviction=streaming_llm", "eviction.streaming_llm.window=28")
CASE(kv_int8, "llama", 0, 16, CPU, "compose.kv=int8", "quantizer.int8@kv.group=32")
CASE(kv_int4, "llama", 0, 16, CPU, "compose.kv=int4", "quantizer.int4@kv.group=32")
CASE(sliding_window, "llama", 0, 16, CPU, "compose.attention=sliding_window", "attention.sliding_window.window=40")
CASE(two_ranks, "llama", 0, 16, CPU, "compose.parallel=tensor")
CASE(chunked, "llama", 0, 16, CPU, "compose.scheduler=chunked")

/* How many rows run depends on what was drafted; the bits do not. */
Test(engine_prefix, speculation)
{
  static const char *const base[] = {CPU, "compose.draft=ngram", NULL};
  uint64_t without, run = one_by_one("llama", base, 0, &without);
  cr_expect(run + 3 * 90 < without + 30, "%llu rows, %llu without the index", (unsigned long long)run,
            (unsigned long long)without);
}

/* Policies whose entries follow from history share nothing. */
static void shares_nothing(const char *a, const char *b, const char *c)
{
  const char *const base[] = {a, b, c, NULL};
  uint64_t without, run = one_by_one("llama", base, 0, &without);
  cr_expect(eq(u64, run, without), "%s", b);
}
Test(engine_prefix, history) { shares_nothing(CPU, "compose.eviction=h2o", "eviction.h2o.budget=64"); }
Test(engine_prefix, states)
{
  shares_nothing("compose.backend=ref", "compose.attention=probe", "attention.probe.kind=elu");
}

/* ---------------------------------------------------------------- who may find what */

static const char *const cpu[] = {CPU, "engine.threads=1", NULL};

static uint64_t found(const rig *r) { return tn_engine_stat(r->s.engine).prefix_found; }

/* Runs request i with its fields set by the caller; the tokens that it found. */
static uint64_t finds(rig *r, const tn_request *q)
{
  uint64_t before = found(r);
  rig_submit(r, q);
  rig_run(r, 1);
  return found(r) - before;
}

Test(engine_prefix, salt_keeps_clients_apart)
{
  int32_t prompt[SHARED + TAIL];
  rig *r = rig_open(rig_tiny("llama"), cpu);
  tn_request q = request(r, 0, prompt, 0), other = q, high = q, none = q;
  other.cache_salt[0] = 1;
  high.cache_salt[1] = 1;
  none.no_prefix = 1;
  cr_expect(eq(u64, finds(r, &none), 0));
  cr_expect(eq(u64, finds(r, &q), 0), "what no_prefix ran is found by nobody");
  cr_expect(eq(u64, finds(r, &none), 0));
  cr_expect(eq(u64, finds(r, &other), 0));
  cr_expect(eq(u64, finds(r, &high), 0));
  cr_expect(eq(u64, finds(r, &q), 96));
  cr_expect(eq(u64, finds(r, &other), 96));
  cr_expect(eq(u64, finds(r, &high), 96));
  for (uint32_t i = 1; i < r->n; i++) cr_expect(rig_same(r, 0, r, i), "result %u", i);
  rig_close(r);
}

/* The whole prompt is there, but its last row is run: its logits are wanted. What was generated is found as well. */
Test(engine_prefix, next_turn_of_a_chat)
{
  int32_t text[SHARED + TAIL + NEW];
  rig *r = rig_open(rig_tiny("llama"), cpu);
  tn_request q = request(r, 0, text, 0);
  q.n_prompt = 96;
  cr_expect(eq(u64, finds(r, &q), 0));
  cr_expect(eq(u64, finds(r, &q), 80));
  memcpy(text + 96, r->r[0].tokens, NEW * sizeof *text); /* 29 of them were run: 125 tokens */
  q.n_prompt = 96 + NEW;
  cr_expect(eq(u64, finds(r, &q), 112));
  rig_close(r);
}

/* Rows whose logits are wanted are run. */
Test(engine_prefix, scored)
{
  int32_t prompt[SHARED + TAIL];
  rig *r = rig_open(rig_tiny("llama"), cpu);
  tn_request q = request(r, 0, prompt, 0);
  finds(r, &q);
  q.score = 1;
  q.score_from = 50;
  q.max_new = 0;
  cr_expect(eq(u64, finds(r, &q), 48));
  q.no_prefix = 1;
  cr_expect(eq(u64, finds(r, &q), 0));
  cr_expect(rig_same(r, 1, r, 2));
  cr_expect(eq(u32, r->r[1].n_rows, SHARED + TAIL - 50));
  rig_close(r);
}

/* What came from a file is nobody else's: its bytes could be anything. */
Test(engine_prefix, restored)
{
  static const uint8_t mark[32] = {1};
  int32_t prompt[SHARED + TAIL];
  rig *r = rig_open(rig_tiny("llama"), cpu), *b = rig_open(rig_tiny("llama"), cpu);
  tn_request q = request(r, 0, prompt, 0);
  rig_submit(r, &q);
  while (r->r[0].n < 5) cr_assert(tn_engine_step(r->s.engine, NULL) == TN_OK);
  uint8_t *bytes;
  size_t n;
  cr_assert(tn_engine_save(r->s.engine, r->r[0].seq, mark, &bytes, &n, NULL) == TN_OK);
  tn_request rest = {.prompt = &r->r[0].tokens[4], .n_prompt = 1, .max_new = 20, .sampling = tn_sampling_default()};
  rest.user = (void *)(uintptr_t)1;
  b->n = 1;
  tn_err err = tn_err_init();
  cr_assert(tn_engine_restore(b->s.engine, bytes, n, mark, &rest, &b->r[0].seq, &err) == TN_OK, "%s", err.msg);
  rig_run(b, 1);
  cr_expect(eq(u64, finds(b, &q), 0));
  cr_expect(eq(u64, finds(b, &q), 96));
  free(bytes);
  rig_close(r);
  rig_close(b);
}

/* ---------------------------------------------------------------- several answers to one prompt */

/* n answers: the prompt is run once, but for its last page; each answer is what it would be alone. */
Test(engine_prefix, siblings)
{
  enum { N = 8 };
  int32_t prompt[SHARED + TAIL];
  static const char *const plain[] = {CPU, "engine.threads=1", "engine.prefix_cache=false", NULL};
  rig *a = rig_open(rig_tiny("llama"), plain), *b = rig_open(rig_tiny("llama"), cpu);
  tn_request q = request(a, 0, prompt, 1.0);
  for (uint32_t i = 0; i < N; i++) {
    q.key = 100 + i;
    rig_submit(a, &q);
    rig_submit(b, &q);
    q.sibling = b->r[0].seq;
  }
  tn_engine_step(b->s.engine, NULL);
  tn_engine_step(b->s.engine, NULL);
  tn_engine_info i = tn_engine_stat(b->s.engine);
  cr_expect(i.kv_bytes_used * 3 < i.kv_bytes_total && i.n_running == N, "%u run on %llu bytes of %llu", i.n_running,
            (unsigned long long)i.kv_bytes_used, (unsigned long long)i.kv_bytes_total);
  rig_run(a, 0);
  rig_run(b, 1);
  for (uint32_t k = 0; k < N; k++) cr_expect(rig_same(a, k, b, k), "answer %u", k);
  cr_expect(rig_same(b, 0, b, 1) == false, "seeds say the same");
  cr_expect(eq(u64, rows(a) - rows(b), (N - 1) * 96));
  rig_close(a);
  rig_close(b);
}

/* The first is cancelled before its prompt is read, or was never there: the others do not wait for ever. */
Test(engine_prefix, sibling_of_nobody)
{
  int32_t prompt[SHARED + TAIL];
  rig *r = rig_open(rig_tiny("llama"), cpu);
  tn_request q = request(r, 0, prompt, 0);
  rig_submit(r, &q);
  q.sibling = r->r[0].seq;
  rig_submit(r, &q);
  q.sibling = 12345;
  rig_submit(r, &q);
  tn_engine_cancel(r->s.engine, r->r[0].seq);
  rig_run(r, 1);
  cr_expect(r->r[0].why == TN_FINISH_CANCELLED && r->r[1].why == TN_FINISH_LENGTH && rig_same(r, 1, r, 2));
  rig_close(r);
}

/* ---------------------------------------------------------------- few pages */

/* Texts in turn over pages for a few: what is kept makes room, nothing is refused, every answer is right. */
static void turn_over(const char *model, const char *budget, uint32_t texts, const char *more)
{
  int32_t prompt[SHARED + TAIL];
  const char *const tight[] = {CPU, "engine.threads=1", budget, more, NULL};
  const char *const off[] = {CPU, "engine.threads=1", "engine.prefix_cache=false", more, NULL};
  rig *a = rig_open(rig_tiny(model), tight), *b = rig_open(rig_tiny(model), off);
  for (uint32_t i = 0; i < 24; i++) {
    tn_request q = request(a, i % texts, prompt, 0);
    if (i % 3 == 0) prompt[0] = (int32_t)i % 5; /* another text from its first token */
    rig_submit(a, &q);
    rig_submit(b, &q);
    if (i % 4 == 3) rig_run(a, 1);
  }
  rig_run(a, 1);
  rig_run(b, 0);
  for (uint32_t i = 0; i < 24; i++) cr_expect(rig_same(a, i, b, i), "%s: text %u", model, i);
  tn_engine_info i = tn_engine_stat(a->s.engine);
  cr_expect(i.prefix_found > 0 && i.prefix_reclaimed > 0 && i.kv_bytes_used == 0 && i.kv_bytes_idle > 0,
            "found %llu, reclaimed %llu", (unsigned long long)i.prefix_found, (unsigned long long)i.prefix_reclaimed);
  rig_close(a);
  rig_close(b);
}
Test(engine_prefix, few_pages) { turn_over("llama", "engine.kv_budget=200K", 12, NULL); }
Test(engine_prefix, few_pages_windows) { turn_over("gemma3", "engine.kv_budget=400K", 12, NULL); }
Test(engine_prefix, few_pages_swap)
{
  turn_over("llama", "engine.kv_budget=200K", 12, "compose.scheduler=static_batch");
}
Test(engine_prefix, few_promises) { turn_over("llama", "engine.kv_budget=200K", 12, "compose.memory=static_paged"); }
Test(engine_prefix, few_slabs) { turn_over("llama", "engine.kv_budget=1500K", 2, "compose.memory=contiguous"); }

/* ---------------------------------------------------------------- the queue */

Test(engine_prefix, queue_and_figures)
{
  int32_t prompt[SHARED + TAIL];
  rig *r = rig_open(rig_tiny("llama"), (const char *const[]){CPU, "engine.max_queued=5", "engine.max_seqs=2", NULL});
  tn_request q = request(r, 0, prompt, 0);
  uint64_t seq;
  tn_err err = tn_err_init();
  for (uint32_t i = 0; i < 5; i++) rig_submit(r, &q);
  cr_expect(tn_engine_submit(r->s.engine, &q, &seq, &err) == TN_E_FULL &&
                strcmp(err.msg, "5 requests wait, at most 5 may") == 0,
            "%s", err.msg);
  tn_engine_info i = tn_engine_stat(r->s.engine);
  cr_expect(i.n_waiting == 5 && i.n_running == 0 && i.n_submitted == 5 && i.n_finished == 0);
  tn_engine_step(r->s.engine, NULL);
  i = tn_engine_stat(r->s.engine);
  cr_expect(i.n_waiting == 3 && i.n_running == 2 && i.n_swapped == 0 && i.prefix_cache);
  rig_run(r, 1);
  i = tn_engine_stat(r->s.engine);
  cr_expect(i.n_waiting == 0 && i.n_running == 0 && i.n_finished == 5);
  cr_expect(i.n_new_tokens == 5 * NEW && i.n_prompt_tokens == 5 * (SHARED + TAIL));
  rig_close(r);
}
